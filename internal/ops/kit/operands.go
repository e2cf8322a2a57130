package kit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ErrEmptyAxis is the error of looking for an extreme element among none.
var ErrEmptyAxis = errors.New("the axis has no elements")

// MaxColumns bounds the size a row of results may have.
const MaxColumns = 1 << 28

// Tensor returns tensor operand i of a call, or an error that names it.
func Tensor(c *ops.Call, i int) *ndarray.Array {
	if a := c.Array(i); a != nil {
		return a
	}
	if c.Has(i) {
		Failf("operand %d is no tensor", i)
	}
	panic(Failure{fmt.Errorf("operand %d is required and absent", i)})
}

// StringTensor is Tensor for operands that must hold strings.
func StringTensor(c *ops.Call, i int) *ndarray.Array {
	a := Tensor(c, i)
	if a.DType != ndarray.String {
		Failf("operand %d is %s, it must hold strings", i, a)
	}
	return a
}

// Ints returns the elements of an integer tensor operand.
func Ints(c *ops.Call, i int) []int64 {
	a := Tensor(c, i)
	if !a.DType.IsInteger() {
		Failf("operand %d is %s, it must hold integers", i, a)
	}
	out := Make[int64](c, a.Len())
	readInts(c, out, a)
	return out
}

// OptionalInts is [Ints] for an operand that may be absent (then nil).
func OptionalInts(c *ops.Call, i int) []int64 {
	if !c.Has(i) {
		return nil
	}
	return Ints(c, i)
}

// ScalarInt returns the one element of an integer operand.
func ScalarInt(c *ops.Call, i int) int64 {
	v := Ints(c, i)
	if len(v) != 1 {
		Failf("operand %d has %d elements, it must have one", i, len(v))
	}
	return v[0]
}

// OptionalFloat reads a one-element operand, or def when it is absent.
func OptionalFloat(c *ops.Call, i int, def float64) float64 {
	if !c.Has(i) {
		return def
	}
	return Sole(c, i).Float(0)
}

// OptionalInt reads a one-element operand as an integer, or def when it is absent.
func OptionalInt(c *ops.Call, i int, def int64) int64 {
	if !c.Has(i) {
		return def
	}
	return Sole(c, i).Int(0)
}

// Sole returns an operand of one element.
func Sole(c *ops.Call, i int) *ndarray.Array {
	a := Tensor(c, i)
	if a.Len() != 1 {
		Failf("operand %d is %s, it must have one element", i, a)
	}
	return a
}

// SameTensors returns all operands, which must be tensors of one element type,
// and their shapes.
func SameTensors(c *ops.Call) (in []*ndarray.Array, shapes [][]int) {
	for i := range c.In {
		a := Tensor(c, i)
		if a.DType != Tensor(c, 0).DType {
			Failf("operands 0 and %d have element types %s and %s", i, c.Array(0).DType, a.DType)
		}
		in, shapes = append(in, a), append(shapes, a.Shape)
	}
	return in, shapes
}

// SameOperands checks that the first operands are tensors of one element type;
// absent optional ones pass.
func SameOperands(c *ops.Call, required, all int) ndarray.DType {
	dt := Tensor(c, 0).DType
	for i := 1; i < all; i++ {
		if i < required || c.Has(i) {
			if b := Tensor(c, i); b.DType != dt {
				Check(fmt.Errorf("operands 0 and %d have element types %s and %s", i, dt, b.DType))
			}
		}
	}
	return dt
}

// Result returns the memory of tensor result i, see [ops.Call.Output].
func Result(c *ops.Call, i int, dt ndarray.DType, shape ...int) *ndarray.Array {
	return Try(c.Output(i, dt, shape...))
}

// GiveOut stores a member of a sequence or an optional as result i.
func GiveOut(c *ops.Call, i int, v ndarray.Value) {
	a, ok := v.(*ndarray.Array)
	if !ok {
		Check(c.SetOutput(i, v))
		return
	}
	out := Result(c, i, a.DType, a.Shape...)
	CopyWhole(c, out, a)
}

