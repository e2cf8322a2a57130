package main

import (
	"github.com/mmcloughlin/avo/operand"
)

// Rows of integers, comparisons and choices. The step of an operand is the bytes from one
// vector to the next; 0 says that it is one element, which is written out to a vector on the
// stack and read again and again. All lengths are multiples of the lanes; the caller does the
// rest.

func emitRowOps(g *gen) {
	g.both(func() {
		g.intRow("Add", g.VPADDD)
		g.intRow("Sub", g.VPSUBD)
		g.intRow("Mul", g.VPMULLD)
		for relation, name := range []string{"Equal", "Less", "AtMost"} {
			for kind, suffix := range []string{"F32", "I32", "I64"} {
				g.compareRow(name+suffix, relation, kind)
			}
		}
		g.chooseRow()
	})
}

// steppedRow loops over vectors of two operands, lanes elements at a time.
func (g *gen) steppedRow(name, signature, doc string, lanes, size int, body func(dst gp, a, b operand.Mem)) {
	g.fn(name, signature, doc+" n is a multiple of the lanes.")
	dst, a, b, n := g.arg("dst"), g.arg("a"), g.arg("b"), g.arg("n")
	sa, sb := g.arg("stepA"), g.arg("stepB")
	g.writeOut("a", a, sa, g.bytes()/lanes)
	g.writeOut("b", b, sb, g.bytes()/lanes)
	g.loop("one", n, lanes, func() {
		body(dst, at(a, 0), at(b, 0))
		g.ADDQ(sa, a)
		g.ADDQ(sb, b)
		g.advance(lanes*size, dst)
	})
	g.ret()
}

// writeOut makes a vector of an operand that is one element of so many bytes.
func (g *gen) writeOut(name string, p, step gp, size int) {
	v, spread := g.v(), g.VPBROADCASTD
	if size == 8 {
		spread = g.VPBROADCASTQ
	}
	g.TESTQ(step, step)
	g.JNZ(operand.LabelRef("row_" + name))
	spread(at(p, 0), v)
	m := g.AllocLocal(g.bytes())
	g.st(v, m)
	g.LEAQ(m, p)
	g.Label("row_" + name)
}

func (g *gen) intRow(name string, op func(...operand.Op)) {
	g.steppedRow("int"+name, "(dst, a, b *int32, n, stepA, stepB int)", "computes a row of 32-bit integers.", g.isa.w, 4, func(dst gp, a, b operand.Mem) {
		v := g.ld(a)
		op(b, v, v)
		g.st(v, at(dst, 0))
	})
}

// compareRow emits a comparison, which gives bytes of 0 and 1. kind is 0 for float32, 1 for
// int32, 2 for int64.
func (g *gen) compareRow(name string, relation, kind int) {
	lanes, elem := g.isa.w, []string{"float32", "int32", "int64"}[kind]
	if kind == 2 {
		lanes /= 2
	}
	g.steppedRow("compare"+name, "(dst *bool, a, b *"+elem+", n, stepA, stepB int)", "compares rows; NaN is unequal to all.", lanes, 1, func(dst gp, a, b operand.Mem) {
		if g.isa.zmm {
			k, x := g.K(), g.XMM()
			[]func(...operand.Op){g.VCMPPS, g.VPCMPD, g.VPCMPQ}[kind](operand.U8(relation), b, g.ld(a), k)
			g.VMOVDQU8_Z(g.table("byteones", 4, func(int) uint32 { return 0x01010101 }), k, x)
			if kind == 2 {
				g.VMOVQ(x, at(dst, 0))
			} else {
				g.VMOVDQU(x, at(dst, 0))
			}
			return
		}
		bits, spread := g.compared(relation, kind, a, b), g.GP64()
		g.MOVQ(operand.U64(0x0101010101010101), spread)
		g.PDEPQ(spread, bits, bits)
		if kind == 2 {
			g.MOVL(bits.As32(), at(dst, 0))
		} else {
			g.MOVQ(bits, at(dst, 0))
		}
	})
}

// compared is a comparison of AVX2, a bit for each lane.
func (g *gen) compared(relation, kind int, a, b operand.Mem) gp {
	v, bits := g.v(), g.GP64()
	x, y := g.ld(a), g.ld(b)
	equal := []func(...operand.Op){nil, g.VPCMPEQD, g.VPCMPEQQ}[kind]
	greater := []func(...operand.Op){nil, g.VPCMPGTD, g.VPCMPGTQ}[kind]
	switch {
	case kind == 0:
		g.VCMPPS(operand.U8(relation), y, x, v)
	case relation == 0:
		equal(y, x, v)
	case relation == 1:
		greater(x, y, v) // y > x
	default:
		greater(y, x, v) // x > y, negated below
	}
	lanes := 8
	if kind == 2 {
		lanes = 4
		g.VMOVMSKPD(v, bits.As32())
	} else {
		g.VMOVMSKPS(v, bits.As32())
	}
	if kind > 0 && relation == 2 {
		g.XORQ(operand.I32(1<<lanes-1), bits)
	}
	return bits
}

// chooseRow emits dst = cond ? a : b over elements of four bytes.
func (g *gen) chooseRow() {
	g.fn("choose", "(dst *uint32, cond *byte, a, b *uint32, n, stepA, stepB int)",
		"takes a where a byte is not 0, else b; n is a multiple of the lanes.")
	dst, cond, a, b, n := g.arg("dst"), g.arg("cond"), g.arg("a"), g.arg("b"), g.arg("n")
	sa, sb := g.arg("stepA"), g.arg("stepB")
	g.writeOut("a", a, sa, 4)
	g.writeOut("b", b, sb, 4)
	none := g.zeroed()
	g.loop("one", n, g.isa.w, func() {
		c := g.to(g.VPMOVZXBD, at(cond, 0))
		x, y := g.ld(at(a, 0)), g.ld(at(b, 0))
		if g.isa.zmm {
			k := g.K()
			g.VPTESTMD(c, c, k)
			g.VBLENDMPS(x, y, k, y)
		} else {
			g.VPCMPEQD(none, c, c)
			g.VBLENDVPS(c, y, x, y)
		}
		g.st(y, at(dst, 0))
		g.ADDQ(sa, a)
		g.ADDQ(sb, b)
		g.advance(g.bytes(), dst)
		g.advance(g.isa.w, cond)
	})
	g.ret()
}
