package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// needTensor returns tensor operand i of a call, or an error that names it.
func needTensor(c *Call, i int) *ndarray.Array {
	if a := c.Array(i); a != nil {
		return a
	}
	if c.Has(i) {
		failf("operand %d is no tensor", i)
	}
	panic(failure{fmt.Errorf("operand %d is required and absent", i)})
}

// needInts returns the elements of an integer tensor operand.
func needInts(c *Call, i int) []int64 {
	a := needTensor(c, i)
	if !a.DType.IsInteger() {
		failf("operand %d is %s, it must hold integers", i, a)
	}
	return a.Ints()
}

// optInts is needInts for an operand that may be absent (then nil).
func optInts(c *Call, i int) []int64 {
	if !c.Has(i) {
		return nil
	}
	return needInts(c, i)
}

// needScalarInt returns the one element of an integer operand.
func needScalarInt(c *Call, i int) int64 {
	v := needInts(c, i)
	if len(v) != 1 {
		failf("operand %d has %d elements, it must have one", i, len(v))
	}
	return v[0]
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
