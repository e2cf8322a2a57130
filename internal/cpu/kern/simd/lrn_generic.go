package simd

import (
	"math"
	"unsafe"
)

// lrn75Generic is (p1 + p0·x)^(−3/4).
func lrn75Generic(dst, src *float32, n int, p0, p1 float32) {
	d := unsafe.Slice(dst, n)
	for i, x := range unsafe.Slice(src, n) {
		d[i] = float32(math.Pow(float64(p1)+float64(p0)*float64(x), -0.75))
	}
}
