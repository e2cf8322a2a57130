package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Algebra rewrites arithmetic into cheaper or canonical forms:
//
//	x^2 -> x*x          x^-1, 1/x -> Reciprocal(x)      x / 2^k -> x * 2^-k (exact)
//	x - c -> x + (-c)   x + Neg(y) -> x - y             x - Neg(y) -> x + y
//	(x + c) + d -> x + (c+d)        (x * c) * d -> x * (c*d)
//	x * Reciprocal(y) -> x / y      Min(Max(x, lo), hi) -> Clip(x, lo, hi)
//	Clip and Relu in a row -> one Clip or Relu
//	(a*s) @ (b*t) -> (a * s*t) @ b, with numbers s, t
//	ReduceMean over all of [2, 3, …] -> GlobalAveragePool
//
// Only the constant chains and x*Reciprocal(y) round differently; they are left
// alone where that could be more than noise (cancellation, overflow).
var Algebra = &Pass{
	Name: "algebra", Doc: "arithmetic with constants -> cheaper or canonical arithmetic",
	run: func(c *Context, g *ssa.Graph) error {
		for _, n := range slices.Clone(g.Nodes) {
			if !c.alive(n) || n.Opaque || n.Domain != "" || len(n.Out) != 1 || c.unread(n) {
				continue
			}
			for _, rule := range algebraRules[n.Op] {
				if done, err := rule(c, n); err != nil {
					return err
				} else if done {
					break
				}
			}
		}
		return nil
	},
}

var algebraRules map[string][]func(c *Context, n *ssa.Node) (bool, error)

func init() {
	algebraRules = map[string][]func(c *Context, n *ssa.Node) (bool, error){
		"Pow":    {powRule},
		"Div":    {divRule},
		"Sub":    {subRule},
		"Add":    {addNegRule, addChainRule},
		"Mul":    {mulReciprocalRule, mulChainRule},
		"MatMul": {matMulScaleRule},
		"Min":    {clampRule}, "Max": {clampRule},
		"Clip": {clipRowRule}, "Relu": {clipRowRule},
		"ReduceMean": {globalPoolRule},
	}
}

// become replaces n by a new node.
func (c *Context) become(n *ssa.Node, op string, in []*ssa.Value, attrs ...ssa.Attr) (bool, error) {
	m, err := c.node(n, n.Out[0].Name, op, in, 1, attrs...)
	if err != nil {
		return true, err
	}
	m.Name = n.Name
	c.replace(n.Out[0], m.Out[0])
	return true, nil
}

func powRule(c *Context, n *ssa.Node) (bool, error) {
	e, ok := scalar(n.In[1])
	x := n.In[0]
	if !ok || !keepsShape(x.Type, n.In[1].Const.Shape()) || x.Type.DType != n.Out[0].Type.DType {
		return false, nil
	}
	switch {
	case e == 2 && c.patch(n, "is x*x"):
		return c.become(n, "Mul", []*ssa.Value{x, x})
	case e == -1 && x.Type.DType.IsFloat() && c.patch(n, "is 1/x"):
		return c.become(n, "Reciprocal", []*ssa.Value{x})
	}
	return false, nil
}

// divRule: 1/x, and division by powers of two, whose reciprocal is exact.
func divRule(c *Context, n *ssa.Node) (bool, error) {
	k, x, at := constFirst(n)
	if at < 0 || !k.Type.DType.IsFloat() {
		return false, nil
	}
	if v, ok := scalar(k); at == 0 && ok && v == 1 && keepsShape(x.Type, k.Const.Shape()) {
		if !c.patch(n, "is the reciprocal") {
			return false, nil
		}
		return c.become(n, "Reciprocal", []*ssa.Value{x})
	}
	if at == 0 {
		return false, nil
	}
	inv := mapConst(k.Const, func(v float64) (float64, bool) {
		frac, exp := math.Frexp(v)
		return 1 / v, math.Abs(frac) == 0.5 && exp > -14 && exp < 15 // within every float type's normal range
	})
	if inv == nil || !c.cheapSwap(n, k, inv) || !c.patch(n, "divides by powers of two") {
		return false, nil
	}
	return c.become(n, "Mul", []*ssa.Value{x, c.constant(k.Name, inv)})
}

