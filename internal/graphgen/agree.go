package graphgen

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Agree runs two graphs with the same parameters on random operands, several
// times, and returns an error that names the first difference.
//
// The tolerance for floats is measured: the first graph also runs on operands changed by
// about one part in a million, and results may differ by 100 times what that changes.
func Agree(ctx context.Context, before, after *ssa.Graph, seed uint64, runs int) error {
	for run := range runs {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		bind := map[string]int64{"N": 1 + int64(rng.IntN(4)), "M": 1 + int64(rng.IntN(4))}
		in, err := Inputs(rng, before, bind)
		if err != nil {
			return err
		}
		want, err := ops.Interpret(ctx, before, in, nil)
		if err != nil {
			return fmt.Errorf("run %d, before: %w", run, err)
		}
		moved, err := ops.Interpret(ctx, before, nudged(in), nil)
		if err != nil {
			return fmt.Errorf("run %d, before, moved: %w", run, err)
		}
		got, err := ops.Interpret(ctx, after, in, nil)
		if err != nil {
			return fmt.Errorf("run %d, after: %w", run, err)
		}
		if len(got) != len(want) {
			return fmt.Errorf("run %d: %d results, want %d", run, len(got), len(want))
		}
		for i := range want {
			if s := agree(got[i], want[i], moved[i]); s != "" {
				return fmt.Errorf("run %d (%v): result %d, %s: %s", run, bind, i, before.Results[i].Name, s)
			}
		}
	}
	return nil
}

// nudged moves floats by one part in a million.
func nudged(in []ndarray.Value) []ndarray.Value {
	out := make([]ndarray.Value, len(in))
	for i, v := range in {
		a, ok := v.(*ndarray.Array)
		if !ok || !a.DType.IsFloat() {
			out[i] = v
			continue
		}
		b := a.Clone()
		for k := range b.Len() {
			b.SetFloat(k, b.Float(k)*(1+1e-6)+1e-9)
		}
		out[i] = b
	}
	return out
}

func agree(got, want, moved ndarray.Value) string {
	w, isArray := want.(*ndarray.Array)
	m, _ := moved.(*ndarray.Array)
	if !isArray || m == nil || !w.DType.IsFloat() || m.Len() != w.Len() {
		return Noise.value(got, want)
	}
	g, ok := got.(*ndarray.Array)
	if !ok || g.String() != w.String() {
		return fmt.Sprintf("is %v, want %s", got, w)
	}
	return Noise.floats(g, w, func(i int, want float64) float64 {
		if math.Abs(want) > 1e20 {
			return math.NaN()
		}
		return 100 * math.Abs(m.Float(i)-want)
	})
}

// CheckSources reports a node of the private domain that does not name nodes of the graph from which passes made it, so that an error
// in it can be told of the model's nodes.
func CheckSources(before, after *ssa.Graph) (err error) {
	own := map[ssa.NodeName]bool{}
	before.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			own[n.Names()[0]] = true
		}
	})
	after.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			for _, name := range n.Sources {
				if !own[name] {
					err = fmt.Errorf("%s computes %s, which the graph does not have", n, name)
				}
			}
			if n.Domain == ops.Private && len(n.Sources) == 0 {
				err = fmt.Errorf("%s does not tell what it computes", n)
			}
		}
	})
	return err
}
