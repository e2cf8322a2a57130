package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// Windows over bytes of a plane: sixteen output pixels are one vector of 32-bit sums. A word
// of weights holds four neighbouring taps of a row, and the bytes that meet them are brought
// behind each other in two steps, first words to the quarters of the register, then bytes
// within each quarter (stride 1):
//
//	bytes      0 1 2 3 │ 4 5 6 7 │ 8 …
//	words      [0–7]  [4–11]  [8–15]  [12–19]
//	pixels     0123 1234 2345 3456 │ 4567 …          VPDPBUSD with (w0 w1 w2 w3)
//
// pick holds both permutations, so one kernel serves every stride that 64 bytes have room for.
func emitByteTaps(g *gen) {
	g.isa = avx512
	g.fn("byteTaps", "(dst *int32, src *byte, vectors, rows, dstRow, srcRow, step int, offs *int, count int, w *uint32, start int32, pick *uint32)",
		"sums rows of vectors of sixteen pixels, step bytes of the input apart, over words of taps, each an input distance and a weight.")
	rows, dstRow, srcRow, step := g.arg("rows"), g.arg("dst"), g.arg("src"), g.arg("step")
	start := g.argVec("start")
	words, bytes := g.picks()
	g.loop("row", rows, 1, func() {
		dst, src, n := g.GP64(), g.GP64(), g.arg("vectors")
		g.MOVQ(dstRow, dst)
		g.MOVQ(srcRow, src)
		for _, u := range []int{4, 1} {
			g.loop(fmt.Sprintf("by%d", u), n, u, func() { g.byteTaps(u, dst, src, step, start, words, bytes) })
		}
		by := g.arg("dstRow")
		g.ADDQ(by, dstRow)
		by = g.arg("srcRow")
		g.ADDQ(by, srcRow)
	})
	g.ret()
}

// emitBytePlane copies rows of bytes into larger ones.
func emitBytePlane(g *gen) {
	g.isa = avx512
	g.fn("bytePlane", "(dst, src *byte, rows, n, dstRow, srcRow int, flip uint32)", "copies rows of n bytes, dstRow and srcRow apart, with flip added to each word by exclusive or.")
	rows, dstRow, srcRow, dstStep, srcStep := g.arg("rows"), g.arg("dst"), g.arg("src"), g.arg("dstRow"), g.arg("srcRow")
	flip, tail, k := g.argVec("flip"), g.GP64(), g.K()
	last := g.arg("n") // BZHI reads its lowest byte: the bytes behind the last whole vector
	g.ANDQ(operand.I32(63), last)
	g.MOVQ(operand.I32(-1), tail)
	g.BZHIQ(last, tail, tail)
	g.KMOVQ(tail, k)
	g.loop("row", rows, 1, func() {
		dst, src, n := g.GP64(), g.GP64(), g.arg("n")
		g.MOVQ(dstRow, dst)
		g.MOVQ(srcRow, src)
		g.loop("whole", n, 64, func() {
			v := g.v()
			g.VPXORD(at(src, 0), flip, v)
			g.st(v, at(dst, 0))
			g.advance(64, dst, src)
		})
		v := g.v()
		g.VMOVDQU8_Z(at(src, 0), k, v)
		g.VPXORD(v, flip, v)
		g.VMOVDQU8(v, k, at(dst, 0))
		g.ADDQ(dstStep, dstRow)
		g.ADDQ(srcStep, srcRow)
	})
	g.ret()
}

// picks loads both permutations.
func (g *gen) picks() (words, bytes vec) {
	p := g.arg("pick")
	return g.ld(at(p, 0)), g.ld(at(p, g.bytes()))
}

// picked is a vector of words of taps.
func (g *gen) picked(m operand.Mem, words, bytes vec) vec {
	x := g.v()
	g.VPERMD(m, words, x)
	g.VPSHUFB(bytes, x, x)
	return x
}

// byteTaps emits u vectors of sums.
func (g *gen) byteTaps(u int, dst, src, step gp, start, words, bytes vec) {
	acc := make([]vec, u)
	for i := range acc {
		acc[i] = g.copyOf(start)
	}
	offs, count, w := g.arg("offs"), g.arg("count"), g.arg("w")
	name := fmt.Sprintf("word%d", u)
	g.Label(name)
	p := g.GP64()
	g.MOVQ(at(offs, 0), p)
	g.ADDQ(src, p)
	taps := g.to(g.VPBROADCASTD, at(w, 0))
	for i := range acc {
		g.VPDPBUSD(taps, g.picked(at(p, 0), words, bytes), acc[i])
		if i+1 < u {
			g.ADDQ(step, p)
		}
	}
	g.advance(8, offs)
	g.advance(4, w)
	g.DECQ(count)
	g.JNZ(operand.LabelRef(name))
	for i := range acc {
		g.st(acc[i], at(dst, i*g.bytes()))
		g.ADDQ(step, src)
	}
	g.advance(u*g.bytes(), dst)
}
