package main

import "strconv"

// The micro-kernel of convolutions of bytes whose channels lie side by side: h neighbouring pixels of
// one output row by two vectors of output channels.
//
//	                weights: [word][2 vectors of channels]
//	                ┌──────┬──────┐
//	                │  w0  │  w1  │ ← loaded once per word of four bytes
//	                └──────┴──────┘
//	 x[pixel 0] ─▶   acc    acc       acc += Σ of four products: VPDPBUSD
//	 x[pixel s] ─▶   acc    acc       h = 1..14
//
// The words of a window lie in runs, a distance from its first byte each. Nothing is packed: a pixel
// is read where it lies.

// Fields of the argument block, in bytes; package simd declares the same order.
const (
	bpIn, bpW, bpSums, bpStart       = 0, 8, 16, 24
	bpOffs, bpRuns, bpWords, bpPixel = 32, 40, 48, 56
	byteAhead                        = 2048
)

func emitBytePixels(g *gen) {
	g.isa = avx512
	for h := 1; h <= g.isa.rows; h++ {
		g.bytePixels(h)
	}
	g.family("bytePixels", "sums up the windows of i+1 pixels for two vectors of output channels.")
}

func (g *gen) bytePixels(h int) {
	args := g.kernel("bytePixels", strconv.Itoa(h))
	d := &direct{gen: g, t: h, blocks: 2, args: args, acc: make([][]vec, h)}
	start := d.field(args, bpStart)
	first := []vec{g.ld(at(start, 0)), g.ld(at(start, g.bytes()))}
	for i := range d.acc {
		d.acc[i] = first
		if i+1 < h {
			d.acc[i] = []vec{g.copyOf(first[0]), g.copyOf(first[1])}
		}
	}
	d.s, d.w = d.field(args, bpPixel), d.field(args, bpW)
	offs, runs := d.field(args, bpOffs), d.field(args, bpRuns)
	d.count("run", runs, func() {
		d.base[0] = g.GP64()
		g.MOVQ(at(args, bpIn), d.base[0])
		g.ADDQ(at(offs, 0), d.base[0])
		g.advance(8, offs)
		words := d.field(args, bpWords)
		g.loop("words", words, 1, d.byteWord)
	})
	sums := d.field(args, bpSums)
	for i := range d.acc {
		for j := range 2 {
			g.st(d.acc[i][j], at(sums, (2*i+j)*g.bytes()))
		}
	}
	g.ret()
}

// byteWord multiplies a word of the window.
func (d *direct) byteWord() {
	for i := 1; i < 5 && 3*i < d.t; i++ {
		d.base[i] = d.third(d.base[i-1], d.s)
	}
	w := [2]vec{d.ld(at(d.w, 0)), d.ld(at(d.w, d.bytes()))}
	for j := range w {
		d.PREFETCHT0(at(d.w, byteAhead+j*d.bytes()))
	}
	for i := range d.acc {
		x := d.to(d.VPBROADCASTD, pixelAt(d.base[:], d.s, i, 0))
		for j := range w {
			d.VPDPBUSD(w[j], x, d.acc[i][j])
		}
	}
	d.advance(2*d.bytes(), d.w)
	d.advance(4, d.base[0])
}
