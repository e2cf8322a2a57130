package main

import (
	"strconv"

	"github.com/mmcloughlin/avo/operand"
)

// Micro-kernels of the integer product. Operands are packed into words of 32
// bits that hold a few consecutive k, so packing and loops are those of the
// float32 product with words in place of numbers:
//
//	quads  four bytes, one of the operands unsigned, the other signed:
//	       VPDPBUSD adds the four products to a 32-bit sum (AVX-512 VNNI)
//	pairs  two 16-bit numbers: VPMADDWD multiplies and adds them, VPADDD adds
//	       the result to the sum (AVX2); nothing can saturate
//	byte pairs  columns of pairs kept as signed bytes, which are extended while they are read
//
// The argument block is that of the float32 kernels. Of the epilogue there are
// the biases, which carry the corrections for zero points, and adding to C.
func emitInt8(g *gen) {
	g.isa = avx512
	for h := 1; h <= g.isa.rows; h++ {
		g.intKernel("uq", h, g.ldWords, func(t *tile, acc [2]vec, b [2]vec, m operand.Mem) {
			a := t.to(t.VPBROADCASTD, m)
			t.VPDPBUSD(b[0], a, acc[0])
			t.VPDPBUSD(b[1], a, acc[1])
		})
	}
	g.family("uq", "multiplies i+1 unsigned rows by two vectors of signed columns: quads.")
	g.isa = avx2
	for _, k := range []struct {
		name, doc string
		row       rowLoad
	}{
		{"pairs", "multiplies i+1 rows by two vectors: pairs of 16 bits.", g.ldWords},
		{"bytePairs", "is the same for columns of signed bytes.", func(b gp, j int) vec { return g.to(g.VPMOVSXBW, at(b, 16*j)) }},
	} {
		for h := 1; h <= g.isa.rows; h++ {
			g.intKernel(k.name, h, k.row, func(t *tile, acc [2]vec, b [2]vec, m operand.Mem) {
				a := t.to(t.VPBROADCASTD, m)
				for j := range 2 {
					p := t.to(t.VPMADDWD, b[j], a)
					t.addi(acc[j], acc[j], p)
				}
			})
		}
		g.family(k.name, k.doc)
	}
	g.both(func() {
		g.fn("intMulSub", "(dst, x *int32, n int, s int32)", "is dst −= x·s.")
		dst, x, n := g.arg("dst"), g.arg("x"), g.arg("n")
		s := g.argVec("s")
		g.over(n, []gp{dst, x}, func(off int, m *mask) {
			p := g.to(g.VPMULLD, g.get(x, off, m), s)
			d := g.get(dst, off, m)
			g.subi(d, d, p)
			g.put(d, dst, off, m)
		})
		g.ret()
		g.maxBytes()
		g.widen("widenU8", "zero-extends bytes.", g.VPMOVZXBW)
		g.widen("widenS8", "sign-extends bytes.", g.VPMOVSXBW)
		g.quantize()
	})
	g.interleave()
	emitBytePixels(g)
	emitBytePlane(g)
}

// rowLoad loads vector j of a row of words at b.
type rowLoad func(b gp, j int) vec

func (g *gen) ldWords(b gp, j int) vec { return g.ld(at(b, j*g.bytes())) }

// intKernel emits one integer micro-kernel.
func (g *gen) intKernel(name string, h int, row rowLoad, mac func(t *tile, acc [2]vec, b [2]vec, m operand.Mem)) {
	t := &tile{gen: g, h: h, vectors: 2, args: g.kernel(name, strconv.Itoa(h))}
	t.acc = make([][2]vec, h)
	for i := range t.acc {
		t.acc[i] = t.zeros()
	}
	a, b, ldb, k := t.field(t.args, ukA), t.field(t.args, ukB), t.field(t.args, ukLDB), t.field(t.args, ukK)
	step := func(u int) {
		x := [2]vec{row(b, 0), row(b, 1)}
		for i := range h {
			mac(t, t.acc[i], x, at(a, (u*h+i)*4))
		}
		t.ADDQ(ldb, b)
	}
	if h <= 4 { // larger tiles take long enough for the loop to cost nothing
		t.loop("k2", k, 2, func() {
			step(0)
			step(1)
			t.advance(8*h, a)
		})
	}
	t.loop("k1", k, 1, func() {
		step(0)
		t.advance(4*h, a)
	})
	t.intEpilogue()
}

