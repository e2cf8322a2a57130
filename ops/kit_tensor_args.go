package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// needTensor returns tensor operand i of a call, or an error that names it.
func needTensor(c *Call, i int) (*ndarray.Array, error) {
	if a := c.Array(i); a != nil {
		return a, nil
	}
	if c.Has(i) {
		return nil, fmt.Errorf("operand %d is no tensor", i)
	}
	return nil, fmt.Errorf("operand %d is required and absent", i)
}

// needInts returns the elements of an integer tensor operand.
func needInts(c *Call, i int) ([]int64, error) {
	a, err := needTensor(c, i)
	if err != nil {
		return nil, err
	}
	if !a.DType.IsInteger() {
		return nil, fmt.Errorf("operand %d is %s, it must hold integers", i, a)
	}
	return a.Ints(), nil
}

// optInts is needInts for an operand that may be absent (then nil).
func optInts(c *Call, i int) ([]int64, error) {
	if !c.Has(i) {
		return nil, nil
	}
	return needInts(c, i)
}

// needScalarInt returns the one element of an integer operand.
func needScalarInt(c *Call, i int) (int64, error) {
	v, err := needInts(c, i)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, fmt.Errorf("operand %d has %d elements, it must have one", i, len(v))
	}
	return v[0], nil
}

// shapeOfInts turns dimensions read from data into a shape: none negative, the
// number of elements representable.
func shapeOfInts(dims []int64) ([]int, error) {
	shape := make([]int, len(dims))
	for i, d := range dims {
		if d < 0 || d > math.MaxInt {
			return nil, fmt.Errorf("dimension %d of the shape is %d", i, d)
		}
		shape[i] = int(d)
	}
	if _, err := ndarray.NumElems(shape); err != nil {
		return nil, fmt.Errorf("shape %v: %w", shape, err)
	}
	return shape, nil
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
func wrapIndices(a *ndarray.Array, n int) ([]int, error) {
	if !a.DType.IsInteger() {
		return nil, fmt.Errorf("indices are %s, they must be integers", a)
	}
	out := make([]int, a.Len())
	for i := range out {
		k, err := wrapIndex(a.Int(i), n)
		if err != nil {
			return nil, err
		}
		out[i] = k
	}
	return out, nil
}
