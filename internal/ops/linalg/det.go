package linalg

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Det is the determinant of every matrix: https://onnx.ai/onnx/operators/onnx__Det.html
//
// Gaussian elimination with partial pivoting in float64: the determinant is the
// product of the pivots, negated once per exchange of rows.
// Source: G. Golub, C. Van Loan, "Matrix Computations", section 3.4.
var Det = ops.Op{
	Name: "Det", Since: 22, Doc: "Y = det X", Form: kit.FloatForm(11, 22),
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferDet), Eval: kit.Kernel(evalDet),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: detCost},
}

func inferDet(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(t)
	}
	r := len(t.Shape)
	if r < 2 {
		kit.Failf("operand of rank %d, it must hold matrices", r)
	}
	p, ok := t.Shape[r-2].Const()
	if q, ok2 := t.Shape[r-1].Const(); ok && ok2 && p != q {
		kit.Failf("matrices of %d by %d are not square", p, q)
	}
	return ops.One(ssa.TensorOf(t.DType, t.Shape[:r-2]...))
}

func detCost(n *ssa.Node) ops.Cost {
	in := n.In[0].Type
	size, _ := in.ByteSize()
	c := ops.Cost{Bytes: int64(size)}
	elems, _ := in.NumElems().Const()
	m, _ := in.Shape[len(in.Shape)-1].Const()
	c.FLOPs = 2 * elems * m / 3
	return c
}

func evalDet(c *ops.Call) {
	a := kit.Tensor(c, 0)
	r := len(a.Shape)
	if r < 2 || a.Shape[r-1] != a.Shape[r-2] {
		kit.Failf("operand of shape %v, it must hold square matrices", a.Shape)
	}
	if !a.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	y, m := kit.NewResult[float64](c, 0, a.DType, a.Shape[:r-2]...), a.Shape[r-1]
	v := kit.Copy(c, kit.Elements[float64](c, a))
	for o := range y.V {
		y.V[o] = determinant(c, v[o*m*m:][:m*m], m)
	}
	y.Store()
}

// determinant eliminates in place.
func determinant(c *ops.Call, x []float64, m int) float64 {
	det, w := 1.0, kit.Watching(c)
	for p := range m {
		best := p
		for i := p + 1; i < m; i++ {
			w.Did(1)
			if math.Abs(x[i*m+p]) > math.Abs(x[best*m+p]) {
				best = i
			}
		}
		if best != p {
			for j := range m {
				x[p*m+j], x[best*m+j] = x[best*m+j], x[p*m+j]
			}
			det = -det
		}
		pivot := x[p*m+p]
		det *= pivot
		if pivot == 0 {
			return det
		}
		for i := p + 1; i < m; i++ {
			w.Did(m - p)
			f := x[i*m+p] / pivot
			for j := p + 1; j < m; j++ {
				x[i*m+j] -= f * x[p*m+j]
			}
		}
	}
	return det
}
