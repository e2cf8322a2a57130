package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// arithmetic is one binary operation on each arithmetic domain. float is used
// for float64; half and float8 types compute in f32 and round once. Without f32,
// float32 goes through float. A nil entry means the operator does not take such
// types.
type arithmetic struct {
	float func(a, b float64) float64
	f32   func(a, b float32) float32
	int   func(a, b int64) int64
	uint  func(a, b uint64) uint64
	cplx  func(a, b complex128) complex128
}

// eval is the kernel of an operation without attributes.
func (op arithmetic) eval(c *Call) { evalArithmetic(c, op) }

// inferArithmetic is the rule of two-operand arithmetic: the operands' element
// type, the broadcast shape, and contents where both are known.
func inferArithmetic(n *ssa.Node) []Inferred {
	dt := sameDType(n, 0, 1)
	t := try(BroadcastTypes(dt, InType(n, 0), InType(n, 1)))
	return factOf(t, arithmeticContent(n, t))
}

// legacyBroadcast is the upgrade from the explicit broadcast of operator set 6
// and older (attributes axis and broadcast: B's dimensions line up with A's from
// axis on) to numpy-style broadcasting.
func legacyBroadcast(op string) []Upgrade {
	return []Upgrade{{Below: 7, Source: changelog(op, 7), Apply: upgradeLegacyBroadcast}}
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
	unsqueezeTrailing(u, n, 1, rb, trailing)
	return nil
}

// unsqueezeTrailing puts count dimensions of 1 behind the rank dimensions of
// operand i.
func unsqueezeTrailing(u *Upgrader, n *ssa.Node, i, rank, count int) {
	axes := make([]int64, count)
	for k := range axes {
		axes[k] = int64(rank + k)
	}
	un := u.Before(n, "Unsqueeze", []*ssa.Value{n.In[i], u.Const("axes", ssa.Int64s(axes...))}, 1)
	n.SetInput(i, un.Out[0])
}

// alike returns two operands of one element type, and the shape they broadcast to.
func alike(c *Call) (a, b *ndarray.Array, shape []int) {
	a, b = c.Array(0), c.Array(1)
	if a == nil || b == nil || a.DType != b.DType {
		failf("operands are not two tensors of one element type")
	}
	shape = try(BroadcastShapes(a.Shape, b.Shape))
	return a, b, shape
}

// evalArithmetic runs a binary operation with broadcasting over any element type.
func evalArithmetic(c *Call, op arithmetic) {
	a, b, shape := alike(c)
	out := try(c.Output(0, a.DType, shape...))
	f32 := op.f32
	if f32 == nil && op.float != nil {
		f32 = viaFloat64x2(op.float)
	}
	switch dt := a.DType; {
	case dt.IsFloat() && f32 != nil:
		op.floats(out, a, b, f32)
		return
	case dt.IsSigned() && op.int != nil:
		op.signed(out, a, b)
		return
	case dt.IsUnsigned() && op.uint != nil:
		op.unsigned(out, a, b)
		return
	case dt == ndarray.Complex64 && op.cplx != nil:
		binary(out, a, b, func(x, y complex64) complex64 { return complex64(op.cplx(complex128(x), complex128(y))) })
		return
	case dt == ndarray.Complex128 && op.cplx != nil:
		binary(out, a, b, op.cplx)
		return
	}
	check(unsupportedType(a.DType))
}

func (op arithmetic) floats(out, a, b *ndarray.Array, f32 func(x, y float32) float32) {
	switch a.DType {
	case ndarray.Float32:
		binary(out, a, b, f32)
	case ndarray.Float64:
		if op.float == nil {
			check(unsupportedType(a.DType))
		}
		binary(out, a, b, op.float)
	case ndarray.Float16, ndarray.BFloat16:
		binary(out, a, b, halfCodec(a.DType).lift2(f32))
	default:
		binary(out, a, b, byteCodec(a.DType).lift2(f32))
	}
}

func (op arithmetic) signed(out, a, b *ndarray.Array) {
	switch a.DType {
	case ndarray.Int8:
		binary(out, a, b, narrow2[int8](op.int))
	case ndarray.Int16:
		binary(out, a, b, narrow2[int16](op.int))
	case ndarray.Int32:
		binary(out, a, b, narrow2[int32](op.int))
	case ndarray.Int64:
		binary(out, a, b, op.int)
	default: // int4, int2: one per byte, kept in range by SetInt
		EachBroadcast(out.Shape, a.Shape, b.Shape, func(o, i, j int) { out.SetInt(o, op.int(a.Int(i), b.Int(j))) })
	}
}

func (op arithmetic) unsigned(out, a, b *ndarray.Array) {
	switch a.DType {
	case ndarray.Uint8:
		binary(out, a, b, narrow2[uint8](op.uint))
	case ndarray.Uint16:
		binary(out, a, b, narrow2[uint16](op.uint))
	case ndarray.Uint32:
		binary(out, a, b, narrow2[uint32](op.uint))
	case ndarray.Uint64:
		binary(out, a, b, op.uint)
	default:
		EachBroadcast(out.Shape, a.Shape, b.Shape, func(o, i, j int) {
			out.SetInt(o, int64(op.uint(uint64(a.Int(i)), uint64(b.Int(j)))))
		})
	}
}

// binary applies f with broadcasting to arrays of Go element types T, giving R.
// out may be a or b itself where the shapes agree.
func binary[T, R ndarray.Elem](out, a, b *ndarray.Array, f func(x, y T) R) {
	o, x, y := ndarray.Slice[R](out), ndarray.Slice[T](a), ndarray.Slice[T](b)
	w := newWalk(out.Shape, a.Shape, b.Shape)
	sx, sy := w.step[0], w.step[1]
	w.each(func(first int, at []int) {
		i, j := at[0], at[1]
		for k := first; k < first+w.run; k++ {
			o[k] = f(x[i], y[j])
			i += sx
			j += sy
		}
	})
}
