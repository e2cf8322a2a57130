package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Chains of elementwise operations on float32: threaded code.
//
// A chain is a list of steps, each of which names a fragment: straight-line code for eight vectors, the
// accumulator, which stay in registers from one fragment to the next. A fragment combines the accumulator with memory,
// or with a number, and jumps to that of the next step; the last step moves on by eight vectors and begins anew.
//
//	steps    Load x ─▶ Mul ½ ─▶ Add x ─▶ Store y ─▶ Round ─┐
//	           ▲                                           │  position += 8 vectors, until the end
//	           └───────────────────────────────────────────┘
//
// An address is base + (position AND moves): moves is −1 for operands and results, 0 for values of a
// round and for numbers, which stay where they are. Fragments share these registers and nothing else; chFence is zero
// until something was stored past the caches, which other threads see after a fence alone.
var (
	chStep, chFirst, chAt, chEnd, chTable = reg.RSI, reg.RBX, reg.RDX, reg.RDI, reg.R8
	chBase, chIndex, chFence              = reg.RAX, reg.RCX, reg.R9
)

// Fields of a step, in bytes; package simd declares the same order.
const (
	csCode, csBase, csMoves, csSize = 0, 8, 16, 24

	chainVectors = 8
)

func emitChain(g *gen) {
	g.both(func() {
		c := &chainGen{gen: g}
		c.frame()
		c.moves()
		c.withMemory()
		c.withNumber()
		c.alone()
		c.entry()
	})
}

// chainGen emits the fragments of a level.
type chainGen struct{ *gen }

// r is vector register i.
func (c *chainGen) r(i int) reg.Register {
	if c.isa.zmm {
		return [...]reg.Register{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11}[i]
	}
	return [...]reg.Register{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11}[i]
}

// memory is vector i of what the step points to.
func (c *chainGen) memory(i int) operand.Mem {
	return operand.Mem{Base: chBase, Index: chIndex, Scale: 1, Disp: i * c.bytes()}
}

// entry emits the function that runs a chain.
func (c *chainGen) entry() {
	c.fn("chain", "(steps *byte, bytes int)", "runs the steps over so many bytes of each operand, a multiple of a round.")
	c.Load(c.Param("steps"), chFirst)
	c.Load(c.Param("bytes"), chEnd)
	c.MOVQ(chFirst, chStep)
	c.XORL(chAt.As32(), chAt.As32())
	c.XORL(chFence.As32(), chFence.As32())
	table := operand.NewStaticSymbol("chain" + c.isa.suffix + "Fragments")
	c.LEAQ(operand.NewDataAddr(table, 0), chTable)
	c.jump()
	c.families = append(c.families, family{table, c.kernels["chain"]})
	delete(c.kernels, "chain")
}

// jump goes to the fragment of the step.
func (c *chainGen) jump() {
	c.MOVQ(at(chStep, csCode), chIndex)
	entry := indexed(chTable, chIndex, 8)
	c.Instruction(&ir.Instruction{Opcode: "JMP", Operands: []operand.Op{entry}, Inputs: []operand.Op{entry}, IsTerminal: true})
}

// fragment emits a fragment of the next number.
func (c *chainGen) fragment(name string, body func()) {
	c.Function("chain" + name + c.isa.suffix)
	c.Attributes(attr.NOSPLIT)
	c.kernels["chain"] = append(c.kernels["chain"], "chain"+name+c.isa.suffix)
	body()
	c.ADDQ(operand.I8(csSize), chStep)
	c.jump()
}

// frame emits the end of a round.
func (c *chainGen) frame() {
	c.Function("chainRound" + c.isa.suffix)
	c.Attributes(attr.NOSPLIT)
	c.kernels["chain"] = append(c.kernels["chain"], "chainRound"+c.isa.suffix)
	c.ADDQ(operand.I32(chainVectors*c.bytes()), chAt)
	c.CMPQ(chAt, chEnd)
	c.JGE(operand.LabelRef("end"))
	c.MOVQ(chFirst, chStep)
	c.jump()
	c.Label("end")
	c.TESTQ(chFence, chFence)
	c.JZ(operand.LabelRef("done"))
	c.SFENCE()
	c.Label("done")
	c.ret()
}

// all emits an instruction for each vector of the accumulator.
func (c *chainGen) all(emit func(i int, x reg.Register)) {
	for i := range chainVectors {
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
		for line := range chainVectors * c.bytes() / 64 {
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
				t := c.r(chainVectors + i%4)
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
			t := c.r(chainVectors + i%2)
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
	m, t := c.r(chainVectors+2), c.r(chainVectors+3)
	c.VCMPPS(operand.U8(cmpUnord), a, a, m)
	op(b, a, t)
	c.VBLENDVPS(m, a, t, d)
}

// withNumber emits operations on the accumulator and one number.
func (c *chainGen) withNumber() {
	n := c.r(chainVectors)
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
	n, m := c.r(chainVectors), c.r(chainVectors+1)
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
		c.VXORPS(reg.X8, reg.X8, reg.X8)
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
