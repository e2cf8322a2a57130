package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// Depthwise convolution of one channel:
//
//	dst[y][x] = clamp(bias + Σₜ w[t]·src[y·srcStride + offs[t] + x])
//
// Padding, strides and dilations are gone by then: the caller lays the channel
// out so that every tap is a fixed distance away (see depth.go of kern). A row
// is done four vectors at a time, then two, then one, then the rest masked.
func emitDepth(g *gen) {
	g.both(func() {
		g.fn("depthRows", "(dst, src *float32, rows, cols, dstStride, srcStride int, offs *int, w *float32, taps int, bias, lo, hi float32)",
			"convolves rows of one channel; offs and strides are in bytes.")
		d := &depth{gen: g, dst: g.GP64(), src: g.GP64()}
		d.rowDst, d.rowSrc, d.rows = g.arg("dst"), g.arg("src"), g.arg("rows")
		d.bias, d.lo, d.hi = g.argVec("bias"), g.argVec("lo"), g.argVec("hi")
		d.offs, d.w = g.arg("offs"), g.arg("w")
		d.sums = d.products
		g.loop("row", d.rows, 1, d.row)
		g.ret()
	})
}

type depth struct {
	*gen
	rowDst, rowSrc, rows gp
	dst, src, cols       gp
	offs, w              gp
	bias, lo, hi         vec
	sums                 func(n int, m *tail) []vec // computes n vectors of a row
}

func (d *depth) row() {
	d.cols = d.GP64()
	d.Load(d.Param("cols"), d.cols)
	d.MOVQ(d.rowDst, d.dst)
	d.MOVQ(d.rowSrc, d.src)
	for _, n := range []int{4, 2, 1} {
		d.loop(fmt.Sprintf("by%d", n), d.cols, n*d.isa.w, func() {
			for i, v := range d.sums(n, nil) {
				d.st(v, at(d.dst, i*d.bytes()))
			}
			d.advance(n*d.bytes(), d.dst, d.src)
		})
	}
	d.TESTQ(d.cols, d.cols)
	d.JZ(operand.LabelRef("next"))
	m := d.tailOf(d.cols)
	d.stTail(d.sums(1, &m)[0], at(d.dst, 0), m)
	d.Label("next")
	step := d.GP64()
	d.Load(d.Param("dstStride"), step)
	d.ADDQ(step, d.rowDst)
	d.Load(d.Param("srcStride"), step)
	d.ADDQ(step, d.rowSrc)
}

// products runs over the taps for n vectors.
func (d *depth) products(n int, m *tail) []vec {
	acc := make([]vec, n)
	for i := range acc {
		acc[i] = d.copyOf(d.bias)
	}
	d.overTaps(n, m, func(p, t gp) {
		w := d.v()
		d.VBROADCASTSS(operand.Mem{Base: d.w, Index: t, Scale: 4}, w)
		for i := range acc {
			x := operand.Mem{Base: d.src, Index: p, Scale: 1, Disp: i * d.bytes()}
			if m != nil {
				d.fma(acc[i], d.ldTail(x, *m), w)
			} else {
				d.fma(acc[i], w, x)
			}
		}
	})
	for i := range acc {
		d.max(acc[i], d.lo, acc[i])
		d.min(acc[i], d.hi, acc[i])
	}
	return acc
}
