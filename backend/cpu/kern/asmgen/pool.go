package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// Pooling of one channel laid out by windows.go of kern:
//
//	dst[y][x] = max over t of src[y·srcStride + offs[t] + x]     (NaN wins)
//
// Sums for averages are a depthwise convolution with weights of one.
func emitPool(g *gen) {
	g.both(func() {
		g.fn("poolMax", "(dst, src *float32, rows, cols, dstStride, srcStride int, offs *int, taps int)",
			"takes maxima over windows; offs and strides are in bytes.")
		d := &depth{gen: g, dst: g.GP64(), src: g.GP64()}
		d.rowDst, d.rowSrc, d.rows = g.arg("dst"), g.arg("src"), g.arg("rows")
		d.offs = g.arg("offs")
		d.sums = d.maxima
		g.loop("row", d.rows, 1, d.row)
		g.ret()

		g.unary("Lrn75", "is (p1 + p0·x)^(−3/4).", 1, func() fun {
			a, b, one := g.argVec("p0"), g.argVec("p1"), g.splat(oneBits)
			return func(x vec) vec {
				g.horner(x, a, b)
				r, q := g.v(), g.v()
				g.VSQRTPS(x, r)
				g.VSQRTPS(r, q)
				g.mul(r, r, q)
				g.div(r, one, r)
				return r
			}
		})
	})
}

// maxima runs over the taps for n vectors.
func (d *depth) maxima(n int, m *tail) []vec {
	acc, bad := make([]vec, n), make([]vec, n)
	for i := range acc {
		acc[i], bad[i] = d.splat(konst(0xff800000)), d.v()
		d.zero(bad[i])
	}
	d.overTaps(n, m, func(p gp, t gp) {
		for i := range acc {
			x := operand.Mem{Base: d.src, Index: p, Scale: 1, Disp: i * d.bytes()}
			var v vec
			if m != nil {
				v = d.ldTail(x, *m)
			} else {
				v = d.ld(x)
			}
			d.max(acc[i], v, acc[i])
			d.markNaN(bad[i], v)
		}
	})
	for i := range acc {
		d.or(acc[i], acc[i], bad[i])
	}
	return acc
}

// overTaps runs body for every tap with its distance p and its number t.
func (d *depth) overTaps(n int, m *tail, body func(p, t gp)) {
	t, taps := d.GP64(), d.GP64()
	d.XORQ(t, t)
	d.Load(d.Param("taps"), taps)
	name := fmt.Sprintf("tap%d", n)
	if m != nil {
		name = "taptail"
	}
	d.Label(name)
	p := d.GP64()
	d.MOVQ(operand.Mem{Base: d.offs, Index: t, Scale: 8}, p)
	body(p, t)
	d.INCQ(t)
	d.CMPQ(t, taps)
	d.JLT(operand.LabelRef(name))
}
