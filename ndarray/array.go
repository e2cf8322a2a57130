package ndarray

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"unsafe"

	"github.com/berth-onnx/berth/internal/sysmem"
)

// ErrSize reports a shape whose element or byte count does not fit in an int.
var ErrSize = errors.New("ndarray: shape is negative or its size overflows")

// Value is what a graph edge can carry at run time: *[Array], *[Sequence],
// *[Optional], *[Map] or *[Sparse].
type Value interface{ isValue() }

// Array is a contiguous row-major tensor.
type Array struct {
	DType DType
	Shape []int    // dimensions, outermost first; empty for a scalar
	Data  []byte   // NumElems*DType.Size() bytes; nil for strings
	Str   []string // the elements when DType is String
}

// Sequence is an ordered list of values of one type.
type Sequence struct {
	Elem  DType // element type of the member tensors, Undefined if not known
	Items []Value
}

// Optional holds a value or nothing (Value == nil).
type Optional struct{ Value Value }

// Map is an ONNX-ML map: parallel keys (int64 or string array) and values.
type Map struct {
	Keys   *Array
	Values Value
}

// Sparse is a COO sparse tensor; Indices is [nnz] linear or [nnz, rank].
type Sparse struct {
	Shape   []int
	Values  *Array
	Indices *Array
}

func (*Array) isValue()    {}
func (*Sequence) isValue() {}
func (*Optional) isValue() {}
func (*Map) isValue()      {}
func (*Sparse) isValue()   {}

// Product is the product of dimensions, which belong to an array that exists: unlike [NumElems] it
// does not check them. It stands once in a program: at each of its calls it takes 36 kB of the smallest one.
//
//go:noinline
func Product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// NumElems returns the product of a shape, or ErrSize when a dimension is
// negative or the product overflows.
func NumElems(shape []int) (int, error) {
	n := 1
	zero := false
	for _, d := range shape {
		if d < 0 {
			return 0, ErrSize
		}
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(uint64(n), uint64(d)) // a division would take longer
		if hi != 0 || lo > math.MaxInt {
			return 0, ErrSize
		}
		n = int(lo)
	}
	if zero {
		return 0, nil
	}
	return n, nil
}

// ByteSize returns the bytes an array of that type and shape takes in memory.
func ByteSize(dt DType, shape []int) (int, error) {
	n, err := NumElems(shape)
	if err != nil {
		return 0, err
	}
	hi, lo := bits.Mul64(uint64(n), uint64(dt.Size()))
	if hi != 0 || lo > math.MaxInt {
		return 0, ErrSize
	}
	return int(lo), nil
}

// New allocates a zeroed array. The memory is 64-byte aligned. A size that overflows, or that
// is beyond the default [Budget], is an error.
func New(dt DType, shape ...int) (*Array, error) { return NewIn(0, dt, shape...) }

// Must is New for shapes known to be good; it panics on ErrSize.
func Must(dt DType, shape ...int) *Array {
	a, err := New(dt, shape...)
	if err != nil {
		panic(err)
	}
	return a
}

// AlignedBytes returns n zeroed bytes whose first is at a multiple of 64.
func AlignedBytes(n int) []byte { return sysmem.Aligned(n) }

// Elem is the set of Go types that can stand for an array's elements in memory.
type Elem interface {
	~float32 | ~float64 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~bool | ~complex64 | ~complex128
}

// Of makes an array over data (not copied). The Go type decides the element
// type; len(data) must be the product of shape, else Of panics.
func Of[T Elem](data []T, shape ...int) *Array {
	var z T
	n, err := NumElems(shape)
	if err != nil || n != len(data) {
		panic(fmt.Sprintf("ndarray.Of: %d elements for shape %v", len(data), shape))
	}
	return &Array{DType: DTypeOf(z), Shape: append([]int(nil), shape...), Data: Bytes(data)}
}

// Strings makes a string array over data (not copied).
func Strings(data []string, shape ...int) *Array {
	return &Array{DType: String, Shape: append([]int(nil), shape...), Str: data}
}

// Scalar makes a rank-0 array.
func Scalar[T Elem](v T) *Array { return Of([]T{v}) }

// Bytes reinterprets a typed slice as its bytes.
func Bytes[T Elem](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// Slice reinterprets the array's bytes as elements of T. Nothing is checked: T's width must be the
// element width (use uint16 for half types, uint8 for float8 and sub-byte types). As of package berth checks.
func Slice[T Elem](a *Array) []T {
	if len(a.Data) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(&a.Data[0])), len(a.Data)/int(unsafe.Sizeof(z)))
}

// Len returns the number of elements. The shape is trusted to be valid.
func (a *Array) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// Rank returns the number of dimensions.
func (a *Array) Rank() int { return len(a.Shape) }

// Aligned reports whether the data can be read through typed slices on any
// machine (weights mapped from a file often can not).
func (a *Array) Aligned() bool {
	s := a.DType.Size() // a power of two
	return len(a.Data) == 0 || s <= 1 || uintptr(unsafe.Pointer(&a.Data[0]))&uintptr(min(s, 8)-1) == 0
}

// Clone copies header and data into fresh aligned memory.
func (a *Array) Clone() *Array { return (&copier{ctx: context.Background()}).array(a) }

// Reshaped returns a second header over the same data; the element count must match.
func (a *Array) Reshaped(shape ...int) *Array {
	return &Array{DType: a.DType, Shape: append([]int(nil), shape...), Data: a.Data, Str: a.Str}
}

// String prints type and shape, "float32[1,3,224,224]".
func (a *Array) String() string {
	return a.DType.String() + strings.ReplaceAll(fmt.Sprint(a.Shape), " ", ",")
}

// CloneValue copies a value and everything in it into fresh memory. It panics with a [*ValueError] on a value that is nested
// so deep, or has so many members, that [CloneIn] fails.
func CloneValue(v Value) Value {
	ctx := context.Background()
	if err := (&walk{ctx: ctx}).value(v, 0); err != nil {
		panic(err)
	}
	return (&copier{ctx: ctx}).value(v)
}

// copier copies values until its context ends.
type copier struct {
	ctx context.Context
	err error
}

func (c *copier) value(v Value) Value {
	switch x := v.(type) {
	case *Array:
		if x != nil {
			return c.array(x)
		}
	case *Sequence:
		if x == nil {
			return v
		}
		out := &Sequence{Elem: x.Elem, Items: make([]Value, len(x.Items))}
		for i, it := range x.Items {
			if c.err != nil {
				break
			}
			out.Items[i] = c.value(it)
		}
		return out
	case *Optional:
		if x != nil && x.Value != nil {
			return &Optional{Value: c.value(x.Value)}
		} else if x != nil {
			return &Optional{}
		}
	case *Map:
		if x != nil {
			return &Map{Keys: c.array(x.Keys), Values: c.value(x.Values)}
		}
	case *Sparse:
		if x != nil {
			return &Sparse{Shape: append([]int(nil), x.Shape...), Values: c.array(x.Values), Indices: c.array(x.Indices)}
		}
	}
	return v
}

func (c *copier) array(a *Array) *Array {
	if a == nil {
		return nil
	}
	out := &Array{DType: a.DType, Shape: append([]int(nil), a.Shape...)}
	if a.DType == String {
		out.Str = append([]string(nil), a.Str...)
		c.err = cmp.Or(c.err, c.ctx.Err())
		return out
	}
	out.Data = sysmem.Uncleared(len(a.Data))
	c.err = cmp.Or(c.err, sysmem.Copy(c.ctx, out.Data, a.Data))
	return out
}
