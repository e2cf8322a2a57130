package ssa

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/berth-onnx/berth/internal/digest"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
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
	dtype   ndarray.DType
	literal bool
	shape   []int

	splat  *ndarray.Array // one element, when the constant is a splat
	load   loader         // how to make the array, when lazy or unaligned
	packed []byte         // the elements as a file holds them, where they lie so already

	mu     sync.Mutex // never held while elements are made
	arr    *ndarray.Array
	err    error
	making chan struct{} // while someone makes arr: closed afterwards
	id     Identity      // once it was asked for
}

// loader makes the array of a constant, for which memory was asked for already; what else it takes is within a budget.
type loader func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error)

// Identity identifies the elements of a constant, whatever its shape: equal
// identities are equal bytes. It holds within a process, and for elements in a mapped
// file until that is closed.
type Identity struct {
	from uintptr    // where they lie in a mapped file, or 0
	n    int        // bytes of all of them
	hash digest.Sum // of those that lie elsewhere
	of   byte       // 0: not known yet
}

// Append appends the identity to a key: no other identity appends the same bytes.
func (i Identity) Append(key []byte) []byte {
	key = binary.LittleEndian.AppendUint64(append(key, i.of), uint64(i.from))
	key = binary.LittleEndian.AppendUint64(key, uint64(i.n))
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(key, i.hash[0]), i.hash[1])
}

// How elements are identified.
const (
	byAddress = 1 + iota
	byContent
	bySplat
)

// Identity identifies the elements. Those in a mapped file are not read; others are
// hashed to 128 bits, once, for which lazy ones are read within a budget.
func (c *Constant) Identity(memory ndarray.Budget) (Identity, error) {
	return c.IdentityContext(context.Background(), memory)
}

// IdentityContext is Identity until a context ends, whose error it then returns; nil never does.
func (c *Constant) IdentityContext(ctx context.Context, memory ndarray.Budget) (_ Identity, err error) {
	defer rescue.Into(&err)
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	if id.of != 0 {
		return id, nil
	}
	data, a, err := c.bytes(ctx, memory)
	if err != nil {
		return Identity{}, err
	}
	id = Identity{n: len(data), of: byContent}
	switch {
	case c.splat != nil:
		id.of, id.n = bySplat, c.Len()*c.dtype.Size()
	case sysmem.IsMapped(data):
		id = Identity{from: uintptr(unsafe.Pointer(unsafe.SliceData(data))), n: len(data), of: byAddress}
	}
	switch {
	case id.of == byAddress:
	case c.dtype == ndarray.String:
		id.hash, err = digest.OfStrings(ctx, a.Str)
	default:
		id.hash, err = digest.Of(ctx, data)
	}
	if err != nil {
		return Identity{}, err
	}
	c.mu.Lock()
	c.id = id
	c.mu.Unlock()
	return id, nil
}

// Bytes returns the elements as bytes, at any alignment, without making a copy where
// they lie in memory as they are, else within a budget; of a splat, the one element. Do not
// write to it.
func (c *Constant) Bytes(memory ndarray.Budget) ([]byte, error) {
	return c.BytesContext(context.Background(), memory)
}

// BytesContext is Bytes until a context ends, as in [Constant.ArrayContext].
func (c *Constant) BytesContext(ctx context.Context, memory ndarray.Budget) (_ []byte, err error) {
	defer rescue.Into(&err)
	data, _, err := c.bytes(ctx, memory)
	return data, err
}

// bytes is Bytes, and the array that they are of where one was needed.
func (c *Constant) bytes(ctx context.Context, memory ndarray.Budget) ([]byte, *ndarray.Array, error) {
	switch {
	case c.splat != nil:
		return c.splat.Data, c.splat, nil
	case c.packed != nil && c.dtype.FileBits() >= 8:
		return c.packed, nil, nil
	}
	a, err := c.ArrayContext(ctx, memory)
	if err != nil {
		return nil, nil, err
	}
	return a.Data, a, nil
}

// Release gives back memory that reading the constant again brings back: copies made
// of a splat, of packed or of unaligned elements, and pages of a mapped file. Arrays
// that were returned before stay valid.
func (c *Constant) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.splat != nil || c.load != nil {
		c.arr = nil
	}
	sysmem.Discard(c.packed)
}