// ShapeOfInts turns dimensions read from data into a shape: none negative, the
// number of elements representable.
func ShapeOfInts(dims []int64) []int {
	shape := make([]int, len(dims))
	for i, d := range dims {
		if d < 0 || d > math.MaxInt {
			Failf("dimension %d of the shape is %d", i, d)
		}
		shape[i] = int(d)
	}
	if _, err := ndarray.NumElems(shape); err != nil {
		Failf("shape %v: %w", shape, err)
	}
	return shape
}

// NormAxes maps axes to [0, rank) and rejects repeats.
func NormAxes(axes []int64, rank int) ([]int, error) {
	out := make([]int, len(axes))
	seen := make([]bool, rank)
	for i, a := range axes {
		k, err := ops.NormAxis(a, rank)
		if err != nil {
			return nil, err
		}
		if seen[k] {
			return nil, fmt.Errorf("axis %d is given twice", a)
		}
		seen[k] = true
		out[i] = k
	}
	return out, nil
}

// WrapIndices applies [ops.WrapIndex] to every element of an index tensor.
func WrapIndices(c *ops.Call, a *ndarray.Array, n int) []int {
	if !a.DType.IsInteger() {
		Failf("indices are %s, they must be integers", a)
	}
	out, w := Make[int](c, a.Len()), Watching(c)
	for i := range out {
		w.Did(1)
		out[i] = Try(ops.WrapIndex(a.Int(i), n))
	}
	return out
}

// WantRank checks a required operand's rank.
func WantRank(what string, a *ndarray.Array, rank int) {
	if a == nil || a.Rank() != rank {
		Failf("%s is not a tensor of rank %d", what, rank)
	}
}

// WantShape checks an operand's shape; nil operands pass (they are optional).
func WantShape(what string, a *ndarray.Array, shape ...int) {
	if a != nil && !slices.Equal(a.Shape, shape) {
		Failf("%s has shape %v, expected %v", what, a.Shape, shape)
	}
}

// WantLen checks an operand's element count; nil operands pass.
func WantLen(what string, a *ndarray.Array, n int) {
	if a != nil && a.Len() != n {
		Failf("%s has %d elements (shape %v), expected %d", what, a.Len(), a.Shape, n)
	}
}

// WantLen1 checks that an operand, if present, is one number.
func WantLen1(what string, a *ndarray.Array) { WantLen(what, a, 1) }

// Positions returns 0, 1, …, n-1.
func Positions(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// PositionsIn is [Positions] in the budget of the call, for numbers that its operands decide.
func PositionsIn(c *ops.Call, n int) []int {
	out := Make[int](c, n)
	w := Watching(c)
	for i := range out {
		w.Did(1)
		out[i] = i
	}
	return out
}

// ListedAxes returns the axes of attribute axes, all of them without it.
func ListedAxes(n *ssa.Node, rank int) []int {
	if n.Has("axes") {
		return Try(NormAxes(ops.Ints(n, "axes"), rank))
	}
	return Positions(rank)
}

// TransposePerm returns the checked permutation; reversed order by default. A negative rank is an unknown one.
func TransposePerm(n *ssa.Node, rank int) ([]int, error) {
	if rank < 0 {
		return nil, errors.New("an operand of unknown rank")
	}
	if !n.Has("perm") {
		out := Positions(rank)
		slices.Reverse(out)
		return out, nil
	}
	perm := ops.Ints(n, "perm")
	if len(perm) != rank {
		return nil, fmt.Errorf("perm %v does not fit rank %d", perm, rank)
	}
	return NormAxes(perm, rank)
}

// WithDim returns a copy of a shape with another dimension at axis.
func WithDim[T any](shape []T, axis int, dim T) []T {
	out := slices.Clone(shape)
	out[axis] = dim
	return out
}
