package ops

import (
	"errors"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// unary is one function of one element on each arithmetic domain. A nil entry
// means the operator does not take such types.
type unary struct {
	float func(float64) float64
	int   func(int64) int64
	uint  func(uint64) uint64
}

// unaryOp fills in what elementwise operators of one operand have in common.
func unaryOp(name string, since int, doc string, eval func(*Call), form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Infer: SameAs, Eval: kernel(eval),
		Facts: Facts{Traits: elementwise.but(ZeroSign(0), Composition(0))},
	}
}

// but returns the operator with some traits changed.
func (o Op) but(changes ...Trait) Op {
	o.Facts.Traits = o.Facts.Traits.but(changes...)
	return o
}

// legacy returns the operator with the attribute it had up to operator set 5.
func (o Op) legacy() Op { return o.with(consumedInputs) }

// with returns the operator with more attributes.
func (o Op) with(attrs ...AttrSpec) Op {
	o.Attrs = slices.Concat(o.Attrs, attrs)
	return o
}

// following returns the operator with a rule that follows known contents.
func (o Op) following(f func(ssa.Dim) ssa.Dim) Op {
	o.Infer = rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		x := known(n, 0)
		if x == nil || !followed(t.DType) {
			return One(t)
		}
		out := make([]ssa.Dim, len(x))
		for i, d := range x {
			out[i] = f(d)
		}
		return factOf(t, out)
	})
	return o
}

// eval is the kernel of a function without attributes.
func (u unary) eval(c *Call) {
	a := tensor(c, 0)
	switch dt := a.DType; {
	case dt.IsFloat() && u.float != nil:
		mapElements(c, a, u.float)
	case dt.IsSigned() && u.int != nil:
		mapElements(c, a, u.int)
	case dt.IsUnsigned() && u.uint != nil:
		mapElements(c, a, u.uint)
	default:
		check(unsupportedType(dt))
	}
}

// mapElements stores f of every element as result 0.
func mapElements[T number](c *Call, a *ndarray.Array, f func(T) T) {
	y := newResult[T](c, 0, a.DType, a.Shape...)
	convert(y.V, elements[T](a), f)
	y.store()
}

// inferPredicate is the rule of operators that map every element to a boolean.
func inferPredicate(n *ssa.Node) []Inferred { return One(retyped(InType(n, 0), ndarray.Bool)) }

// predicate is a kernel that maps every element of a float tensor to a boolean.
func predicate(c *Call, f func(float64) bool) {
	a := tensor(c, 0)
	if !a.DType.IsFloat() {
		check(unsupportedType(a.DType))
	}
	out := result(c, 0, ndarray.Bool, a.Shape...)
	convert(ndarray.Slice[bool](out), elements[float64](a), f)
}

// arithmetic is one binary operation on each arithmetic domain. A nil entry means
// the operator does not take such types.
type arithmetic struct {
	float func(a, b float64) float64
	int   func(a, b int64) int64
	uint  func(a, b uint64) uint64
	cplx  func(a, b complex128) complex128
}

// binaryOp fills in what elementwise arithmetic on two operands has in common.
func binaryOp(name string, since int, doc string, eval func(*Call), content contentRule, form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Infer: rule(inferArithmetic(content)), Eval: kernel(eval),
		Facts: Facts{Traits: elementwise},
	}
}

// broadcasting returns the operator with the explicit broadcast of operator set 6
// and older, and the upgrade from it. The attribute axis stated at which axis of
// operand 0 operand 1 begins; broadcast had to be set for operands of different shapes.
func (o Op) broadcasting() Op {
	o.Upgrades = []Upgrade{{Below: 7, Source: changelog(o.Name, 7), Apply: upgradeLegacyBroadcast}}
	return o.with(intAttr("axis").until(7), intAttr("broadcast", 0).ignored().until(7))
}

// inferArithmetic makes the rule of two-operand arithmetic: the operands' element
// type, the broadcast shape, and contents where both are known.
func inferArithmetic(r contentRule) func(n *ssa.Node) []Inferred {
	return func(n *ssa.Node) []Inferred {
		dt := sameDType(n, 0, 1)
		t := try(BroadcastTypes(dt, InType(n, 0), InType(n, 1)))
		return factOf(t, r.content(n, t))
	}
}

// eval is the kernel of an operation without attributes.
func (op arithmetic) eval(c *Call) {
	a, b, shape := alike(c)
	switch dt := a.DType; {
	case dt.IsFloat() && op.float != nil:
		combine(c, a, b, shape, op.float)
	case dt.IsSigned() && op.int != nil:
		combine(c, a, b, shape, op.int)
	case dt.IsUnsigned() && op.uint != nil:
		combine(c, a, b, shape, op.uint)
	case dt.IsComplex() && op.cplx != nil:
		combine(c, a, b, shape, op.cplx)
	default:
		check(unsupportedType(dt))
	}
}

