package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// emitNBits emits the dequantization of panels of columns whose numbers have 2, 4 or 8 bits. A
// row of bytes holds a byte of each column: several k, the lowest bits first.
//
//	byte of column n:  k+1 │ k     ──▶   rows k and k+1 of the panel: (q − zero[n])·scale[n]
func emitNBits(g *gen) {
	g.both(func() {
		for _, bits := range []int{2, 4, 8} {
			g.fn(fmt.Sprintf("nbits%d", bits), "(dst *float32, src *byte, scale, zero *float32, n int)", "dequantizes n rows of bytes of a panel.")
			dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
			scale, zero := g.arg("scale"), g.arg("zero")
			s := [2]vec{g.ld(at(scale, 0)), g.ld(at(scale, g.bytes()))}
			z := [2]vec{g.ld(at(zero, 0)), g.ld(at(zero, g.bytes()))}
			low := g.splat(konst(1<<bits - 1))
			g.loop("row", n, 1, func() {
				for j := range 2 {
					x := g.to(g.VPMOVZXBD, at(src, j*g.isa.w))
					for k := 0; k*bits < 8; k++ {
						g.numbers(x, low, k*bits, k*bits+bits == 8, s[j], z[j], at(dst, (2*k+j)*g.bytes()))
					}
				}
				g.advance(8/bits*2*g.bytes(), dst)
				g.advance(2*g.isa.w, src)
			})
			g.ret()
		}
		for _, bits := range []int{2, 4, 8} {
			g.nbitsRows(bits, 1)
		}
		for h := 2; h <= g.isa.rows/3; h *= 2 {
			g.nbitsRows(4, h)
		}
		if g.isa.zmm {
			for _, digits := range []int{1, 3} {
				for _, bits := range []int{4, 8} {
					g.nbitsBytes(bits, 1, digits)
					g.nbitsBytes(bits, 4, digits)
				}
			}
			g.nbitsQuantize("nbitsQuantize", 1)
			g.nbitsQuantize("nbitsDigits", 3)
		}
		g.family("nbitsRows", "adds the products of a row with a panel of columns of 2<<i bits, of 2 and 4 rows with one of 4 bits, of 1 and 4 rows of bytes with one of 4 and of 8 bits, and of three digits likewise.")
	})
}

// numbers dequantizes the bits of the lanes of x from a shift on.
func (g *gen) numbers(x, low vec, shift int, last bool, scale, zero vec, dst operand.Mem) {
	q := g.copyOf(x)
	if shift > 0 {
		g.VPSRLD(operand.U8(uint8(shift)), q, q)
	}
	if !last {
		g.and(q, q, low)
	}
	g.VCVTDQ2PS(q, q)
	g.sub(q, q, zero)
	g.mul(q, q, scale)
	g.st(q, dst)
}

// Fields of the argument block of nbitsRows, which package simd declares in the same order.
const (
	nbX, nbW, nbScale, nbZero, nbOut = 0, 8, 16, 24, 32
	nbLDX, nbLDOut, nbZeroStep       = 40, 48, 56
	nbRows, nbBlocks                 = 64, 72
)

// nbitsTile is the state of a kernel of a few rows while it is being emitted.
type nbitsTile struct {
	*gen
	bits, h  int
	digits   int           // of rows of bytes
	together bool          // numbers of a word have one sum
	x        []operand.Mem // the rows
	w        gp
	sums     [][][2]vec // several of a row, by number; vectors
	numbers  []nbitsNumber
}

// nbitsNumber is a number of a byte that is told from the others without a shift: its bits where they are, below those of a power of
// two, are the float of that and the number.
//
//	0 10010110 000 0000 0000 0000 0000 qqqq  =  2²³ + q        0 10010010 000 0000 0000 0000 qqqq 0000  =  2¹⁹ + q
type nbitsNumber struct {
	low, power konst
	inReg      [2]vec // the same, AVX-512
	zero       [2]vec // the power of two and the zero points of a block, whole numbers
}

