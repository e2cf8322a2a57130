package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Functions of rows: softmax and the normalizations of layers, all rows in one call.
//
//	short rows   v = 1..4 vectors stay in registers from the first load to the store
//	long rows    are read two or three times; the second time they are in the L1 cache
//
// Rows do not depend on each other, so the processor works on the next while the lanes of
// the present one are being combined. Moments are divided, and the root taken, in float64.
// A row whose variance is not finite ends the call: its number of rows still to do, the
// row itself included, is left in the arguments, for the caller to compute it otherwise.

// Fields of the argument block, in bytes; package simd declares the same order.
const (
	rwDst, rwSrc, rwGamma, rwBeta = 0, 8, 16, 24
	rwRows, rwCols, rwSize, rwEps = 32, 40, 48, 56

	rowVectors = 4 // of a short row
)

func emitRows(g *gen) {
	g.both(func() {
		for _, f := range []struct {
			name, doc string
			emit      func(r *rowGen)
		}{
			{"softmaxRows", "is e^(x−max)/Σe^(x−max).", (*rowGen).softmax},
			{"layerNormRows", "is (x−mean)/√(variance+eps)·gamma + beta.", func(r *rowGen) { r.norm(true) }},
			{"rmsNormRows", "is x/√(mean of squares+eps)·gamma.", func(r *rowGen) { r.norm(false) }},
		} {
			for v := range rowVectors + 1 {
				g.rowKernel(f.name, v, f.emit)
			}
			g.family(f.name, f.doc+" Kernel i is for rows of i vectors, kernel 0 for any.")
		}
	})
}

// rowGen is a kernel while it is being emitted.
type rowGen struct {
	*gen
	v          int // vectors of a short row, 0 of any
	args       gp
	src, dst   gp
	cols, rest gp   // elements, and those of the last vector of a long row
	m          mask // of the last vector
	x          []vec
}

// rowKernel emits one kernel of a family: the loop over rows.
func (g *gen) rowKernel(name string, v int, row func(r *rowGen)) {
	r := &rowGen{gen: g, v: v, args: g.kernel(name, fmt.Sprint(v))}
	r.src, r.dst = r.field(r.args, rwSrc), r.field(r.args, rwDst)
	r.cols, r.rest = r.field(r.args, rwCols), r.field(r.args, rwCols)
	if v > 0 {
		r.SUBQ(operand.I32((v-1)*r.isa.w), r.rest)
	} else {
		r.ANDQ(operand.I32(r.isa.w-1), r.rest)
	}
	r.m = r.tailOf(r.rest)
	r.Label("row")
	row(r)
	for _, p := range []gp{r.src, r.dst} {
		r.LEAQ(indexed(p, r.cols, 4), p)
	}
	r.DECQ(at(r.args, rwRows))
	r.JNZ(operand.LabelRef("row"))
	r.Label("stop")
	r.ret()
}

// mask is that of vector i of a short row.
func (r *rowGen) mask(i int) *mask {
	if i < r.v-1 {
		return nil
	}
	return &r.m
}

// load brings a short row into registers.
func (r *rowGen) load() {
	r.x = make([]vec, r.v)
	for i := range r.x {
		r.x[i] = r.get(r.src, i*r.bytes(), r.mask(i))
	}
}

// pass visits the vectors of a long row, four at a time: of the source, of the result and
// of the operands at the fields given.
func (r *rowGen) pass(name string, fields []int, body func(p []gp, acc, off int, m *mask)) {
	n := r.GP64()
	r.MOVQ(r.cols, n)
	p := []gp{r.GP64(), r.GP64()}
	r.MOVQ(r.src, p[0])
	r.MOVQ(r.dst, p[1])
	for _, f := range fields {
		p = append(p, r.field(r.args, f))
	}
	for i, u := range []int{4, 1} {
		r.loop(name+[]string{"wide", "one"}[i], n, u*r.isa.w, func() {
			for j := range u {
				body(p, j, j*r.bytes(), nil)
			}
			r.advance(u*r.bytes(), p...)
		})
	}
	r.TESTQ(r.rest, r.rest)
	r.JZ(operand.LabelRef(name + "done"))
	body(p, 1, 0, &r.m)
	r.Label(name + "done")
}

// sum adds f up over the row; f clears what lies beyond the row.
func (r *rowGen) sum(name string, f func(x, acc vec, m *mask)) vec {
	acc := [4]vec{r.zeroed(), r.zeroed(), r.zeroed(), r.zeroed()}
	if r.v == 0 {
		r.pass(name, nil, func(p []gp, i, off int, m *mask) { f(r.get(p[0], off, m), acc[i], m) })
	}
	for i, x := range r.x {
		f(x, acc[i], r.mask(i))
	}
	s := r.joined(acc, r.add)
	r.fold(s, r.add)
	return s
}