// combine stores f of every pair of elements, with broadcasting, as result 0 of
// a's element type.
func combine[T number](c *Call, a, b *ndarray.Array, shape []int, f func(x, y T) T) {
	z, x, y := newResult[T](c, 0, a.DType, shape...), elements[T](a), elements[T](b)
	EachBroadcast(shape, a.Shape, b.Shape, func(o, i, j int) { z.V[o] = f(x[i], y[j]) })
	z.store()
}

// alike returns two operands of one element type, and the shape they broadcast to.
func alike(c *Call) (a, b *ndarray.Array, shape []int) {
	a, b = c.Array(0), c.Array(1)
	if a == nil || b == nil || a.DType != b.DType {
		failf("operands are not two tensors of one element type")
	}
	return a, b, try(BroadcastShapes(a.Shape, b.Shape))
}

// variadic is an operator that folds any number of operands, element by element.
// Every result element is finished before the next one starts, so the result may
// take the place of any operand of its shape.
type variadic struct {
	step arithmetic
	// mean divides the sum by the number of operands at the end; integers have none.
	mean bool
	// content combines known elements of two operands.
	content contentRule
}

// variadicOp fills in what such operators have in common.
func variadicOp(name string, since int, doc string, v variadic, form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
		Infer: rule(v.infer), Eval: kernel(v.eval),
		Facts: Facts{Traits: elementwise.but(Commutative, ZeroSign(0))},
		Attrs: []AttrSpec{consumedInputs},
	}
}

func (v variadic) infer(n *ssa.Node) []Inferred {
	types := make([]ssa.Type, len(n.In))
	for i := range n.In {
		if n.In[i] == nil {
			failf("operand %d is absent", i)
		}
		types[i] = n.In[i].Type
	}
	t := try(BroadcastTypes(sameDType(n, positions(len(n.In))...), types...))
	if len(n.In) == 2 {
		return factOf(t, v.content.content(n, t))
	}
	return One(t)
}

func (v variadic) eval(c *Call) {
	in, shapes := sameTensors(c)
	shape := try(BroadcastShapes(shapes...))
	switch dt := in[0].DType; {
	case dt.IsFloat() && v.step.float != nil:
		share := 1.0
		if v.mean {
			share = float64(len(in))
		}
		foldOperands(c, in, shapes, shape, v.step.float, func(s float64) float64 { return s / share })
	case dt.IsSigned() && v.step.int != nil && !v.mean:
		foldOperands(c, in, shapes, shape, v.step.int, func(s int64) int64 { return s })
	case dt.IsUnsigned() && v.step.uint != nil && !v.mean:
		foldOperands(c, in, shapes, shape, v.step.uint, func(s uint64) uint64 { return s })
	default:
		check(unsupportedType(dt))
	}
}

// sameTensors returns all operands, which must be tensors of one element type,
// and their shapes.
func sameTensors(c *Call) (in []*ndarray.Array, shapes [][]int) {
	for i := range c.In {
		a := tensor(c, i)
		if a.DType != tensor(c, 0).DType {
			failf("operands 0 and %d have element types %s and %s", i, c.Array(0).DType, a.DType)
		}
		in, shapes = append(in, a), append(shapes, a.Shape)
	}
	return in, shapes
}

func foldOperands[T number](c *Call, in []*ndarray.Array, shapes [][]int, shape []int, step func(x, y T) T, done func(T) T) {
	y := newResult[T](c, 0, in[0].DType, shape...)
	x := make([][]T, len(in))
	for i, a := range in {
		x[i] = elements[T](a)
	}
	w := newWalk(shape, shapes...)
	w.each(func(o int, at []int) {
		acc := x[0][at[0]]
		for i := 1; i < len(x); i++ {
			acc = step(acc, x[i][at[i]])
		}
		y.V[o] = done(acc)
	})
	y.store()
}

// arithmeticForm is the Form of the four basic operations: which element types
// they took on over time.
func arithmeticForm() func(*ssa.Node) int {
	return formBy(typeStep{7, floatTypes | wideTypes}, typeStep{13, bfloatType}, typeStep{14, anyType})
}

// addition is also what Sum folds with.
var addition = arithmetic{
	float: func(a, b float64) float64 { return a + b },
	int:   func(a, b int64) int64 { return a + b },
	uint:  func(a, b uint64) uint64 { return a + b },
	cplx:  func(a, b complex128) complex128 { return a + b },
}

// inferTruth is the rule of operators that map pairs of elements to booleans.
func inferTruth(n *ssa.Node, content func(x, y ssa.Dim) ssa.Dim) []Inferred {
	sameDType(n, 0, 1)
	t := try(BroadcastTypes(ndarray.Bool, InType(n, 0), InType(n, 1)))
	return factOf(t, zipContent(n, t, content))
}

// errZeroDivisor is the error of integer division by zero.
var errZeroDivisor = errors.New("integer division by zero")

// checkDivisor rejects a zero in an integer operand 1 that meets any element of
// operand 0.
func checkDivisor(c *Call) {
	a, b := c.Array(0), c.Array(1)
	if a == nil || b == nil || !b.DType.IsInteger() || a.Len() == 0 {
		return
	}
	if slices.Contains(b.Ints(), 0) {
		check(errZeroDivisor)
	}
}
