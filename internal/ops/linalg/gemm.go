package linalg

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Gemm is the general matrix product: https://onnx.ai/onnx/operators/onnx__Gemm.html
//
//	Y = alpha · A' · B' + beta · C        A' [m,k], B' [k,n], C broadcasts to [m,n]
//
// A' and B' are A and B, transposed if transA or transB is set.
var Gemm = ops.Op{
	Name: "Gemm", Since: 13, Doc: "Y = alpha·A'·B' + beta·C", Form: gemmForm,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("alpha", 1), ops.FloatAttr("beta", 1),
		ops.IntAttr("transA", 0), ops.IntAttr("transB", 0),
		ops.IntAttr("broadcast", 0).WithoutEffect().Before(7)},
	Infer: kit.Rule(InferGemm), Eval: kit.NumberKernel(evalGemm[float32], evalGemm[float64], evalGemm[int64]),
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.FailsNever), Linear: ops.GemmLinear, Cost: kit.GemmCost},
	Downgrades: []ops.Downgrade{{Below: 11, Form: kit.FormBy(kit.From(7, kit.FloatTypes), kit.From(9, kit.WideTypes), kit.From(13, kit.AnyType)), Apply: addBias},
		{Below: 7, Form: kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(9, kit.AnyType)), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
			n.SetAttr(ssa.IntAttr("broadcast", 1))
			return nil
		}}},
}

// addBias gives a Gemm without C one of zero, which operator sets below 11 require.
func addBias(u *ops.Upgrader, n *ssa.Node) error {
	if n.Input(2) == nil {
		zero, err := ndarray.New(ops.InType(n, 0).DType, 1)
		if err != nil {
			return err
		}
		u.SetOperand(n, 2, u.Const("C", ssa.NewConstant(zero)))
	}
	return nil
}

func gemmForm(n *ssa.Node) int {
	form := kit.VersionFor(ops.InType(n, 0).DType, kit.From(7, kit.FloatTypes), kit.From(9, kit.WideTypes), kit.From(13, kit.AnyType))
	if n.Input(2) == nil {
		form = max(form, 11)
	}
	return form
}

// InferGemm is the type and shape rule of [Gemm].
func InferGemm(n *ssa.Node) []ops.Inferred {
	dt := kit.SameDType(n, 0, 1, 2)
	out := ssa.TensorOf(dt, ssa.Dim{}, ssa.Dim{})
	var inner [2]ssa.Dim
	for i, trans := range []string{"transA", "transB"} {
		t := ops.InType(n, i)
		if !t.Ranked {
			continue
		}
		if len(t.Shape) != 2 {
			kit.Failf("operand %d has rank %d, Gemm takes matrices", i, len(t.Shape))
		}
		outer := i
		if ops.Int(n, trans) != 0 {
			outer = 1 - i
		}
		out.Shape[i], inner[i] = t.Shape[outer], t.Shape[1-outer]
	}
	p, ok := inner[0].Const()
	if q, ok2 := inner[1].Const(); ok && ok2 && p != q {
		kit.Failf("inner dimensions %d and %d differ", p, q)
	}
	kit.Check(ops.CheckBroadcast("C", ops.InType(n, 2), out))
	return ops.One(out)
}

// gemmPlan is the product with its operands' orientation resolved.
type gemmPlan struct {
	m, n, k        int
	transA, transB bool
	alpha, beta    float64
}

func planGemm(c *ops.Call) (p gemmPlan) {
	kit.SameOperands(c, 2, 3)
	a, b, bias := c.Array(0).Shape, c.Array(1).Shape, c.Array(2)
	if len(a) != 2 || len(b) != 2 {
		kit.Failf("operands of shape %v and %v; Gemm takes matrices", a, b)
	}
	p = gemmPlan{transA: ops.Int(c.Node, "transA") != 0, transB: ops.Int(c.Node, "transB") != 0,
		alpha: float64(ops.Float(c.Node, "alpha")), beta: float64(ops.Float(c.Node, "beta"))}
	p.m, p.k = a[0], a[1]
	if p.transA {
		p.m, p.k = p.k, p.m
	}
	kb := b[0]
	p.n = b[1]
	if p.transB {
		kb, p.n = p.n, kb
	}
	if kb != p.k {
		kit.Failf("inner dimensions %d and %d differ", p.k, kb)
	}
	if bias != nil {
		s, err := ops.BroadcastShapes(bias.Shape, []int{p.m, p.n})
		if err != nil || !slices.Equal(s, []int{p.m, p.n}) {
			kit.Failf("C of shape %v does not broadcast to [%d %d]", bias.Shape, p.m, p.n)
		}
	}
	return p
}

func evalGemm[T float32 | float64 | int64](c *ops.Call) { AddProduct[T](c).Store() }

// AddProduct computes result 0 of [Gemm] without storing it.
func AddProduct[T float32 | float64 | int64](c *ops.Call) kit.ResultOf[T] {
	p := planGemm(c)
	a, b, bias := c.Array(0), c.Array(1), c.Array(2)
	y := kit.NewResult[T](c, 0, a.DType, p.m, p.n)
	kit.ClearSlice(c, y.V)
	x, w := kit.Elements[T](c, a), kit.Elements[T](c, b)
	if p.transA {
		x = kit.Transposed(c, p.k, p.m, x)
	}
	if p.transB {
		w = kit.Transposed(c, p.n, p.k, w)
	}
	kit.MatMulAdd(c, p.m, p.n, p.k, x, p.k, w, p.n, y.V, p.n)
	kit.Convert(c, y.V, y.V, func(v T) T { return scaled(v, p.alpha) })
	if bias != nil && p.beta != 0 {
		r := kit.Elements[T](c, bias)
		kit.EachBroadcast(c, []int{p.m, p.n}, bias.Shape, nil, func(o, i, _ int) { y.V[o] += scaled(r[i], p.beta) })
	}
	return y
}

// scaled is f·v in v's type; integers are cut off towards 0.
func scaled[T float32 | float64 | int64](v T, f float64) T {
	if f == 1 {
		return v
	}
	switch any(v).(type) {
	case float32:
		return v * T(float32(f))
	case float64:
		return v * T(f)
	}
	return T(kit.TruncToInt64(float64(v) * f))
}