// nbitsRows emits the products of h rows with a panel. Numbers become floats in registers; their sums over a block are scaled
// once and added to those of the row:
//
//	out[row] += Σ over blocks: scale · Σ over k: x[row][k]·(q[k] − zero)
//
// Neighbouring numbers of a column have sums of their own, so that enough multiply-adds are under way.
func (g *gen) nbitsRows(bits, h int) {
	args := g.kernel("nbitsRows", fmt.Sprintf("%dx%d", bits, h))
	t := &nbitsTile{gen: g, bits: bits, h: h, w: g.field(args, nbW)}
	for at := 0; at < min(8, 2*bits); at += bits {
		n := nbitsNumber{low: konst((1<<bits - 1) << at), power: f32(float64(int(1) << (23 - at)))}
		if g.isa.zmm {
			n.inReg = [2]vec{g.splat(n.low), g.splat(n.power)}
		}
		t.numbers = append(t.numbers, n)
	}
	x, scale, zero, blocks := g.field(args, nbX), g.field(args, nbScale), g.field(args, nbZero), g.field(args, nbBlocks)
	t.rowsOf(x, g.field(args, nbLDX))
	step := g.field(args, nbLDOut)
	g.loop("block", blocks, 1, func() {
		t.begin(zero)
		for j := 0; j < 2*g.bytes(); j += 64 {
			g.PREFETCHT0(at(scale, nbAhead/4+j))
		}
		t.block(x, g.field(args, nbRows))
		out, s := g.field(args, nbOut), [2]vec{g.ld(at(scale, 0)), g.ld(at(scale, g.bytes()))}
		for i := range h {
			for j := range s {
				v := g.ld(at(out, j*g.bytes()))
				g.fma(v, s[j], t.sum(i, j))
				g.st(v, at(out, j*g.bytes()))
			}
			g.ADDQ(step, out)
		}
		g.advance(2*g.bytes(), scale)
		g.ADDQ(at(args, nbZeroStep), zero)
	})
	g.ret()
}

// rowsOf finds the rows, a step in bytes apart.
func (t *nbitsTile) rowsOf(x, step gp) {
	t.x = []operand.Mem{at(x, 0), indexed(x, step, 1), indexed(x, step, 2)}[:min(t.h, 3)]
	if t.h == 4 {
		three := t.GP64()
		t.LEAQ(indexed(step, step, 2), three)
		t.x = append(t.x, indexed(x, three, 1))
	}
}

// begin clears the sums of a block and loads its zero points.
func (t *nbitsTile) begin(zero gp) {
	t.sums = make([][][2]vec, max(1, min(4, t.isa.w/2/t.h)))
	for k := range t.sums {
		for range t.h {
			t.sums[k] = append(t.sums[k], [2]vec{t.zeroed(), t.zeroed()})
		}
	}
	for i := range t.numbers {
		n := &t.numbers[i]
		for j := range n.zero {
			n.zero[j] = t.ld(at(zero, j*t.bytes()))
			t.add(n.zero[j], n.zero[j], n.power)
		}
	}
}

// sum is the sum of a row over the block.
func (t *nbitsTile) sum(row, j int) vec {
	for step := len(t.sums) / 2; step > 0; step /= 2 {
		for k := range step {
			t.add(t.sums[k][row][j], t.sums[k][row][j], t.sums[k+step][row][j])
		}
	}
	return t.sums[0][row][j]
}

// block sums up n rows of bytes, two in a round where one is little work.
func (t *nbitsTile) block(x, n gp) {
	per := 8 / t.bits
	round := 1
	if t.h == 1 && t.bits > 2 {
		round = 2
	}
	t.loop("bytes", n, round, func() {
		t.PREFETCHT0(at(t.w, nbAhead))
		for r := range round {
			q := [2]vec{t.to(t.VPMOVZXBD, at(t.w, 2*r*t.isa.w)), t.to(t.VPMOVZXBD, at(t.w, (2*r+1)*t.isa.w))}
			for k := range per {
				if k == 2 {
					t.VPSRLD(operand.U8(4), q[0], q[0])
					t.VPSRLD(operand.U8(4), q[1], q[1])
				}
				t.number(q, &t.numbers[k%2], r*per+k)
			}
		}
		t.advance(round*2*t.isa.w, t.w)
		t.advance(round*per*4, x)
	})
}

// nbAhead is how many bytes ahead of the products a panel is fetched: what is read while memory beyond the caches answers.
const nbAhead = 8192

// number adds the products with a number of the lanes of q, element i of the rows.
func (t *nbitsTile) number(q [2]vec, n *nbitsNumber, i int) {
	for j, v := range q {
		if t.isa.zmm {
			v = t.copyOf(v)
			t.VPTERNLOGD(operand.U8(0xea), n.inReg[1], n.inReg[0], v) // v & low | power
		} else {
			v = t.set(t.and, v, n.low)
			t.or(v, v, n.power)
		}
		t.sub(v, v, n.zero[j])
		q[j] = v
	}
	for r, m := range t.x {
		m.Disp += 4 * i
		x := t.to(t.VBROADCASTSS, m)
		for j, v := range q {
			t.fma(t.sums[i%len(t.sums)][r][j], x, v)
		}
	}
}
