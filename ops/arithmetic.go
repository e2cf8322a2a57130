package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// arithmetic is one binary operation on each arithmetic domain. float is used
// for float64; half and float8 types compute in f32 and round once. A nil entry
// means the operator does not take such types.
type arithmetic struct {
	float func(a, b float64) float64
	f32   func(a, b float32) float32
	int   func(a, b int64) int64
	uint  func(a, b uint64) uint64
	cplx  func(a, b complex128) complex128
}

// inferArithmetic is the rule of two-operand arithmetic: the operands' element
// type, the broadcast shape, and contents where both are known.
func inferArithmetic(n *ssa.Node) ([]Fact, error) {
	a, b := InType(n, 0), InType(n, 1)
	if a.DType != b.DType && a.DType != ndarray.Undefined && b.DType != ndarray.Undefined {
		return nil, fmt.Errorf("operands have element types %s and %s; they must be the same", a.DType, b.DType)
	}
	t, err := BroadcastTypes(a.DType, a, b)
	if err != nil {
		return nil, err
	}
	return []Fact{{t, arithmeticContent(n, t)}}, nil
}

// arithmeticContent folds shape arithmetic symbolically.
func arithmeticContent(n *ssa.Node, t ssa.Type) []ssa.Dim {
	x, y := ContentOf(n, 0), ContentOf(n, 1)
	if x == nil || y == nil || t.Rank() > 1 || t.Rank() < 0 {
		return nil
	}
	if len(x) != len(y) && len(x) != 1 && len(y) != 1 {
		return nil
	}
	var f func(a, b ssa.Dim) ssa.Dim
	switch n.Op {
	case "Add":
		f = ssa.Dim.Add
	case "Sub":
		f = ssa.Dim.Sub
	case "Mul":
		f = ssa.Dim.Mul
	case "Div":
		f = divContent
	default:
		return nil
	}
	size := max(len(x), len(y))
	if len(x) == 0 || len(y) == 0 {
		size = 0
	}
	out := make([]ssa.Dim, size)
	for i := range out {
		out[i] = f(x[min(i, len(x)-1)], y[min(i, len(y)-1)])
	}
	return out
}

// divContent is integer division, which truncates; for a symbolic dividend the
// floor is the same because dimensions are not negative. Anything else is unknown.
func divContent(a, b ssa.Dim) ssa.Dim {
	m, ok := b.Const()
	if !ok || m <= 0 {
		return ssa.Dim{}
	}
	if k, ok := a.Const(); ok {
		return ssa.D(k / m)
	}
	return a.FloorDiv(b)
}

// legacyBroadcast is the upgrade from the explicit broadcast of operator set 6
// and older (attributes axis and broadcast: B's dimensions line up with A's from
// axis on) to numpy-style broadcasting.
func legacyBroadcast(op string) []Upgrade {
	return []Upgrade{{Below: 7, Source: "https://onnx.ai/onnx/operators/onnx__" + op + ".html#l-onnx-op-" + op + "-7", Apply: upgradeLegacyBroadcast}}
}

func upgradeLegacyBroadcast(u *Upgrader, n *ssa.Node) error {
	axis, has := n.Int("axis", 0), n.Has("axis")
	n.DropAttr("axis")
	n.DropAttr("broadcast")
	n.DropAttr("consumed_inputs")
	if !has {
		return nil
	}
	ra, rb := InType(n, 0).Rank(), InType(n, 1).Rank()
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
	if trailing == 0 {
		return nil
	}
	axes := make([]int64, trailing)
	for i := range axes {
		axes[i] = int64(rb + i)
	}
	un := u.Before(n, "Unsqueeze", []*ssa.Value{n.In[1], u.Const("axes", ssa.Int64s(axes...))}, 1)
	n.SetInput(1, un.Out[0])
	return nil
}

// evalArithmetic runs a binary operation with broadcasting over any element type.
func evalArithmetic(c *Call, op arithmetic) error {
	a, b := c.Array(0), c.Array(1)
	if a == nil || b == nil || a.DType != b.DType {
		return fmt.Errorf("operands are not two tensors of one element type")
	}
	shape, err := BroadcastShapes(a.Shape, b.Shape)
	if err != nil {
		return err
	}
	out, err := c.Output(0, a.DType, shape...)
	if err != nil {
		return err
	}
	switch dt := a.DType; {
	case dt == ndarray.Float32 && op.f32 != nil:
		binary(out, a, b, op.f32)
	case dt == ndarray.Float64 && op.float != nil:
		binary(out, a, b, op.float)
	case dt.IsFloat() && op.f32 != nil:
		EachBroadcast(shape, a.Shape, b.Shape, func(o, i, j int) {
			out.SetFloat(o, float64(op.f32(float32(a.Float(i)), float32(b.Float(j)))))
		})
	case dt == ndarray.Int64 && op.int != nil:
		binary(out, a, b, op.int)
	case dt.IsSigned() && op.int != nil:
		EachBroadcast(shape, a.Shape, b.Shape, func(o, i, j int) { out.SetInt(o, op.int(a.Int(i), b.Int(j))) })
	case dt.IsUnsigned() && op.uint != nil:
		EachBroadcast(shape, a.Shape, b.Shape, func(o, i, j int) {
			out.SetInt(o, int64(op.uint(uint64(a.Int(i)), uint64(b.Int(j)))))
		})
	case dt == ndarray.Complex64 && op.cplx != nil:
		binary(out, a, b, func(x, y complex64) complex64 { return complex64(op.cplx(complex128(x), complex128(y))) })
	case dt == ndarray.Complex128 && op.cplx != nil:
		binary(out, a, b, op.cplx)
	default:
		return fmt.Errorf("element type %s: %w", dt, ErrUnsupported)
	}
	return nil
}

// binary applies f with broadcasting to arrays of Go element type T.
func binary[T ndarray.Elem](out, a, b *ndarray.Array, f func(x, y T) T) {
	o, x, y := ndarray.Slice[T](out), ndarray.Slice[T](a), ndarray.Slice[T](b)
	EachBroadcast(out.Shape, a.Shape, b.Shape, func(k, i, j int) { o[k] = f(x[i], y[j]) })
}
