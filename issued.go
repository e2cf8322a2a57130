package berth

import (
	"maps"
	"weak"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// issued tells the results of a session's last [Session.RunValues] from those of earlier
// ones: each run gives new headers, whose bytes later runs overwrite. Headers that are no
// longer reachable are forgotten.
type issued struct {
	run uint64
	of  map[weak.Pointer[ndarray.Array]]uint64 // the run that gave a header
	// most is how many headers are known before those no longer reachable are looked for. It is twice what the last search
	// left, so that a caller who keeps all results pays for each of them a bounded number of times.
	most int
}

// renew replaces the headers of a run's results by new ones.
func (g *issued) renew(results map[string]ndarray.Value) {
	if g.of == nil {
		g.of = map[weak.Pointer[ndarray.Array]]uint64{}
	}
	if len(g.of) > max(g.most, 64+2*len(results)) {
		maps.DeleteFunc(g.of, func(p weak.Pointer[ndarray.Array], _ uint64) bool { return p.Value() == nil })
		g.most = 2 * len(g.of)
	}
	for name, v := range results {
		if a, ok := v.(*ndarray.Array); ok && a != nil {
			h := *a
			results[name] = &h
			g.of[weak.Make(&h)] = g.run
		}
	}
}

// check refuses inputs that are results of an earlier run than the last.
func (g *issued) check(params []*ssa.Value, inputs []ndarray.Value) error {
	for i, v := range inputs {
		a, ok := v.(*ndarray.Array)
		if !ok || a == nil || i >= len(params) {
			continue
		}
		if run, known := g.of[weak.Make(a)]; known && run < g.run {
			return &program.InputError{Name: params[i].Name, Want: "memory of the caller's or a result of the last run",
				Got: "a result of an earlier run, which later runs have overwritten; copy results that are needed for longer"}
		}
	}
	return nil
}
