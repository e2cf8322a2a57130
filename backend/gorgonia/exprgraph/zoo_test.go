package exprgraph_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
)

// imported runs a case as an expression graph.
func imported(t *testing.T) conformance.Prepare {
	return func(_ context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		data, err := c.ModelBytes()
		if err != nil {
			return nil, nil, err
		}
		m, err := berth.Parse(data)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			return runImported(ctx, t, m, in)
		}, m.Close, nil
	}
}

func runImported(ctx context.Context, t *testing.T, m *berth.Model, in []conformance.Named) ([]conformance.Named, error) {
	var opts []berth.Option
	given := map[string]*ndarray.Array{}
	for _, x := range in {
		if a, ok := x.Value.(*ndarray.Array); ok {
			given[x.Name] = a
			opts = append(opts, berth.WithShape(x.Name, a.Shape...))
		}
	}
	g, err := exprgraph.Import(ctx, m, opts...)
	if err != nil {
		return nil, err
	}
	for i, p := range m.Inputs() {
		a, n := given[p.Name], g.Inputs[i]
		v, err := values.Of(a, n.Dtype(), n.Shape())
		require.NoError(t, err)
		require.NoError(t, gorgonia.Let(n, v))
	}
	machine, err := vm.New(g.ExprGraph, vm.Keep(g.Outputs...), vm.Freeze(g.Weights...))
	if err != nil {
		return nil, err
	}
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		return nil, err
	}
	t.Logf("%d nodes, %d weights, %+v", len(g.AllNodes()), len(g.Weights), machine.Memory())
	out := make([]conformance.Named, len(g.Outputs))
	for i, p := range m.Outputs() {
		a, err := values.Array(g.Outputs[i].Value())
		require.NoError(t, err)
		out[i] = conformance.Named{Name: p.Name, Value: a}
	}
	return out, nil
}

// refused are the models that are no expression graphs, and why.
var refused = map[string]error{
	"conv_loop":           exprgraph.ErrControlFlow,
	"delay_line_loop":     exprgraph.ErrControlFlow,
	"gru_greedy_decoder":  exprgraph.ErrControlFlow,
	"mamba_scan_loop":     exprgraph.ErrControlFlow,
	"silero_vad":          exprgraph.ErrControlFlow,
	"silero_vad_ifless":   exprgraph.ErrControlFlow,
	"torchscript_loop_if": exprgraph.ErrControlFlow,
}

// TestZoo: every recorded model without control flow gives its recorded outputs as an
// expression graph; the others are refused by name.
func TestZoo(t *testing.T) {
	for _, name := range []string{"models", "onnx-conformance/light.tar.gz"} {
		cases, err := conformance.Open(shareddata.Path(t, name))
		require.NoError(t, err)
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				err := conformance.Verify(context.Background(), c, imported(t), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4})
				if want, ok := refused[c.Name]; ok {
					var e *exprgraph.Error
					assert.True(t, errors.Is(err, want) && errors.As(err, &e), "%v", err)
					return
				}
				assert.NoError(t, err)
			})
		}
	}
}