// softmax emits one row. NaN needs no care: its power, so the sum, so all quotients are NaN.
func (r *rowGen) softmax() {
	lowest := konst(0xff800000)
	acc := [4]vec{r.splat(lowest), r.splat(lowest), r.splat(lowest), r.splat(lowest)}
	largest := func(x, acc vec, m *mask) {
		if m != nil {
			x = r.pick(*m, x, r.splat(lowest))
		}
		r.max(acc, acc, x)
	}
	if r.v == 0 {
		r.pass("max", nil, func(p []gp, i, off int, m *mask) { largest(r.get(p[0], off, m), acc[i], m) })
	}
	r.load()
	for i, x := range r.x {
		largest(x, acc[i], r.mask(i))
	}
	top := r.joined(acc, r.max)
	r.fold(top, r.max)

	power := func(x vec, m *mask) vec {
		r.sub(x, x, top)
		return r.cleared(r.expNeg(x), m)
	}
	sum := r.zeroed()
	if r.v == 0 {
		r.pass("exp", nil, func(p []gp, _, off int, m *mask) {
			e := power(r.get(p[0], off, m), m)
			r.put(e, p[1], off, m)
			r.add(sum, sum, e)
		})
	}
	for i, x := range r.x {
		r.x[i] = power(x, r.mask(i))
		r.add(sum, sum, r.x[i])
	}
	r.fold(sum, r.add)
	factor := r.set(r.div, r.splat(oneBits), sum)
	if r.v == 0 {
		r.pass("scale", nil, func(p []gp, _, off int, m *mask) {
			r.put(r.set(r.mul, factor, r.get(p[1], off, m)), p[1], off, m)
		})
	}
	for i, x := range r.x {
		r.mul(x, x, factor)
		r.put(x, r.dst, i*r.bytes(), r.mask(i))
	}
}

// norm emits one row of a normalization, with or without the mean.
func (r *rowGen) norm(center bool) {
	r.load()
	var mean vec
	if center {
		s := r.sum("sum", func(x, acc vec, _ *mask) { r.add(acc, acc, x) })
		mean = r.narrowed(r.perElement(s))
	}
	from := func(x vec, m *mask) vec { // a short row is left as distances
		if !center {
			return x
		}
		r.sub(x, x, mean)
		return r.cleared(x, m)
	}
	squares := r.sum("squares", func(x, acc vec, m *mask) {
		d := from(x, m)
		r.fma(acc, d, d)
	})
	inv := r.inverse(r.perElement(squares))
	fields := []int{rwGamma}
	if center {
		fields = append(fields, rwBeta)
	}
	scaled := func(d vec, p []gp, off int, m *mask) vec {
		r.mul(d, d, inv)
		if center {
			r.horner(d, r.get(p[0], off, m), r.get(p[1], off, m))
		} else {
			r.mul(d, d, r.get(p[0], off, m))
		}
		return d
	}
	if r.v == 0 {
		r.pass("norm", fields, func(p []gp, _, off int, m *mask) {
			d := r.get(p[0], off, m)
			if center {
				r.sub(d, d, mean)
			}
			r.put(scaled(d, p[2:], off, m), p[1], off, m)
		})
		return
	}
	var p []gp
	for _, f := range fields {
		p = append(p, r.field(r.args, f))
	}
	for i, d := range r.x {
		r.put(scaled(d, p, i*r.bytes(), r.mask(i)), r.dst, i*r.bytes(), r.mask(i))
	}
}

// perElement is lane 0 of v divided by the length of a row, in float64.
func (r *rowGen) perElement(v vec) reg.VecVirtual {
	d := r.XMM()
	r.VCVTSS2SD(v.AsX(), v.AsX(), d)
	r.VDIVSD(at(r.args, rwSize), d, d)
	return d
}

// narrowed is a float64 as float32 in all lanes.
func (r *rowGen) narrowed(d reg.VecVirtual) vec {
	s := r.XMM()
	r.VCVTSD2SS(d, d, s)
	return r.to(r.VBROADCASTSS, s)
}

// inverse is 1/√(variance+eps); the kernel ends if the variance is not finite.
func (r *rowGen) inverse(variance reg.VecVirtual) vec {
	none := r.XMM()
	r.VSUBSD(variance, variance, none)
	r.VUCOMISD(none, none)
	r.JPS(operand.LabelRef("stop"))
	r.VADDSD(at(r.args, rwEps), variance, variance)
	r.VSQRTSD(variance, variance, variance)
	one := r.XMM()
	r.VMOVSD(r.table("one64", 2, func(i int) uint32 { return []uint32{0, 0x3ff00000}[i] }), one)
	r.VDIVSD(variance, one, one)
	return r.narrowed(one)
}