func (t *tile) intEpilogue() {
	flags := t.field(t.args, ukFlags)
	t.when(flags, flagRow, "row", func() {
		p := t.field(t.args, ukBias)
		for i := range t.h {
			b := t.to(t.VPBROADCASTD, at(p, 4*i))
			t.addi(t.acc[i][0], t.acc[i][0], b)
			t.addi(t.acc[i][1], t.acc[i][1], b)
		}
	})
	t.biasCol(flags, t.addi)
	t.overColumns(flags, nil, func(form string, m *[2]mask) {
		t.when(flags, flagAcc, "acc"+form, func() { t.addInts(m) })
		t.store(m)
	})
}

// addInts adds C to the sums.
func (t *tile) addInts(m *[2]mask) {
	t.vectorsAt(ukC, ukLDC, func(i, j int, p gp) { t.addi(t.acc[i][j], t.acc[i][j], t.get(p, j*t.bytes(), half(m, j))) })
}

// maxBytes emits the maxima of bytes, a vector at a time.
func (g *gen) maxBytes() {
	g.fn("maxBytes", "(dst, a, b *byte, n int, flip uint32)", "is the larger of a and b, which flip makes unsigned by exclusive or; n is a multiple of the vector.")
	dst, a, b, n := g.arg("dst"), g.arg("a"), g.arg("b"), g.arg("n")
	flip := g.argVec("flip")
	g.loop("one", n, g.bytes(), func() {
		x, y := g.ld(at(a, 0)), g.ld(at(b, 0))
		for _, v := range []vec{x, y} {
			g.xor(v, v, flip)
		}
		g.VPMAXUB(y, x, x)
		g.xor(x, x, flip)
		g.st(x, at(dst, 0))
		g.advance(g.bytes(), dst, a, b)
	})
	g.ret()
}

// widen turns bytes into 16-bit numbers, 2·lanes at a time.
func (g *gen) widen(name, doc string, ext func(...operand.Op)) {
	g.fn(name, "(dst *int16, src *byte, n int)", doc+" n is a multiple of twice the lanes.")
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	w := 2 * g.isa.w
	g.loop("one", n, w, func() {
		v := g.v()
		ext(at(src, 0), v)
		g.st(v, at(dst, 0))
		g.advance(2*w, dst)
		g.advance(w, src)
	})
	g.ret()
}

// quantize emits conversions between bytes and float32, lanes at a time.
func (g *gen) quantize() {
	for _, signed := range []bool{false, true} {
		name, ext := "U8", g.VPMOVZXBD
		if signed {
			name, ext = "S8", g.VPMOVSXBD
		}
		g.fn("dequant"+name, "(dst *float32, src *byte, n int, scale, zero float32)",
			"is (src − zero)·scale; n is a multiple of the lanes.")
		dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
		scale, zero := g.argVec("scale"), g.argVec("zero")
		g.loop("one", n, g.isa.w, func() {
			v := g.v()
			ext(at(src, 0), v)
			g.VCVTDQ2PS(v, v)
			g.sub(v, v, zero)
			g.mul(v, v, scale)
			g.st(v, at(dst, 0))
			g.advance(g.bytes(), dst)
			g.advance(g.isa.w, src)
		})
		g.ret()
	}
	// lo and hi bound x/scale before the zero point is added: qmin − zero and
	// qmax − zero, so the sum fits a byte of either sign.
	g.toBytes("quant", "(dst *byte, src *float32, n int, scale, lo, hi float32, zero int32)", "is round(clamp(src/scale)) + zero",
		func(src gp, scale vec) vec { return g.set(g.div, g.ld(at(src, 0)), scale) })
	g.toBytes("requant", "(dst *byte, src *int32, n int, scale, lo, hi float32, zero int32)", "is round(clamp(src·scale)) + zero",
		func(src gp, scale vec) vec {
			v := g.to(g.VCVTDQ2PS, at(src, 0))
			g.mul(v, v, scale)
			return v
		})
	if g.isa.zmm {
		g.quantFours()
	}
	g.intToFloat()
}

