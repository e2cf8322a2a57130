package main

import "github.com/mmcloughlin/avo/attr"

// peakAccs is the number of independent sums of the peak loop.
const peakAccs = 12

// emitPeak writes the loops that measure the machine: multiply-adds of float32 and of
// bytes without memory.
func emitPeak(g *gen) {
	g.both(func() {
		g.peak("peak", "vector multiply-adds", func(acc, a, b vec) { g.fma(acc, a, b) })
	})
	g.isa = avx512
	g.peak("peakQuads", "vector products of four bytes with their sums", func(acc, a, b vec) { g.VPDPBUSD(a, b, acc) })
	g.isa = avx2
	g.peak("peakPairs", "vector products of two 16-bit numbers with their sums", func(acc, a, b vec) {
		g.addi(acc, acc, g.to(g.VPMADDWD, a, b))
	})
}

// peak writes a loop of independent products.
func (g *gen) peak(name, doc string, product func(acc, a, b vec)) {
	g.fn(name, "(rounds int)", "runs rounds × 12 independent "+doc+".")
	n := g.arg("rounds")
	a, b := g.zeroed(), g.zeroed()
	var acc [peakAccs]vec
	for i := range acc {
		acc[i] = g.zeroed()
	}
	g.loop("round", n, 1, func() {
		for _, c := range acc {
			product(c, a, b)
		}
	})
	g.ret()
}

// emitPause writes the pause of a busy wait.
func emitPause(g *gen) {
	g.Function("pause")
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr("func()")
	g.Doc("pause passes a moment of a busy wait.")
	for range 8 {
		g.PAUSE()
	}
	g.RET()
}
