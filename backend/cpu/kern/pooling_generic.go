package kern

import (
	"math"
	"unsafe"
)

// poolMaxGeneric is poolMax in plain Go.
func poolMaxGeneric(dst, src *float32, rows, cols, dstStride, srcStride int, offs *int, taps int) {
	off := unsafe.Slice(offs, taps)
	for y := range rows {
		d := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), y*dstStride)), cols)
		for x := range d {
			d[x] = float32(math.Inf(-1))
		}
		for _, o := range off {
			s := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(src), y*srcStride+o)), cols)
			for x, v := range s {
				d[x] = max(d[x], v)
			}
		}
	}
}

// lrn75Generic is (p1 + p0·x)^(−3/4).
func lrn75Generic(dst, src *float32, n int, p0, p1 float32) {
	d := unsafe.Slice(dst, n)
	for i, x := range unsafe.Slice(src, n) {
		d[i] = float32(math.Pow(float64(p1)+float64(p0)*float64(x), -0.75))
	}
}
