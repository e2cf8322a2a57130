package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var fusedMatMulAttrs = []AttrSpec{floatAttr("alpha", 1), intAttr("transA", 0), intAttr("transB", 0),
	intAttr("transBatchA", 0), intAttr("transBatchB", 0)}

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
var FusedMatMulActivation = fusedMatMul("FusedMatMulActivation", "Y = act(alpha * A' · B')", append([]AttrSpec{
	strAttr("activation").required(), floatAttr("activation_alpha"), intAttr("activation_axis"),
	floatAttr("activation_beta"), floatAttr("activation_gamma")}, fusedMatMulAttrs...))

func fusedMatMul(name, doc string, attrs []AttrSpec) Op {
	return Op{
		Domain: microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Attrs: attrs, Infer: rule(inferFusedMatMul),
		Eval:  floatKernel(evalFusedMatMul[float32], evalFusedMatMul[float64]),
		Facts: Facts{Traits: general, Cost: matMulCost},
	}
}

// orient moves the first dimension behind the batch dimensions and swaps the
// last two, as the attributes of side "A" or "B" say.
func orient[D any](n *ssa.Node, side string, shape []D) []D {
	shape = slices.Clone(shape)
	r := len(shape)
	if r > 1 && Int(n, "transBatch"+side) != 0 {
		shape = slices.Concat(shape[1:r-1], shape[:1], shape[r-1:])
	}
	if r > 1 && Int(n, "trans"+side) != 0 {
		shape[r-1], shape[r-2] = shape[r-2], shape[r-1]
	}
	return shape
}

func inferFusedMatMul(n *ssa.Node) []Inferred {
	dt := sameDType(n, 0, 1)
	a, b := InType(n, 0), InType(n, 1)
	a.Shape, b.Shape = orient(n, "A", a.Shape), orient(n, "B", b.Shape)
	t := try(MatMulShape(a, b, dt))
	return One(t)
}

// oriented returns a matrix operand in the orientation of orient.
func oriented(n *ssa.Node, side string, a *ndarray.Array) *ndarray.Array {
	r := a.Rank()
	if r > 1 && Int(n, "transBatch"+side) != 0 {
		a = moveFirstAxis(a, r-2)
	}
	if r < 2 || Int(n, "trans"+side) == 0 || a.DType == ndarray.String {
		return a
	}
	rows, cols := a.Shape[r-2], a.Shape[r-1]
	shape := slices.Clone(a.Shape)
	shape[r-2], shape[r-1] = cols, rows
	out := ndarray.Must(a.DType, shape...)
	w, size := a.DType.Size(), rows*cols
	for m := 0; size > 0 && m < a.Len()/size; m++ {
		for i := range rows {
			for j := range cols {
				copy(out.Data[(m*size+j*rows+i)*w:][:w], a.Data[(m*size+i*cols+j)*w:])
			}
		}
	}
	return out
}

func evalFusedMatMul[T float32 | float64](c *Call) {
	dt := sameOperands(c, 2, 2)
	a, b := oriented(c.Node, "A", c.Array(0)), oriented(c.Node, "B", c.Array(1))
	p := planMatMul(a.Shape, b.Shape)
	act := fusedActivation(Str(c.Node, "activation"), activationParams(c.Node))
	y := newResult[T](c, 0, dt, p.shape...)
	multiplyStacks(p, elements[T](a), elements[T](b), y.V)
	alpha := T(Float(c.Node, "alpha"))
	for i := range y.V {
		y.V[i] *= alpha
	}
	activate(y.V, act)
	y.store()
}

// activationParams reads activation_alpha, _beta and _gamma up to the first one
// that is absent.
func activationParams(n *ssa.Node) (out []float32) {
	for _, name := range []string{"activation_alpha", "activation_beta", "activation_gamma"} {
		if !n.Has(name) {
			break
		}
		out = append(out, Float(n, name))
	}
	return out
}

// FusedGemm is Gemm followed by an activation: Y = act(alpha * A' · B' + beta * C).
var FusedGemm = Op{
	Domain: microsoft, Name: "FusedGemm", Since: 1, Doc: "Y = act(alpha * A' · B' + beta * C)",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{strAttr("activation"), floatAttr("activation_alpha"),
		floatAttr("activation_beta"), floatAttr("activation_gamma")}, newest(Gemm.Attrs)...),
	Infer: rule(inferGemm), Facts: Facts{Traits: general, Cost: gemmCost},
	Eval: floatKernel(evalFusedGemm[float32], evalFusedGemm[float64]),
}

func evalFusedGemm[T realNum](c *Call) {
	act := fusedActivation(Str(c.Node, "activation"), activationParams(c.Node))
	y := gemm[T](c)
	activate(y.V, act)
	y.store()
}

// GemmFastGelu is FastGelu(X · W + bias).
var GemmFastGelu = Op{
	Domain: microsoft, Name: "GemmFastGelu", Since: 1, Doc: "Y = gelu(X · W + bias) by the tanh approximation",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: rule(inferMatMul), Facts: Facts{Traits: general, Cost: matMulCost},
	Eval: floatKernel(evalGemmFastGelu[float32], evalGemmFastGelu[float64]),
}

func evalGemmFastGelu[T float32 | float64](c *Call) {
	p := planMatMul(tensor(c, 0).Shape, tensor(c, 1).Shape)
	bias := spread[T]("bias", c.Array(2), p.shape)
	y := newResult[T](c, 0, c.Array(0).DType, p.shape...)
	multiplyStacks(p, elements[T](c.Array(0)), elements[T](c.Array(1)), y.V)
	scaleShift(y.V, nil, bias)
	activate(y.V, geluTanh)
	y.store()
}
