package main

import "github.com/mmcloughlin/avo/attr"

// peakAccs is the number of independent sums of the peak loop.
const peakAccs = 12

// emitPeak writes the loops that measure the machine: multiply-adds without
// memory.
func emitPeak(g *gen) {
	g.both(func() {
		g.fn("peak", "(rounds int)", "runs rounds × 12 independent vector multiply-adds.")
		n := g.arg("rounds")
		a, b := g.zeroed(), g.zeroed()
		var acc [peakAccs]vec
		for i := range acc {
			acc[i] = g.zeroed()
		}
		g.loop("round", n, 1, func() {
			for _, c := range acc {
				g.fma(c, a, b)
			}
		})
		g.ret()
	})
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
