package elementwise

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// binary is one operation on each arithmetic domain. A nil entry means the operator
// does not take such types.
type binary struct {
	float func(a, b float64) float64
	int   func(a, b int64) int64
	uint  func(a, b uint64) uint64
	cplx  func(a, b complex128) complex128
}

// binaryOp fills in what elementwise arithmetic on two operands has in common.
func binaryOp(name string, since int, doc string, eval func(*ops.Call), content contentRule, form func(*ssa.Node) int) ops.Op {
	return ops.Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Infer: kit.Rule(inferArithmetic(content)), Eval: kit.Kernel(eval),
		Facts: ops.Facts{Traits: ops.ElementwiseTraits},
	}
}

// arithmeticForm is the Form of the four basic operations: which element types
// they took on over time.
var arithmeticForm = kit.FormBy(kit.From(7, kit.FloatTypes|kit.WideTypes), kit.From(13, kit.BfloatType), kit.From(14, kit.AnyType))

// inferArithmetic makes the rule of two-operand arithmetic: the operands' element
// type, the broadcast shape, and contents where both are known.
func inferArithmetic(r contentRule) func(n *ssa.Node) []ops.Inferred {
	return func(n *ssa.Node) []ops.Inferred {
		t := kit.Try(ops.BroadcastTypes(kit.SameDType(n, 0, 1), ops.InType(n, 0), ops.InType(n, 1)))
		return kit.FactOf(t, r.content(n, t))
	}
}

// inferTruth is the rule of operators that map pairs of elements to booleans.
func inferTruth(n *ssa.Node, content func(x, y ssa.Dim) ssa.Dim) []ops.Inferred {
	kit.SameDType(n, 0, 1)
	t := kit.Try(ops.BroadcastTypes(ndarray.Bool, ops.InType(n, 0), ops.InType(n, 1)))
	return kit.FactOf(t, zipContent(n, t, content))
}

// eval is the kernel of an operation without attributes.
func (op binary) eval(c *ops.Call) {
	a, b, shape := operandPair(c)
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
		kit.Check(kit.UnsupportedType(dt))
	}
}

// combine stores f of every pair of elements, with broadcasting, as result 0 of
// a's element type.
func combine[T kit.Number](c *ops.Call, a, b *ndarray.Array, shape []int, f func(x, y T) T) {
	z, x, y := kit.NewResult[T](c, 0, a.DType, shape...), kit.Elements[T](c, a), kit.Elements[T](c, b)
	kit.EachBroadcast(c, shape, a.Shape, b.Shape, func(o, i, j int) { z.V[o] = f(x[i], y[j]) })
	z.Store()
}

// operandPair returns two operands of one element type, and the shape they broadcast to.
func operandPair(c *ops.Call) (a, b *ndarray.Array, shape []int) {
	in, shapes := kit.SameTensors(c)
	return in[0], in[1], kit.Try(ops.BroadcastShapes(shapes...))
}

// errZeroDivisor is the error of integer division by zero.
var errZeroDivisor = errors.New("integer division by zero")

// checkDivisor rejects a zero in an integer operand 1 that meets any element of
// operand 0.
func checkDivisor(c *ops.Call) {
	a, b := kit.Tensor(c, 0), kit.Tensor(c, 1)
	if b.DType.IsInteger() && a.Len() > 0 && containsZero(c, kit.Elements[int64](c, b)) {
		kit.Check(errZeroDivisor)
	}
}

func containsZero(c *ops.Call, v []int64) bool {
	for from, to := range kit.Pieces(c, len(v)) {
		if slices.Contains(v[from:to], 0) {
			return true
		}
	}
	return false
}

// broadcasting returns the operator with the explicit broadcast of operator set 6
// and older, and the upgrade from it. The attribute axis said at which axis of
// operand 0 operand 1 begins; broadcast had to be set for operands of different shapes.
func broadcasting(o ops.Op) ops.Op {
	o.Upgrades = []ops.Upgrade{{Below: 7, Source: kit.Changelog(o.Name, 7), Apply: upgradeBroadcast}}
	o.Downgrades = []ops.Downgrade{{Below: 7, Form: kit.FormBy(kit.From(1, kit.FloatTypes|kit.BoolType), kit.From(6, kit.WideTypes), kit.From(7, kit.AnyType)), Apply: downgradeBroadcast}}
	return kit.WithAttrs(o, ops.IntAttr("axis").Before(7), ops.IntAttr("broadcast", 0).WithoutEffect().Before(7))
}

