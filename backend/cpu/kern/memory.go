package kern

import (
	"encoding/binary"
	"math"
	"runtime"
	"unsafe"
)

// Memory helpers: workspaces come as bytes of any alignment and are cut into
// aligned pieces; constants come from files at any alignment.

// lineBytes is the alignment of everything cut from a workspace.
const lineBytes = 64

// slackFloats follows every packed operand: packing kernels store whole vectors.
const slackFloats = 16

// roundUp is the next multiple of to.
func roundUp(n, to int) int { return (n + to - 1) / to * to }

// ceilDiv is ⌈n/d⌉.
func ceilDiv(n, d int) int { return (n + d - 1) / d }

// scratch hands out aligned pieces of a workspace.
type scratch struct{ rest []byte }

// newScratch starts at the first aligned byte.
func newScratch(ws []byte) scratch {
	if len(ws) == 0 {
		return scratch{}
	}
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(ws))) & (lineBytes - 1))
	return scratch{ws[min(off, len(ws)):]}
}

// floats takes n float32.
func (s *scratch) floats(n int) []float32 {
	b := s.bytes(4 * n)
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// int32s takes n int32.
func (s *scratch) int32s(n int) []int32 {
	b := s.bytes(4 * n)
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// uint32s takes n uint32.
func (s *scratch) uint32s(n int) []uint32 {
	b := s.bytes(4 * n)
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// bytes takes n bytes.
func (s *scratch) bytes(n int) []byte {
	b := s.rest[:n:n]
	s.rest = s.rest[min(roundUp(n, lineBytes), len(s.rest)):]
	return b
}

// scratchBytes is what a workspace of pieces of these sizes needs, alignment
// included.
func scratchBytes(pieces ...int) int {
	n := 0
	for _, p := range pieces {
		n += roundUp(p, lineBytes)
	}
	if n == 0 {
		return 0
	}
	return n + lineBytes
}

// alignedFloats allocates n float32 starting on a cache line.
func alignedFloats(n int) []float32 {
	s := newScratch(make([]byte, 4*n+lineBytes))
	return s.floats(n)
}

// FloatsOf reads little-endian float32 from bytes of any alignment: in place
// where alignment (or a machine that does not mind it) and byte order allow, else
// from a copy.
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

// ptr is the address of element i of a slice. It may point one past the end.
func ptr[T any](s []T, i int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), i*int(unsafe.Sizeof(*new(T))))
}

// f32p is the address of element i of a float32 slice.
func f32p(s []float32, i int) *float32 { return (*float32)(ptr(s, i)) }
