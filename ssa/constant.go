package ssa

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/berth-onnx/berth/ndarray"
)

// Constant is a value known before running: an initializer, a Constant node, or
// the result of folding. It is shared freely (between graphs, clones, programs)
// and never changes.
//
// It is stored in one of three ways:
//
//	dense   an array (its bytes may be a window of the mapped model file)
//	splat   one element repeated over the shape: never costs more than the element
//	lazy    read on first use (external data, packed sub-byte types)
type Constant struct {
	dtype ndarray.DType
	shape []int

	splat  *ndarray.Array                 // one element, when the constant is a splat
	load   func() (*ndarray.Array, error) // how to make the array, when lazy or unaligned
	packed []byte                         // the elements as a file holds them, where they lie so already

	once sync.Once
	arr  *ndarray.Array
	err  error
}

// NewConstant wraps an array that must not be changed any more.
func NewConstant(a *ndarray.Array) *Constant {
	c := &Constant{dtype: a.DType, shape: a.Shape, arr: a}
	if a.DType.FileBits() >= 8 {
		c.packed = a.Data
	}
	if !a.Aligned() {
		c.arr, c.load = nil, func() (*ndarray.Array, error) { return a.Clone(), nil }
	}
	return c
}

// NewSplat returns a constant whose elements all equal the single element of v.
func NewSplat(v *ndarray.Array, shape ...int) *Constant {
	return &Constant{dtype: v.DType, shape: append([]int(nil), shape...), splat: v.Reshaped()}
}

// NewLazy returns a constant that is read when first asked for.
func NewLazy(dt ndarray.DType, shape []int, load func() (*ndarray.Array, error)) *Constant {
	return &Constant{dtype: dt, shape: append([]int(nil), shape...), load: load}
}

// NewPacked is NewLazy for elements whose packed form, as a file holds it, is at
// hand: load unpacks it.
func NewPacked(dt ndarray.DType, shape []int, packed []byte, load func() (*ndarray.Array, error)) *Constant {
	c := NewLazy(dt, shape, load)
	c.packed = packed
	return c
}

// Packed returns the elements as a file holds them (little-endian, types below
// a byte packed), nil if they do not lie in memory or in a mapping like that.
// Do not write to it.
func (c *Constant) Packed() []byte { return c.packed }

// Int64s returns a rank-1 int64 constant.
func Int64s(v ...int64) *Constant { return NewConstant(ndarray.Of(append([]int64{}, v...), len(v))) }

// ScalarConst returns a rank-0 constant.
func ScalarConst[T ndarray.Elem](v T) *Constant { return NewConstant(ndarray.Scalar(v)) }

// DType returns the element type.
func (c *Constant) DType() ndarray.DType { return c.dtype }

// Shape returns the dimensions; do not change the slice.
func (c *Constant) Shape() []int { return c.shape }

// Type returns the static tensor type.
func (c *Constant) Type() Type { return StaticTensor(c.dtype, c.shape...) }

// Len returns the number of elements.
func (c *Constant) Len() int {
	n, err := ndarray.NumElems(c.shape)
	if err != nil {
		return 0
	}
	return n
}

// Splat returns the one repeated element, if the constant is stored so.
func (c *Constant) Splat() (*ndarray.Array, bool) { return c.splat, c.splat != nil }

// StoredBytes is what the constant costs in memory now: one element for a splat.
func (c *Constant) StoredBytes() int64 {
	n := c.Len()
	if c.splat != nil {
		n = 1
	}
	return int64(n) * int64(c.dtype.Size())
}

// Reshaped returns the same elements under another shape, without reading them.
func (c *Constant) Reshaped(shape ...int) *Constant {
	if c.splat != nil {
		return NewSplat(c.splat, shape...)
	}
	return NewPacked(c.dtype, shape, c.packed, func() (*ndarray.Array, error) {
		a, err := c.Array()
		if err != nil {
			return nil, err
		}
		return a.Reshaped(shape...), nil
	})
}

// Array returns the elements, aligned, filling out a splat and reading lazy
// data on first use. Do not write to it.
func (c *Constant) Array() (*ndarray.Array, error) {
	c.once.Do(func() {
		switch {
		case c.arr != nil:
		case c.splat != nil:
			c.arr, c.err = Fill(c.splat, c.shape)
		default:
			c.arr, c.err = c.load()
			if c.err == nil && !c.arr.Aligned() {
				c.arr = c.arr.Clone()
			}
		}
	})
	return c.arr, c.err
}

// Fill allocates an array of the given shape with v's single element everywhere.
func Fill(v *ndarray.Array, shape []int) (*ndarray.Array, error) {
	out, err := ndarray.New(v.DType, shape...)
	if err != nil {
		return nil, fmt.Errorf("constant %v: %w", shape, err)
	}
	if v.DType == ndarray.String {
		for i := range out.Str {
			out.Str[i] = v.Str[0]
		}
		return out, nil
	}
	if len(out.Data) == 0 || len(bytes.Trim(v.Data, "\x00")) == 0 {
		return out, nil
	}
	for n := copy(out.Data, v.Data); n < len(out.Data); {
		n += copy(out.Data[n:], out.Data[:n])
	}
	return out, nil
}

// Ints returns the elements of an integer constant, nil if it is none or larger
// than limit elements.
func (c *Constant) Ints(limit int) []int64 {
	if c == nil || !c.dtype.IsInteger() || c.Len() > limit {
		return nil
	}
	a, err := c.Array()
	if err != nil {
		return nil
	}
	return a.Ints()
}
