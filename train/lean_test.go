package train_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// TestLeanTypes: steps take the operators of the backward pass, of which there are kernels for float32 and half types; in float64 a product that is added to a moment
// stays, since its reference kernel copies that. A product of the model's own is none of them.
func TestLeanTypes(t *testing.T) {
	private := []string{"ConvWeights", "MaxPoolGradient", "Accumulate"}
	for dt, want := range map[ndarray.DType][]string{ndarray.Float32: private, ndarray.Float16: private, ndarray.BFloat16: private, ndarray.Float64: private[:2]} {
		t.Run(dt.String(), func(t *testing.T) {
			text := fmt.Sprintf(`in %%x: %[1]s[2,2,4,4] in %%w: %[1]s[3,2,3,3] in %%v: %[1]s[12,5] const %%k: %[1]s[1] = [3]
				%%a = Conv(%%x, %%w) [pads=[1,1,1,1]] %%p = MaxPool(%%a) [kernel_shape=[2,2], strides=[2,2]] %%f = Flatten(%%p)
				%%m = Gemm(%%f, %%v) %%s = Mul(%%m, %%k) %%t = Transpose(%%m) %%q = Gemm(%%m, %%t) %%u = MatMul(%%q, %%s) %%y = ReduceMean(%%u) [keepdims=0] out %%y`, dt)
			weights := map[string]*ndarray.Array{"w": in(dt, waves(0.1, 1, 3, 2, 3, 3)), "v": in(dt, waves(0.1, 2, 12, 5))}
			tr, err := train.New(t.Context(), parsed(t, text, weights), train.Options{Optimizer: train.Momentum(0.5, 0)})
			require.NoError(t, err)
			for _, op := range private {
				assert.Equal(t, slices.Contains(want, op), slices.Contains(tr.Ops(), op), op)
			}
			if dt != ndarray.Float64 {
				assert.Zero(t, tr.Plan().ReferenceOps)
			}
			_, err = tr.Step(t.Context(), in(dt, waves(1, 3, 2, 2, 4, 4)))
			assert.NoError(t, err)
		})
	}
}

// TestLeanHalves: steps in half types take less memory than in float32, by more than what rounds up, and have about the same loss.
func TestLeanHalves(t *testing.T) {
	const width, rows = 64, 4096
	text := func(dt ndarray.DType) string {
		return fmt.Sprintf(`in %%x: %[1]s[4096,64] in %%w: %[1]s[64,64] in %%v: %[1]s[64,64] %%a = MatMul(%%x, %%w) %%b = Tanh(%%a) %%c = MatMul(%%b, %%v) %%d = Gelu(%%c) out %%d`, dt)
	}
	bytes, losses := map[ndarray.DType]int64{}, map[ndarray.DType]float64{}
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float16, ndarray.BFloat16} {
		weights := map[string]*ndarray.Array{"w": in(dt, waves(0.1, 1, width, width)), "v": in(dt, waves(0.1, 2, width, width))}
		tr, err := train.New(t.Context(), parsed(t, text(dt), weights), train.Options{Loss: train.MeanSquaredError, Optimizer: train.Momentum(0.9, 0), Rate: train.Constant(0.01)})
		require.NoError(t, err)
		tr.Poison()
		losses[dt], err = tr.Step(t.Context(), in(dt, waves(1, 5, rows, width)), in(dt, waves(0.5, 6, rows, width)))
		require.NoError(t, err)
		bytes[dt] = tr.Plan().ArenaBytes
	}
	for _, dt := range []ndarray.DType{ndarray.Float16, ndarray.BFloat16} {
		assert.Less(t, 10*bytes[dt], 8*bytes[ndarray.Float32], dt)
		assert.InDelta(t, losses[ndarray.Float32], losses[dt], 2e-3, dt)
	}
	t.Log(bytes, losses)
}

// in is an array in another element type.
func in(dt ndarray.DType, a *ndarray.Array) *ndarray.Array {
	b := ndarray.Must(dt, a.Shape...)
	for i := range a.Len() {
		b.SetFloat(i, a.Float(i))
	}
	return b
}

