package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gen emits code for one vector width at a time. Its methods hide the differences of
// AVX2 (YMM, masks in vector registers) and AVX-512 (ZMM, mask registers), so that a
// kernel is written once and emitted for both.
//
// Operands follow the mathematical order: g.sub(d, a, b) is d = a − b. The last
// operand may be a register, a memory operand or a constant.
type gen struct {
	*build.Context
	isa    isa
	tables map[string]operand.Mem // constants emitted so far in this file

	kernels  map[string][]string // kernels of families to come, by the name of the family
	families []family
}

// isa is a vector width.
type isa struct {
	suffix string // ends the names of functions
	w      int    // float32 lanes
	rows   int    // largest height of a micro-kernel
	zmm    bool
}

var (
	avx2   = isa{"AVX2", 8, 6, false}
	avx512 = isa{"AVX512", 16, 14, true}
)

// both emits the same kernels for both widths.
func (g *gen) both(emit func()) {
	for _, i := range []isa{avx2, avx512} {
		g.isa = i
		emit()
	}
}

type (
	vec  = reg.VecVirtual
	vecX = reg.VecVirtual
	gp   = reg.GPVirtual
)

// konst is a constant of 32 bits, used broadcast to all lanes.
type konst uint32

// f32 makes a constant of a number.
func f32(x float64) konst { return konst(math.Float32bits(float32(x))) }

// fn begins a function with the level's suffix and its Go signature.
func (g *gen) fn(name, signature, doc string) {
	g.Function(name + g.isa.suffix)
	g.Attributes(attr.NOSPLIT)
	g.Pragma("noescape")
	g.SignatureExpr("func" + signature)
	g.Doc(name + g.isa.suffix + " " + doc)
}

// ret leaves the function.
func (g *gen) ret() {
	g.VZEROUPPER()
	g.RET()
}

// arg loads an integer or pointer argument.
func (g *gen) arg(name string) gp {
	r := g.GP64()
	g.Load(g.Param(name), r)
	return r
}

// argVec loads a float32 argument into all lanes.
func (g *gen) argVec(name string) vec {
	v := g.v()
	m, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	g.VBROADCASTSS(m.Addr, v)
	return v
}

// v is a fresh vector register.
func (g *gen) v() vec {
	if g.isa.zmm {
		return g.ZMM()
	}
	return g.YMM()
}

// bytes is the width of a vector.
func (g *gen) bytes() int { return g.isa.w * 4 }

// at is a memory operand.
func at(base reg.Register, disp int) operand.Mem {
	return operand.Mem{Base: base, Disp: disp}
}

// indexed is memory at base + scale·index.
func indexed(base, index reg.Register, scale uint8) operand.Mem {
	return operand.Mem{Base: base, Index: index, Scale: scale}
}

// konstMem returns memory holding the constant in every lane (AVX2) or once
// (AVX-512, which broadcasts while loading).
func (g *gen) konstMem(c konst) operand.Mem {
	return g.table(fmt.Sprintf("k%08x", uint32(c)), 8, func(int) uint32 { return uint32(c) })
}

// splat is a register holding a constant in all lanes.
func (g *gen) splat(c konst) vec {
	v := g.v()
	if c == 0 {
		g.zero(v)
		return v
	}
	g.VBROADCASTSS(g.konstMem(c), v)
	return v
}

func (g *gen) zero(v vec) {
	if g.isa.zmm {
		g.VPXORD(v, v, v)
		return
	}
	g.VXORPS(v, v, v)
}

// zeroed is a fresh register of zeros.
func (g *gen) zeroed() vec {
	v := g.v()
	g.zero(v)
	return v
}

// set is a fresh register holding the result of an operation.
func (g *gen) set(op func(d, a vec, b any), a vec, b any) vec {
	d := g.v()
	op(d, a, b)
	return d
}

// to is a fresh register as the destination of an instruction.
func (g *gen) to(emit func(...operand.Op), ops ...operand.Op) vec {
	d := g.v()
	emit(append(ops, d)...)
	return d
}

// clampTo bounds v; it is the last operand of both instructions and so stays NaN.
func (g *gen) clampTo(v, lo, hi vec) {
	g.max(v, lo, v)
	g.min(v, hi, v)
}

// field loads 8 bytes of an argument block.
func (g *gen) field(args gp, off int) gp {
	r := g.GP64()
	g.MOVQ(at(args, off), r)
	return r
}

// when emits body, which runs if a flag is set.
func (g *gen) when(flags gp, flag int, name string, body func()) {
	g.TESTQ(operand.I32(flag), flags)
	g.JZ(operand.LabelRef("no_" + name))
	body()
	g.Label("no_" + name)
}

type op3 func(...operand.Op)

// three emits a three-operand instruction, choosing the broadcasting form for
// constants on AVX-512.
func (g *gen) three(plain, bcst op3, d, a vec, b any) {
	switch b := b.(type) {
	case konst:
		if g.isa.zmm && bcst != nil {
			bcst(g.konstMem(b), a, d)
			return
		}
		if g.isa.zmm {
			plain(g.splat(b), a, d)
			return
		}
		plain(g.konstMem(b), a, d)
	case operand.Op:
		plain(b, a, d)
	default:
		panic(fmt.Sprintf("operand %T", b))
	}
}

