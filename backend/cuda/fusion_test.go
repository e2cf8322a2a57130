package cuda

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

// TestFusion: products take what stands behind them into their kernel, and elementwise nodes are one kernel: so many launches.
func TestFusion(t *testing.T) {
	const images = `in %x: float32[2,3,9,7] const %w: float32[4,3,3,3] = %w const %b: float32[4] = [0.5, -1, 2, 0.25] in %r: float32[2,4,7,5] %c = Conv(%x, %w, %b) `
	const matrices = `in %x: float32[2,3,5] in %r: float32[2,3,6] const %w: float32[5,6] = [1, 2, 3, -4, 5, 6, 7, 8, -9, 10, 11, 12, 13, 14, 15, 16, -17, 18, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1]
		const %row: float32[6] = [1, -1, 2, 0.5, 0, 3] const %half: float32[] = 0.0625 `
	tests := []struct {
		name, graph string
		launches    int
	}{
		{"convolution, activation", images + `%y = Relu(%c) out %y`, 1},
		{"convolution, residual, activation", images + `%s = Add(%c, %r) %y = Relu(%s) out %y`, 1},
		{"convolution, swish", images + `%g = Sigmoid(%c) %y = Mul(%c, %g) out %y`, 1},
		{"depthwise convolution", `in %x: float32[1,4,6,6] const %w: float32[4,1,3,3] = %w const %k: float32[4,1,1] = [1, -2, 3, 0.5]
			%c = Conv(%x, %w) [group=4] %s = Mul(%c, %k) %y = HardSwish(%s) out %y`, 1},
		{"product, bias, function", matrices + `%p = MatMul(%x, %w) %s = Add(%p, %row) %m = Mul(%s, %half) %y = Tanh(%m) out %y`, 1},
		{"product, residual", matrices + `%p = MatMul(%x, %w) %y = Sub(%r, %p) out %y`, 1},
		{"batch of products", `in %x: float32[3,4,5] in %z: float32[3,5,2] in %r: float32[4,2] %p = MatMul(%x, %z) %s = Add(%p, %r) %y = Abs(%s) out %y`, 1},
		{"product with a bias of its own", `in %x: float32[3,5] const %w: float32[5,2] = %w const %b: float32[2] = [1, -1] %p = Gemm(%x, %w, %b) [alpha=0.5] %y = Erf(%p) out %y`, 1},
		{"vector by matrix", `in %x: float32[1,5] in %w: float32[5,70] in %r: float32[1,70] %p = MatMul(%x, %w) %s = Add(%p, %r) %y = Tanh(%s) out %y`, 1},
		{"vector by transposed matrix", `in %x: float32[1,5] in %w: float32[70,5] const %b: float32[1] = 2 in %r: float32[1,70] %p = Gemm(%x, %w, %b) [transB=1] %s = Mul(%p, %r) %y = Relu(%s) out %y`, 1},
		{"matrices by vectors", `in %x: float32[3,40,5] in %w: float32[3,5,1] in %r: float32[3,40,1] %p = MatMul(%x, %w) %y = Sub(%r, %p) out %y`, 1},
		{"another reader", images + `%y = Relu(%c) %z = Neg(%c) out %y, %z`, 3},
		{"elementwise", `in %x: float32[6,5] in %r: float32[5] %a = Mul(%x, %r) %b = Exp(%a) %c = Add(%b, %x) %d = Sqrt(%c) %y = Sub(%d, %a) out %y, %c`, 1},
		{"booleans", `in %x: float32[6,5] in %r: float32[5] %a = Greater(%x, %r) %b = Neg(%x) %y = Where(%a, %x, %b) out %y`, 1},
		{"around a reduction", `in %x: float32[6,5] %a = Mul(%x, %x) %b = Neg(%a) %s = ReduceMax(%b) [keepdims=1] %c = Sub(%b, %s) %y = Exp(%c) out %y`, 1},
		{"normalization written out", `in %x: float32[3,4,150] const %axis: int64[1] = -1 const %e: float32[] = 0.001 in %g: float32[150] %m = ReduceMean(%x, %axis) %c = Sub(%x, %m)
			%s = Mul(%c, %c) %v = ReduceMean(%s, %axis) %a = Add(%v, %e) %d = Sqrt(%a) %n = Div(%c, %d) %t = Mul(%n, %g) %y = Tanh(%t) out %y`, 1},
		{"deviations by the largest", `in %x: float32[3,4,150] const %axis: int64[1] = -1 %m = ReduceMean(%x, %axis) %c = Sub(%x, %m) %a = Abs(%c) %v = ReduceMax(%a, %axis) %y = Div(%c, %v) out %y, %v`, 1},
		{"residual, normalization, activation", `in %x: float32[5,40] in %r: float32[5,40] in %g: float32[40] in %b: float32[40] %s = Add(%x, %r) %n = LayerNormalization(%s, %g, %b) %y = Tanh(%n) out %y, %s`, 1},
		{"scores, mask, softmax", `in %x: float32[2,3,9] in %m: float32[3,9] const %k: float32[] = 0.25 %s = Mul(%x, %k) %a = Add(%s, %m) %y = Softmax(%a) out %y`, 1},
		{"what reductions leave", `in %x: float32[6,5] in %z: float32[6] const %axis: int64[1] = 1 %a = Abs(%x) %s = ReduceMax(%a, %axis) [keepdims=0] %y = Add(%s, %z) out %y`, 2},
		{"rows of two dimensions", `in %x: float32[3,7,20] const %axes: int64[2] = [1, 2] %a = Exp(%x) %s = ReduceL2(%a, %axes) %y = Div(%a, %s) out %y`, 1},
		{"a reduction along another axis", `in %x: float32[6,5] const %axis: int64[1] = 0 %a = Exp(%x) %s = ReduceSum(%a, %axis) %y = Div(%a, %s) out %y`, 3},
		{"a reduction of doubles", `in %x: float64[6,5] const %axis: int64[1] = 1 %a = Abs(%x) %s = ReduceSum(%a, %axis) %y = Div(%a, %s) out %y`, 3},
		{"no kernel for a part", `in %x: int32[6] const %k: int32[6] = [1, 2, 3, 4, 5, 6] %a = Add(%x, %k) %b = Div(%a, %k) %c = Mul(%b, %k) %y = Neg(%c) out %y`, 2},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			d, _ := counting()
			m := modelOf(t, withWeights(c.graph))
			s := sessionOn(t, m, countingName)
			in := values{}
			for i, p := range m.Inputs() {
				shape, _ := p.Type.Static()
				a := wave(i+1, shape...)
				if p.Type.DType == ndarray.Float64 {
					a = ndarray.Must(ndarray.Float64, shape...)
					for k := range a.Len() {
						a.SetFloat(k, float64(k)-7)
					}
				} else if p.Type.DType != ndarray.Float32 {
					a = ndarray.Of([]int32{7, -8, 9, 100, -1, 0}, 6)
				}
				in[p.Name] = a
			}
			for run := range 3 {
				d.since()
				got, err := s.RunValues(t.Context(), in)
				require.NoError(t, err)
				if run == 0 {
					assert.Equal(t, c.launches, d.since().Launches)
				}
				equal(t, m, in, got)
			}
		})
	}
}

// withWeights gives constants whose elements are "%w" numbers.
func withWeights(graph string) string {
	at := regexp.MustCompile(`float32\[([\d,]+)\] = %w`)
	return at.ReplaceAllStringFunc(graph, func(text string) string {
		n := 1
		for _, d := range strings.Split(at.FindStringSubmatch(text)[1], ",") {
			k, _ := strconv.Atoi(d)
			n *= k
		}
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.FormatFloat(math.Round(100*math.Sin(float64(3*i)))/100, 'f', 2, 64)
		}
		return strings.TrimSuffix(text, "%w") + "[" + strings.Join(list, ", ") + "]"
	})
}
