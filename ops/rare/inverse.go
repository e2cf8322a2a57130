package rare

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Inverse inverts every matrix of a stack, of the com.microsoft domain:
// Y·X = I. A singular matrix is an error.
var Inverse = ops.Op{
	Domain: contrib.Microsoft, Name: "Inverse", Since: 1, Doc: "Y = X⁻¹ for every matrix",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs, Eval: kit.Kernel(evalInverse), Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
}

func evalInverse(c *ops.Call) {
	x := kit.Tensor(c, 0)
	r := x.Rank()
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		kit.Failf("operand of shape %v does not hold square matrices", x.Shape)
	}
	size := x.Shape[r-1]
	if !x.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	y := kit.NewResult[float64](c, 0, x.DType, x.Shape...)
	if len(y.V) == 0 {
		return
	}
	v := kit.Copy(c, kit.Elements[float64](c, x))
	kit.ClearSlice(c, y.V)
	for at := 0; at < len(v); at += size * size {
		if !invert(c, y.V[at:at+size*size], v[at:at+size*size], size) {
			kit.Failf("matrix %d has no inverse", at/(size*size))
		}
	}
	y.Store()
}

// invert turns x into the identity by Gauss-Jordan elimination with partial pivoting, and y, which is zero, into what the
// same steps make of the identity. It reports false if x is singular.
func invert(c *ops.Call, y, x []float64, size int) bool {
	w := kit.Watching(c)
	row := func(m []float64, i int) []float64 { return m[i*size:][:size] }
	for i := range size {
		row(y, i)[i] = 1
	}
	for p := range size {
		best := p
		for i := p + 1; i < size; i++ {
			w.Did(1)
			if math.Abs(row(x, i)[p]) > math.Abs(row(x, best)[p]) {
				best = i
			}
		}
		pivot := row(x, best)[p]
		if pivot == 0 {
			return false
		}
		for _, m := range [][]float64{x, y} {
			a, b := row(m, p), row(m, best)
			for k := range a {
				a[k], b[k] = b[k], a[k]
			}
			for k := range a {
				a[k] /= pivot
			}
		}
		for i := range size {
			f := row(x, i)[p]
			if i == p || f == 0 {
				continue
			}
			w.Did(2 * size)
			kit.AddScaled(row(x, i)[p:], -f, row(x, p)[p:])
			kit.AddScaled(row(y, i), -f, row(y, p))
		}
	}
	return true
}
