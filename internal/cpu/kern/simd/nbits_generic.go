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
