package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// tensor returns tensor operand i of a call, or an error that names it.
func tensor(c *Call, i int) *ndarray.Array {
	if a := c.Array(i); a != nil {
		return a
	}
	if c.Has(i) {
		failf("operand %d is no tensor", i)
	}
	panic(failure{fmt.Errorf("operand %d is required and absent", i)})
}

// ints returns the elements of an integer tensor operand.
func ints(c *Call, i int) []int64 {
	a := tensor(c, i)
	if !a.DType.IsInteger() {
		failf("operand %d is %s, it must hold integers", i, a)
	}
	return a.Ints()
}

// optionalInts is ints for an operand that may be absent (then nil).
func optionalInts(c *Call, i int) []int64 {
	if !c.Has(i) {
		return nil
	}
	return ints(c, i)
}

// scalarInt returns the one element of an integer operand.
func scalarInt(c *Call, i int) int64 {
	v := ints(c, i)
	if len(v) != 1 {
		failf("operand %d has %d elements, it must have one", i, len(v))
	}
	return v[0]
}

// optionalFloat reads a one-element operand, or def when it is absent.
func optionalFloat(c *Call, i int, def float64) float64 {
	if !c.Has(i) {
		return def
	}
	return single(c, i).Float(0)
}

// optionalInt reads a one-element operand as an integer, or def when it is absent.
func optionalInt(c *Call, i int, def int64) int64 {
	if !c.Has(i) {
		return def
	}
	return single(c, i).Int(0)
}

// single returns an operand of one element.
func single(c *Call, i int) *ndarray.Array {
	a := tensor(c, i)
	if a.Len() != 1 {
		failf("operand %d is %s, it must have one element", i, a)
	}
	return a
}

// result returns the memory of tensor result i, see [Call.Output].
func result(c *Call, i int, dt ndarray.DType, shape ...int) *ndarray.Array {
	return try(c.Output(i, dt, shape...))
}

// shapeOfInts turns dimensions read from data into a shape: none negative, the
// number of elements representable.
func shapeOfInts(dims []int64) []int {
	shape := make([]int, len(dims))
	for i, d := range dims {
		if d < 0 || d > math.MaxInt {
			failf("dimension %d of the shape is %d", i, d)
		}
		shape[i] = int(d)
	}
	if _, err := ndarray.NumElems(shape); err != nil {
		failf("shape %v: %w", shape, err)
	}
	return shape
}

// normAxes maps axes to [0, rank) and rejects repeats.
func normAxes(axes []int64, rank int) ([]int, error) {
	out := make([]int, len(axes))
	seen := make([]bool, rank)
	for i, a := range axes {
		k, err := NormAxis(a, rank)
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

// wrapIndex maps an index in [-n, n) to [0, n).
func wrapIndex(i int64, n int) (int, error) {
	k := i
	if k < 0 {
		k += int64(n)
	}
	if k < 0 || k >= int64(n) {
		return 0, fmt.Errorf("index %d is out of range for a dimension of %d", i, n)
	}
	return int(k), nil
}

// wrapIndices applies wrapIndex to every element of an index tensor.
func wrapIndices(a *ndarray.Array, n int) []int {
	if !a.DType.IsInteger() {
		failf("indices are %s, they must be integers", a)
	}
	out := make([]int, a.Len())
	for i := range out {
		k := try(wrapIndex(a.Int(i), n))
		out[i] = k
	}
	return out
}

// wantShape checks an operand's shape; nil operands pass (they are optional).
func wantShape(what string, a *ndarray.Array, shape ...int) {
	if a == nil {
		return
	}
	if !slices.Equal(a.Shape, shape) {
		failf("%s has shape %v, expected %v", what, a.Shape, shape)
	}
}

// wantLen checks an operand's element count; nil operands pass.
func wantLen(what string, a *ndarray.Array, n int) {
	if a != nil && a.Len() != n {
		failf("%s has %d elements (shape %v), expected %d", what, a.Len(), a.Shape, n)
	}
}

// wantRank checks a required operand's rank.
func wantRank(what string, a *ndarray.Array, rank int) {
	if a == nil || a.Rank() != rank {
		failf("%s is not a tensor of rank %d", what, rank)
	}
}

// wantLen1 checks that an operand, if present, is one number.
func wantLen1(what string, a *ndarray.Array) { wantLen(what, a, 1) }

// resizeAxes returns the axes the operands speak of, all without a list.
func resizeAxes(n *ssa.Node, rank int) []int {
	if n.Has("axes") {
		return try(normAxes(Ints(n, "axes"), rank))
	}
	axes := make([]int, rank)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// positions returns 0, 1, …, n-1.
func positions(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// maxColumns bounds the size a row of results may have.
const maxColumns = 1 << 28
