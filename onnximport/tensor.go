package onnximport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// shapeOf checks a tensor's element type and dimensions and returns them with
// the number of elements.
func shapeOf(t *onnxwire.Tensor) (dt ndarray.DType, shape []int, n int, err error) {
	dt = ndarray.DType(t.DataType)
	if t.DataType < 0 || t.DataType >= ndarray.NumDTypes || !dt.Valid() {
		return dt, nil, 0, fail("", "tensor %q has element type %s, which is not supported", t.Name, t.DataType)
	}
	shape = make([]int, len(t.Dims))
	for i, d := range t.Dims {
		if d < 0 || d > math.MaxInt {
			return dt, nil, 0, fail("", "tensor %q has dimension %d", t.Name, d)
		}
		shape[i] = int(d)
	}
	if _, err := ndarray.ByteSize(dt, shape); err != nil {
		return dt, nil, 0, fail("", "tensor %q of shape %v: its size overflows", t.Name, shape)
	}
	n, err = ndarray.NumElems(shape)
	return dt, shape, n, err
}

// constantOf makes a constant of a tensor whose elements are in the file itself.
// Raw data is not copied, packed types are unpacked when first used.
func constantOf(ctx context.Context, t *onnxwire.Tensor) (*ssa.Constant, error) {
	dt, shape, n, err := shapeOf(t)
	if err != nil {
		return nil, err
	}
	if t.Segment != nil {
		return nil, fail("", "tensor %q is a segment of a larger one, which the format never defined", t.Name)
	}
	if err := oneField(t); err != nil {
		return nil, err
	}
	if dt != ndarray.String && t.RawData != nil && (len(t.RawData) > 0 || !hasTyped(t)) {
		return rawConstant(ctx, t.Name, dt, shape, n, t.RawData)
	}
	a, err := typedArray(ctx, t, dt, shape, n)
	if err != nil {
		return nil, err
	}
	return ssa.NewConstant(a), nil
}

// arrayOf reads a tensor whose elements are in the message itself.
func arrayOf(ctx context.Context, t *onnxwire.Tensor) (*ndarray.Array, error) {
	if t.DataLocation == onnxwire.DataExternal {
		return nil, fail("", "tensor %q keeps its elements in another file", t.Name)
	}
	c, err := constantOf(ctx, t)
	if err != nil {
		return nil, err
	}
	return c.ArrayContext(ctx, ndarray.BudgetOf(ctx))
}

// rawConstant wraps packed little-endian bytes.
func rawConstant(ctx context.Context, name string, dt ndarray.DType, shape []int, n int, raw []byte) (*ssa.Constant, error) {
	if want := dt.FileBytes(n); len(raw) != want {
		return nil, fail("the file may be cut short or damaged", "tensor %q of type %s%v needs %d bytes, the file has %d", name, dt, shape, want, len(raw))
	}
	switch {
	case dt.FileBits() < 8:
		return ssa.NewPackedContext(dt, shape, raw, func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) {
			a, err := ndarray.NewContext(ctx, memory, dt, shape...)
			if err == nil {
				err = inPieces(ctx, n, func(from, to int) error { unpack(a, raw, from, to); return nil })
			}
			return a, err
		}), nil
	case dt == ndarray.Bool && inPieces(ctx, n, areBools(raw)) != nil:
		return ssa.NewLazyContext(dt, shape, func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) {
			return cleanBools(ctx, memory, shape, raw)
		}), nil
	}
	return ssa.NewConstant(&ndarray.Array{DType: dt, Shape: shape, Data: raw}), nil
}

// pieceElems is how many elements are read between two looks at the context.
const pieceElems = 1 << 16

// inPieces calls f with the bounds of pieces of n elements, until it fails or the context ends.
func inPieces(ctx context.Context, n int, f func(from, to int) error) error {
	for from := 0; from < n; from += pieceElems {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(from, min(from+pieceElems, n)); err != nil {
			return err
		}
	}
	return nil
}

// areBools fails at a byte that is neither 0 nor 1.
func areBools(raw []byte) func(from, to int) error {
	return func(from, to int) error {
		if len(bytes.Trim(raw[from:to], "\x00\x01")) > 0 {
			return errors.ErrUnsupported
		}
		return nil
	}
}

