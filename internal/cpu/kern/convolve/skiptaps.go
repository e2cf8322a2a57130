package convolve

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Direct convolution without the products of padding.
//
// A window whose taps lie far from each other reaches beyond the image for most of its outputs. With 16 × 16 pixels, a dilation of 12 and
// as much padding, as in heads of segmentation nets (atrous convolution, https://arxiv.org/abs/1706.05587), one product in four
// is with a pixel of the image. There an output row is made tap by tap, each a sum over channels that is added to the pixels that
// have it:
//
//	row of outputs         bias (+ residual)
//	left tap          ·  ·  ·  ·  +  +
//	middle tap        +  +  +  +  +  +
//	right tap         +  +  ·  ·  ·  ·      what begins an image row further ends as far before its end
//
// The image is read where it lies, and the weights of a tap lie together.

// skipsTaps reports whether products with padding are so many that outputs are computed tap by tap: sums over few channels, and of few
// pixels, would mostly load and store.
func (d *directConv) skipsTaps() bool {
	const leastChannels, leastPixels = 64, 4
	s := &d.s
	if s.Half != NoHalf || d.taps == 1 || d.icg < leastChannels {
		return false
	}
	var have [3]int // taps with a pixel of the image, of all outputs along a dimension
	for dim := 1; dim < 3; dim++ {
		for k := range s.Kernel[dim] {
			lo, hi := d.reached(dim, k)
			have[dim] += hi - lo
		}
	}
	return have[2] >= leastPixels*s.Kernel[2] && 3*have[1]*have[2] < 2*d.taps*d.outN
}

// reached is the range of outputs along a dimension for which tap k lies in the image.
func (g *geometry) reached(dim, k int) (lo, hi int) {
	return inside(g.place(dim, 0, k), g.s.Stride[dim], g.out[dim], g.s.In[dim])
}

// rowByTaps computes output row u of a task; arguments are as for compute.
func (d *directConv) rowByTaps(r *convRun, in []float32, a simd.DirectArgs, k *directTask, u int, tile, res []float32) {
	at, s, flags := (u*d.rowLen-k.pixel)*d.b, &d.s, a.Flags
	for j := range k.blocks {
		to := at + j*a.OutBlock/4
		row := tile[to:][:d.rowLen*d.b]
		if res == nil {
			clear(row)
		} else {
			copy(row, res[to:])
		}
		if s.Epilogue.Bias != simd.NoBias {
			addLanes(row, r.bias[k.group*d.ocg+(2*k.pair+j)*d.b:][:d.b])
		}
	}
	a.Flags = simd.DirectRes
	w := a.W
	for tap := range d.taps {
		y := u*s.Stride[1] + tap/s.Kernel[2]*s.Dilation[1] - s.PadBegin[1]
		x, end := d.reached(2, tap%s.Kernel[2])
		if y < 0 || y >= s.In[1] || machine.Closed(r.args.Done) {
			end = x
		}
		a.W = unsafe.Add(w, tap*d.perGroup*d.width*k.blocks*d.b*4)
		for n := 0; x < end; x += n {
			n = machine.CeilDiv(end-x, machine.CeilDiv(end-x, d.t.Mr)) // pieces of about one size
			a.In = machine.Ptr(in, (y*s.In[2]+x*s.Stride[2]+tap%s.Kernel[2]*s.Dilation[2]-s.PadBegin[2])*d.width)
			a.Out = machine.Ptr(tile, at+x*d.b)
			a.Res = a.Out
			d.sum(n, k.blocks, &a)
		}
	}
	for j := 0; flags&simd.DirectCut != 0 && j < k.blocks; j++ {
		row := tile[at+j*a.OutBlock/4:][:d.rowLen*d.b]
		d.t.UnaryRow(simd.Clip, row, row, d.lo, d.hi)
	}
}

// addLanes adds a vector to every one of a row.
func addLanes(row, v []float32) {
	for i := range row {
		row[i] += v[i%len(v)]
	}
}