// cheapSwap reports that a constant made from k, which n reads, may be stored.
func (c *Context) cheapSwap(n *ssa.Node, k *ssa.Value, made *ssa.Constant) bool {
	added := made.StoredBytes()
	if c.only(k, n) {
		added -= k.Const.StoredBytes()
	}
	return c.fits(added)
}

// mapConst applies f to every element of a float constant; nil if f refuses one
// or the result is not finite in the element type.
func mapConst(k *ssa.Constant, f func(v float64) (float64, bool)) *ssa.Constant {
	apply := func(src *ndarray.Array) *ndarray.Array {
		dst := ndarray.Must(src.DType, src.Shape...)
		for i := range src.Len() {
			v, ok := f(src.Float(i))
			if dst.SetFloat(i, v); !ok || math.IsInf(dst.Float(i), 0) || math.IsNaN(dst.Float(i)) {
				return nil
			}
		}
		return dst
	}
	if e, ok := k.Splat(); ok {
		if d := apply(e); d != nil {
			return ssa.NewSplat(d, k.Shape()...)
		}
		return nil
	}
	a, err := k.Array()
	if err != nil {
		return nil
	}
	if d := apply(a); d != nil {
		return ssa.NewConstant(d)
	}
	return nil
}

// subRule: x - (-y) = x + y, and x - c = x + (-c), bit for bit.
func subRule(c *Context, n *ssa.Node) (bool, error) {
	if m := def(n.In[1], "Neg"); m != nil {
		if !c.patch(n, "subtracts a negative") {
			return false, nil
		}
		return c.become(n, "Add", []*ssa.Value{n.In[0], m.In[0]})
	}
	k, x, at := constFirst(n)
	if at != 1 || !k.Type.DType.IsFloat() {
		return false, nil
	}
	neg := mapConst(k.Const, func(v float64) (float64, bool) { return -v, true })
	if neg == nil || !c.cheapSwap(n, k, neg) || !c.patch(n, "adds the negative constant") {
		return false, nil
	}
	return c.become(n, "Add", []*ssa.Value{x, c.constant(k.Name, neg)})
}

func addNegRule(c *Context, n *ssa.Node) (bool, error) {
	for i := range 2 {
		m := def(n.In[i], "Neg")
		if m == nil || !c.patch(n, "adds a negative") {
			continue
		}
		return c.become(n, "Sub", []*ssa.Value{n.In[1-i], m.In[0]})
	}
	return false, nil
}

func mulReciprocalRule(c *Context, n *ssa.Node) (bool, error) {
	for i := range 2 {
		m := def(n.In[i], "Reciprocal")
		if m == nil || !c.only(n.In[i], n) || !c.patch(n, "divides") {
			continue
		}
		return c.become(n, "Div", []*ssa.Value{n.In[1-i], m.In[0]})
	}
	return false, nil
}

// addChainRule: (x + c) + d -> x + (c+d). Not where c and d nearly cancel: then x
// may have been rounded on purpose.
func addChainRule(c *Context, n *ssa.Node) (bool, error) {
	return c.constChain(n, func(a, b, sum float64) bool {
		return math.Abs(sum) >= math.Max(math.Abs(a), math.Abs(b))/2
	})
}

// mulChainRule: (x * c) * d -> x * (c*d), where the product is an ordinary number.
func mulChainRule(c *Context, n *ssa.Node) (bool, error) {
	return c.constChain(n, func(a, b, p float64) bool {
		abs := math.Abs(p)
		return abs > 1e-30 && abs < 1e30 || a == 0 || b == 0
	})
}

