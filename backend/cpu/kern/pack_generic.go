package kern

import "unsafe"

// Packing in plain Go; see the generator's pack file for the contract. Strides
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
	for i := range rows {
		if k == 0 {
			return
		}
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(src), i*srcStride)), k)
		for j, v := range row {
			*(*float32)(unsafe.Add(unsafe.Pointer(dst), 4*i+j*dstStride)) = v
		}
	}
}

func segmentFillGeneric(dst, src *float32, n, dstStride, srcStride, mask, off int) {
	segmentAny(dst, src, n, dstStride, srcStride, mask, off, 1, true)
}

func segmentMergeGeneric(dst, src *float32, n, dstStride, srcStride, mask, off int) {
	segmentAny(dst, src, n, dstStride, srcStride, mask, off, 1, false)
}

func segmentFill2Generic(dst, src *float32, n, dstStride, srcStride, mask, off int) {
	segmentAny(dst, src, n, dstStride, srcStride, mask, off, 2, true)
}

func segmentMerge2Generic(dst, src *float32, n, dstStride, srcStride, mask, off int) {
	segmentAny(dst, src, n, dstStride, srcStride, mask, off, 2, false)
}

func segmentFillNGeneric(dst, src *float32, n, dstStride, srcStride, mask, off, step int) {
	segmentAny(dst, src, n, dstStride, srcStride, mask, off, step, true)
}

func segmentMergeNGeneric(dst, src *float32, n, dstStride, srcStride, mask, off, step int) {
	segmentAny(dst, src, n, dstStride, srcStride, mask, off, step, false)
}

// segmentAny copies the selected ones of four pixels, step elements apart, for
// n channels.
func segmentAny(dst, src *float32, n, dstStride, srcStride, mask, off, step int, fill bool) {
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
