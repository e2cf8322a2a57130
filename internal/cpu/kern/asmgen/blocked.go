package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/operand"
)

// Direct convolution in the channel-blocked layout: t neighbouring pixels of
// one output row by one or two blocks of output channels.
//
//	             weights: [ic][2 blocks of channels]
//	             ┌──────┬──────┐
//	             │  w0  │  w1  │ ← loaded once per input channel
//	             └──────┴──────┘
//	 x[pixel 0] ─▶ acc    acc      acc += broadcast(x) · w
//	 x[pixel s] ─▶ acc    acc
//	     …          …      …       t = 1..14 (AVX-512), 1..6 (AVX2)
//
// Around that: the channels of a block, four unrolled; taps along the row; rows of
// the kernel; blocks of input channels. The input is padded, so no tap falls
// outside. A pixel is reached through one of a few base registers and a scaled
// index, so the distance between pixels can be anything:
//
//	p, p+1s, p+2s, p+4s, p+8s from base 0; 3, 5, 7, 11 from base 3; …
//
// The blocked form multiplies the transformed tiles of Winograd's algorithm, whose weights are
// read once in a run, from far away: it fetches them ahead.
//
// A call adds up its products in chains of so many blocks (or channels) of input: what it has summed goes
// to the output, and the next chain adds that to its own sum as it would a residual. The error of a sum
// grows with the length of its chain.
//
// The "plain" form reads an image that is not blocked, one channel at a time.
//
// Results and residuals may be halves: the last chain narrows its sums to binary16 in registers, and the
// first one widens the residual there. Sums of the other chains go to the output for floats.

// Fields of the argument block, in bytes; package simd declares the same order.
const (
	dcIn, dcW, dcOut, dcBias, dcRes  = 0, 8, 16, 24, 32
	dcIC, dcKH, dcKW                 = 40, 48, 56
	dcPlane, dcRow, dcTap, dcPixel   = 64, 72, 80, 88
	dcOutBlock, dcFlags, dcLo, dcHi  = 96, 104, 112, 116
	dcChain                          = 120
	dcHalf, dcHalfRes, dcHalfBlock   = 128, 136, 144
	dcLeft, dcNow, dcSum             = 152, 160, 168 // what a kernel keeps: blocks left, flags and residual of the chain
	dcFlagBias, dcFlagRes, dcFlagCut = 1, 2, 4
	dcFlagHalf, dcFlagHalfRes        = 8, 16

	directAhead = 8192 // bytes that weights are fetched ahead
)

func emitBlocked(g *gen) {
	g.both(func() {
		for i := range 2 * g.isa.rows {
			g.direct("direct", i/2+1, i%2+1)
			g.direct("plain", i/2+1, i%2+1)
		}
		g.family("direct", "convolves i/2+1 pixels by i%2+1 blocks of channels.")
		g.family("plain", "is direct of an input in the plain layout.")
	})
}

// pixelBase lists, for each pixel, its base register and the scale of the
// index.
var pixelBase = [14][2]int{
	{0, 0}, {0, 1}, {0, 2}, {1, 0}, {0, 4}, {1, 2}, {2, 0}, {1, 4}, {0, 8}, {3, 0}, {2, 4}, {1, 8}, {4, 0}, {3, 4},
}

// pixelAt addresses pixel i, step bytes from the one before, by its base register.
func pixelAt(base []gp, step gp, i, disp int) operand.Mem {
	m := at(base[pixelBase[i][0]], disp)
	if scale := pixelBase[i][1]; scale > 0 {
		m.Index, m.Scale = step, uint8(scale)
	}
	return m
}

// direct is one kernel while it is being emitted.
type direct struct {
	*gen
	t, blocks int
	plain     bool
	args      gp
	s         gp    // distance between pixels
	base      [5]gp // pixels 0, 3, 6, 9, 12
	w         gp
	acc       [][]vec
}

func (g *gen) direct(name string, t, blocks int) {
	args := g.kernel(name, fmt.Sprintf("%dx%d", t, blocks))
	d := &direct{gen: g, t: t, blocks: blocks, plain: name == "plain", args: args}
	d.keep(dcLeft, d.field(d.args, dcIC))
	d.keep(dcNow, d.field(d.args, dcFlags))
	d.keep(dcSum, d.field(d.args, dcRes))
	d.s, d.w = d.field(d.args, dcPixel), d.field(d.args, dcW)
	plane := d.field(d.args, dcIn)
	d.Label("chain")
	d.acc = make([][]vec, t)
	for i := range d.acc {
		d.acc[i] = make([]vec, blocks)
		for j := range d.acc[i] {
			d.acc[i][j] = g.zeroed()
		}
	}
	ic := d.chain()
	d.count("ic", ic, func() {
		row := g.GP64()
		g.MOVQ(plane, row)
		kh := d.field(d.args, dcKH)
		d.count("kh", kh, func() {
			d.base[0] = g.GP64()
			g.MOVQ(row, d.base[0])
			kw := d.field(d.args, dcKW)
			d.count("kw", kw, func() {
				d.tap()
				g.ADDQ(at(d.args, dcTap), d.base[0])
			})
			g.ADDQ(at(d.args, dcRow), row)
		})
		g.ADDQ(at(d.args, dcPlane), plane)
	})
	d.finish()
	d.CMPQ(at(d.args, dcLeft), operand.U8(0))
	d.JE(operand.LabelRef("done"))
	flags := d.field(d.args, dcFlags)
	d.ANDQ(operand.U8(dcFlagCut|dcFlagHalf), flags)
	d.ORQ(operand.U8(dcFlagRes), flags)
	d.keep(dcNow, flags)
	d.keep(dcSum, d.field(d.args, dcOut))
	d.JMP(operand.LabelRef("chain"))
	d.Label("done")
	d.ret()
}