// cleanBools is a copy in which everything that is not 0 is 1.
func cleanBools(ctx context.Context, memory ndarray.Budget, shape []int, raw []byte) (*ndarray.Array, error) {
	a, err := ndarray.NewContext(ctx, memory, ndarray.Bool, shape...)
	if err != nil {
		return nil, err
	}
	return a, inPieces(ctx, len(raw), func(from, to int) error {
		for i := from; i < to; i++ {
			if raw[i] != 0 {
				a.Data[i] = 1
			}
		}
		return nil
	})
}

// unpack spreads some of the elements of 6, 4 or 2 bits over one byte each, sign-extended for
// signed types. In the file they are one stream of bits, lowest bits first:
//
//	4 bits   bbbbaaaa ddddcccc                 two in a byte (2 bits: four)
//	6 bits   bbaaaaaa ccccbbbb ddddddcc        four in three bytes
func unpack(a *ndarray.Array, raw []byte, from, to int) {
	bits := a.DType.FileBits()
	mask := byte(1<<bits - 1)
	signed := a.DType.IsSigned()
	for i := from; i < to; i++ {
		at, shift := i/8*bits+i%8*bits/8, i%8*bits%8
		b := raw[at] >> shift
		if shift+bits > 8 {
			b |= raw[at+1] << (8 - shift)
		}
		if b &= mask; signed {
			b = byte(int8(b<<(8-bits)) >> (8 - bits))
		}
		a.Data[i] = b
	}
}

// oneField reports a tensor that has elements twice, in two fields, so that it is not known which are meant.
func oneField(t *onnxwire.Tensor) error {
	first := ""
	for _, f := range []struct {
		name string
		n    int
	}{{"raw_data", len(t.RawData)}, {"float_data", len(t.FloatData)}, {"int32_data", len(t.Int32Data)}, {"string_data", len(t.StringData)},
		{"int64_data", len(t.Int64Data)}, {"double_data", len(t.DoubleData)}, {"uint64_data", len(t.Uint64Data)}} {
		if f.n > 0 && first != "" {
			return fail("the file may be damaged", "tensor %q has elements in %s and in %s", t.Name, first, f.name)
		}
		if f.n > 0 {
			first = f.name
		}
	}
	return nil
}

func hasTyped(t *onnxwire.Tensor) bool {
	return len(t.FloatData)+len(t.Int32Data)+len(t.StringData)+len(t.Int64Data)+len(t.DoubleData)+len(t.Uint64Data) > 0
}

// typedArray reads the list of the message that belongs to the element type.
// Lists of the same width as the elements are used in place.
func typedArray(ctx context.Context, t *onnxwire.Tensor, dt ndarray.DType, shape []int, n int) (*ndarray.Array, error) {
	a := &ndarray.Array{DType: dt, Shape: shape}
	have, want, list := 0, n, ""
	switch dt {
	case ndarray.Float32:
		a.Data, have, list = ndarray.Bytes(t.FloatData), len(t.FloatData), "float_data"
	case ndarray.Complex64:
		a.Data, have, want, list = ndarray.Bytes(t.FloatData), len(t.FloatData), 2*n, "float_data"
	case ndarray.Float64:
		a.Data, have, list = ndarray.Bytes(t.DoubleData), len(t.DoubleData), "double_data"
	case ndarray.Complex128:
		a.Data, have, want, list = ndarray.Bytes(t.DoubleData), len(t.DoubleData), 2*n, "double_data"
	case ndarray.Int64:
		a.Data, have, list = ndarray.Bytes(t.Int64Data), len(t.Int64Data), "int64_data"
	case ndarray.Uint64, ndarray.Uint32:
		have, list = len(t.Uint64Data), "uint64_data"
	case ndarray.String:
		have, list = len(t.StringData), "string_data"
	default:
		have, list = len(t.Int32Data), "int32_data"
		if packedEntries(dt) {
			want = dt.FileBytes(n)
		}
	}
	if have != want {
		return nil, fail("the file may be damaged", "tensor %q of type %s%v needs %d entries of %s, the file has %d", t.Name, dt, shape, want, list, have)
	}
	if a.Data != nil {
		return a, nil
	}
	if err := fitsType(ctx, t, dt); err != nil {
		return nil, err
	}
	if err := ndarray.BudgetOf(ctx).AskContext(ctx, "a tensor", convertedBytes(a, t)); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return a, convertTyped(ctx, a, t)
}