// quantFours emits requantizations of rows, 64 sums at a time, and sums of quantized numbers: saturation
// while packing takes the place of a clamp and of the conversion of each vector to bytes.
func (g *gen) quantFours() {
	g.requantRows()
	for _, signed := range []bool{false, true} {
		name, narrow, ext := "U8", g.VPACKUSWB, g.VPMOVZXBD
		if signed {
			name, narrow, ext = "S8", g.VPACKSSWB, g.VPMOVSXBD
		}
		g.fn("addFours"+name, "(dst, a, b *byte, n int, fa, fb, start, most float32)",
			"is saturate(round(min(a·fa + b·fb + start, most))); n is a multiple of 64.")
		dst, a, b := g.arg("dst"), g.arg("a"), g.arg("b")
		n := g.arg("n")
		fa, fb, start, most := g.argVec("fa"), g.argVec("fb"), g.argVec("start"), g.argVec("most")
		order := g.quarters()
		g.loop("four", n, 64, func() {
			var v [4]vec
			for i := range v {
				x := g.v()
				v[i] = g.copyOf(start)
				for _, o := range []struct {
					p gp
					f vec
				}{{a, fa}, {b, fb}} {
					ext(at(o.p, 16*i), x)
					g.VCVTDQ2PS(x, x)
					g.fma(v[i], x, o.f)
				}
			}
			g.inOrder(g.narrowFour(v, most, nil, narrow), order, dst)
			g.advance(64, a, b, dst)
		})
		g.ret()
	}
}

// quarters is the order that brings four vectors packed to bytes back behind each other.
func (g *gen) quarters() vec {
	return g.ld(g.table("quarters", 16, func(i int) uint32 { return uint32(i%4*4 + i/4) }))
}

// inOrder stores four packed vectors behind each other.
func (g *gen) inOrder(v, order vec, dst gp) {
	g.VPERMD(v, order, v)
	g.st(v, at(dst, 0))
}

// requantRows emits a requantization of rows with a factor each.
func (g *gen) requantRows() {
	g.fn("requantRows", "(dst *byte, src *int32, rows, n, dstRow, srcRow int, factors *float32, least, most float32, zero, zeros int32, flip uint32)",
		"is saturate(round(min(src·factor, most)) + zero) with flip added by exclusive or, for rows of n elements, dstRow and srcRow bytes apart; zero is that of the signed bytes, zeros the same twice, in 16 bits each.")
	dstRow, srcRow, factors, rows := g.arg("dst"), g.arg("src"), g.arg("factors"), g.arg("rows")
	least, most, zero, zeros, flip := g.argVec("least"), g.argVec("most"), g.argVec("zero"), g.argVec("zeros"), g.argVec("flip")
	order := g.quarters()
	g.loop("row", rows, 1, func() {
		dst, src, n := g.GP64(), g.GP64(), g.arg("n")
		g.MOVQ(dstRow, dst)
		g.MOVQ(srcRow, src)
		scale := g.to(g.VBROADCASTSS, at(factors, 0))
		g.loop("four", n, 64, func() {
			var v [4]vec
			for i := range v {
				v[i] = g.to(g.VCVTDQ2PS, at(src, i*g.bytes()))
				g.mul(v[i], v[i], scale)
			}
			y := g.narrowFour(v, most, &zeros, g.VPACKSSWB)
			g.VPXORD(flip, y, y)
			g.inOrder(y, order, dst)
			g.advance(4*g.bytes(), src)
			g.advance(64, dst)
		})
		one := func(m *mask) {
			v := g.get(src, 0, m)
			g.VCVTDQ2PS(v, v)
			g.mul(v, v, scale)
			g.bounded(v, least, most)
			g.VCVTPS2DQ(v, v)
			g.addi(v, v, zero)
			g.VPXORD(flip, v, v)
			if m == nil {
				g.VPMOVDB(v, at(dst, 0))
			} else {
				g.VPMOVDB(v, m.k, at(dst, 0))
			}
		}
		g.loop("one", n, 16, func() {
			one(nil)
			g.advance(g.bytes(), src)
			g.advance(16, dst)
		})
		g.rest(n, one)
		g.advance(4, factors)
		by := g.arg("dstRow")
		g.ADDQ(by, dstRow)
		by = g.arg("srcRow")
		g.ADDQ(by, srcRow)
	})
	g.ret()
}

