package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// Windows in the channel-blocked layout: every pixel is one vector, a tap is a
// distance in the input and a distance among the weights, and a call computes a
// rectangle of pixels that have the same taps. The caller lists only the taps
// that exist, so there is no padding. src + off is where the kernel's first row
// would lie, which may be outside of the image when that row has no taps, hence
// the separate offset.
func emitTaps(g *gen) {
	g.both(func() {
		t := &taps{gen: g}
		g.fn("blockTaps", "(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int, w, bias, res *float32, lo, hi float32)",
			"sums rows of n pixels over taps, each an input distance and a weight distance, and adds a residual that lies like dst, unless nil; all in bytes.")
		t.w = g.arg("w")
		t.bias = g.ld(at(g.arg("bias"), 0))
		t.lo, t.hi = g.argVec("lo"), g.argVec("hi")
		t.run(func(int) vec { return g.zeroed() }, func(acc []vec, mem func(i int) operand.Mem, list gp) {
			d, w := g.GP64(), g.v()
			g.MOVQ(at(list, 8), d)
			g.VMOVUPS(indexed(t.w, d, 1), w)
			for i := range acc {
				g.fma(acc[i], w, mem(i))
			}
		}, func(acc []vec, dst gp) {
			for _, v := range acc {
				t.add(v, v, t.bias)
			}
			t.addResidual(acc, dst)
			for _, v := range acc {
				g.clampTo(v, t.lo, t.hi)
			}
		})
		g.fn("blockMax", "(dst, src *float32, off, rows, n, dstRow, srcRow, pixel int, taps *int, count int)",
			"takes the largest of the taps of rows of n pixels; NaN if there is one.")
		t = &taps{gen: g}
		t.run(func(i int) vec { return g.splat(konst(0xff800000)) }, func(acc []vec, mem func(i int) operand.Mem, _ gp) {
			for i := range acc {
				// max keeps its second operand, the new value, if that is NaN; a
				// NaN kept from before is put back.
				old := acc[i]
				x := g.v()
				g.max(x, old, mem(i))
				g.VMOVAPS(g.pick(g.cmp(cmpUnord, old, old), old, x), acc[i])
			}
		}, func([]vec, gp) {})
	})
}

type taps struct {
	*gen
	w            gp
	bias, lo, hi vec
}

// addResidual adds the residual of the pixels that go to dst.
func (t *taps) addResidual(acc []vec, dst gp) {
	skip := fmt.Sprintf("nores%d", len(acc))
	p := t.arg("res")
	t.TESTQ(p, p)
	t.JZ(operand.LabelRef(skip))
	t.ADDQ(dst, p) // res + (dst − its start)
	start := t.arg("dst")
	t.SUBQ(start, p)
	for i := range acc {
		t.add(acc[i], acc[i], at(p, i*t.bytes()))
	}
	t.Label(skip)
}

// run emits the loops over rows, pixels and taps: eight pixels at a time, then
// four, two, one.
func (t *taps) run(start func(i int) vec, tap func(acc []vec, mem func(i int) operand.Mem, list gp), end func(acc []vec, dst gp)) {
	rows, dstRow, srcRow, pixel := t.arg("rows"), t.arg("dst"), t.arg("src"), t.arg("pixel")
	t.ADDQ(t.arg("off"), srcRow)
	t.loop("row", rows, 1, func() {
		dst, src, n := t.GP64(), t.GP64(), t.arg("n")
		t.MOVQ(dstRow, dst)
		t.MOVQ(srcRow, src)
		for _, u := range []int{8, 4, 2, 1} {
			t.loop(fmt.Sprintf("by%d", u), n, u, func() {
				t.pixels(u, dst, src, pixel, start, tap, end)
			})
		}
		step := t.arg("dstRow")
		t.ADDQ(step, dstRow)
		step = t.arg("srcRow")
		t.ADDQ(step, srcRow)
	})
	t.ret()
}

// pixels emits u neighbouring pixels.
func (t *taps) pixels(u int, dst, src, pixel gp, start func(i int) vec, tap func(acc []vec, mem func(i int) operand.Mem, list gp), end func(acc []vec, dst gp)) {
	acc := make([]vec, u)
	for i := range acc {
		acc[i] = start(i)
	}
	list, count := t.arg("taps"), t.arg("count")
	name := fmt.Sprintf("tap%d", u)
	t.Label(name)
	var base [3]gp
	base[0] = t.GP64()
	t.MOVQ(at(list, 0), base[0])
	t.ADDQ(src, base[0])
	for i := 1; 3*i < u; i++ {
		base[i] = t.third(base[i-1], pixel)
	}
	tap(acc, func(i int) operand.Mem { return pixelAt(base[:], pixel, i, 0) }, list)
	t.ADDQ(operand.I32(16), list)
	t.DECQ(count)
	t.JNZ(operand.LabelRef(name))
	end(acc, dst)
	for i := range acc {
		t.st(acc[i], at(dst, i*t.bytes()))
	}
	t.advance(u*t.bytes(), dst)
	t.LEAQ(indexed(src, pixel, uint8(u)), src)
}
