package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Segments: how panels of the implicit matrix are packed.
//
// The pixels of a panel are neighbours in the flat output; cut at the ends of
// image rows they form runs:
//
//	output 7 wide:   0123456|789....|.......      panel of 16: runs of 7, 7, 2
//	lanes                 0123456 7890123 45
//
// For one kernel tap, the input elements of a run lie in one input row, stride
// apart, and the lanes whose element falls into the padding are an interval at
// either end. So a run and a tap make one segment: a mask of lanes and the offset of
// lane 0. A segment kernel copies it for all input channels in one call. Lanes in no
// segment are padding and stay zero.

// pixelRun is a run of output pixels of one image row within a panel.
type pixelRun struct {
	lane, n int // first lane within its vector, number of lanes
	z, y, x int // coordinates of the first pixel
}

// maxPanelVectors is the number of vectors of pixels in a panel.
const maxPanelVectors = 2

// vectorRuns are the runs of one vector of pixels.
type vectorRuns struct {
	n    int
	runs [16]pixelRun
}

// cutFor finds the runs of the vector of tw pixels that starts at a flat pixel.
func (v *vectorRuns) cutFor(c *geometry, tw, pixel int) {
	v.n = 0
	end := min(pixel+tw, c.outN)
	for lane := 0; pixel < end; v.n++ {
		w := c.out[2]
		x := pixel % w
		y := pixel / w
		n := min(w-x, end-pixel)
		v.runs[v.n] = pixelRun{lane, n, y / c.out[1], y % c.out[1], x}
		pixel, lane = pixel+n, lane+n
	}
}

// packPatches packs one panel of the implicit matrix for one block of K. Where the panel is one run and none of a tap's
// elements is padding, whole rows of the panel are copied.
func (c *geometry) packPatches(dst, x []float32, panel, k0, kc int) {
	nr, tw := c.t.Nr, c.t.Tw
	var vectors [maxPanelVectors]vectorRuns
	for v := range nr / tw {
		vectors[v].cutFor(c, tw, panel*nr+v*tw)
	}
	run := vectors[0].runs[0]
	run.n = nr
	isRun := c.s.Stride[2] == 1 && run.x+nr <= c.out[2]
	for k := k0; k < k0+kc; {
		tap, ch := k/c.icg, k%c.icg
		n := min(c.icg-ch, k0+kc-k)
		row := (k - k0) * nr
		k += n
		if isRun {
			if mask, off := c.segmentOf(&run, tap); mask == 1<<nr-1 {
				c.t.PackWide(machine.F32p(dst, row), machine.F32p(x, ch*c.inN+off), n, 4*nr, 4*c.inN, nr)
				continue
			}
		}
		for v := range nr / tw {
			c.packTap(machine.F32p(dst, row+v*tw), x, &vectors[v], tap, ch, n)
		}
	}
}

// packTap packs n channels from ch of one tap for one vector of pixels.
func (c *geometry) packTap(dst *float32, x []float32, runs *vectorRuns, tap, ch, n int) {
	src := machine.F32p(x, ch*c.inN)
	fill := true
	for i := range runs.n {
		mask, off := c.segmentOf(&runs.runs[i], tap)
		if mask == 0 {
			continue
		}
		segment(c.t, c.s.Stride[2], dst, src, n, 4*c.t.Nr, 4*c.inN, mask, 4*off, fill)
		fill = false
	}
	if fill { // all padding
		c.t.SegFill(dst, src, n, 4*c.t.Nr, 0, 0, 0)
	}
}

// segmentOf returns the lanes of a run whose input element exists for a tap,
// and the element at which lane 0 would lie.
func (c *geometry) segmentOf(r *pixelRun, tap int) (mask, off int) {
	s := &c.s
	kx := tap % s.Kernel[2]
	ky := tap / s.Kernel[2] % s.Kernel[1]
	kz := tap / s.Kernel[2] / s.Kernel[1]
	z := r.z*s.Stride[0] + kz*s.Dilation[0] - s.PadBegin[0]
	y := r.y*s.Stride[1] + ky*s.Dilation[1] - s.PadBegin[1]
	if z < 0 || z >= s.In[0] || y < 0 || y >= s.In[1] {
		return 0, 0
	}
	st := s.Stride[2]
	first := r.x*st + kx*s.Dilation[2] - s.PadBegin[2] // column of the run's first lane
	mask = laneMask(first, st, s.In[2], r.n) << r.lane
	return mask, (z*s.In[1]+y)*s.In[2] + first - r.lane*st
}

// segment copies one segment for n channels, pixels step apart.
func segment(t *simd.Table, step int, dst, src *float32, n, ds, ss, mask, off int, fill bool) {
	switch {
	case step == 1 && fill:
		t.SegFill(dst, src, n, ds, ss, mask, off)
	case step == 1:
		t.SegMerge(dst, src, n, ds, ss, mask, off)
	case step == 2 && fill:
		t.SegFill2(dst, src, n, ds, ss, mask, off)
	case step == 2:
		t.SegMerge2(dst, src, n, ds, ss, mask, off)
	case fill:
		t.SegFillN(dst, src, n, ds, ss, mask, off, step)
	default:
		t.SegMergeN(dst, src, n, ds, ss, mask, off, step)
	}
}

// laneMask selects the lanes whose element, first + lane·step, lies in [0, n).
func laneMask(first, step, n, lanes int) int {
	lo, hi := 0, 0
	if first < 0 {
		lo = min(lanes, machine.CeilDiv(-first, step))
	}
	if first < n {
		hi = min(lanes, machine.CeilDiv(n-first, step))
	}
	if lo >= hi {
		return 0
	}
	return 1<<hi - 1<<lo
}
