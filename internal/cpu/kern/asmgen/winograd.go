package main

import "github.com/mmcloughlin/avo/operand"

// Winograd transforms of one tile of one block of channels; every element is a
// vector of channels. Polynomial interpolation (Toom, Cook) at the points
//
//	F(2,3): 0, ±1, ∞              4×4 inputs make 2×2 outputs
//	F(4,3): 0, ±11/16, ±25/16, ∞  6×6 inputs make 4×4 outputs
//
// The usual points of F(4,3), ±1 and ±2, lose twice as much precision, and ±3/4 and ±3/2
// a twelfth more; with these every constant is exact in binary, too. Rows of a pair ±p share their
// even and odd parts.
//
// A transform runs along the columns, then along the rows. What is between them stays in registers where they suffice,
// else it is in tmp.

const (
	winoA, winoB = 11.0 / 16, 25.0 / 16
	winoA2       = winoA * winoA
	winoB2       = winoB * winoB
)

func emitWinograd(g *gen) {
	g.both(func() {
		g.winoIn("winoIn2", 4, g.in2)
		g.winoIn("winoIn4", 6, g.in4)
		g.winoOut("winoOut2", 4, 2, g.out2)
		g.winoOut("winoOut4", 6, 4, g.out4)
		g.winoFilter("winoFilter2", 4)
		g.winoFilter("winoFilter4", 6)
	})
}

// winoFilter emits the transform of a block of filters, G·g·Gᵀ, to n×n positions, in float64.
// Half of the block's channels fill a vector.
func (g *gen) winoFilter(name string, n int) {
	g.fn(name, "(dst, taps *float32, tmp, points *float64, dstStride int)",
		"transforms a block of filters; dstStride is in bytes, tmp has room for 3·n vectors.")
	dst, taps, tmp := g.arg("dst"), g.arg("taps"), g.arg("tmp")
	points, stride := g.arg("points"), g.arg("dstStride")
	k := make([]vec, 3*(n/2)-2) // 1 of the point 0, 3 of each pair
	for i := range k {
		k[i] = g.to(g.VBROADCASTSD, at(points, 8*i))
	}
	vb := g.bytes()
	halves := g.GP64()
	g.MOVQ(operand.U32(2), halves)
	g.loop("halves", halves, 1, func() {
		columns, in, out := g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(operand.U32(3), columns)
		g.MOVQ(taps, in)
		g.MOVQ(tmp, out)
		g.loop("columns", columns, 1, func() {
			for i, u := range g.filterLine(g.three64(g.VCVTPS2PD, in, 3*vb), k) {
				g.VMOVUPD(u, at(out, 3*i*vb))
			}
			g.advance(vb, in, out)
		})
		rows := g.GP64()
		g.MOVQ(operand.U32(uint32(n)), rows)
		g.MOVQ(tmp, in)
		g.MOVQ(dst, out)
		g.loop("rows", rows, 1, func() {
			for _, u := range g.filterLine(g.three64(g.VMOVUPD, in, vb), k) {
				g.stHalf(u, at(out, 0))
				g.ADDQ(stride, out)
			}
			g.advance(3*vb, in)
		})
		g.advance(vb/2, taps, dst)
	})
	g.ret()
}

// three64 loads three vectors of float64, step bytes apart.
func (g *gen) three64(load func(...operand.Op), p gp, step int) (d [3]vec) {
	for i := range d {
		d[i] = g.to(load, at(p, i*step))
	}
	return d
}

// filterLine multiplies three taps by the rows of G: the point 0, pairs of a point and its
// negative, which differ in the sign of the middle element, and infinity.
func (g *gen) filterLine(d [3]vec, k []vec) []vec {
	mul := func(a, b vec) vec { return g.to(g.VMULPD, a, b) }
	u := []vec{mul(d[0], k[0])}
	for row := k[1:]; len(row) > 0; row = row[3:] {
		even, odd := mul(d[0], row[0]), mul(d[1], row[1])
		g.VADDPD(mul(d[2], row[2]), even, even)
		u = append(u, g.to(g.VADDPD, odd, even), g.to(g.VSUBPD, odd, even))
	}
	return append(u, d[2])
}

