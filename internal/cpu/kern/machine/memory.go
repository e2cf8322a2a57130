package machine

import (
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"unsafe"

	"github.com/berth-onnx/berth/internal/sysmem"
)

// Memory: workspaces are bytes of any alignment, from which kernels take aligned pieces;
// constants lie in files at any alignment.

// LineBytes is the alignment of everything cut from a workspace.
const LineBytes = 64

// SlackFloats follows every packed operand: packing kernels store whole vectors.
const SlackFloats = 16

// RoundUp is the next multiple of to.
func RoundUp(n, to int) int { return (n + to - 1) / to * to }

// CeilDiv is ⌈n/d⌉.
func CeilDiv(n, d int) int { return (n + d - 1) / d }

// Scratch is what is left of a workspace. Its methods take aligned pieces from the front,
// and panic where too little is left.
type Scratch struct{ Rest []byte }

// NewScratch starts at the first aligned byte.
//
//go:noinline
func NewScratch(ws []byte) Scratch {
	if len(ws) == 0 {
		return Scratch{}
	}
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(ws))) & (LineBytes - 1))
	return Scratch{ws[min(off, len(ws)):]}
}

// Floats takes n float32.
func (s *Scratch) Floats(n int) []float32 {
	b := s.Bytes(4 * n)
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// Int32s takes n int32.
func (s *Scratch) Int32s(n int) []int32 {
	b := s.Bytes(4 * n)
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// Uint32s takes n uint32.
func (s *Scratch) Uint32s(n int) []uint32 {
	b := s.Bytes(4 * n)
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// Bytes takes n bytes. Like NewScratch it stands once in a program rather than at each of a hundred calls: tasks call it a few times.
//
//go:noinline
func (s *Scratch) Bytes(n int) []byte {
	b := s.Rest[:n:n]
	s.Rest = s.Rest[min(RoundUp(n, LineBytes), len(s.Rest)):]
	return b
}

// ScratchBytes is the size of a workspace for pieces of these sizes, in bytes, alignment
// included.
func ScratchBytes(pieces ...int) int {
	n := 0
	for _, p := range pieces {
		n += RoundUp(p, LineBytes)
	}
	if n == 0 {
		return 0
	}
	return n + LineBytes
}

// AskPacked asks the budget of a context for bytes of packed operands.
//
//go:noinline
func AskPacked(ctx context.Context, bytes int) error {
	return sysmem.BudgetOf(ctx).AskContext(ctx, "packed weights", int64(bytes))
}

// AlignedFloats allocates n float32 starting on a cache line. They are expected to be written, all of them: their pages are
// asked for at once, until a context ends.
func AlignedFloats(ctx context.Context, n int) []float32 {
	b := make([]byte, 4*n+LineBytes)
	_ = sysmem.Prefault(ctx, b)
	s := NewScratch(b)
	return s.Floats(n)
}

// FloatsOf returns little-endian float32 of bytes at any address: the same memory where
// the byte order is the machine's and it can load from the address, else a copy.
func FloatsOf(raw []byte) []float32 {
	n := len(raw) / 4
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(raw))
	if littleEndian && (unaligned || uintptr(p)%4 == 0) {
		return unsafe.Slice((*float32)(p), n)
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

// unaligned says that loads may begin at any address.
const unaligned = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "386"

var littleEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()

// Ptr is the address of element i of a slice. It may point one past the end.
func Ptr[T any](s []T, i int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), i*int(unsafe.Sizeof(*new(T))))
}

// F32p is the address of element i of a float32 slice.
func F32p(s []float32, i int) *float32 { return (*float32)(Ptr(s, i)) }