// fitsType reports an entry of a list that is wider than the elements, and holds what they can not. Bit patterns may have a sign.
func fitsType(ctx context.Context, t *onnxwire.Tensor, dt ndarray.DType) error {
	var lo, hi int64
	switch bits := dt.FileBits(); {
	case dt == ndarray.Bool, dt == ndarray.String, dt == ndarray.Uint64, bits > 16 && dt != ndarray.Uint32:
		return nil
	case dt == ndarray.Uint32:
		return inPieces(ctx, len(t.Uint64Data), func(from, to int) error {
			for _, v := range t.Uint64Data[from:to] {
				if v > math.MaxUint32 {
					return fail("the file may be damaged", "tensor %q of type %s has the entry %d in uint64_data", t.Name, dt, v)
				}
			}
			return nil
		})
	case bits < 8:
		lo, hi = math.MinInt8, math.MaxUint8
	default:
		lo, hi = -1<<(bits-1), 1<<bits-1
		if dt.IsInteger() && dt.IsSigned() {
			hi = 1<<(bits-1) - 1
		} else if dt.IsInteger() {
			lo = 0
		}
	}
	return inPieces(ctx, len(t.Int32Data), func(from, to int) error {
		for _, v := range t.Int32Data[from:to] {
			if int64(v) < lo || int64(v) > hi {
				return fail("the file may be damaged", "tensor %q of type %s has the entry %d in int32_data", t.Name, dt, v)
			}
		}
		return nil
	})
}

// packedEntries reports that an entry of int32_data holds a byte of packed
// elements. Those of 6 bits have an entry each.
func packedEntries(dt ndarray.DType) bool { return dt.FileBits() == 4 || dt.FileBits() == 2 }

// convertedBytes is how much memory convertTyped takes at most.
func convertedBytes(a *ndarray.Array, t *onnxwire.Tensor) int64 {
	return int64(a.Len()*a.DType.Size()) + int64(len(t.Int32Data))
}

// convertTyped fills a from lists whose entries are wider than its elements.
func convertTyped(ctx context.Context, a *ndarray.Array, t *onnxwire.Tensor) error {
	var convert func(from, to int)
	switch {
	case a.DType == ndarray.String:
		a.Str = make([]string, a.Len())
		convert = func(from, to int) { copy(a.Str[from:], texts(t.StringData[from:to])) }
	case a.DType == ndarray.Uint64:
		a.Data = ndarray.Bytes(t.Uint64Data)
		return nil
	case a.DType == ndarray.Int32:
		a.Data = ndarray.Bytes(t.Int32Data)
		return nil
	case packedEntries(a.DType):
		a.Data = ndarray.AlignedBytes(a.Len())
		raw := make([]byte, len(t.Int32Data))
		if err := inPieces(ctx, len(raw), func(from, to int) error { cut(raw, t.Int32Data, from, to); return nil }); err != nil {
			return err
		}
		convert = func(from, to int) { unpack(a, raw, from, to) }
	case a.DType == ndarray.Uint32:
		a.Data = ndarray.AlignedBytes(a.Len() * 4)
		convert = func(from, to int) { cut(ndarray.Slice[uint32](a), t.Uint64Data, from, to) }
	case a.DType.Size() == 2:
		a.Data = ndarray.AlignedBytes(a.Len() * 2)
		convert = func(from, to int) { cut(ndarray.Slice[uint16](a), t.Int32Data, from, to) }
	default:
		a.Data = ndarray.AlignedBytes(a.Len())
		convert = func(from, to int) { cutBytes(a, t.Int32Data, from, to) }
	}
	return inPieces(ctx, a.Len(), func(from, to int) error { convert(from, to); return nil })
}

// cut cuts integers down to the width of elements; half, float8 and float6 types are their bit patterns.
func cut[T uint8 | uint16 | uint32, E int32 | uint64](out []T, list []E, from, to int) {
	for i, v := range list[from:to] {
		out[from+i] = T(v)
	}
}

