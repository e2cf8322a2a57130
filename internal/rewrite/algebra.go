package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Algebra rewrites arithmetic into cheaper or canonical forms, as its rules say.
//
// Only the constant chains, x * Reciprocal(y) and the scales of products round differently; they are left
// alone where that could be more than noise (cancellation, overflow, underflow: numbers.go).
var Algebra = &Pass{
	Name: "algebra", Doc: "arithmetic with constants -> cheaper or canonical arithmetic",
	rules: []rule{
		{"x^2, x^-1 -> x*x, Reciprocal", named("Pow"), powRule},
		{"1/x, x / 2^k -> Reciprocal, x * 2^-k", named("Div"), divRule},
		{"x - (-y), x - c -> x + y, x + (-c)", named("Sub"), subRule},
		{"x + (-y) -> x - y", named("Add"), addNegRule},
		{"(x + c) + d -> x + (c+d)", named("Add"), addChainRule},
		{"x * Reciprocal(y) -> x / y", named("Mul"), mulReciprocalRule},
		{"(x * c) * d -> x * (c*d)", named("Mul"), mulChainRule},
		{"(a*s) @ (b*t) -> (a * s*t) @ b", named("MatMul"), matMulScaleRule},
		{"Min, Max with numbers -> Clip", named("Min", "Max"), clampRule},
		{"Clip and Relu in a row -> one of them", named("Clip", "Relu"), clipRowRule},
		{"ReduceMean over all of [2, 3] -> GlobalAveragePool", named("ReduceMean"), globalPoolRule},
	},
}

func powRule(c *Context, n *ssa.Node) bool {
	e, ok := scalar(n.In[1])
	x := n.In[0]
	if !ok || !keepsShape(x.Type, n.In[1].Const.Shape()) || x.Type.DType != n.Out[0].Type.DType {
		return false
	}
	switch {
	case e == 2:
		return c.become(n, "Mul", []*ssa.Value{x, x})
	case e == -1 && x.Type.DType.IsFloat():
		return c.become(n, "Reciprocal", []*ssa.Value{x})
	}
	return false
}

// divRule: 1/x, and division by powers of two, whose reciprocal is exact.
func divRule(c *Context, n *ssa.Node) bool {
	k, x, at := constFirst(n)
	if at < 0 || !k.Type.DType.IsFloat() {
		return false
	}
	if v, ok := scalar(k); at == 0 && ok && v == 1 && keepsShape(x.Type, k.Const.Shape()) {
		return c.become(n, "Reciprocal", []*ssa.Value{x})
	}
	if at == 0 {
		return false
	}
	return c.becomeWith(n, "Mul", x, k, func(v float64) (float64, bool) {
		frac, exp := math.Frexp(v)
		return 1 / v, math.Abs(frac) == 0.5 && exp > -14 && exp < 15 // within every float type's normal range
	})
}

// becomeWith replaces n by an operator on x and f of the constant k, if that may be stored.
func (c *Context) becomeWith(n *ssa.Node, op string, x, k *ssa.Value, f func(v float64) (float64, bool)) bool {
	made := mapConst(c, k.Const, f)
	if made == nil {
		return false
	}
	added := made.StoredBytes()
	if c.only(k, n) {
		added -= k.Const.StoredBytes()
	}
	return c.fits(added) && c.become(n, op, []*ssa.Value{x, c.constant(k.Name, made)})
}

// mapConst applies f to every element of a float constant; nil if f refuses one
// or the result is not finite in the element type.
func mapConst(c *Context, k *ssa.Constant, f func(v float64) (float64, bool)) *ssa.Constant {
	src, splat := k.Splat()
	if !splat {
		var err error
		if src, err = c.elements(k); err != nil {
			return nil
		}
	}
	dst, err := c.array(src.DType, src.Shape...)
	if err != nil {
		return nil
	}
	for i := range src.Len() {
		v, ok := f(src.Float(i))
		if dst.SetFloat(i, v); !ok || !isFinite(dst.Float(i)) {
			return nil
		}
	}
	if splat {
		return ssa.NewSplat(dst, k.Shape()...)
	}
	return ssa.NewConstant(dst)
}

// subRule: x - (-y) = x + y, and x - c = x + (-c), bit for bit.
func subRule(c *Context, n *ssa.Node) bool {
	if x := operandOf(n.In[1], "Neg"); x != nil {
		return c.become(n, "Add", []*ssa.Value{n.In[0], x})
	}
	k, x, at := constFirst(n)
	if at != 1 || !k.Type.DType.IsFloat() {
		return false
	}
	return c.becomeWith(n, "Add", x, k, func(v float64) (float64, bool) { return -v, true })
}

func addNegRule(c *Context, n *ssa.Node) bool {
	for i := range 2 {
		if x := operandOf(n.In[i], "Neg"); x != nil {
			return c.become(n, "Sub", []*ssa.Value{n.In[1-i], x})
		}
	}
	return false
}

func mulReciprocalRule(c *Context, n *ssa.Node) bool {
	for i := range 2 {
		if x := operandOf(n.In[i], "Reciprocal"); x != nil && c.only(n.In[i], n) {
			return c.become(n, "Div", []*ssa.Value{n.In[1-i], x})
		}
	}
	return false
}

// addChainRule: (x + c) + d -> x + (c+d), where that overflows and cancels no differently.
func addChainRule(c *Context, n *ssa.Node) bool { return c.constChain(n, sameRangeOfSum) }

// mulChainRule: (x * c) * d -> x * (c*d), where that overflows and underflows no differently.
func mulChainRule(c *Context, n *ssa.Node) bool { return c.constChain(n, sameRangeOfProduct) }

