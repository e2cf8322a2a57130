package machines_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/machines"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/testmodels"
)

// tolerance is for two orders of the same float32 arithmetic.
var tolerance = conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4}

// recorded opens a recorded model with the inputs of its first data set.
func recorded(t *testing.T, name string) (*berth.Model, []ndarray.Value) {
	cases, err := conformance.Open(shareddata.Path(t, "models", name))
	require.NoError(t, err)
	c := cases[0]
	sig, err := c.Signature(t.Context())
	require.NoError(t, err)
	set, err := c.LoadSet(t.Context(), sig, "test_data_set_0")
	require.NoError(t, err)
	m, err := berth.Open(c.ModelPath())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	in := make([]ndarray.Value, len(set.Inputs))
	for i, x := range set.Inputs {
		in[i] = x.Value
	}
	return m, in
}

// TestRecorded: recorded models run in every machine with the same results, those with control flow are refused by name.
// Reading weights in the same place, the planned machine holds less than half of what Gorgonia's holds, and passes allocate
// nothing.
func TestRecorded(t *testing.T) {
	for name, want := range map[string]error{"bert_mini": nil, "gpt2_mini_kv": nil, "mobilenetv3_small": nil, "ppocr_cls": nil, "vit_mini": nil,
		"conv_loop": exprgraph.ErrControlFlow, "silero_vad": exprgraph.ErrControlFlow} {
		t.Run(name, func(t *testing.T) {
			m, in := recorded(t, name)
			rows, err := machines.Measure(t.Context(), m, in, machines.Options{Threads: 1})
			require.NoError(t, err)
			require.Len(t, rows, len(machines.Names))
			tape, planned := rows[0], rows[1]
			if want != nil {
				for _, r := range rows {
					assert.ErrorIs(t, r.Err, want)
				}
				return
			}
			require.NoError(t, tape.Err)
			for _, r := range rows[1:] {
				require.NoError(t, r.Err)
				assert.Zero(t, r.Allocs)
				assert.Less(t, r.Arena, r.Live)
				for i, want := range tape.Results {
					assert.Nil(t, conformance.Compare(r.Results[i], want, tolerance))
				}
			}
			held, least := tape.Live, planned.Live // at least: both are sampled while passes run, which on a busy machine is seldom
			for range 9 {
				if 2*least < held {
					break
				}
				rows, err := machines.Measure(t.Context(), m, in, machines.Options{Threads: 1})
				require.NoError(t, err)
				held, least = max(held, rows[0].Live), max(least, rows[1].Live)
			}
			assert.Less(t, 2*least, held)
		})
	}
}

// TestErrors: what a machine can not run is the error of its row; a context that has ended ends the measuring.
func TestErrors(t *testing.T) {
	module, err := testmodels.Build("mlp")
	require.NoError(t, err)
	m := berth.FromModule(module)
	for name, in := range map[string][]ndarray.Value{"too few": {}, "no tensors": make([]ndarray.Value, len(m.Inputs()))} {
		rows, err := machines.Measure(t.Context(), m, in, machines.Options{})
		require.NoError(t, err, name)
		for _, r := range rows {
			assert.Error(t, r.Err, name)
			assert.Empty(t, r.Results, name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = machines.Measure(ctx, m, nil, machines.Options{})
	assert.ErrorIs(t, err, context.Canceled)
}
