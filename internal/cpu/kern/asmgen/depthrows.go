package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// Depthwise 3×3 windows over plain images: a vector is 16 neighbouring pixels of a row, and the pixels
// beside the middle one of each window are the same vector, shifted. So a row of up to 14 outputs costs
// three loads and six permutations for nine multiply-adds, whatever the number of channels.
//
//	stride 1   x0 x1 x2 … x15          stride 2   x0 … x15 | x16 … x31
//	           x1 x2 x3 …                         x0 x2 x4 … x30
//	           x2 x3 x4 …                         x1 x3 x5 … x31
//	                                              x2 x4 x6 …
//
// Masks leave out pixels beside the image and rows above and below it, so there is no padding. A call
// computes a strip of columns of some channels, all rows; distances are in bytes. Outer loops keep their state
// in the arguments.
func emitDepthRows(g *gen) {
	g.isa = avx512
	for stride := 1; stride <= 2; stride++ {
		d := &depthRows{gen: g, stride: stride}
		g.fn(fmt.Sprintf("depthRows%d", stride), "(dst, src, w, bias *float32, off, channels, rows, inRows, first, dstRow, srcRow, dstPlane, srcPlane, wStep, biasStep, low, high, out int, lo, hi float32)",
			"computes rows of up to 14 outputs of some channels; src + off is where lane 0 of row first of the image would lie.")
		d.emit()
	}
}

type depthRows struct {
	*gen
	stride int
	index  [3]vec // of the pixels of a tap, stride 2
	lanes  [2]mask
	w      [9]vec
}

// slot is an argument in memory.
func (d *depthRows) slot(name string) operand.Mem {
	m, err := d.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return m.Addr
}

func (d *depthRows) emit() {
	lo, hi := d.argVec("lo"), d.argVec("hi")
	out := d.K()
	d.KMOVW(d.arg("out").As32(), out)
	if d.stride == 2 {
		for tap := range d.index {
			name := fmt.Sprintf("everysecond%d", tap)
			d.index[tap] = d.ld(d.table(name, 16, func(i int) uint32 { return uint32(min(2*i+tap, 31)) }))
		}
	}
	for j, name := range []string{"low", "high"}[:d.stride] {
		d.lanes[j].k = d.K()
		d.KMOVW(d.arg(name).As32(), d.lanes[j].k)
	}
	d.Label("channel")
	p := d.arg("w")
	for i := range d.w {
		d.w[i] = d.to(d.VBROADCASTSS, at(p, 4*i))
	}
	bias := d.to(d.VBROADCASTSS, at(d.arg("bias"), 0))
	dst, src, y, rows := d.arg("dst"), d.arg("src"), d.arg("first"), d.arg("rows")
	d.ADDQ(d.slot("off"), src)
	d.Label("row")
	acc := d.zeroed()
	p = d.GP64()
	d.MOVQ(src, p)
	for dy := range 3 {
		d.row(acc, p, y, dy)
	}
	d.add(acc, acc, bias)
	d.clampTo(acc, lo, hi)
	d.stTail(acc, at(dst, 0), mask{k: out})
	d.ADDQ(d.slot("dstRow"), dst)
	for range d.stride {
		d.ADDQ(d.slot("srcRow"), src)
	}
	d.ADDQ(operand.I32(d.stride), y)
	d.DECQ(rows)
	d.JNZ(operand.LabelRef("row"))
	for _, step := range [][2]string{{"dst", "dstPlane"}, {"src", "srcPlane"}, {"w", "wStep"}, {"bias", "biasStep"}} {
		by := d.arg(step[1])
		d.ADDQ(by, d.slot(step[0]))
	}
	d.DECQ(d.slot("channels"))
	d.JNZ(operand.LabelRef("channel"))
	d.ret()
}

// row adds the taps of input row y + dy, unless that is above or below the image, and moves p to the next.
func (d *depthRows) row(acc vec, p, y gp, dy int) {
	row, skip := d.GP64(), fmt.Sprintf("outside%d", dy)
	d.LEAQ(at(y, dy), row)
	d.CMPQ(row, d.slot("inRows"))
	d.JCC(operand.LabelRef(skip))
	var x [2]vec
	for j := range d.stride {
		x[j] = d.ldTail(at(p, 64*j), d.lanes[j])
	}
	d.taps(acc, dy, x)
	d.Label(skip)
	if dy < 2 {
		d.ADDQ(d.slot("srcRow"), p)
	}
}

// taps adds the three taps of a row.
func (d *depthRows) taps(acc vec, dy int, x [2]vec) {
	for tap := range 3 {
		z := x[0]
		switch {
		case d.stride == 2:
			z = d.copyOf(d.index[tap])
			d.VPERMI2PS(x[1], x[0], z)
		case tap > 0:
			z = d.v()
			d.VALIGND(operand.U8(tap), x[0], x[0], z)
		}
		d.fma(acc, d.w[3*dy+tap], z)
	}
}
