package main

import "github.com/mmcloughlin/avo/operand"

// Scalar products like those of emitDotRows, in float64: numbers become float64 as they are loaded, half a vector at a time, each product
// is exact, and the sum of the lanes is rounded to float32 once. Four rows go together, so that x is converted once for all of them.
//
//	x  ─convert─▶  a a a a a a a a
//	rᵢ ─convert─▶  b b b b b b b b   ·a  ─▶  sum i      halves and neighbours are added at the end
//
// Terms left over are added one by one, in registers of their own. Conversions are the bound, so vectors of 256 bits serve AVX-512, too.
func emitWideDots(g *gen) {
	g.isa = avx2
	g.fn("rWideDots", "(dst, x, rows *float32, n, k, ld, step int)",
		"computes dst[i·step] = x · rows[i·ld] for n rows of k in float64; ld and step are in bytes.")
	dst, x, rows, n, k, ld, step := g.arg("dst"), g.arg("x"), g.arg("rows"), g.arg("n"), g.arg("k"), g.arg("ld"), g.arg("step")
	whole := g.GP64() // bytes of the terms that fill vectors
	g.MOVQ(k, whole)
	g.ANDQ(operand.I32(-g.isa.w/2), whole)
	g.SHLQ(operand.U8(2), whole)
	g.SHLQ(operand.U8(2), k)
	p := [4]gp{rows, g.GP64(), g.GP64(), g.GP64()}
	g.loop("four", n, 4, func() {
		for i := 1; i < 4; i++ {
			g.LEAQ(indexed(p[i-1], ld, 1), p[i])
		}
		g.wideSums("four", dst, x, p[:], whole, k, step)
		g.LEAQ(indexed(p[3], ld, 1), rows)
	})
	g.loop("single", n, 1, func() {
		g.wideSums("single", dst, x, p[:1], whole, k, step)
		g.ADDQ(ld, rows)
	})
	g.ret()
}

// wideSums stores the products of rows by x; dst moves behind them.
func (g *gen) wideSums(name string, dst, x gp, rows []gp, whole, k, step gp) {
	sums, rest := make([]vec, len(rows)), make([]vec, len(rows))
	for i := range sums {
		sums[i], rest[i] = g.zeroed(), g.XMM()
		g.VXORPD(rest[i], rest[i], rest[i])
	}
	at, a, b := g.GP64(), g.v(), g.v()
	g.XORQ(at, at)
	g.Label(name + "_vector")
	g.CMPQ(at, whole)
	g.JGE(operand.LabelRef(name + "_term"))
	g.VCVTPS2PD(indexed(x, at, 1), a)
	for i, r := range rows {
		g.VCVTPS2PD(indexed(r, at, 1), b)
		g.VFMADD231PD(b, a, sums[i])
	}
	g.ADDQ(operand.I32(g.bytes()/2), at)
	g.JMP(operand.LabelRef(name + "_vector"))
	g.Label(name + "_term")
	g.CMPQ(at, k)
	g.JGE(operand.LabelRef(name + "_summed"))
	one, other := g.XMM(), g.XMM()
	g.VXORPD(other, other, other)
	g.VCVTSS2SD(indexed(x, at, 1), other, one)
	for i, r := range rows {
		g.VCVTSS2SD(indexed(r, at, 1), other, other)
		g.VFMADD231SD(other, one, rest[i])
	}
	g.ADDQ(operand.I32(4), at)
	g.JMP(operand.LabelRef(name + "_term"))
	g.Label(name + "_summed")
	for i, s := range sums {
		v := g.lanesOf(s)
		g.VADDSD(rest[i], v, v)
		g.VCVTSD2SS(v, v, v)
		g.VMOVSS(v, operand.Mem{Base: dst})
		g.ADDQ(step, dst)
	}
}

// lanesOf adds the lanes of a vector of float64.
func (g *gen) lanesOf(v vec) vecX {
	x := g.XMM()
	g.VEXTRACTF128(operand.U8(1), v.AsY(), x)
	g.VADDPD(v.AsX(), x, x)
	g.VHADDPD(x, x, x)
	return x
}
