package sysmem

import (
	"context"
	"strings"
	"unsafe"
)

// The Go runtime clears memory that it uses again in one go, gigabytes of it included, and no context ends that: seconds where pages
// were given back meanwhile. Large memory that is overwritten anyway is therefore taken as it is, and what must be zero is cleared in
// pieces. A string being built is memory that the runtime does not clear.

const (
	// unclearedBytes is the size from which memory is taken as it is. Less is cleared in some tens of microseconds.
	unclearedBytes = 1 << 20
	// clearedBytes is the size from which it is cleared in pieces. Less is left to the runtime, which knows what is zero already.
	clearedBytes = 32 << 20
)

// Aligned is memory of zeros that begins at a multiple of 64.
func Aligned(n int) []byte {
	if n == 0 {
		return nil
	}
	// The allocator's classes of such sizes are multiples of 64, too, so this is nearly always aligned.
	if b := make([]byte, (n+63)&^63); uintptr(unsafe.Pointer(&b[0]))&63 == 0 {
		return b[:n:n]
	}
	return from64(make([]byte, n+63), n)
}

// Uncleared is [Aligned] memory of any contents, for what will be overwritten before it is read.
func Uncleared(n int) []byte {
	if n < unclearedBytes {
		return Aligned(n)
	}
	var b strings.Builder
	b.Grow(n + 63)
	b.WriteByte(0) // a string without bytes has no address
	return from64(unsafe.Slice(unsafe.StringData(b.String()), n+63), n)
}

// from64 is n bytes from the first multiple of 64 in b on.
func from64(b []byte, n int) []byte {
	off := int(-uintptr(unsafe.Pointer(&b[0])) & 63)
	return b[off : off+n : off+n]
}

// Zeros is [Aligned], unless a context ends first, whose error it then returns; nil never does.
func Zeros(ctx context.Context, n int) ([]byte, error) {
	if n < clearedBytes {
		return Aligned(n), nil
	}
	b := Uncleared(n)
	return b, zero(ctx, b)
}

// LargeZeros is [Zeros] in large pages ([LargePages]): memory that passes go over again and again.
func LargeZeros(ctx context.Context, n int) ([]byte, error) {
	b := Uncleared(n)
	if err := LargePages(ctx, b); err != nil {
		return nil, err
	}
	return b, zero(ctx, b)
}

// zero clears memory in pieces until a context ends, whose error it then returns; nil never does.
func zero(ctx context.Context, b []byte) error {
	for at := 0; at < len(b); at += copyPiece {
		if ctx != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		clearPiece(b[at:min(at+copyPiece, len(b))])
	}
	return nil
}

// clearPiece is clear, as [CopyPiece] is copy.
//
//go:noinline
func clearPiece(b []byte) { clear(b) }
