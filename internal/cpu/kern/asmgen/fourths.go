package main

import "github.com/mmcloughlin/avo/operand"

// The derivative of a maximum over windows of 2×2: pairs of neighbours of two lines are windows, and an element of the derivative goes to
// the first maximum of its window. A vector holds half as many windows as lanes; what is found for a pair is in both of its lanes:
//
//	x          a b c d       a line
//	p          b a d c       pairs exchanged
//	wins       a ≥ b in even lanes, b > a in odd ones
//	top        max(p, x), the maximum of the pair, in both lanes
//	below      the top of the lower line is larger

func emitFourths(g *gen) {
	g.both(func() {
		g.fn("fourths", "(y0, y1, x0, x1, d *float32, n int)", "sends n derivatives to the first maxima of windows of two lines; n is a multiple of half the lanes.")
		y, x := [2]gp{g.arg("y0"), g.arg("y1")}, [2]gp{g.arg("x0"), g.arg("x1")}
		d, n := g.arg("d"), g.arg("n")
		f := g.fourths()
		g.loop("windows", n, g.isa.w/2, func() {
			var top [2]vec
			var wins [2]operand.Op
			for i := range 2 {
				v := g.ld(at(x[i], 0))
				p := g.to(g.VPERMILPS, operand.U8(0xb1), v)
				wins[i], top[i] = f.wins(p, v), g.set(g.max, p, v)
			}
			both := g.to(g.VPMOVZXDQ, at(d, 0))
			both = g.to(g.VMOVSLDUP, both)
			f.store(both, top, wins, y)
			g.advance(g.bytes(), y[0], y[1], x[0], x[1])
			g.advance(g.bytes()/2, d)
		})
		g.ret()
	})
}

// fourthsGen emits the parts that masks differ in: registers of masks with AVX-512, vectors otherwise.
type fourthsGen struct {
	*gen
	odd operand.Op
}

const (
	notLess = 0x15 // predicates: not a < b, or unordered; a > b
	greater = 0x1e
)

func (g *gen) fourths() *fourthsGen {
	f := &fourthsGen{gen: g}
	if g.isa.zmm {
		bits, k := g.GP32(), g.K()
		g.MOVL(operand.U32(0xaaaa), bits)
		g.KMOVW(bits, k)
		f.odd = k
	}
	return f
}

// wins is set in the lane of each pair that has its first maximum.
func (f *fourthsGen) wins(p, x vec) operand.Op {
	if f.isa.zmm {
		even, odd := f.K(), f.K()
		f.VCMPPS(operand.U8(notLess), p, x, even)
		f.VCMPPS(operand.U8(greater), p, x, odd)
		f.KANDW(f.odd, odd, odd)
		f.KANDNW(even, f.odd, even)
		f.KORW(even, odd, even)
		return even
	}
	even, odd := f.to(f.VCMPPS, operand.U8(notLess), p, x), f.to(f.VCMPPS, operand.U8(greater), p, x)
	f.VBLENDPS(operand.U8(0xaa), odd, even, even)
	return even
}

// store writes the lines: the upper one where its top is not smaller.
func (f *fourthsGen) store(d vec, top [2]vec, wins [2]operand.Op, y [2]gp) {
	if f.isa.zmm {
		below := f.K()
		f.VCMPPS(operand.U8(greater), top[0], top[1], below)
		f.KANDNW(wins[0], below, wins[0])
		f.KANDW(wins[1], below, wins[1])
		for i := range 2 {
			v := f.v()
			f.VMOVAPS_Z(d, wins[i], v)
			f.st(v, at(y[i], 0))
		}
		return
	}
	below := f.to(f.VCMPPS, operand.U8(greater), top[0], top[1])
	upper, lower := wins[0].(vec), wins[1].(vec)
	f.VANDNPS(upper, below, upper)
	f.VANDPS(lower, below, lower)
	f.st(f.to(f.VANDPS, upper, d), at(y[0], 0))
	f.st(f.to(f.VANDPS, lower, d), at(y[1], 0))
}