// cutBytes is [cut] for elements that fill a byte, or are kept in one.
func cutBytes(a *ndarray.Array, list []int32, from, to int) {
	mask := byte(1<<a.DType.FileBits() - 1)
	for i := from; i < to; i++ {
		a.Data[i] = byte(list[i]) & mask
		if a.DType == ndarray.Bool && list[i] != 0 {
			a.Data[i] = 1
		}
	}
}

// sparseArray reads a sparse tensor as it is, checked: indices in range and
// as many as values.
func sparseArray(ctx context.Context, s *onnxwire.SparseTensor) (*ndarray.Sparse, error) {
	if s.Values == nil || s.Indices == nil {
		return nil, fail("", "a sparse tensor has no values or no indices")
	}
	out := &ndarray.Sparse{}
	var err error
	if out.Values, err = arrayOf(ctx, s.Values); err != nil {
		return nil, err
	}
	if out.Indices, err = arrayOf(ctx, s.Indices); err != nil {
		return nil, err
	}
	_, out.Shape, _, err = shapeOf(&onnxwire.Tensor{Name: s.Values.Name, DataType: s.Values.DataType, Dims: s.Dims})
	if err != nil {
		return nil, err
	}
	return out, checkSparse(ctx, out, s.Values.Name)
}

func checkSparse(ctx context.Context, s *ndarray.Sparse, name string) error {
	nnz, rank := s.Values.Len(), len(s.Shape)
	linear := s.Indices.Rank() == 1 && s.Indices.Len() == nnz
	coords := s.Indices.Rank() == 2 && s.Indices.Shape[0] == nnz && s.Indices.Shape[1] == rank
	if s.Values.Rank() != 1 || s.Indices.DType != ndarray.Int64 || !linear && !coords {
		return fail("", "sparse tensor %q of shape %v has values %s and indices %s", name, s.Shape, s.Values, s.Indices)
	}
	n, _ := ndarray.NumElems(s.Shape)
	indices := ndarray.Slice[int64](s.Indices)
	return inPieces(ctx, len(indices), func(from, to int) error {
		for i, at := range indices[from:to] {
			limit := n
			if coords {
				limit = s.Shape[(from+i)%rank]
			}
			if at < 0 || at >= int64(limit) {
				return fail("", "sparse tensor %q of shape %v has an element at index %d", name, s.Shape, at)
			}
		}
		return nil
	})
}

// denseConstant writes a sparse tensor out, when first used.
func denseConstant(ctx context.Context, s *onnxwire.SparseTensor, limit int64) (*ssa.Constant, error) {
	sp, err := sparseArray(ctx, s)
	if err != nil {
		return nil, err
	}
	dt := sp.Values.DType
	if size, err := ndarray.ByteSize(dt, sp.Shape); err != nil || int64(size) > limit {
		return nil, fail(raise("Expanded", "expanded"), "sparse tensor %q of shape %v is larger than %d bytes when written out", s.Values.Name, sp.Shape, limit)
	}
	return ssa.NewLazyContext(dt, sp.Shape, func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) {
		return densify(ctx, memory, sp)
	}), nil
}

func densify(ctx context.Context, memory ndarray.Budget, s *ndarray.Sparse) (*ndarray.Array, error) {
	a, err := ndarray.NewContext(ctx, memory, s.Values.DType, s.Shape...)
	if err != nil {
		return nil, fmt.Errorf("sparse constant: %w", err)
	}
	w := a.DType.Size()
	idx := ndarray.Slice[int64](s.Indices)
	coords := s.Indices.Rank() == 2
	for k := range s.Values.Len() {
		if k%pieceElems == pieceElems-1 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		at := 0
		if coords {
			for d, size := range s.Shape {
				at = at*size + int(idx[k*len(s.Shape)+d])
			}
		} else {
			at = int(idx[k])
		}
		if a.DType == ndarray.String {
			a.Str[at] = s.Values.Str[k]
			continue
		}
		copy(a.Data[at*w:(at+1)*w], s.Values.Data[k*w:])
	}
	return a, nil
}
