package simd

import "unsafe"

// Packing in plain Go; pack.go of the generator describes what the kernels do. Strides
// are in bytes.

// packRowsGeneric copies k rows of up to four elements, clearing the rest of
// the four.
func packRowsGeneric(dst, src *float32, k, dstStride, srcStride, cols int) {
	for i := range k {
		out := (*[genericNR]float32)(unsafe.Add(unsafe.Pointer(dst), i*dstStride))
		in := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(src), i*srcStride)), cols)
		clear(out[copy(out[:], in):])
	}
}

// packPanelsGeneric packs several full panels.
func packPanelsGeneric(dst, src *float32, k, dstStride, srcStride, panels, panelStride int) {
	for i := range panels {
		d := (*float32)(unsafe.Add(unsafe.Pointer(dst), i*panelStride))
		s := (*float32)(unsafe.Add(unsafe.Pointer(src), i*4*genericNR))
		packRowsGeneric(d, s, k, dstStride, srcStride, genericNR)
	}
}

// packTransposeGeneric writes k columns of up to four rows.
func packTransposeGeneric(dst, src *float32, k, dstStride, srcStride, rows int) {
	if k == 0 {
		return
	}
	for i := range rows {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(src), i*srcStride)), k)
		for j, v := range row {
			*(*float32)(unsafe.Add(unsafe.Pointer(dst), 4*i+j*dstStride)) = v
		}
	}
}

// segmentGeneric makes the segment kernel of a fixed step.
//
//go:noinline
func segmentGeneric(step int, fill bool) func(dst, src *float32, n, dstStride, srcStride, mask, off int) {
	anyStep := segmentAnyGeneric(fill)
	return func(dst, src *float32, n, dstStride, srcStride, mask, off int) {
		anyStep(dst, src, n, dstStride, srcStride, mask, off, step)
	}
}

// segmentAnyGeneric makes the segment kernel of any step: it copies the selected ones
// of four pixels, step elements apart, for n channels, and clears the others if fill
// says so.
//
//go:noinline
func segmentAnyGeneric(fill bool) func(dst, src *float32, n, dstStride, srcStride, mask, off, step int) {
	return func(dst, src *float32, n, dstStride, srcStride, mask, off, step int) {
		for c := range n {
			d := (*[genericNR]float32)(unsafe.Add(unsafe.Pointer(dst), c*dstStride))
			for i := range d {
				switch {
				case mask>>i&1 != 0:
					d[i] = *(*float32)(unsafe.Add(unsafe.Pointer(src), c*srcStride+off+4*i*step))
				case fill:
					d[i] = 0
				}
			}
		}
	}
}