// upgradeBroadcast replaces the explicit broadcast by numpy's, which lines the last
// dimensions up.
func upgradeBroadcast(u *ops.Upgrader, n *ssa.Node) error {
	axis, has := ops.Int(n, "axis"), n.Has("axis")
	n.DropAttr("axis")
	if !has {
		return nil
	}
	ra, rb := ops.InType(n, 0).Rank(), ops.InType(n, 1).Rank()
	if ra < 0 || rb < 0 {
		return fmt.Errorf("attribute axis needs operands of known rank")
	}
	if axis < 0 {
		axis += int64(ra)
	}
	trailing := ra - int(axis) - rb
	if trailing < 0 {
		return fmt.Errorf("attribute axis=%d does not fit ranks %d and %d", axis, ra, rb)
	}
	if trailing > 0 {
		unsqueezeTrailing(u, n, 1, rb, trailing)
	}
	return nil
}

// downgradeBroadcast says at which axis of operand 0 operand 1 begins, without its
// trailing dimensions of 1.
func downgradeBroadcast(u *ops.Upgrader, n *ssa.Node) error {
	if ops.SameLayout(ops.InType(n, 0), ops.InType(n, 1)) {
		return nil
	}
	a, axis := ops.InType(n, 0), ops.InType(n, 0).Rank()-ops.InType(n, 1).Rank()
	if !a.Ranked || !ops.InType(n, 1).Ranked || axis < 0 {
		return fmt.Errorf("operands of shapes %s and %s can not be broadcast by an axis", a, ops.InType(n, 1))
	}
	squeezeTrailing(u, n, 1, 0)
	b := ops.InType(n, 1)
	for i, d := range b.Shape {
		if !d.Equal(a.Shape[axis+i]) && !d.Is(1) {
			return fmt.Errorf("operands of shapes %s and %s can not be broadcast by an axis", a, b)
		}
	}
	n.SetAttr(ssa.IntAttr("broadcast", 1))
	if axis+len(b.Shape) != len(a.Shape) && !allOnes(b.Shape) {
		n.SetAttr(ssa.IntAttr("axis", int64(axis)))
	}
	return nil
}

func allOnes(shape []ssa.Dim) bool {
	return !slices.ContainsFunc(shape, func(d ssa.Dim) bool { return !d.Is(1) })
}

// squeezeTrailing drops the trailing dimensions of 1 from operand i, which then has keep
// dimensions at least, where it is a constant or comes from an Unsqueeze.
func squeezeTrailing(u *ops.Upgrader, n *ssa.Node, i, keep int) {
	v := n.In[i]
	end := len(v.Type.Shape)
	for end > keep && v.Type.Shape[end-1].Is(1) {
		end--
	}
	shape, static := v.Type.Static()
	switch def := v.Def; {
	case end == len(v.Type.Shape):
	case v.Const != nil && static:
		n.SetInput(i, u.Const("operand", v.Const.Reshaped(shape[:end]...)))
	case def != nil && def.Op == "Unsqueeze" && def.Domain == "" && ops.InType(def, 0).Rank() == end:
		n.SetInput(i, def.In[0])
		u.Sweep(def)
	}
}

// unsqueezeTrailing puts count dimensions of 1 behind the rank dimensions of
// operand i.
func unsqueezeTrailing(u *ops.Upgrader, n *ssa.Node, i, rank, count int) {
	axes := make([]int64, count)
	for k := range axes {
		axes[k] = int64(rank + k)
	}
	un := u.Before(n, "Unsqueeze", []*ssa.Value{n.In[i], u.Const("axes", ssa.Int64s(axes...))}, 1)
	n.SetInput(i, un.Out[0])
}