// stHalf stores float64 lanes as float32.
func (g *gen) stHalf(v vec, m operand.Mem) {
	if g.isa.zmm {
		y := g.YMM()
		g.VCVTPD2PS(v, y)
		g.VMOVUPS(y, m)
		return
	}
	x := g.XMM()
	g.VCVTPD2PSY(v, x)
	g.VMOVUPS(x, m)
}

// in4 is the input transform along one line of six.
func (g *gen) in4(d []vec) []vec {
	u := make([]vec, 6)
	ends := func(a, b, c vec) vec { // c − (A²+B²)·b + A²B²·a
		x := g.copyOf(c)
		g.fnma(x, b, g.splat(f32(winoA2+winoB2)))
		g.fma(x, a, g.splat(f32(winoA2*winoB2)))
		return x
	}
	pair := func(p, q2 float64) (vec, vec) {
		e, o := g.copyOf(d[4]), g.copyOf(d[3])
		k := g.splat(f32(q2))
		g.fnma(e, d[2], k)
		g.fnma(o, d[1], k)
		minus, c := g.copyOf(e), g.splat(f32(p))
		g.fma(e, o, c)
		g.fnma(minus, o, c)
		return e, minus
	}
	u[0] = ends(d[0], d[2], d[4])
	u[1], u[2] = pair(winoA, winoB2)
	u[3], u[4] = pair(winoB, winoA2)
	u[5] = ends(d[1], d[3], d[5])
	return u
}

// out4 is the output transform along one line of six.
func (g *gen) out4(m []vec) []vec {
	s1, q1, s2, q2 := g.v(), g.v(), g.v(), g.v()
	g.add(s1, m[1], m[2])
	g.sub(q1, m[1], m[2])
	g.add(s2, m[3], m[4])
	g.sub(q2, m[3], m[4])
	y := []vec{g.v(), g.v(), g.v(), g.v()}
	g.add(y[0], m[0], s1)
	g.add(y[0], y[0], s2)
	mix := func(d, a, b vec, ca, cb float64) {
		g.mul(d, a, f32(ca))
		g.fma(d, b, g.splat(f32(cb)))
	}
	mix(y[1], q1, q2, winoA, winoB)
	mix(y[2], s1, s2, winoA2, winoB2)
	mix(y[3], q1, q2, winoA2*winoA, winoB2*winoB)
	g.add(y[3], y[3], m[5])
	return y
}

func (g *gen) in2(d []vec) []vec {
	u := []vec{g.v(), g.v(), g.v(), g.v()}
	g.sub(u[0], d[2], d[0])
	g.add(u[1], d[2], d[1])
	g.sub(u[2], d[2], d[1])
	g.sub(u[3], d[3], d[1])
	return u
}

func (g *gen) out2(m []vec) []vec {
	y := []vec{g.v(), g.v()}
	g.add(y[0], m[1], m[2])
	g.add(y[0], y[0], m[0])
	g.sub(y[1], m[1], m[2])
	g.add(y[1], y[1], m[3])
	return y
}

// sixth addresses line i of up to six: base, or base3 = base + 3·step.
func sixth(base, base3, step gp, i, disp int) operand.Mem {
	m := operand.Mem{Base: base, Disp: disp}
	if i >= 3 {
		m.Base = base3
		i -= 3
	}
	if i > 0 {
		m.Index, m.Scale = step, uint8(i)
	}
	return m
}

// third is base + 3·step.
func (g *gen) third(base, step gp) gp {
	r := g.GP64()
	g.LEAQ(indexed(base, step, 2), r)
	g.ADDQ(step, r)
	return r
}