// keep writes a field of what the kernel keeps in its arguments.
func (d *direct) keep(field int, r gp) { d.MOVQ(r, at(d.args, field)) }

// chain returns how many blocks of input the next chain adds up, and counts them.
func (d *direct) chain() gp {
	n, left, most := d.field(d.args, dcChain), d.field(d.args, dcLeft), d.GP64()
	d.LEAQ(at(n, -1), most) // of 0, the largest number
	d.CMPQ(most, left)
	d.CMOVQCC(left, n)
	d.SUBQ(n, at(d.args, dcLeft))
	return n
}

// count runs body n times, n at least one.
func (d *direct) count(name string, n gp, body func()) {
	d.Label(name)
	body()
	d.DECQ(n)
	d.JNZ(operand.LabelRef(name))
}

// tap multiplies the channels of a block (or one channel) at one tap: four are unrolled, which keeps
// the code of all kernels small.
func (d *direct) tap() {
	if d.plain {
		d.channels(1)
		return
	}
	const unrolled = 4
	n := d.GP64()
	if !d.isa.zmm { // the pixels of the next piece of the row, which lie in as many places as there are blocks
		for line := 0; line < d.t*d.bytes(); line += 64 {
			d.PREFETCHT0(at(d.base[0], d.t*d.bytes()+line))
		}
	}
	d.MOVQ(operand.I32(d.isa.w/unrolled), n)
	d.count("channels", n, func() {
		d.channels(unrolled)
		d.advance(4*unrolled, d.base[0])
	})
	d.SUBQ(operand.I32(d.bytes()), d.base[0])
}

// channels multiplies n neighbouring channels.
func (d *direct) channels(n int) {
	for i := 1; i < 5 && 3*i < d.t; i++ {
		d.base[i] = d.third(d.base[i-1], d.s)
	}
	for c := range n {
		w := make([]vec, d.blocks)
		for j := range w {
			w[j] = d.ld(at(d.w, (c*d.blocks+j)*d.bytes()))
			if !d.plain && (d.isa.zmm || j%2 == 0) {
				d.PREFETCHT0(at(d.w, directAhead+(c*d.blocks+j)*d.bytes()))
			}
		}
		for i := range d.acc {
			d.multiply(d.acc[i], w, pixelAt(d.base[:], d.s, i, 4*c))
		}
	}
	d.advance(n*d.blocks*d.bytes(), d.w)
}

func (d *direct) multiply(acc, w []vec, m operand.Mem) {
	x := d.v()
	d.VBROADCASTSS(m, x)
	for j := range acc {
		d.fma(acc[j], w[j], x)
	}
}

// finish runs the epilogue and stores the pixels, which lie side by side.
func (d *direct) finish() {
	flags := d.field(d.args, dcNow)
	d.when(flags, dcFlagBias, "bias", func() {
		p := d.field(d.args, dcBias)
		for j := range d.blocks {
			b := d.ld(at(p, j*d.bytes()))
			for i := range d.acc {
				d.add(d.acc[i][j], d.acc[i][j], b)
			}
		}
	})
	d.when(flags, dcFlagRes, "res", func() {
		d.each(dcSum, dcOutBlock, d.bytes(), func(v vec, m operand.Mem) { d.add(v, v, m) })
	})
	if !d.plain {
		d.when(flags, dcFlagHalfRes, "half_res", func() {
			d.each(dcHalfRes, dcHalfBlock, d.bytes()/2, func(v vec, m operand.Mem) { d.add(v, v, d.to(d.VCVTPH2PS, m)) })
		})
	}
	d.CMPQ(at(d.args, dcLeft), operand.U8(0))
	d.JNE(operand.LabelRef("no_cut"))
	d.when(flags, dcFlagCut, "cut", func() {
		lo, hi := d.to(d.VBROADCASTSS, at(d.args, dcLo)), d.to(d.VBROADCASTSS, at(d.args, dcHi))
		for _, v := range slices.Concat(d.acc...) {
			d.clampTo(v, lo, hi)
		}
	})
	if !d.plain {
		d.when(flags, dcFlagHalf, "half", func() {
			d.CMPQ(at(d.args, dcLeft), operand.U8(0))
			d.JNE(operand.LabelRef("no_half"))
			d.each(dcHalf, dcHalfBlock, d.bytes()/2, func(v vec, m operand.Mem) { d.VCVTPS2PH(operand.U8(0), v, m) })
			d.JMP(operand.LabelRef("stored"))
		})
	}
	d.each(dcOut, dcOutBlock, d.bytes(), func(v vec, m operand.Mem) { d.st(v, m) })
	d.Label("stored")
}

// each visits the sums with their places in memory: pixels so many bytes apart from a field of the arguments on, blocks as another one says.
func (d *direct) each(first, block, size int, visit func(v vec, m operand.Mem)) {
	p := d.field(d.args, first)
	for j := range d.blocks {
		for i := range d.acc {
			visit(d.acc[i][j], at(p, i*size))
		}
		if j+1 < d.blocks {
			d.ADDQ(at(d.args, block), p)
		}
	}
}