// narrowFour rounds four vectors, adds a zero point of 16 bits, and packs them to bytes: four of each vector in
// every quarter.
func (g *gen) narrowFour(v [4]vec, most vec, zero *vec, narrow func(...operand.Op)) vec {
	for i := range v {
		g.min(v[i], most, v[i]) // NaN stays, which is converted to the least integer
		g.VCVTPS2DQ(v[i], v[i])
	}
	for i := 0; i < 4; i += 2 {
		g.VPACKSSDW(v[i+1], v[i], v[i])
		if zero != nil {
			g.VPADDSW(*zero, v[i], v[i])
		}
	}
	narrow(v[2], v[0], v[0])
	return v[0]
}

// toBytes emits a quantization; scaled loads and scales a vector.
func (g *gen) toBytes(name, signature, doc string, scaled func(src gp, scale vec) vec) {
	g.fn(name, signature, doc+"; n is a multiple of the lanes.")
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	scale, lo, hi, zero := g.argVec("scale"), g.argVec("lo"), g.argVec("hi"), g.argVec("zero")
	g.loop("one", n, g.isa.w, func() {
		g.roundToByte(scaled(src, scale), lo, hi, zero, dst)
		g.advance(g.bytes(), src)
		g.advance(g.isa.w, dst)
	})
	g.ret()
}

// bounded is v within bounds; NaN becomes the lower one.
func (g *gen) bounded(v, lo, hi vec) {
	g.max(v, v, lo)
	g.min(v, v, hi)
}

// roundToByte clamps, rounds to nearest even, adds the zero point and stores
// the low byte of each lane.
func (g *gen) roundToByte(v, lo, hi, zero vec, dst gp) {
	g.bounded(v, lo, hi)
	g.VCVTPS2DQ(v, v)
	g.addi(v, v, zero)
	if g.isa.zmm {
		g.VPMOVDB(v, at(dst, 0))
		return
	}
	// Bytes 0, 4, 8, 12 of each half to its low word; then the two words.
	pick := g.ld(g.table("lowbytes", 8, func(i int) uint32 { return []uint32{0x0c080400, 0x80808080, 0x80808080, 0x80808080}[i%4] }))
	g.VPSHUFB(pick, v, v)
	h := g.XMM()
	g.VEXTRACTI128(operand.U8(1), v, h)
	g.VPUNPCKLDQ(h, v.AsX(), h)
	g.VMOVQ(h, at(dst, 0))
}

// intToFloat emits the conversions between 32-bit integers and float32.
func (g *gen) intToFloat() {
	g.fn("intToFloat", "(dst *float32, src *int32, n int, scale float32)", "is src·scale.")
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	scale := g.argVec("scale")
	g.over(n, []gp{dst, src}, func(off int, m *mask) {
		v := g.get(src, off, m)
		g.VCVTDQ2PS(v, v)
		g.mul(v, v, scale)
		g.put(v, dst, off, m)
	})
	g.ret()
	g.fn("floatToInt", "(dst *int32, src *float32, n int)", "rounds to nearest.")
	dst, src, n = g.arg("dst"), g.arg("src"), g.arg("n")
	g.over(n, []gp{dst, src}, func(off int, m *mask) {
		v := g.get(src, off, m)
		g.VCVTPS2DQ(v, v)
		g.put(v, dst, off, m)
	})
	g.ret()
}

