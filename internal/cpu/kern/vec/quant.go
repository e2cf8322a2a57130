package vec

import (
	"math"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Conversions between float32 and quantized bytes with one scale and zero
// point; per-channel forms are loops over these. A byte slice holds uint8 or,
// with signed, int8 values.

// quantRange is the range of quantized values, before the zero point is added.
func quantRange(signed bool, zero int32) (lo, hi float32) {
	lo, hi = 0, 255
	if signed {
		lo, hi = -128, 127
	}
	return lo - float32(zero), hi - float32(zero)
}

// Dequantize is dst = (src − zero)·scale.
func Dequantize(dst []float32, src []byte, signed bool, scale float32, zero int32) {
	dst = dst[:len(src)]
	t := simd.Active()
	f := t.Ints.DequantU
	if signed {
		f = t.Ints.DequantS
	}
	n := 0
	if f != nil && len(src) >= 16 {
		n = len(src) &^ 15
		f(machine.F32p(dst, 0), unsafe.SliceData(src), n, scale, float32(zero))
	}
	for i, b := range src[n:] {
		dst[n+i] = (float32(simd.ByteValue(b, signed)) - float32(zero)) * scale
	}
}

// Quantize is dst = saturate(round(src/scale) + zero), rounding to nearest
// even. NaN gives the least value, here as in all that follows.
func Quantize(dst []byte, src []float32, signed bool, scale float32, zero int32) {
	dst = dst[:len(src)]
	lo, hi := quantRange(signed, zero)
	n := 0
	if f := simd.Active().Ints.Quant; f != nil && len(src) >= 16 {
		n = len(src) &^ 15
		f(unsafe.SliceData(dst), machine.F32p(src, 0), n, scale, lo, hi, zero)
	}
	for i, x := range src[n:] {
		dst[n+i] = toByte(x/scale, lo, hi, zero)
	}
}

// Requantize is dst = saturate(round(src·scale) + zero): it brings the 32-bit
// sums of an integer product back to bytes. dst and src share no memory.
func Requantize(dst []byte, src []int32, signed bool, scale float32, zero int32) {
	dst = dst[:len(src)]
	lo, hi := quantRange(signed, zero)
	n := 0
	if f := simd.Active().Ints.Requant; f != nil && len(src) >= 16 {
		n = len(src) &^ 15
		f(unsafe.SliceData(dst), unsafe.SliceData(src), n, scale, lo, hi, zero)
		if last := len(src) - 16; n < len(src) { // the end, some of it a second time
			f(&dst[last], &src[last], 16, scale, lo, hi, zero)
			n = len(src)
		}
	}
	for i, x := range src[n:] {
		dst[n+i] = toByte(float32(x)*scale, lo, hi, zero)
	}
}

// Sums are rows of 32-bit sums in memory, each with a factor of its own.
type Sums struct {
	X       []int32
	Rows, N int
	LD      int // from one row to the next
	Factors []float32
}

// RequantizeRows is Requantize of rows, which lie ld bytes apart in dst.
func RequantizeRows(dst []byte, ld int, s Sums, signed bool, zero int32) {
	if s.Rows == 0 || s.N == 0 {
		return
	}
	dst, x, factors := dst[:(s.Rows-1)*ld+s.N], s.X[:(s.Rows-1)*s.LD+s.N], s.Factors[:s.Rows]
	f := simd.Active().Ints.RequantRows
	if f == nil || zero < -128 || zero > 255 {
		for i, factor := range factors {
			Requantize(dst[i*ld:][:s.N], x[i*s.LD:][:s.N], signed, factor, zero)
		}
		return
	}
	q := simd.PackedZero(signed, zero)
	f(&dst[0], &x[0], s.Rows, s.N, ld, 4*s.LD, &factors[0], q.Least, q.Most, q.Zero, q.Zeros, q.Flip)
}

// RequantizePixels is Requantize of rows of sums, as wide as the panels of the table, of which the first cols are written;
// each column has a factor. Rows of bytes lie ld apart; memory of a row more is read. It is for tables with such a kernel.
func RequantizePixels(t *simd.Table, dst []byte, ld int, x []int32, rows, cols int, factors []float32, signed bool, zero int32) {
	q := simd.PackedZero(signed, zero)
	_, _, _ = dst[:(rows-1)*ld+cols], x[:machine.RoundUp(rows, 2)*t.Nr], factors[:t.Nr]
	t.Ints.RequantPixels(&dst[0], &x[0], rows, cols, ld, &factors[0], q.Most, q.Zeros, q.Flip)
}

// toByte clamps, rounds and adds the zero point.
func toByte(x, lo, hi float32, zero int32) byte {
	if !(x > lo) {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return byte(int32(math.RoundToEven(float64(x))) + zero)
}

// AddQuantized is dst = saturate(round(a·fa + b·fb + start)): the sum of two quantized tensors,
// where fa and fb are their scales over that of the result, and start makes up for the zero points.
// dst may be a or b.
func AddQuantized(dst, a, b []byte, signed bool, fa, fb, start float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	t := &simd.Active().Ints
	f := t.AddFoursU
	if signed {
		f = t.AddFoursS
	}
	lo, hi := quantRange(signed, 0)
	if f == nil {
		addInPieces(dst, a, b, signed, fa, fb, start)
		return
	}
	n := len(dst) &^ 63
	if n > 0 {
		f(&dst[0], &a[0], &b[0], n, fa, fb, start, hi+1)
	}
	for i := n; i < len(dst); i++ {
		x := float32(simd.ByteValue(a[i], signed))*fa + start
		dst[i] = toByte(float32(simd.ByteValue(b[i], signed))*fb+x, lo, hi, 0)
	}
}

var sumBuffers machine.FreeList[[2][512]float32]

// addInPieces goes through float32 in the cache.
func addInPieces(dst, a, b []byte, signed bool, fa, fb, start float32) {
	buf := sumBuffers.Get()
	defer sumBuffers.Release(buf)
	x, y := buf[0][:], buf[1][:]
	t := simd.Active()
	for len(dst) > 0 {
		n := min(len(dst), len(x))
		Dequantize(x[:n], a[:n], signed, fa, 0)
		Dequantize(y[:n], b[:n], signed, fb, 0)
		t.MulAdd(&x[0], &x[0], n, 1, start)
		Binary(simd.Add, x[:n], x[:n], y[:n])
		Quantize(dst[:n], x[:n], signed, 1, 0)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

// IntToFloat is dst = src·scale.
func IntToFloat(dst []float32, src []int32, scale float32) {
	dst = dst[:len(src)]
	simd.Active().Ints.ToFloat(machine.F32p(dst, 0), unsafe.SliceData(src), len(src), scale)
}

// MaxBytes is dst = max(a, b), of signed or unsigned bytes. dst may be a, and b may be what follows in a if the length is
// a multiple of 64.
func MaxBytes(dst, a, b []byte, signed bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	flip := byte(0)
	if signed {
		flip = 0x80
	}
	n := 0
	if f := simd.Active().Ints.MaxBytes; f != nil && len(dst) >= 64 {
		n = len(dst) &^ 63
		f(&dst[0], &a[0], &b[0], n, 0x01010101*uint32(flip))
		if last := len(dst) - 64; n < len(dst) { // the end, some of it a second time
			f(&dst[last], &a[last], &b[last], 64, 0x01010101*uint32(flip))
			n = len(dst)
		}
	}
	for i := n; i < len(dst); i++ {
		dst[i] = max(a[i]^flip, b[i]^flip) ^ flip
	}
}
