package convolve

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
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
	rows, cols := 0, 0
	for k := range s.Kernel[1] {
		lo, hi := d.reached(1, k)
		rows += hi - lo
	}
	for k := range s.Kernel[2] {
		lo, hi := d.reached(2, k)
		cols += hi - lo
	}
	return cols >= leastPixels*s.Kernel[2] && 3*rows*cols < 2*d.taps*d.outN
}

// reached is the range of outputs along a dimension for which tap k lies in the image.
func (g *geometry) reached(dim, k int) (lo, hi int) {
	s := &g.s
	off, step := k*s.Dilation[dim]-s.PadBegin[dim], s.Stride[dim]
	lo = min(machine.CeilDiv(max(0, -off), step), g.out[dim])
	hi = min(machine.CeilDiv(max(0, s.In[dim]-off), step), g.out[dim])
	return lo, max(lo, hi)
}

// packTaps packs rows of weights by taps, n outputs to each input.
func (d *directConv) packTaps(dst, w []float32, have, n int) {
	k := d.icg * d.taps
	for ic := range d.icg {
		for j := 0; j < have; j += d.t.Tw {
			d.t.Transpose(machine.F32p(dst, ic*n+j), machine.F32p(w, j*k+ic*d.taps), d.taps, 4*d.perGroup*d.width*n, 4*k, min(d.t.Tw, have-j))
		}
	}
}

// rowByTaps computes output row u of a task; arguments are as for compute.
func (d *directConv) rowByTaps(r *convRun, in []float32, a *simd.DirectArgs, k *directTask, u int, tile, res []float32) {
	at, line, blockStep := (u*d.rowLen-k.pixel)*d.b, d.rowLen*d.b, a.OutBlock/4
	for j := range k.blocks {
		row := tile[at+j*blockStep:][:line]
		if res == nil {
			clear(row)
		} else if from := res[at+j*blockStep:][:line]; &from[0] != &row[0] {
			copy(row, from)
		}
		if d.s.Epilogue.Bias != simd.NoBias {
			addLanes(row, r.bias[k.group*d.ocg+(2*k.pair+j)*d.b:][:d.b])
		}
	}
	c, s := *a, &d.s
	c.Flags, c.Res = simd.DirectRes, nil
	for tap := range d.taps {
		ky, kx := tap/s.Kernel[2], tap%s.Kernel[2]
		y := u*s.Stride[1] + ky*s.Dilation[1] - s.PadBegin[1]
		lo, hi := d.reached(2, kx)
		if y < 0 || y >= s.In[1] || lo == hi {
			continue
		}
		c.W = unsafe.Add(a.W, 4*tap*d.perGroup*d.width*k.blocks*d.b)
		pieces := gemm.NewSplit(hi-lo, d.t.Mr)
		for q := range pieces.P {
			x, n := pieces.Part(q)
			x += lo
			c.In = machine.Ptr(in, (y*s.In[2]+x*s.Stride[2]+kx*s.Dilation[2]-s.PadBegin[2])*d.width)
			c.Out = machine.Ptr(tile, at+x*d.b)
			c.Res = c.Out
			d.sum(n, k.blocks, &c)
		}
	}
	for j := range k.blocks {
		if a.Flags&simd.DirectCut != 0 {
			row := tile[at+j*blockStep:][:line]
			d.t.UnaryRow(simd.Clip, row, row, d.lo, d.hi)
		}
	}
}

// addLanes adds a vector to every one of a row.
func addLanes(row, v []float32) {
	for ; len(row) > 0; row = row[len(v):] {
		for i, x := range v {
			row[i] += x
		}
	}
}
