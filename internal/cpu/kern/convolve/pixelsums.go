package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Weighted sums of arbitrary pixels in the blocked layout: B channels of a pixel are one
// vector, so a tap is one vector product.
//
//	dst pixel  =  Σ weight · src pixel        for every block of channels

// maxPixelTaps is the number of taps of one pass over the blocks.
const maxPixelTaps = 64

// PixelTaps is a list of pixels with their weights. The zero value is empty.
type PixelTaps struct {
	list [2 * maxPixelTaps]int // distances among pixels and among weights, in bytes
	w    [16 * maxPixelTaps]float32
	n    int
	add  bool // dst holds a partial sum

	t         *simd.Table
	dst, src  []float32
	to        int
	out, in   int // pixels of dst and src
	channels  int
	blockSize int
}

var pixelTaps machine.FreeList[PixelTaps]

// TakePixelTaps returns an empty list for sums over src, an image of so many pixels
// and channels in the blocked layout, into dst, which has the same channels. Give
// it back with [PixelTaps.Release].
func TakePixelTaps(dst []float32, out int, src []float32, in, channels int) *PixelTaps {
	p := pixelTaps.Get()
	p.t = simd.Active()
	p.blockSize = p.t.Block()
	length := machine.CeilDiv(channels, p.blockSize) * p.blockSize
	p.dst, p.out, p.src, p.in, p.channels = dst[:length*out], out, src[:length*in], in, channels
	return p
}

// Release gives the list back.
func (p *PixelTaps) Release() {
	p.dst, p.src, p.t = nil, nil, nil
	pixelTaps.Put(p)
}

// Begin starts the sum of pixel to.
func (p *PixelTaps) Begin(to int) { p.to, p.n, p.add = to, 0, false }

// Tap adds a pixel with a weight.
func (p *PixelTaps) Tap(at int, weight float32) {
	_ = p.src[at*p.blockSize+p.blockSize-1]
	if p.n == maxPixelTaps {
		p.flush()
	}
	p.list[2*p.n], p.list[2*p.n+1] = 4*p.blockSize*at, 4*p.blockSize*p.n
	w := p.w[p.n*p.blockSize:][:p.blockSize]
	for i := range w {
		w[i] = weight
	}
	p.n++
}

// End writes the sum.
func (p *PixelTaps) End() {
	if p.n == 0 && !p.add { // no taps
		for at := p.to * p.blockSize; at < len(p.dst); at += p.out * p.blockSize {
			clear(p.dst[at:][:p.blockSize])
		}
		return
	}
	p.flush()
}

// flush adds the taps of the list to the sum, in every block.
func (p *PixelTaps) flush() {
	if p.n == 0 {
		return
	}
	b := p.blockSize
	for block := range machine.CeilDiv(p.channels, b) {
		dst := &p.dst[(block*p.out+p.to)*b]
		var res *float32
		if p.add {
			res = dst
		}
		p.t.BlockTaps(dst, &p.src[block*p.in*b], 0, 1, 1, 0, 0, 0, &p.list[0], p.n, &p.w[0], &noBias[0], res, simd.NegInf, simd.PosInf)
	}
	p.n, p.add = 0, true
}