// winoIn emits an input transform of n×n elements.
func (g *gen) winoIn(name string, n int, line func(d []vec) []vec) {
	g.fn(name, "(dst, src, tmp *float32, rowStride, dstStride int)",
		"transforms one input tile; strides are in bytes.")
	dst, src, tmp := g.arg("dst"), g.arg("src"), g.arg("tmp")
	rs, ds := g.arg("rowStride"), g.arg("dstStride")
	src3 := g.third(src, rs)
	vb := g.bytes()
	between := g.between(tmp, n, n)
	for j := range n {
		d := make([]vec, n)
		for i := range d {
			d[i] = g.ld(sixth(src, src3, rs, i, j*vb))
		}
		between.setColumn(j, line(d))
	}
	for i := range n {
		for _, u := range line(between.row(i)) {
			g.st(u, at(dst, 0))
			g.ADDQ(ds, dst)
		}
	}
	g.ret()
}

// winoBetween is what a transform along the columns leaves for that along the rows.
type winoBetween struct {
	*gen
	tmp   gp
	n     int
	lines [][]vec // nil where it lies in tmp
}

// between is for so many rows of n elements. A line takes twice n registers besides.
func (g *gen) between(tmp gp, rows, n int) *winoBetween {
	b := &winoBetween{gen: g, tmp: tmp, n: n}
	registers := 16
	if g.isa.zmm {
		registers = 32
	}
	if rows*n+2*n <= registers {
		b.lines = make([][]vec, rows)
		for i := range b.lines {
			b.lines[i] = make([]vec, n)
		}
	}
	return b
}

// setColumn keeps column j.
func (b *winoBetween) setColumn(j int, column []vec) {
	for i, u := range column {
		if b.lines != nil {
			b.lines[i][j] = u
			continue
		}
		b.st(u, at(b.tmp, (i*b.n+j)*b.bytes()))
	}
}

// row returns row i.
func (b *winoBetween) row(i int) []vec {
	if b.lines != nil {
		return b.lines[i]
	}
	d := make([]vec, b.n)
	for j := range d {
		d[j] = b.ld(at(b.tmp, (i*b.n+j)*b.bytes()))
	}
	return d
}

// winoOut emits an output transform of n×n elements to m×m pixels.
func (g *gen) winoOut(name string, n, m int, line func(d []vec) []vec) {
	g.fn(name, "(dst, src, tmp *float32, rowStride, srcStride int, bias, res *float32, lo, hi float32)",
		"transforms one output tile, adds a bias and, unless nil, a residual, and clamps; strides are in bytes.")
	src, tmp, ss := g.arg("src"), g.arg("tmp"), g.arg("srcStride")
	line6 := g.GP64() // from one row of elements to the next
	g.IMUL3Q(operand.U8(uint8(n)), ss, line6)
	src3 := g.third(src, line6)
	between := g.between(tmp, m, n)
	for j := range n {
		d := make([]vec, n)
		for i := range d {
			d[i] = g.ld(sixth(src, src3, line6, i, 0))
		}
		between.setColumn(j, line(d))
		g.ADDQ(ss, src)
		g.ADDQ(ss, src3)
	}
	dst, rs := g.arg("dst"), g.arg("rowStride")
	bias, res := g.arg("bias"), g.arg("res")
	lo, hi := g.argVec("lo"), g.argVec("hi")
	g.TESTQ(res, res)
	g.JZ(operand.LabelRef("plain"))
	g.winoRows(dst, between, rs, bias, res, m, line, lo, hi)
	g.ret()
	g.Label("plain")
	g.winoRows(dst, between, rs, bias, gp(nil), m, line, lo, hi)
	g.ret()
}

// winoRows is the second half of an output transform.
func (g *gen) winoRows(dst gp, between *winoBetween, rs, bias gp, res gp, m int, line func(d []vec) []vec, lo, hi vec) {
	vb := g.bytes()
	b := g.ld(at(bias, 0))
	for i := range m {
		for j, y := range line(between.row(i)) {
			g.add(y, y, b)
			if res != nil {
				g.add(y, y, at(res, j*vb))
			}
			g.clampTo(y, lo, hi)
			g.st(y, at(dst, j*vb))
		}
		if i+1 < m {
			g.ADDQ(rs, dst)
			if res != nil {
				g.ADDQ(rs, res)
			}
		}
	}
}
