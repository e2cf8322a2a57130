package cuda

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	_ "github.com/berth-onnx/berth/ops/all"
)

// few are the node tests that run always: a few for each rule. BERTH_CUDA_NODES=all runs all of them, which takes some minutes.
var few = strings.Fields(`test_add_bcast test_and3d test_batchnorm_example test_cast_FLOAT_to_DOUBLE test_clip_example test_concat_3d_axis_1
	test_concat_1d_axis_0 test_conv_with_strides_padding test_convtranspose_group_2 test_cumsum_2d_axis_1 test_depthtospace_example test_div_int8
	test_expand_dim_changed test_gather_0 test_gelu_tanh_1 test_gemm_all_attributes test_globalaveragepool test_greater_equal_int8
	test_group_normalization_example test_instancenorm_example test_layer_normalization_2d_axis1 test_logsoftmax_axis_0 test_lrn
	test_lstm_with_initial_bias test_matmul_4d test_max_example test_maxpool_2d_pads test_averagepool_2d_pads_count_include_pad test_mean_example
	test_nonzero_example test_reduce_l2_keep_dims_random test_reduce_log_sum_exp_keepdims_random test_reduce_max_do_not_keepdims_random
	test_resize_upsample_scales_nearest test_rms_normalization_2d_axis1 test_scan9_sum test_loop11 test_if test_slice_neg_steps test_softmax_axis_1
	test_split_equal_parts_1d_opset18 test_string_concat test_swiglu test_tile test_transpose_all_permutations_3 test_where_example
	test_gru_seq_length test_rnn_seq_length test_lstm_with_peepholes test_simple_rnn_batchwise test_quantizelinear_axis test_dequantizelinear_int16 test_l2normalization_axis_1
	test_argmax_default_axis_random test_constant_pad test_matmulinteger test_convinteger_with_padding test_qlinearconv test_qlinearmatmul_2D_uint8_float32 test_sequence_insert_at_back`)

// The interpreter of cuda-sim makes errors in the tests of the package, as large as PTX allows: results within tolerances are not those of exact functions.
func init() {
	simulated.open = func() (device.Device, error) { return sim.New(sim.Options{Errors: 1}), nil }
}

// TestNodes compares the interpreter of PTX with recorded results; where a node has no kernel, the host computes it.
func TestNodes(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "onnx-conformance", "node.tar.gz"))
	require.NoError(t, err)
	wanted := map[string]bool{}
	for _, name := range few {
		wanted[name] = true
	}
	isWhole := os.Getenv("BERTH_CUDA_NODES") == "all"
	ran, onDevice := 0, 0
	for _, c := range cases {
		if !isWhole && !wanted[c.Name] {
			continue
		}
		before := simulated.launches.Load()
		if assert.NoError(t, conformance.Verify(t.Context(), c, prepare, conformance.BackendTolerance), c.Name); simulated.launches.Load() > before {
			onDevice++
		} else {
			t.Log("on the host: ", c.Name)
		}
		ran++
	}
	t.Logf("%d of %d node tests ran kernels on the device", onDevice, ran)
	if isWhole {
		assert.GreaterOrEqual(t, onDevice, 1226)
	} else {
		assert.GreaterOrEqual(t, onDevice, 49)
		assert.Equal(t, len(few), ran)
	}
}

// prepare compiles a case for the interpreter.
func prepare(_ context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
	m, err := openCase(c)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
		given := map[string]ndarray.Value{}
		for _, v := range in {
			given[v.Name] = v.Value
		}
		got, err := m.RunValues(ctx, given, berth.WithBackend(SimName))
		if err != nil {
			return nil, err
		}
		var out []conformance.Named
		for _, o := range m.Outputs() {
			out = append(out, conformance.Named{Name: o.Name, Value: got[o.Name]})
		}
		return out, nil
	}, m.Close, nil
}

func openCase(c *conformance.Case) (*berth.Model, error) {
	if path := c.ModelPath(); path != "" {
		return berth.Open(path)
	}
	data, err := c.ModelBytes()
	if err != nil {
		return nil, err
	}
	return berth.Parse(data)
}
