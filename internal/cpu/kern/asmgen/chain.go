package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Chains of elementwise operations on float32: threaded code.
//
// A chain is a list of steps, each of which names a fragment: straight-line code for eight vectors, or more, the
// accumulator, which stay in registers from one fragment to the next. A fragment combines the accumulator with memory,
// or with a number. Behind the last step, all begins anew with the next vectors.
//
//	steps    Load x ─▶ Mul ½ ─▶ Add x ─▶ Store y ─┐
//	           ▲                                  │  position += vectors, until the end
//	           └──────────────────────────────────┘
//
// Fragments are called, each step from a call of its own: a call that goes to one place, and a return, are what processors predict
// without fail. Fragments that jump to the next one go to as many places as an operation has successors in the chain, and were
// mispredicted on Zen 4 for many lists, once in a round or more: chains took up to four times as long.
//
// An address is base + (position AND moves): moves is −1 for operands and results, 0 for values of a
// round and for numbers, which stay where they are. Fragments share these registers and nothing else; chFence is zero
// until something was stored past the caches, which other threads see after a fence alone.
var (
	chStep, chFirst, chAt, chEnd, chTable = reg.RSI, reg.RBX, reg.RDX, reg.RDI, reg.R8
	chBase, chIndex, chFence, chPast      = reg.RAX, reg.RCX, reg.R9, reg.R10
)

// Fields of a step, in bytes; package simd declares the same order.
const (
	csCode, csBase, csMoves, csSize = 0, 8, 16, 24

	chainCalls = 32 // longer chains use them again
)

// emitChain emits fragments of eight vectors, and of more: fewer calls beside the arithmetic. Sixteen, of 32 registers, are the fastest
// where operands are in the caches; where they are not, the loads of the next round would begin only when this one's arithmetic is done
// (Zen 4 holds 320 instructions, a round of ten operations has 300), so that twelve are.
func emitChain(g *gen) {
	g.both(func() {
		emitFragments(&chainGen{g, "chain8", 8})
		emitFragments(&chainGen{g, "chain12", 12})
		if g.isa.zmm {
			emitFragments(&chainGen{g, "chain16", 16})
		}
	})
}

func emitFragments(c *chainGen) {
	c.moves()
	c.withMemory()
	c.withNumber()
	c.alone()
	c.entry()
}

// chainGen emits the fragments of a level, with so many vectors in the accumulator.
type chainGen struct {
	*gen
	name    string
	vectors int
}

// r is vector register i: of the accumulator, then of what fragments need beside it.
func (c *chainGen) r(i int) reg.Register {
	if c.isa.zmm {
		return [...]reg.Register{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9,
			reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19}[i]
	}
	return [...]reg.Register{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9,
		reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}[i]
}

// memory is vector i of what the step points to.
func (c *chainGen) memory(i int) operand.Mem {
	return operand.Mem{Base: chBase, Index: chIndex, Scale: 1, Disp: i * c.bytes()}
}

// entry emits the function that runs a chain.
func (c *chainGen) entry() {
	c.fn(c.name, "(steps *byte, count, bytes int)", "runs so many steps over so many bytes of each operand, a multiple of a round.")
	c.Load(c.Param("steps"), chFirst)
	c.Load(c.Param("count"), chPast)
	c.Load(c.Param("bytes"), chEnd)
	c.LEAQ(indexed(chPast, chPast, 2), chPast)
	c.LEAQ(indexed(chFirst, chPast, 8), chPast)
	c.XORL(chAt.As32(), chAt.As32())
	c.XORL(chFence.As32(), chFence.As32())
	table := operand.NewStaticSymbol(c.name + c.isa.suffix + "Fragments")
	c.resolve(operand.NewDataAddr(table, 0))
	c.Label("round")
	c.MOVQ(chFirst, chStep)
	c.Label("steps")
	for range chainCalls {
		c.call()
		c.CMPQ(chStep, chPast)
		c.JEQ(operand.LabelRef("next"))
	}
	c.JMP(operand.LabelRef("steps"))
	c.Label("next")
	c.ADDQ(operand.I32(c.vectors*c.bytes()), chAt)
	c.CMPQ(chAt, chEnd)
	c.JLT(operand.LabelRef("round"))
	c.TESTQ(chFence, chFence)
	c.JZ(operand.LabelRef("done"))
	c.SFENCE()
	c.Label("done")
	c.ret()
	c.families = append(c.families, family{table, c.kernels[c.name]})
	delete(c.kernels, c.name)
}