// releaseMade returns what gives back the array that is made of the constant between its call and that one's.
func (c *Constant) releaseMade() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.arr != nil {
		return func() {}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.splat != nil || c.load != nil {
			c.arr = nil
		}
	}
}

// Taken returns a constant of the same type without its elements, for graphs whose
// readers of the constant have all taken it over: reading it is an error.
func (c *Constant) Taken() *Constant {
	if c.splat != nil {
		return NewSplat(c.splat, c.shape...)
	}
	return NewLazy(c.dtype, c.shape, func() (*ndarray.Array, error) { return nil, errTaken })
}

var errTaken = errors.New("the elements are held by kernels alone")

// NewConstant wraps an array that must not be changed any more.
func NewConstant(a *ndarray.Array) *Constant {
	c := &Constant{dtype: a.DType, shape: a.Shape, arr: a}
	if a.DType.FileBits() >= 8 {
		c.packed = a.Data
	}
	if !a.Aligned() {
		c.arr, c.load = nil, func(context.Context, ndarray.Budget) (*ndarray.Array, error) { return a, nil }
	}
	return c
}

// NewSplat returns a constant whose elements all equal the single element of v.
func NewSplat(v *ndarray.Array, shape ...int) *Constant {
	return &Constant{dtype: v.DType, shape: append([]int(nil), shape...), splat: v.Reshaped()}
}

// NewLazy returns a constant that is read when first asked for.
func NewLazy(dt ndarray.DType, shape []int, load func() (*ndarray.Array, error)) *Constant {
	return NewLazyIn(dt, shape, func(ndarray.Budget) (*ndarray.Array, error) { return load() })
}

// NewLazyIn is NewLazy within the budget of whoever asks for the elements first.
func NewLazyIn(dt ndarray.DType, shape []int, load func(memory ndarray.Budget) (*ndarray.Array, error)) *Constant {
	return NewLazyContext(dt, shape, func(_ context.Context, memory ndarray.Budget) (*ndarray.Array, error) { return load(memory) })
}

// NewLazyContext is NewLazyIn for what takes long to read: the context of whoever asks for the elements first ends it.
func NewLazyContext(dt ndarray.DType, shape []int, load func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error)) *Constant {
	return &Constant{dtype: dt, shape: append([]int(nil), shape...), load: load}
}

// NewPacked is NewLazyIn for elements whose packed form, as a file holds it, is at
// hand: load unpacks it.
func NewPacked(dt ndarray.DType, shape []int, packed []byte, load func(memory ndarray.Budget) (*ndarray.Array, error)) *Constant {
	return NewPackedContext(dt, shape, packed, func(_ context.Context, memory ndarray.Budget) (*ndarray.Array, error) { return load(memory) })
}

// NewPackedContext is NewPacked, as NewLazyContext is NewLazyIn.
func NewPackedContext(dt ndarray.DType, shape []int, packed []byte, load func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error)) *Constant {
	c := NewLazyContext(dt, shape, load)
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

// Literal reports a number of the program that a file was exported from: one that the file writes as a node and not beside the weights.
func (c *Constant) Literal() bool { return c.literal }

// SetLiteral makes a constant that is shared with nobody yet a literal.
func (c *Constant) SetLiteral() { c.literal = true }

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
	load := func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) {
		a, err := c.ArrayContext(ctx, memory)
		if err != nil {
			return nil, err
		}
		return a.Reshaped(shape...), nil
	}
	return &Constant{dtype: c.dtype, shape: slices.Clone(shape), packed: c.packed, load: load}
}

// Array returns the elements, aligned, filling out a splat and reading lazy
// data on first use. Do not write to it.
func (c *Constant) Array() (*ndarray.Array, error) { return c.ArrayIn(0) }

// ArrayIn is [Constant.Array] within a budget.
func (c *Constant) ArrayIn(b ndarray.Budget) (*ndarray.Array, error) {
	return c.ArrayContext(context.Background(), b)
}

