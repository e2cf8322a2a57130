package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// emitNBits emits the dequantization of panels of columns whose numbers have 2, 4 or 8 bits. A
// row of bytes holds a byte of each column: several k, the lowest bits first.
//
//	byte of column n:  k+1 │ k     ──▶   rows k and k+1 of the panel: (q − zero[n])·scale[n]
func emitNBits(g *gen) {
	g.both(func() {
		for _, bits := range []int{2, 4, 8} {
			g.fn(fmt.Sprintf("nbits%d", bits), "(dst *float32, src *byte, scale, zero *float32, n int)", "dequantizes n rows of bytes of a panel.")
			dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
			scale, zero := g.arg("scale"), g.arg("zero")
			s := [2]vec{g.ld(at(scale, 0)), g.ld(at(scale, g.bytes()))}
			z := [2]vec{g.ld(at(zero, 0)), g.ld(at(zero, g.bytes()))}
			low := g.splat(konst(1<<bits - 1))
			g.loop("row", n, 1, func() {
				for j := range 2 {
					x := g.to(g.VPMOVZXBD, at(src, j*g.isa.w))
					for k := 0; k*bits < 8; k++ {
						g.numbers(x, low, k*bits, k*bits+bits == 8, s[j], z[j], at(dst, (2*k+j)*g.bytes()))
					}
				}
				g.advance(8/bits*2*g.bytes(), dst)
				g.advance(2*g.isa.w, src)
			})
			g.ret()
		}
	})
}

// numbers dequantizes the bits of the lanes of x from a shift on.
func (g *gen) numbers(x, low vec, shift int, last bool, scale, zero vec, dst operand.Mem) {
	q := g.copyOf(x)
	if shift > 0 {
		g.VPSRLD(operand.U8(uint8(shift)), q, q)
	}
	if !last {
		g.and(q, q, low)
	}
	g.VCVTDQ2PS(q, q)
	g.sub(q, q, zero)
	g.mul(q, q, scale)
	g.st(q, dst)
}