// resolve puts the addresses of fragments in the place of their numbers.
func (c *chainGen) resolve(table operand.Mem) {
	c.LEAQ(table, chTable)
	c.MOVQ(chFirst, chStep)
	c.Label("resolve")
	c.MOVQ(at(chStep, csCode), chIndex)
	c.MOVQ(indexed(chTable, chIndex, 8), chBase)
	c.MOVQ(chBase, at(chStep, csCode))
	c.ADDQ(operand.I8(csSize), chStep)
	c.CMPQ(chStep, chPast)
	c.JNE(operand.LabelRef("resolve"))
}

// call calls the fragment of the step.
func (c *chainGen) call() {
	fragment := at(chStep, csCode)
	c.Instruction(&ir.Instruction{Opcode: "CALL", Operands: []operand.Op{fragment}, Inputs: []operand.Op{fragment}})
}

// fragment emits a fragment of the next number.
func (c *chainGen) fragment(name string, body func()) {
	c.Function(c.name + name + c.isa.suffix)
	c.Attributes(attr.NOSPLIT)
	c.kernels[c.name] = append(c.kernels[c.name], c.name+name+c.isa.suffix)
	c.Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []operand.Op{operand.Imm(64)}}) // a tenth, with AVX2
	body()
	c.ADDQ(operand.I8(csSize), chStep)
	c.RET()
}

// all emits an instruction for each vector of the accumulator.
func (c *chainGen) all(emit func(i int, x reg.Register)) {
	for i := range c.vectors {
		emit(i, c.r(i))
	}
}

// address computes where the step's operand lies.
func (c *chainGen) address() {
	c.MOVQ(at(chStep, csMoves), chIndex)
	c.MOVQ(at(chStep, csBase), chBase)
	c.ANDQ(chAt, chIndex)
}

// moves emits loads and stores, past the caches, too.
func (c *chainGen) moves() {
	c.fragment("Load", func() {
		c.address()
		c.all(func(i int, x reg.Register) { c.VMOVUPS(c.memory(i), x) })
	})
	c.fragment("Store", func() {
		c.address()
		c.all(func(i int, x reg.Register) { c.VMOVUPS(x, c.memory(i)) })
	})
	c.fragment("Ahead", func() {
		c.address()
		for line := range c.vectors * c.bytes() / 64 {
			c.PREFETCHT0(operand.Mem{Base: chBase, Index: chIndex, Scale: 1, Disp: line * 64})
		}
	})
	c.fragment("Stream", func() {
		c.address()
		c.MOVQ(chStep, chFence) // not zero
		c.all(func(i int, x reg.Register) { c.VMOVNTPS(x, c.memory(i)) })
	})
}

// withMemory emits operations on the accumulator and memory.
func (c *chainGen) withMemory() {
	c.pairs("Add", c.VADDPS, false)
	c.pairs("Sub", c.VSUBPS, true)
	c.pairs("Mul", c.VMULPS, false)
	c.pairs("Div", c.VDIVPS, true)
	c.extreme("Max", c.VMAXPS)
	c.extreme("Min", c.VMINPS)
}

// pairs emits accumulator op memory, and memory op accumulator.
func (c *chainGen) pairs(name string, op op3, reversed bool) {
	c.fragment(name, func() {
		c.address()
		c.all(func(i int, x reg.Register) { op(c.memory(i), x, x) })
	})
	if reversed {
		c.fragment(name+"Of", func() {
			c.address()
			c.all(func(i int, x reg.Register) {
				t := c.r(c.vectors + i%4)
				c.VMOVUPS(c.memory(i), t)
				op(x, t, x)
			})
		})
	}
}