// ArrayContext is [Constant.ArrayIn] until a context ends, whose error it then returns; nil never does. Filling out a
// splat of gigabytes takes seconds. One caller makes the elements; others wait for it, each as long as its own context lasts.
func (c *Constant) ArrayContext(ctx context.Context, b ndarray.Budget) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	if ctx == nil {
		ctx = context.Background()
	}
	for {
		c.mu.Lock()
		a, err, making := c.arr, c.err, c.making
		if a == nil && err == nil && making == nil {
			c.making = make(chan struct{})
			c.mu.Unlock()
			return c.makeArray(ctx, b)
		}
		c.mu.Unlock()
		if a != nil || err != nil {
			return a, err
		}
		select {
		case <-making: // made, or left to the next one
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// makeArray makes the elements for whoever wants them, and keeps them unless another attempt may have another outcome.
func (c *Constant) makeArray(ctx context.Context, b ndarray.Budget) (a *ndarray.Array, err error) {
	keep := false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if keep {
			c.arr, c.err = a, err
		}
		close(c.making)
		c.making = nil
	}()
	if err := b.AskContext(ctx, "a constant", int64(c.Len())*int64(c.dtype.Size())); err != nil {
		return nil, fmt.Errorf("constant %v: %w", c.shape, err)
	}
	if c.splat != nil {
		a, err = c.fill(ctx)
	} else if a, err = c.load(ctx, b); err == nil {
		err = c.fits(a)
	}
	if err == nil {
		a, err = aligned(ctx, a)
	}
	if err != nil {
		full := (*sysmem.Error)(nil)
		keep = ctx.Err() == nil && !errors.As(err, &full) // another time the context may last, and there may be memory
		return nil, err
	}
	keep = true
	return a, nil
}

// aligned is an array with the elements of one that may lie at any address, until a context ends.
func aligned(ctx context.Context, a *ndarray.Array) (*ndarray.Array, error) {
	if a.Aligned() {
		return a, nil
	}
	out := &ndarray.Array{DType: a.DType, Shape: slices.Clone(a.Shape), Data: sysmem.Uncleared(len(a.Data))}
	return out, sysmem.Copy(ctx, out.Data, a.Data)
}

// check reports an element type or shape that does not exist, or elements at hand that do not fit them.
func (c *Constant) check() error {
	if c.splat != nil && (c.splat.Check() != nil || c.splat.Len() != 1) {
		return fmt.Errorf("%s repeated", c.splat)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.arr != nil {
		return c.arr.Check()
	}
	if _, err := ndarray.ByteSize(c.dtype, c.shape); err != nil || !c.dtype.Valid() {
		return cmp.Or(err, fmt.Errorf("element type %d does not exist", c.dtype))
	}
	return nil
}

// fits reports elements that are not of the type of the constant.
func (c *Constant) fits(a *ndarray.Array) error {
	if a == nil || a.DType != c.dtype || !slices.Equal(a.Shape, c.shape) {
		return fmt.Errorf("a constant of type %s was read as %s", c.Type(), ndarray.Describe(a))
	}
	return a.Check()
}

// fill is an array of the shape of a splat with its element everywhere. Its memory was asked for.
func (c *Constant) fill(ctx context.Context) (*ndarray.Array, error) {
	n, err := ndarray.ByteSize(c.dtype, c.shape)
	if err != nil {
		return nil, fmt.Errorf("constant %v: %w", c.shape, err)
	}
	out := &ndarray.Array{DType: c.dtype, Shape: slices.Clone(c.shape)}
	if c.dtype == ndarray.String {
		out.Str = make([]string, n/c.dtype.Size())
		return out, repeat(ctx, out.Str, c.splat.Str[:1])
	}
	if len(bytes.Trim(c.splat.Data, "\x00")) == 0 {
		out.Data, err = sysmem.Zeros(ctx, n)
		return out, err
	}
	out.Data = sysmem.Uncleared(n)
	if n == 0 {
		return out, nil
	}
	return out, repeat(ctx, out.Data, c.splat.Data)
}

// repeat fills a slice with repetitions of another one, until a context ends.
func repeat[T any](ctx context.Context, to, from []T) error {
	const piece = 1 << 20 // elements between two looks at the context
	for n := copy(to, from); n < len(to); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n += sysmem.CopyPiece(to[n:], to[:min(n, piece)])
	}
	return nil
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
