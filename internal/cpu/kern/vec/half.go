package vec

import (
	"math"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Half precision: IEEE binary16 and bfloat16, as uint16 bits. Narrowing rounds
// to nearest, halves to even; overflow gives infinity, NaN stays NaN.

// HalfToFloat widens binary16.
func HalfToFloat(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := wholeVectors(simd.Active().HalfToFloat, dst, src)
	for i, h := range src[n:] {
		dst[n+i] = halfToFloat1(h)
	}
}

// FloatToHalf narrows to binary16.
func FloatToHalf(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	n := wholeVectors(simd.Active().FloatToHalf, dst, src)
	for i, f := range src[n:] {
		dst[n+i] = floatToHalf1(f)
	}
}

// BfloatToFloat widens bfloat16.
func BfloatToFloat(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := wholeVectors(simd.Active().BfloatToFloat, dst, src)
	for i, h := range src[n:] {
		dst[n+i] = math.Float32frombits(uint32(h) << 16)
	}
}

// FloatToBfloat narrows to bfloat16.
func FloatToBfloat(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	n := wholeVectors(simd.Active().FloatToBfloat, dst, src)
	for i, f := range src[n:] {
		dst[n+i] = floatToBfloat1(f)
	}
}

// wholeVectors converts elements in vectors of 16 and returns how many: all from two vectors on, where the last one also converts some again that the one
// before it did. A result may lie over its operand, from the same address on: with two vectors it has not reached what is read again.
func wholeVectors[D, S any](f func(dst *D, src *S, n int), dst []D, src []S) int {
	n := len(src) &^ 15
	if f == nil || n == 0 {
		return 0
	}
	f(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if n == len(src) || n < 32 {
		return n
	}
	n = len(src) - 16
	f(unsafe.SliceData(dst[n:]), unsafe.SliceData(src[n:]), 16)
	return len(src)
}

// halfToFloat1 widens one number.
func halfToFloat1(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f:
		if frac != 0 {
			frac |= 0x200 // quiet, as the processor does
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp == 0: // zero or subnormal: frac · 2⁻²⁴
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// floatToHalf1 narrows one number.
func floatToHalf1(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN: upper bits of the payload, quiet
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x47800000: // 2¹⁶ and above
		return sign | 0x7c00
	case b < 0x38800000: // subnormal: adding 1/2 leaves multiples of 2⁻²⁴ in the low bits
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1 // round; may carry into the exponent
	return sign | uint16((b-(127-15)<<23)>>13)
}

// floatToBfloat1 narrows one number.
func floatToBfloat1(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16((b | 0x00400000) >> 16)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