// TestLeanLoss: the loss of a step is what the model computes, whatever makes the step lean: products of the model's own that have the form
// of a moment's, windows of a pooling in the padding.
func TestLeanLoss(t *testing.T) {
	pool := func(attrs string) string {
		return `in %x: float32[1,1,4,4] in %w: float32[1] %a = Mul(%x, %w) %r = Relu(%a) %p = MaxPool(%r) [` + attrs + `] %e = Exp(%p) %y = ReduceMean(%e) [keepdims=0] out %y`
	}
	image, integers := waves(1, 1, 1, 1, 4, 4), ndarray.Of([]int32{1, -2, 3, 4}, 2, 2)
	for _, c := range []struct {
		name, text string
		weight     []int
		in         []*ndarray.Array
	}{
		{"products of int32", `in %x: float32[2,2] in %w: float32[2,2] in %i: int32[2,2] const %k: int32[1] = [3] %q = Mul(%i, %k) %g = Gemm(%i, %i, %q)
			%h = Cast(%g) [to=1] %s = Mul(%h, %x) %p = MatMul(%s, %w) %y = ReduceMean(%p) [keepdims=0] out %y`, []int{2, 2}, []*ndarray.Array{waves(1, 1, 2, 2), integers}},
		{"products of float32", `in %x: float32[2,2] in %w: float32[2,2] const %k: float32[1] = [3] %q = Mul(%x, %k) %g = Gemm(%x, %w, %q)
			%y = ReduceMean(%g) [keepdims=0] out %y`, []int{2, 2}, []*ndarray.Array{waves(1, 1, 2, 2)}},
		{"no padding", pool("kernel_shape=[2,2], strides=[2,2]"), []int{1}, []*ndarray.Array{image}},
		{"padding", pool("kernel_shape=[2,2], strides=[2,2], pads=[1,1,1,1]"), []int{1}, []*ndarray.Array{image}},
		{"windows of padding, first", pool("kernel_shape=[2,2], strides=[2,2], pads=[2,2,0,0]"), []int{1}, []*ndarray.Array{image}},
		{"windows of padding, last", pool("kernel_shape=[2,2], strides=[1,1], pads=[0,0,2,2]"), []int{1}, []*ndarray.Array{image}},
		{"windows around the image", pool("kernel_shape=[2,2], dilations=[5,5], pads=[1,1,1,1]"), []int{1}, []*ndarray.Array{image}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parsed(t, c.text, map[string]*ndarray.Array{"w": waves(1, 1, c.weight...)})
			inputs, args := map[string]ndarray.Value{}, []ndarray.Value{}
			for i, port := range m.Inputs() {
				inputs[port.Name], args = c.in[i], append(args, c.in[i])
			}
			out, err := m.RunValues(t.Context(), inputs, berth.WithBackend("reference"))
			require.NoError(t, err)
			tr, err := train.New(t.Context(), m, train.Options{})
			require.NoError(t, err)
			loss, err := tr.Step(t.Context(), args...)
			require.NoError(t, err)
			assert.InDelta(t, out["y"].(*ndarray.Array).Float(0), loss, 16*4.0/(1<<24)) // less than 16 roundings of numbers below 4
		})
	}
}

// TestLeanPasses: passes that the options of the program leave out are left out of steps.
func TestLeanPasses(t *testing.T) {
	text := `in %x: float32[4,8] in %w: float32[8,8] %p = MatMul(%x, %w) %a = Tanh(%p) %b = Tanh(%p) %s = Add(%a, %b) %y = ReduceMean(%s) [keepdims=0] out %y`
	for _, c := range []struct {
		name          string
		options       []berth.Option
		tanh          int
		fused, merged bool // elementwise nodes; products and moments
	}{
		{"all", nil, 1, true, true},
		{"none", []berth.Option{berth.WithoutPasses()}, 2, false, false},
		{"no merging of equal nodes", []berth.Option{berth.WithoutPass("cse")}, 2, true, true},
		{"no groups", []berth.Option{berth.WithoutPass("groups")}, 1, false, true},
		{"no epilogues", []berth.Option{berth.WithoutPass("epilogues")}, 1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, budget := range []int64{0, 1 << 20} {
				tr, err := train.New(t.Context(), parsed(t, text, map[string]*ndarray.Array{"w": waves(0.1, 1, 8, 8)}),
					train.Options{Optimizer: train.Momentum(0.5, 0), Budget: budget, Compile: c.options})
				require.NoError(t, err)
				ops, tanh := tr.Ops(), 0
				for _, op := range ops {
					if op == "Tanh" {
						tanh++
					}
				}
				assert.Equal(t, c.tanh, tanh, "%v", ops)
				assert.Equal(t, c.fused, slices.Contains(ops, "Fused"), "%v", ops)
				assert.Equal(t, c.merged, slices.Contains(ops, "Accumulate"), "%v", ops)
			}
		})
	}
}

// TestWideImages: the arena of a step does not grow with the threads that a convolution has no tasks for, nor with the patches of a line.
func TestWideImages(t *testing.T) {
	text := `in %x: float32[1,16,16384] in %w: float32[16,16,9] in %v: float32[16,16,9] %a = Conv(%x, %w) [pads=[4,4]] %b = Relu(%a)
		%c = Conv(%b, %v) [pads=[4,4]] %y = ReduceMean(%c) [keepdims=0] out %y`
	const image = 4 * 16 * 16384
	for _, threads := range []int{1, 4, 16} {
		tr, err := train.New(t.Context(), parsed(t, text, map[string]*ndarray.Array{"w": waves(0.1, 1, 16, 16, 9), "v": waves(0.1, 2, 16, 16, 9)}),
			train.Options{Budget: 5 * image, Compile: []berth.Option{berth.WithThreads(threads)}})
		require.NoError(t, err)
		assert.Equal(t, "all", tr.Kept())
	}
}

// TestPoolsWithoutPasses: maxima go ahead of Relu, unless the options leave that out.
func TestPoolsWithoutPasses(t *testing.T) {
	text := `in %x: float32[1,1,4,4] in %w: float32[1] %a = Mul(%x, %w) %r = Relu(%a) %p = MaxPool(%r) [kernel_shape=[2,2], strides=[2,2]] %y = ReduceMean(%p) [keepdims=0] out %y`
	for _, c := range []struct {
		name    string
		options []berth.Option
		first   string
	}{
		{"all", nil, "MaxPool"},
		{"none", []berth.Option{berth.WithoutPasses()}, "Relu"},
		{"no epilogues", []berth.Option{berth.WithoutPass("epilogues")}, "Relu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := train.New(t.Context(), parsed(t, text, map[string]*ndarray.Array{"w": waves(1, 1, 1)}), train.Options{Compile: c.options})
			require.NoError(t, err)
			ops := tr.Ops()
			at := slices.IndexFunc(ops, func(op string) bool { return op == "MaxPool" || op == "Relu" })
			require.GreaterOrEqual(t, at, 0)
			assert.Equal(t, c.first, ops[at], "%v", ops)
		})
	}
}
