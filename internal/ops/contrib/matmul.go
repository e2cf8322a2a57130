package contrib

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/linalg"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// fusedMatMulAttrs are the attributes of FusedMatMul; TransposeMatMul has the first three.
var fusedMatMulAttrs = []*ops.AttrSpec{ops.FloatAttr("alpha", 1), ops.IntAttr("transA", 0), ops.IntAttr("transB", 0),
	ops.IntAttr("transBatchA", 0), ops.IntAttr("transBatchB", 0)}

// FusedMatMul is a scaled matrix product with transposed operands, of the
// com.microsoft domain:
//
//	Y = alpha * A' · B'
//
// transA swaps the last two dimensions of A; transBatchA, applied first, moves
// its first dimension behind the batch dimensions: [M, b..., K] -> [b..., M, K].
var FusedMatMul = fusedMatMul("FusedMatMul", "Y = alpha * A' · B'", fusedMatMulAttrs)

// TransposeMatMul is the old name of FusedMatMul.
var TransposeMatMul = fusedMatMul("TransposeMatMul", "Y = alpha * A' · B'", fusedMatMulAttrs[:3])

// FusedMatMulActivation is FusedMatMul followed by an activation.
var FusedMatMulActivation = fusedMatMul("FusedMatMulActivation", "Y = act(alpha * A' · B')", append([]*ops.AttrSpec{
	ops.StrAttr("activation").Mandatory(), ops.FloatAttr("activation_alpha"), ops.IntAttr("activation_axis"),
	ops.FloatAttr("activation_beta"), ops.FloatAttr("activation_gamma")}, fusedMatMulAttrs...))

func fusedMatMul(name, doc string, attrs []*ops.AttrSpec) ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Attrs: attrs, Infer: kit.Rule(inferFusedMatMul),
		Eval:  kit.FloatKernel(evalFusedMatMul[float32], evalFusedMatMul[float64]),
		Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MatMulCost},
	}
}

// orient moves the first dimension behind the batch dimensions and swaps the
// last two, as the attributes of side "A" or "B" say.
func orient[D any](n *ssa.Node, side string, shape []D) []D {
	shape = slices.Clone(shape)
	r := len(shape)
	if r > 1 && ops.Int(n, "transBatch"+side) != 0 {
		shape = slices.Concat(shape[1:r-1], shape[:1], shape[r-1:])
	}
	if r > 1 && ops.Int(n, "trans"+side) != 0 {
		shape[r-1], shape[r-2] = shape[r-2], shape[r-1]
	}
	return shape
}

func inferFusedMatMul(n *ssa.Node) []ops.Inferred {
	dt := kit.SameDType(n, 0, 1)
	a, b := ops.InType(n, 0), ops.InType(n, 1)
	a.Shape, b.Shape = orient(n, "A", a.Shape), orient(n, "B", b.Shape)
	return ops.One(kit.Try(kit.MatMulShape(a, b, dt)))
}

// oriented returns a matrix operand in the orientation of orient.
func oriented(c *ops.Call, n *ssa.Node, side string, a *ndarray.Array) *ndarray.Array {
	watch := kit.Watching(c)
	r := a.Rank()
	if r > 1 && ops.Int(n, "transBatch"+side) != 0 {
		a = kit.MoveFirstAxis(c, a, r-2)
	}
	if r < 2 || ops.Int(n, "trans"+side) == 0 || a.DType == ndarray.String {
		return a
	}
	rows, cols := a.Shape[r-2], a.Shape[r-1]
	shape := slices.Clone(a.Shape)
	shape[r-2], shape[r-1] = cols, rows
	out := kit.New(c, a.DType, shape...)
	w, size := a.DType.Size(), rows*cols
	for m := 0; size > 0 && m < a.Len()/size; m++ {
		for i := range rows {
			for j := range cols {
				watch.Did(1)
				copy(out.Data[(m*size+j*rows+i)*w:][:w], a.Data[(m*size+i*cols+j)*w:])
			}
		}
	}
	return out
}

func evalFusedMatMul[T float32 | float64](c *ops.Call) {
	watch := kit.Watching(c)
	dt := kit.SameOperands(c, 2, 2)
	a, b := oriented(c, c.Node, "A", c.Array(0)), oriented(c, c.Node, "B", c.Array(1))
	p := kit.PlanMatMul(a.Shape, b.Shape)
	act := kit.FusedActivation(ops.Str(c.Node, "activation"), activationParams(c.Node))
	y := kit.NewResult[T](c, 0, dt, p.Shape...)
	kit.MultiplyStacks(c, p, kit.Elements[T](c, a), kit.Elements[T](c, b), y.V)
	alpha := T(ops.Float(c.Node, "alpha"))
	for i := range y.V {
		watch.Did(1)
		y.V[i] *= alpha
	}
	kit.Activate(c, y.V, act)
	y.Store()
}

// activationParams reads activation_alpha, _beta and _gamma up to the first one
// that is absent.
func activationParams(n *ssa.Node) (out []float32) {
	for _, name := range []string{"activation_alpha", "activation_beta", "activation_gamma"} {
		if !n.Has(name) {
			break
		}
		out = append(out, ops.Float(n, name))
	}
	return out
}

// FusedGemm is Gemm followed by an activation: Y = act(alpha * A' · B' + beta * C).
var FusedGemm = ops.Op{
	Domain: Microsoft, Name: "FusedGemm", Since: 1, Doc: "Y = act(alpha * A' · B' + beta * C)",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.StrAttr("activation"), ops.FloatAttr("activation_alpha"),
		ops.FloatAttr("activation_beta"), ops.FloatAttr("activation_gamma")}, ops.Newest(linalg.Gemm.Attrs)...),
	Infer: kit.Rule(linalg.InferGemm), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.GemmCost},
	Eval: kit.FloatKernel(evalFusedGemm[float32], evalFusedGemm[float64]),
}

func evalFusedGemm[T kit.RealNum](c *ops.Call) {
	act := kit.FusedActivation(ops.Str(c.Node, "activation"), activationParams(c.Node))
	y := linalg.AddProduct[T](c)
	kit.Activate(c, y.V, act)
	y.Store()
}

// GemmFastGelu is FastGelu(X · W + bias).
func GemmFastGelu() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "GemmFastGelu", Since: 1, Doc: "Y = gelu(X · W + bias) by the tanh approximation",
		MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
		Infer: kit.Rule(kit.InferMatMul), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MatMulCost},
		Eval: kit.FloatKernel(evalGemmFastGelu[float32], evalGemmFastGelu[float64]),
	}
}

func evalGemmFastGelu[T float32 | float64](c *ops.Call) {
	p := kit.PlanMatMul(kit.Tensor(c, 0).Shape, kit.Tensor(c, 1).Shape)
	bias := kit.Spread[T](c, "bias", c.Array(2), p.Shape)
	y := kit.NewResult[T](c, 0, c.Array(0).DType, p.Shape...)
	kit.MultiplyStacks(c, p, kit.Elements[T](c, c.Array(0)), kit.Elements[T](c, c.Array(1)), y.V)
	nn.ScaleShift(c, y.V, nil, bias)
	kit.Activate(c, y.V, kit.GeluTanh)
	y.Store()
}
