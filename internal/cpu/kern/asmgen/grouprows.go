package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// Grouped convolutions with few output channels: a vector is neighbouring pixels of a plane, and a call computes up to three of
// them for 4 or 8 output channels, which are kept in registers:
//
//	for taps of the group's channels     vectors of the input, at the tap's distance
//	  for output channels                one weight in all lanes, by the vectors
//
// No lane waits for channels that a group does not have. Distances are in bytes.
func emitGroupRows(g *gen) {
	g.both(func() {
		for _, channels := range []int{4, 8} {
			if channels == 8 && !g.isa.zmm {
				continue // 24 sums do not fit
			}
			for vectors := 1; vectors <= 3; vectors++ {
				g.groupRows(channels, vectors)
			}
		}
		g.family("groupRows", "computes 1 to 3 vectors of pixels of 4 output channels, or of 8.")
	})
}

// Fields of GroupArgs.
const (
	groupIn = 8 * iota
	groupW
	groupOut
	groupBias
	groupTaps
	groupK
	groupOutRow
	groupLo
	groupHi = groupLo + 4
)

func (g *gen) groupRows(channels, vectors int) {
	args := g.kernel("groupRows", fmt.Sprintf("%dx%d", channels, vectors))
	in, w, taps, k := g.field(args, groupIn), g.field(args, groupW), g.field(args, groupTaps), g.field(args, groupK)
	acc := make([][]vec, channels)
	bias := g.field(args, groupBias)
	for i := range acc {
		acc[i] = []vec{g.to(g.VBROADCASTSS, at(bias, 4*i))}
		for range vectors - 1 {
			acc[i] = append(acc[i], g.copyOf(acc[i][0]))
		}
	}
	off := g.GP64()
	g.Label("tap")
	g.MOVQ(at(taps, 0), off)
	x := make([]vec, vectors)
	for v := range x {
		m := indexed(in, off, 1)
		m.Disp = v * g.bytes()
		x[v] = g.ld(m)
	}
	for i := range acc {
		weight := g.to(g.VBROADCASTSS, at(w, 4*i))
		for v := range x {
			g.fma(acc[i][v], x[v], weight)
		}
	}
	g.advance(8, taps)
	g.advance(4*channels, w)
	g.DECQ(k)
	g.JNZ(operand.LabelRef("tap"))
	lo, hi := g.to(g.VBROADCASTSS, at(args, groupLo)), g.to(g.VBROADCASTSS, at(args, groupHi))
	out, row := g.field(args, groupOut), g.field(args, groupOutRow)
	for i := range acc {
		for v, a := range acc[i] {
			g.clampTo(a, lo, hi)
			g.st(a, at(out, v*g.bytes()))
		}
		if i < channels-1 {
			g.ADDQ(row, out)
		}
	}
	g.ret()
}
