package rewrite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// openShared opens recorded models of the shared test data.
func openShared(t *testing.T, name string) []*conformance.Case {
	t.Helper()
	cases, err := conformance.Open(shareddata.Path(t, name))
	require.NoError(t, err)
	return cases
}

// TestZoo rewrites every recorded model with both lists, under check, and
// compares what the result computes with the recorded outputs.
func TestZoo(t *testing.T) {
	if testing.Short() {
		t.Skip("reference kernels on whole models take a while")
	}
	for _, c := range openShared(t, "models") {
		for _, list := range []*List{&Portable, &Runtime} {
			t.Run(c.Name+"/"+list.Name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				err := conformance.Verify(ctx, c, rewritten(t, list), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4})
				assert.NoError(t, err)
			})
		}
	}
}

// TestConformance rewrites the ONNX backend tests: as they are, and with all
// inputs made constants, so that folding meets every operator. Cases that the
// reference kernels do not pass as they are say nothing about rewriting.
func TestConformance(t *testing.T) {
	for _, archive := range []string{"node", "simple", "pytorch-operator", "pytorch-converted"} {
		t.Run(archive, func(t *testing.T) {
			tol := conformance.Tolerance{Rtol: 1e-3, Atol: 1e-5}
			passed := 0
			for _, c := range openShared(t, "onnx-conformance/"+archive+".tar.gz") {
				if conformance.Verify(t.Context(), c, prepare(t, nil, false), tol) != nil {
					continue
				}
				passed++
				assert.NoError(t, conformance.Verify(t.Context(), c, prepare(t, &Portable, false), tol))
				assert.NoError(t, conformance.Verify(t.Context(), c, prepare(t, &Runtime, false), tol))
				assert.NoError(t, conformance.Verify(t.Context(), c, prepare(t, &Runtime, true), tol))
			}
			t.Logf("%d cases", passed)
			assert.Positive(t, passed)
		})
	}
}

// rewritten prepares a case for the interpreter, rewritten.
func rewritten(t *testing.T, list *List) conformance.Prepare { return prepare(t, list, false) }

// prepare imports a case and rewrites it, if a list is given; with constant, all
// inputs of a run become constants first.
func prepare(t *testing.T, list *List, constant bool) conformance.Prepare {
	return func(ctx context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		m, err := load(c)
		if err != nil {
			return nil, nil, err
		}
		rewrite := func(m *ssa.Module) error {
			if list == nil {
				return nil
			}
			r, err := Run(ctx, m, Options{List: list, Check: true, Shuffle: true, Seed: 1})
			if err != nil {
				return err
			}
			t.Logf("%s: %d -> %d nodes, %d -> %d bytes of constants, %d patches, %d runs of passes", c.Name, r.Before.Nodes, r.After.Nodes,
				r.Before.ConstBytes, r.After.ConstBytes, len(r.Patches), len(r.Passes))
			return nil
		}
		if !constant {
			err = rewrite(m)
		}
		run := func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			k := m
			args := arguments(m.Graph, in)
			if constant {
				g, _ := m.Graph.Clone()
				k = &ssa.Module{Graph: g, Opsets: m.Opsets}
				args = makeConstant(g, args)
				if err := rewrite(k); err != nil {
					return nil, err
				}
			}
			out, err := ops.Interpret(ctx, k.Graph, args, nil)
			if err != nil {
				return nil, err
			}
			named := make([]conformance.Named, len(out))
			for i, v := range out {
				named[i] = conformance.Named{Name: k.Graph.Results[i].Name, Value: v}
			}
			return named, nil
		}
		return run, m.Close, err
	}
}

func load(c *conformance.Case) (*ssa.Module, error) {
	if p := c.ModelPath(); p != "" {
		return onnximport.Load(p, onnximport.Options{})
	}
	data, err := c.ModelBytes()
	if err != nil {
		return nil, err
	}
	return onnximport.FromBytes(data, "", onnximport.Options{})
}

// arguments orders named inputs as the parameters are.
func arguments(g *ssa.Graph, in []conformance.Named) []ndarray.Value {
	args := make([]ndarray.Value, len(g.Params))
	for i, p := range g.Params {
		for _, n := range in {
			if n.Name == p.Name {
				args[i] = n.Value
			}
		}
	}
	return args
}

// makeConstant turns tensor parameters into constants and returns the arguments
// of the others.
func makeConstant(g *ssa.Graph, args []ndarray.Value) []ndarray.Value {
	var params []*ssa.Value
	var rest []ndarray.Value
	for i, p := range g.Params {
		a, ok := args[i].(*ndarray.Array)
		if !ok || g.IsResult(p) {
			params, rest = append(params, p), append(rest, args[i])
			continue
		}
		k := g.AddConst(p.Name, ssa.NewConstant(a))
		p.Name += "_param"
		g.ReplaceUses(p, k)
	}
	g.Params = params
	return rest
}
