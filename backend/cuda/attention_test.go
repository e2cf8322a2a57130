package cuda

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// TestWrittenOutAttention: attentions that are written out in products are one launch, and compute what the nodes do for every number.
func TestWrittenOutAttention(t *testing.T) {
	const heads = `in %x: float32[2,70,3,17] in %m: float32[2,1,1,70] in %b: bool[70,70] const %c: float32[] = 0.25 const %low: float32[] = -1e9 const %zero: float32[] = 0
		%q = Transpose(%x) [perm=[0,2,1,3]] %k = Transpose(%x) [perm=[0,2,3,1]] `
	const tail = ` %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %q) out %z`
	const masked = heads + `%p = MatMul(%q, %k) %n = Mul(%p, %c) %s = Add(%n, %m)`
	const noNaN = ` %w = Softmax(%s) [axis=-1] %i = IsNaN(%w) %u = Where(%i, %zero, %w) %z = MatMul(%u, %q) out %z`
	infinity := math.Inf(1)
	for _, c := range []struct {
		name, graph string
		launches    int
		x           float64 // times a wave
		mask        func(key int) float64
		set         map[int]float64 // elements of x
	}{
		{"plain", heads + `%s = MatMul(%q, %k)` + tail, 1, 1, nil, nil},
		{"heads brought together", heads + `const %f: int64[3] = [2,70,51] %s = MatMul(%q, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %q)
			%y = Transpose(%z) [perm=[0,2,1,3]] %r = Reshape(%y, %f) out %r`, 1, 1, nil, nil},
		{"scale and mask", masked + tail, 1, 1, func(key int) float64 { return float64(key % 5) }, nil},
		{"scores of any size", masked + tail, 1, 4, func(key int) float64 { return 10 * float64(key) }, nil},
		{"keys before the first tile's end are masked", masked + tail, 1, 1, func(key int) float64 { return map[bool]float64{true: -infinity}[key < 40] }, nil},
		{"keys of the last tile are masked", masked + tail, 1, 1, func(key int) float64 { return map[bool]float64{true: -infinity}[key > 60] }, nil},
		{"all keys are masked", masked + tail, 1, 1, func(int) float64 { return -infinity }, nil},
		{"all keys are masked, weights that are NaN are 0", masked + noNaN, 1, 1, func(int) float64 { return -infinity }, nil},
		{"the same with an infinite value", masked + noNaN, 1, 1, func(int) float64 { return -infinity }, map[int]float64{5: infinity}},
		{"an infinite score", masked + tail, 1, 1, func(key int) float64 { return map[bool]float64{true: infinity}[key == 33] }, nil},
		{"a value that is NaN", masked + tail, 1, 1, nil, map[int]float64{1000: math.NaN()}},
		{"choices", heads + `%p = MatMul(%q, %k) %n = Where(%b, %p, %low) %s = Where(%b, %low, %n)` + tail, 1, 1, nil, nil},
		{"a choice", heads + `%p = MatMul(%q, %k) %s = Where(%b, %p, %low)` + tail, 1, 1, nil, nil},
		{"windows", `in %x: float32[4,3,24,8] in %m: float32[2,1,24,24] const %f: int64[5] = [2,2,3,24,24] const %f2: int64[4] = [4,3,24,24] const %f3: int64[5] = [1,2,1,24,24]
			%wm = Reshape(%m, %f3) %k = Transpose(%x) [perm=[0,1,3,2]] %p = MatMul(%x, %k) %n = Reshape(%p, %f) %a = Add(%n, %wm) %s = Reshape(%a, %f2)
			%w = Softmax(%s) [axis=-1] %z = MatMul(%w, %x) out %z`, 1, 1, nil, nil},
		{"one query", `in %x: float32[2,1,16] in %k: float32[2,16,99] in %v: float32[2,99,33] %s = MatMul(%x, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, 1, 1, nil, nil},
		{"the largest keys and values", `in %x: float32[5,256] in %k: float32[256,9] in %v: float32[9,256] %s = MatMul(%x, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, 1, 0.1, nil, nil},
		{"larger keys", `in %x: float32[5,257] in %k: float32[257,9] in %v: float32[9,3] %s = MatMul(%x, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, 3, 0.1, nil, nil},
		{"constant keys and values, which are no attention", `in %x: float32[3,4] const %k: float32[4,3] = [1,2,3,4,5,6,7,8,9,10,11,12] const %v: float32[3,2] = [1,2,3,4,5,6]
			%s = MatMul(%x, %k) %w = Softmax(%s) [axis=-1] %z = MatMul(%w, %v) out %z`, 3, 1, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := counting()
			m := modelOf(t, c.graph)
			in := map[string]ndarray.Value{}
			for i, p := range m.Inputs() {
				shape, _ := p.Type.Static()
				a := ndarray.Must(p.Type.DType, shape...)
				for k := range a.Len() {
					switch {
					case p.Type.DType == ndarray.Bool:
						a.SetFloat(k, float64(k%3%2))
					case p.Name == "m" && c.mask != nil:
						a.SetFloat(k, c.mask(k%70))
					default:
						a.SetFloat(k, c.x*math.Sin(float64(k+7*i)))
					}
				}
				in[p.Name] = a
			}
			for k, v := range c.set {
				in["x"].(*ndarray.Array).SetFloat(k, v)
			}
			s := sessionOn(t, m, countingName)
			d.since()
			got, err := s.RunValues(t.Context(), in)
			require.NoError(t, err)
			assert.Equal(t, c.launches, d.since().Launches)
			equal(t, m, in, got)
			written, err := m.RunValues(t.Context(), in, berth.WithBackend(countingName), berth.WithoutPass("attention"))
			require.NoError(t, err)
			assert.Greater(t, d.since().Launches, 2, "without the pass")
			equal(t, m, in, written)
		})
	}
}
