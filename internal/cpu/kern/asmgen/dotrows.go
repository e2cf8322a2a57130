package main

import "github.com/mmcloughlin/avo/operand"

// Scalar products of one vector with many rows, four rows at a time:
//
//	y0 = Σ x·r0      lanes of four sums        two rounds of adding neighbours
//	y1 = Σ x·r1      a a a a a a a a           ab ab cd cd ab ab cd cd
//	y2 = Σ x·r2      b b b b b b b b     ─▶    abcd (low half) + abcd (high half)
//	y3 = Σ x·r3      …
//
// so that the four results come out next to each other. The rows left over go one
// by one, their lanes added in the same order: a result does not depend on where in
// the batch its row stands.
func emitDotRows(g *gen) {
	g.both(func() {
		g.fn("rDotRows", "(dst, x, rows *float32, n, k, ld, step int)",
			"computes dst[i·step] = x · rows[i·ld] for n rows of k; ld and step are in bytes.")
		dst, x, rows, n, k, ld, step := g.arg("dst"), g.arg("x"), g.arg("rows"), g.arg("n"), g.arg("k"), g.arg("ld"), g.arg("step")
		rest := g.GP64()
		g.MOVQ(k, rest)
		g.ANDQ(operand.I32(g.isa.w-1), rest)
		m := g.tailOf(rest)
		g.SUBQ(rest, k)
		g.SHLQ(operand.U8(2), k) // bytes of the whole vectors of a row
		p := [4]gp{rows, g.GP64(), g.GP64(), g.GP64()}
		g.loop("four", n, 4, func() {
			for i := 1; i < 4; i++ {
				g.LEAQ(indexed(p[i-1], ld, 1), p[i])
			}
			s := g.rowSums("four", x, p[:], k, rest, m)
			for i := range s {
				s[i] = g.halfOf(s[i])
			}
			g.VHADDPS(s[1], s[0], s[0])
			g.VHADDPS(s[3], s[2], s[2])
			g.VHADDPS(s[2], s[0], s[0])
			g.storeSums(s[0], dst, step, 4)
			g.LEAQ(indexed(p[3], ld, 1), rows)
		})
		g.loop("single", n, 1, func() {
			s := g.rowSums("single", x, p[:1], k, rest, m)
			v := g.halfOf(s[0])
			g.VHADDPS(v, v, v)
			g.VHADDPS(v, v, v)
			g.storeSums(v, dst, step, 1)
			g.ADDQ(ld, rows)
		})
		g.ret()
	})
}

// rowSums multiplies rows by x, a vector of sums for each.
func (g *gen) rowSums(name string, x gp, rows []gp, k, rest gp, m mask) []vec {
	sums := make([]vec, len(rows))
	for i := range sums {
		sums[i] = g.zeroed()
	}
	at, done, end := g.GP64(), name+"_tail", name+"_summed"
	g.XORQ(at, at)
	g.Label(name + "_vector")
	g.CMPQ(at, k)
	g.JGE(operand.LabelRef(done))
	a := g.ld(indexed(x, at, 1))
	for i, r := range rows {
		g.fma(sums[i], a, indexed(r, at, 1))
	}
	g.ADDQ(operand.I32(g.bytes()), at)
	g.JMP(operand.LabelRef(name + "_vector"))
	g.Label(done)
	g.TESTQ(rest, rest)
	g.JZ(operand.LabelRef(end))
	a = g.ldTail(indexed(x, at, 1), m)
	for i, r := range rows {
		g.fma(sums[i], a, g.ldTail(indexed(r, at, 1), m))
	}
	g.Label(end)
	return sums
}

// halfOf adds the halves of a ZMM register; a YMM register stays as it is.
func (g *gen) halfOf(v vec) vec {
	if !g.isa.zmm {
		return v
	}
	h := g.YMM()
	g.VEXTRACTF64X4(operand.U8(1), v, h)
	g.VADDPS(v.AsY(), h, h)
	return h
}

// storeSums adds the halves of a YMM register and stores the first lanes, step
// bytes apart; dst moves behind them.
func (g *gen) storeSums(v vec, dst, step gp, lanes int) {
	hi, lo := g.XMM(), v.AsX()
	g.VEXTRACTF128(operand.U8(1), v.AsY(), hi)
	g.VADDPS(lo, hi, hi)
	for i := range lanes {
		if i == 0 {
			g.VMOVSS(hi, at(dst, 0))
		} else {
			g.VEXTRACTPS(operand.U8(uint8(i)), hi, at(dst, 0))
		}
		g.ADDQ(step, dst)
	}
}
