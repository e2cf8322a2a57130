package rare

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

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
	v := kit.Elements[float64](c, x)
	for at := 0; at < len(v); at += size * size {
		var inv mat.Dense
		err := inv.Inverse(mat.NewDense(size, size, v[at:at+size*size]))
		var cond mat.Condition
		if err != nil && !(errors.As(err, &cond) && !math.IsInf(float64(cond), 1)) {
			kit.Failf("matrix %d has no inverse: %w", at/(size*size), err)
		}
		copy(y.V[at:], inv.RawMatrix().Data)
	}
	y.Store()
}