// extreme emits a maximum or minimum that is NaN where an operand is: the second operand of the instruction wins, so that
// a first one that is NaN is put back.
func (c *chainGen) extreme(name string, op op3) {
	c.fragment(name, func() {
		c.address()
		c.all(func(i int, x reg.Register) { c.ordered(op, c.memory(i), x, x, i) })
	})
	c.fragment(name+"Of", func() {
		c.address()
		c.all(func(i int, x reg.Register) {
			t := c.r(c.vectors + i%2)
			c.VMOVUPS(c.memory(i), t)
			c.ordered(op, x, t, x, i)
		})
	})
}

// ordered is d = a op b, or a where that is NaN.
func (c *chainGen) ordered(op op3, b operand.Op, a, d reg.Register, i int) {
	const cmpOrdered = 7
	if c.isa.zmm {
		k := [...]reg.Register{reg.K1, reg.K2, reg.K3, reg.K4}[i%4]
		c.VCMPPS(operand.U8(cmpOrdered), a, a, k)
		op(b, a, k, a)
		if a != d {
			c.VMOVAPS(a, d)
		}
		return
	}
	m, t := c.r(c.vectors+2), c.r(c.vectors+3)
	c.VCMPPS(operand.U8(cmpUnord), a, a, m)
	op(b, a, t)
	c.VBLENDVPS(m, a, t, d)
}

// withNumber emits operations on the accumulator and one number.
func (c *chainGen) withNumber() {
	n := c.r(c.vectors)
	for _, o := range []struct {
		name     string
		op       op3
		reversed bool
	}{
		{"AddNumber", c.VADDPS, false},
		{"SubNumber", c.VSUBPS, false},
		{"SubOfNumber", c.VSUBPS, true},
		{"MulNumber", c.VMULPS, false},
		{"MaxNumber", c.VMAXPS, true}, // of a number that is neither NaN nor zero
		{"MinNumber", c.VMINPS, true},
	} {
		c.fragment(o.name, func() {
			c.MOVQ(at(chStep, csBase), chBase)
			c.VBROADCASTSS(at(chBase, 0), n)
			c.all(func(_ int, x reg.Register) {
				if o.reversed {
					o.op(x, n, x)
				} else {
					o.op(n, x, x)
				}
			})
		})
	}
}

// number puts a number into all lanes of a register.
func (c *chainGen) number(k konst, r reg.Register) {
	c.VBROADCASTSS(c.konstMem(k), r)
}

// alone emits functions of the accumulator.
func (c *chainGen) alone() {
	n, m := c.r(c.vectors), c.r(c.vectors+1)
	c.fragment("Neg", func() {
		c.number(signBit, n)
		c.all(func(_ int, x reg.Register) { c.VXORPS(n, x, x) })
	})
	c.fragment("Abs", func() {
		c.number(absMask, n)
		c.all(func(_ int, x reg.Register) { c.VANDPS(n, x, x) })
	})
	c.fragment("Sqrt", func() { c.all(func(_ int, x reg.Register) { c.VSQRTPS(x, x) }) })
	c.fragment("Recip", func() {
		c.number(oneBits, n)
		c.all(func(_ int, x reg.Register) { c.VDIVPS(x, n, x) })
	})
	c.fragment("Square", func() { c.all(func(_ int, x reg.Register) { c.VMULPS(x, x, x) }) })
	for mode, name := range []string{"Nearest", "Floor", "Ceil"} {
		c.fragment(name, func() {
			c.all(func(_ int, x reg.Register) {
				if c.isa.zmm {
					c.VRNDSCALEPS(operand.U8(mode|8), x, x)
				} else {
					c.VROUNDPS(operand.U8(mode|8), x, x)
				}
			})
		})
	}
	c.fragment("Relu", func() {
		c.VXORPS(n, n, n)
		c.all(func(_ int, x reg.Register) { c.VMAXPS(x, n, x) })
	})
	c.fragment("Clip", func() {
		c.MOVQ(at(chStep, csBase), chBase)
		c.VBROADCASTSS(at(chBase, 0), n)
		c.VBROADCASTSS(at(chBase, 4), m)
		c.all(func(_ int, x reg.Register) {
			c.VMAXPS(x, n, x)
			c.VMINPS(x, m, x)
		})
	})
}