// constChain merges the constants of two nodes of one operator. ok judges every
// pair of floats and their result.
func (c *Context) constChain(n *ssa.Node, ok func(a, b, r float64) bool) (bool, error) {
	k, y, at := constFirst(n)
	if at < 0 {
		return false, nil
	}
	m := def(y, n.Op)
	if m == nil || !c.only(y, n) {
		return false, nil
	}
	l, x, at := constFirst(m)
	if at < 0 {
		return false, nil
	}
	merged := combine(n, l, k, ok)
	if merged == nil || merged.StoredBytes() > max(l.Const.StoredBytes(), k.Const.StoredBytes()) {
		return false, nil
	}
	if !c.patch(n, "constants of %s and this merge", m) {
		return false, nil
	}
	return c.become(n, n.Op, []*ssa.Value{x, c.constant(k.Name, merged)})
}

// combine evaluates n's operator on two constants; nil where ok refuses a pair.
func combine(n *ssa.Node, a, b *ssa.Value, ok func(a, b, r float64) bool) *ssa.Constant {
	const limit = 1 << 20
	if a.Const.Len() > limit || b.Const.Len() > limit {
		return nil
	}
	x, errX := a.Const.Array()
	y, errY := b.Const.Array()
	if errX != nil || errY != nil {
		return nil
	}
	call := &ops.Call{Node: n, Threads: 1, In: []ndarray.Value{x, y}, Out: make([]ndarray.Value, 1)}
	if ops.Eval(call) != nil {
		return nil
	}
	r := call.Out[0].(*ndarray.Array)
	good := true
	if r.DType.IsFloat() {
		ops.EachBroadcast(r.Shape, x.Shape, y.Shape, func(o, i, j int) { good = good && ok(x.Float(i), y.Float(j), r.Float(o)) })
	} else if r.DType.IsComplex() {
		return nil
	}
	if !good {
		return nil
	}
	return packed(r)
}

// matMulScaleRule: (a*s) @ (b*t) with numbers s, t -> (a * s*t) @ b, the one Mul on
// the operand of fewer elements where both are known, else on the left.
func matMulScaleRule(c *Context, n *ssa.Node) (bool, error) {
	var x [2]*ssa.Value
	coef := 1.0
	for i := range 2 {
		m := defAny(n.In[i], "Mul", "Div")
		if m == nil || !c.only(n.In[i], n) || n.In[0] == n.In[1] {
			return false, nil
		}
		y, at := otherThanNumber(m)
		if at < 0 || at == 1 && m.Op == "Div" || y.Type.Rank() != n.In[i].Type.Rank() {
			return false, nil
		}
		k, _ := number(m.In[1-at])
		if m.Op == "Div" {
			k = 1 / k
		}
		x[i], coef = y, coef*k
	}
	if !x[0].Type.DType.IsFloat() || !(math.Abs(coef) < 1e30 && math.Abs(coef) > 1e-30) || !c.patch(n, "both operands are scaled by numbers") {
		return false, nil
	}
	side := 0
	l, okL := x[0].Type.NumElems().Const()
	r, okR := x[1].Type.NumElems().Const()
	if okL && okR && r < l {
		side = 1
	}
	k := ndarray.Must(x[0].Type.DType)
	k.SetFloat(0, coef)
	m, err := c.node(n, x[side].Name, "Mul", []*ssa.Value{x[side], c.constant(n.Out[0].Name+"_scale", ssa.NewConstant(k))}, 1)
	if err != nil {
		return true, err
	}
	x[side] = m.Out[0]
	return c.become(n, "MatMul", x[:])
}

// globalPoolRule: the mean over every spatial dimension, kept, is the pooling
// that kernels know best.
func globalPoolRule(c *Context, n *ssa.Node) (bool, error) {
	in := n.In[0].Type
	axes, ok := ints(n, 1)
	if !ok || in.Rank() < 3 || len(axes) != in.Rank()-2 || ops.Int(n, "keepdims") != 1 || !in.DType.IsFloat() {
		return false, nil
	}
	for i := 2; i < in.Rank(); i++ {
		if !axisListed(axes, i, in.Rank()) {
			return false, nil
		}
	}
	if in.Rank() != 4 || !c.patch(n, "is the global average") {
		return false, nil
	}
	return c.become(n, "GlobalAveragePool", []*ssa.Value{n.In[0]})
}