// constChain merges the constants of two nodes of one operator, if ok holds for every
// pair of floats and their result.
func (c *Context) constChain(n *ssa.Node, ok func(dt ndarray.DType, a, b, r float64) bool) bool {
	k, y, at := constFirst(n)
	if at < 0 {
		return false
	}
	m := def(y, n.Op)
	if m == nil || !c.only(y, n) {
		return false
	}
	l, x, at := constFirst(m)
	if at < 0 {
		return false
	}
	merged := combine(c, n, l, k, ok)
	if merged == nil || merged.StoredBytes() > max(l.Const.StoredBytes(), k.Const.StoredBytes()) {
		return false
	}
	return c.become(n, n.Op, []*ssa.Value{x, c.constant(k.Name, merged)})
}

// combine evaluates n's operator on two constants; nil where ok refuses a pair.
func combine(c *Context, n *ssa.Node, a, b *ssa.Value, ok func(dt ndarray.DType, a, b, r float64) bool) *ssa.Constant {
	const limit = 1 << 20
	if a.Const.Len() > limit || b.Const.Len() > limit {
		return nil
	}
	x, errX := c.elements(a.Const)
	y, errY := c.elements(b.Const)
	if errX != nil || errY != nil {
		return nil
	}
	if f := plainPairs(n, x, y); f != nil {
		return c.combinePlain(f, x, y, ok)
	}
	r, err := c.evaluated(n, x, y)
	if err != nil {
		c.failIfFull(err)
		return nil
	}
	good := !r.DType.IsComplex()
	if r.DType.IsFloat() {
		kit.EachBroadcast(nil, r.Shape, x.Shape, y.Shape, func(o, i, j int) { good = good && ok(r.DType, x.Float(i), y.Float(j), r.Float(o)) })
	}
	if !good {
		return nil
	}
	return packed(r)
}

// plainPairs is an operator of pairs of elements: of sums and products of float32 arrays of one shape, which long chains have by
// the thousand. They are made without the interpreter, in the same arithmetic.
func plainPairs(n *ssa.Node, x, y *ndarray.Array) func(a, b float32) float32 {
	switch {
	case x.DType != ndarray.Float32 || y.DType != ndarray.Float32 || !slices.Equal(x.Shape, y.Shape):
	case is(n, "Add"):
		return func(a, b float32) float32 { return float32(float64(a) + float64(b)) }
	case is(n, "Mul"):
		return func(a, b float32) float32 { return float32(float64(a) * float64(b)) }
	}
	return nil
}

// combinePlain is combine for such an operator. Most pairs that are refused are so by their first elements.
func (c *Context) combinePlain(f func(a, b float32) float32, x, y *ndarray.Array, ok func(dt ndarray.DType, a, b, r float64) bool) *ssa.Constant {
	a, b := ndarray.Slice[float32](x), ndarray.Slice[float32](y)
	for i := range a {
		if !ok(ndarray.Float32, float64(a[i]), float64(b[i]), float64(f(a[i], b[i]))) {
			return nil
		}
	}
	r, err := c.array(ndarray.Float32, x.Shape...)
	if err != nil {
		return nil
	}
	out := ndarray.Slice[float32](r)
	for i := range out {
		out[i] = f(a[i], b[i])
	}
	return packed(r)
}

// evaluated is the result of an operator on two arrays.
func (c *Context) evaluated(n *ssa.Node, x, y *ndarray.Array) (*ndarray.Array, error) {
	call := &ops.Call{Ctx: c.ctx, Node: n, Threads: 1, Memory: ndarray.BudgetOf(c.ctx), In: []ndarray.Value{x, y}, Out: make([]ndarray.Value, 1)}
	if err := ops.Eval(call); err != nil {
		return nil, err
	}
	return call.Out[0].(*ndarray.Array), nil
}

// matMulScaleRule: (a*s) @ (b*t) with numbers s, t -> (a * s*t) @ b, the one Mul on
// the operand of fewer elements where both are known, else on the left. The numbers are
// moderate: one operand is scaled by both, and the result's terms are the same.
func matMulScaleRule(c *Context, n *ssa.Node) bool {
	var x [2]*ssa.Value
	coef := 1.0
	for i := range 2 {
		m := def(n.In[i], "Mul", "Div")
		if m == nil || !c.only(n.In[i], n) || n.In[0] == n.In[1] {
			return false
		}
		p := c.productOf(m)
		if len(p.factors) != 1 || p.factors[0] == n.In[i] || p.factors[0].Type.Rank() != n.In[i].Type.Rank() {
			return false
		}
		if !moderate(n.In[i].Type.DType, p.coef) {
			return false
		}
		x[i], coef = p.factors[0], coef*p.coef
	}
	side := 0
	l, okL := x[0].Type.NumElems().Const()
	r, okR := x[1].Type.NumElems().Const()
	if okL && okR && r < l {
		side = 1
	}
	k := c.constant(n.Out[0].Name+"_scale", ssa.NewConstant(floatScalar(x[0].Type.DType, coef)))
	x[side] = c.op(n, x[side].Name, "Mul", []*ssa.Value{x[side], k})
	return c.become(n, "MatMul", x[:])
}

// globalPoolRule: the mean over every spatial dimension, kept, is the pooling
// that kernels know best.
func globalPoolRule(c *Context, n *ssa.Node) bool {
	axis, ok := trailing(n)
	return ok && axis == 2 && n.In[0].Type.Rank() == 4 && n.In[0].Type.DType.IsFloat() && c.become(n, "GlobalAveragePool", n.In[:1])
}
