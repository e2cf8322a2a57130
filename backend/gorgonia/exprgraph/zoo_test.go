package exprgraph_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
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
	given := map[string]ndarray.Value{}
	for _, x := range in {
		given[x.Name] = x.Value
		if a, ok := x.Value.(*ndarray.Array); ok {
			opts = append(opts, berth.WithShape(x.Name, a.Shape...))
		}
	}
	g, err := exprgraph.Import(ctx, m, opts...)
	if err != nil {
		return nil, err
	}
	var args []ndarray.Value
	for _, p := range m.Inputs() {
		args = append(args, given[p.Name])
	}
	require.NoError(t, g.Bind(args...))
	machine, err := vm.New(g.ExprGraph, vm.Keep(g.Outputs...), vm.Freeze(g.Weights...))
	if err != nil {
		return nil, err
	}
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		return nil, err
	}
	t.Logf("%d nodes, %d weights, %+v", len(g.AllNodes()), len(g.Weights), machine.Memory())
	results, err := g.Results()
	require.NoError(t, err)
	out := make([]conformance.Named, len(results))
	for i, p := range m.Outputs() {
		out[i] = conformance.Named{Name: p.Name, Value: results[i]}
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

// largest are models of hundreds of megabytes of weights, with no operator that others lack: the race detector, which takes
// several times their memory, leaves them out.
var largest = []string{"light_bvlc_alexnet", "light_vgg19", "light_zfnet512"}

// TestZoo: every recorded model without control flow gives its recorded outputs as an
// expression graph; the others are refused by name.
func TestZoo(t *testing.T) {
	for _, name := range []string{"models", "onnx-conformance/light.tar.gz"} {
		cases, err := conformance.Open(shareddata.Path(t, name))
		require.NoError(t, err)
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				if raceDetector && slices.Contains(largest, c.Name) {
					t.Skip("large")
				}
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
