package ops

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/berth-onnx/berth/ssa"
)

// Inverse inverts every matrix of a stack, of the com.microsoft domain:
// Y·X = I. A singular matrix is an error.
var Inverse = Op{
	Domain: microsoft, Name: "Inverse", Since: 1, Doc: "Y = X⁻¹ for every matrix",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Eval: kernel(evalInverse), Facts: Facts{Traits: general, InPlace: inPlaceFirst},
}

func evalInverse(c *Call) {
	x := tensor(c, 0)
	size := checkMatrices(x)
	if !x.DType.IsFloat() {
		check(unsupportedType(x.DType))
	}
	y := newResult[float64](c, 0, x.DType, x.Shape...)
	if len(y.V) == 0 {
		return
	}
	v := elements[float64](x)
	for at := 0; at < len(v); at += size * size {
		var inv mat.Dense
		err := inv.Inverse(mat.NewDense(size, size, v[at:at+size*size]))
		var cond mat.Condition
		if err != nil && !(errors.As(err, &cond) && !math.IsInf(float64(cond), 1)) {
			failf("matrix %d has no inverse: %w", at/(size*size), err)
		}
		for i := range size {
			for j := range size {
				y.V[at+i*size+j] = inv.At(i, j)
			}
		}
	}
	y.store()
}

// CDist is the distance between every row of A and every row of B, of the
// com.microsoft domain:
//
//	C[m,k] = Σ (A[m] - B[k])²       metric sqeuclidean; its root for euclidean
var CDist = Op{
	Domain: microsoft, Name: "CDist", Since: 1, Doc: "C[m,k] = distance of A[m] and B[k]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{strAttr("metric", "sqeuclidean")},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		a, b := InType(n, 0), InType(n, 1)
		return One(ssa.TensorOf(a.DType, dimOf(a, 0), dimOf(b, 0)))
	}),
	Eval: floatKernel(evalCDist[float32], evalCDist[float64]),
}

func evalCDist[T float32 | float64](c *Call) {
	a, b := c.Array(0), c.Array(1)
	wantRank("A", a, 2)
	wantRank("B", b, 2)
	if a.Shape[1] != b.Shape[1] || a.DType != b.DType {
		failf("operands %s and %s have rows of different kind", a, b)
	}
	metric := Str(c.Node, "metric")
	if metric != "sqeuclidean" && metric != "euclidean" {
		failf("metric %q: %w", metric, ErrUnsupported)
	}
	y := newResult[T](c, 0, a.DType, a.Shape[0], b.Shape[0])
	n, u, v := a.Shape[1], elements[T](a), elements[T](b)
	for i := range a.Shape[0] {
		for j := range b.Shape[0] {
			var sum float64
			for k, x := range u[i*n : (i+1)*n] {
				d := float64(x) - float64(v[j*n+k])
				sum += d * d
			}
			if metric == "euclidean" {
				sum = math.Sqrt(sum)
			}
			y.V[i*b.Shape[0]+j] = T(sum)
		}
	}
	y.store()
}
