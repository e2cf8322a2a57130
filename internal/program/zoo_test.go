package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// compiled prepares a case the way the public API does: shapes bound to the data
// set's, rewritten, compiled, run with a poisoned arena.
func compiled(t testing.TB, pl planner.Planner, be backend.Backend) conformance.Prepare {
	return func(ctx context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		data, err := c.ModelBytes()
		if err != nil {
			return nil, nil, err
		}
		m, err := onnximport.FromBytes(data, c.ModelPath(), onnximport.Options{})
		if err != nil {
			return nil, nil, err
		}
		run := func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			return runBound(ctx, t, m, in, pl, be)
		}
		return run, m.Close, nil
	}
}

func runBound(ctx context.Context, t testing.TB, m *ssa.Module, in []conformance.Named, pl planner.Planner, be backend.Backend) ([]conformance.Named, error) {
	b := ops.Binding{Shapes: map[string][]int{}}
	given := map[string]ndarray.Value{}
	for _, x := range in {
		given[x.Name] = x.Value
		if a, ok := x.Value.(*ndarray.Array); ok {
			b.Shapes[x.Name] = a.Shape
		}
	}
	g, err := ops.Bind(context.Background(), m.Graph, b)
	if err != nil {
		return nil, err
	}
	bound := *m
	bound.Graph = g
	if _, err := rewrite.Run(ctx, &bound, rewrite.Options{Check: true}); err != nil {
		return nil, err
	}
	g = bound.Graph
	p, err := program.Compile(ctx, g, program.Options{Planner: pl, Backend: be})
	if err != nil {
		return nil, err
	}
	t.Logf("%s: %+v", g.Name, p.Report)
	s, err := p.NewSession()
	if err != nil {
		return nil, err
	}
	s.Poison = true
	args := make([]ndarray.Value, len(g.Params))
	for i, prm := range g.Params {
		args[i] = given[prm.Name]
		if args[i] == nil && m.Defaults[prm.Name] != nil {
			if args[i], err = m.Defaults[prm.Name].Array(); err != nil {
				return nil, err
			}
		}
	}
	out, err := s.Run(ctx, args)
	if err != nil {
		return nil, err
	}
	res := make([]conformance.Named, len(out))
	for i, v := range out {
		res[i] = conformance.Named{Name: g.Results[i].Name, Value: v}
	}
	return res, nil
}

func TestZooPrograms(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "models"))
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			pl, err := planner.Get("greedy-size")
			require.NoError(t, err)
			require.NoError(t, conformance.Verify(context.Background(), c, compiled(t, pl, nil), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4}))
		})
	}
}