func (g *gen) add(d, a vec, b any) { g.three(g.VADDPS, g.VADDPS_BCST, d, a, b) }
func (g *gen) sub(d, a vec, b any) { g.three(g.VSUBPS, g.VSUBPS_BCST, d, a, b) }
func (g *gen) mul(d, a vec, b any) { g.three(g.VMULPS, g.VMULPS_BCST, d, a, b) }
func (g *gen) div(d, a vec, b any) { g.three(g.VDIVPS, g.VDIVPS_BCST, d, a, b) }

// max is d = a > b ? a : b, so b wins when either is NaN; min likewise.
func (g *gen) max(d, a vec, b any) { g.three(g.VMAXPS, g.VMAXPS_BCST, d, a, b) }
func (g *gen) min(d, a vec, b any) { g.three(g.VMINPS, g.VMINPS_BCST, d, a, b) }

// fma is d += a·b, fnma is d −= a·b.
func (g *gen) fma(d, a vec, b any)  { g.three(g.VFMADD231PS, g.VFMADD231PS_BCST, d, a, b) }
func (g *gen) fnma(d, a vec, b any) { g.three(g.VFNMADD231PS, g.VFNMADD231PS_BCST, d, a, b) }

// horner is d = d·x + c.
func (g *gen) horner(d, x vec, c any) { g.three(g.VFMADD213PS, g.VFMADD213PS_BCST, d, x, c) }

// Integer and bitwise operations on the lanes.
func (g *gen) and(d, a vec, b any)  { g.three(g.VANDPS, g.VANDPS_BCST, d, a, b) }
func (g *gen) or(d, a vec, b any)   { g.three(g.VORPS, g.VORPS_BCST, d, a, b) }
func (g *gen) xor(d, a vec, b any)  { g.three(g.VXORPS, g.VXORPS_BCST, d, a, b) }
func (g *gen) addi(d, a vec, b any) { g.three(g.VPADDD, g.VPADDD_BCST, d, a, b) }
func (g *gen) subi(d, a vec, b any) { g.three(g.VPSUBD, g.VPSUBD_BCST, d, a, b) }

// ld and st move a whole vector.
func (g *gen) ld(m operand.Mem) vec {
	return g.to(g.VMOVUPS, m)
}

func (g *gen) st(v vec, m operand.Mem) { g.VMOVUPS(v, m) }

// copyOf is a fresh register with the same contents.
func (g *gen) copyOf(a vec) vec {
	return g.to(g.VMOVAPS, a)
}

// mask selects lanes of a vector: those of a comparison, or the first ones.
type mask struct {
	k reg.OpmaskVirtual // AVX-512
	v vec               // AVX2
}

// tailOf makes the mask of the first n lanes, n below the number of lanes. The
// register n is kept.
func (g *gen) tailOf(n gp) mask {
	t := g.GP64()
	if g.isa.zmm {
		g.MOVQ(operand.I32(-1), t)
		g.BZHIQ(n, t, t)
		k := g.K()
		g.KMOVW(t.As32(), k)
		return mask{k: k}
	}
	// Eight lanes of ones, followed by eight of zeros.
	g.LEAQ(g.table("tailmasks", 16, func(i int) uint32 { return uint32(int32(i/8-1) >> 31) }), t)
	o := g.GP64()
	g.MOVQ(operand.I32(8), o)
	g.SUBQ(n, o)
	v := g.YMM()
	g.VMOVUPS(indexed(t, o, 4), v)
	return mask{v: v}
}

// table is memory holding n 32-bit numbers, n even.
func (g *gen) table(name string, n int, at func(i int) uint32) operand.Mem {
	if m, ok := g.tables[name]; ok {
		return m
	}
	m := g.StaticGlobal(name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := 0; i < n; i += 2 {
		g.AppendDatum(operand.U64(uint64(at(i+1))<<32 | uint64(at(i))))
	}
	g.tables[name] = m
	return m
}

// ldTail loads the selected lanes and clears the others; it does not touch the
// memory of the others.
func (g *gen) ldTail(m operand.Mem, t mask) vec {
	v := g.v()
	if g.isa.zmm {
		g.VMOVUPS_Z(m, t.k, v)
	} else {
		g.VMASKMOVPS(m, t.v, v)
	}
	return v
}

// stTail stores the selected lanes.
func (g *gen) stTail(v vec, m operand.Mem, t mask) {
	if g.isa.zmm {
		g.VMOVUPS(v, t.k, m)
		return
	}
	g.VMASKMOVPS(v, t.v, m)
}

// loop runs body while n ≥ step, subtracting step each time.
func (g *gen) loop(name string, n gp, step int, body func()) {
	g.Label(name)
	g.CMPQ(n, operand.I32(step))
	g.JLT(operand.LabelRef(name + "_end"))
	body()
	g.SUBQ(operand.I32(step), n)
	g.JMP(operand.LabelRef(name))
	g.Label(name + "_end")
}

// advance moves pointers by a number of bytes.
func (g *gen) advance(by int, ps ...gp) {
	for _, p := range ps {
		g.ADDQ(operand.I32(by), p)
	}
}
