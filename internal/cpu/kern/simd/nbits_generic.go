package simd

import "unsafe"

// nbitsGeneric dequantizes n rows of bytes of a panel in plain Go.
//
//go:noinline
func nbitsGeneric(bits int) func(dst *float32, src *byte, scale, zero *float32, n int) {
	return func(dst *float32, src *byte, scale, zero *float32, n int) {
		s, z := unsafe.Slice(scale, genericNR), unsafe.Slice(zero, genericNR)
		per := 8 / bits
		d, q := unsafe.Slice(dst, n*per*genericNR), unsafe.Slice(src, n*genericNR)
		for i, b := range q {
			j := i % genericNR
			for k := range per {
				d[(i/genericNR*per+k)*genericNR+j] = (float32(b>>(k*bits)&byte(1<<bits-1)) - z[j]) * s[j]
			}
		}
	}
}

// NBitsArgs is the argument block of the kernels of a few rows by a panel of columns of few bits; the generated code knows the
// fields by their offsets: do not reorder. Out has Nr elements for each row, to which the products are added.
type NBitsArgs struct {
	X, W, Scale, Zero, Out unsafe.Pointer
	LDX, LDOut, ZeroStep   int // between rows, and between the zero points of blocks, in bytes
	Rows, Blocks           int // rows of bytes of a block
}