// interleave emits the kernels that interleave rows of bytes, one for each channel, to
// one row of words: four channels to a quad (AVX-512, any length), two to a
// pair (AVX2, a multiple of sixteen). flip is xored into every byte of a quad.
func (g *gen) interleave() {
	g.isa = avx512
	g.fn("quadRow", "(dst *uint32, src *byte, n, plane int, flip uint32)",
		"interleaves n bytes of four channels, plane bytes apart.")
	dst, src, n, plane := g.arg("dst"), g.arg("src"), g.arg("n"), g.arg("plane")
	plane3 := g.GP64()
	g.LEAQ(indexed(plane, plane, 2), plane3)
	flip := g.argVec("flip")
	row := func(m *mask) {
		var c [4]vecX
		for i := range c {
			mem := []operand.Mem{at(src, 0), indexed(src, plane, 1), indexed(src, plane, 2), indexed(src, plane3, 1)}[i]
			c[i] = g.XMM()
			if m == nil {
				g.VMOVDQU(mem, c[i])
			} else {
				g.VMOVDQU8_Z(mem, m.k, c[i])
			}
		}
		z := g.quads(c)
		g.VPXORD(flip, z, z)
		g.put(z, dst, 0, m)
	}
	g.loop("one", n, 16, func() {
		row(nil)
		g.advance(64, dst)
		g.advance(16, src)
	})
	g.rest(n, row)
	g.ret()

	g.isa = avx2
	for _, k := range []struct {
		name string
		ext  func(...operand.Op)
	}{{"pairRowU8", g.VPMOVZXBW}, {"pairRowS8", g.VPMOVSXBW}} {
		g.fn(k.name, "(dst *uint32, src *byte, n, plane int)",
			"widens and interleaves n bytes of two channels; n is a multiple of sixteen.")
		dst, src, n, plane := g.arg("dst"), g.arg("src"), g.arg("n"), g.arg("plane")
		g.loop("one", n, 16, func() {
			a, b, x := g.XMM(), g.XMM(), g.XMM()
			g.VMOVDQU(at(src, 0), a)
			g.VMOVDQU(indexed(src, plane, 1), b)
			lo, hi := g.YMM(), g.YMM()
			g.VPUNPCKLBW(b, a, x)
			k.ext(x, lo)
			g.VPUNPCKHBW(b, a, x)
			k.ext(x, hi)
			g.st(lo, at(dst, 0))
			g.st(hi, at(dst, 32))
			g.advance(64, dst)
			g.advance(16, src)
		})
		g.ret()
	}
}

// quads interleaves sixteen bytes of four channels.
func (g *gen) quads(c [4]vecX) vec {
	ab, cd := [2]vecX{g.XMM(), g.XMM()}, [2]vecX{g.XMM(), g.XMM()}
	g.VPUNPCKLBW(c[1], c[0], ab[0])
	g.VPUNPCKHBW(c[1], c[0], ab[1])
	g.VPUNPCKLBW(c[3], c[2], cd[0])
	g.VPUNPCKHBW(c[3], c[2], cd[1])
	z := g.ZMM()
	for i := range 4 {
		x := g.XMM()
		if i%2 == 0 {
			g.VPUNPCKLWD(cd[i/2], ab[i/2], x)
		} else {
			g.VPUNPCKHWD(cd[i/2], ab[i/2], x)
		}
		if i == 0 {
			g.VMOVDQA32(x, z.AsX())
		} else {
			g.VINSERTI32X4(operand.U8(uint8(i)), x, z, z)
		}
	}
	return z
}
