package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// pixelWeights is the derivative of a convolution by its weights without patches: some lines of both operands are brought into an order in
// which the channels of a pixel are neighbours, and then every tap is a product of the same memory from another pixel on.
//
//	x [pixel][channel] ──from tap (1, 2) on──▶ ┐
//	                                           ├─ a line of pixels is summed up over ──▶ w[tap (1, 2)][filter][channel]
//	d [pixel][filter] ────────────────────────▶ ┘
//
// Channels are vectors and filters the rows of a micro-kernel, or the other way around, whichever fills it better. Patches would be written
// for each tap, which takes as long as the products where channels and filters are few.
type pixelWeights struct {
	s       WeightsSpec
	t       *simd.Table
	x, d    pixelSide
	swapped bool       // filters are the vectors
	cols    int        // of the side in vectors
	width   int        // whole vectors of it
	panels  gemm.Split // rows of the other side into panels
	parts   gemm.Split // panels into tasks
	taps    gemm.Split // taps into tasks
	strips  gemm.Split // lines of the result that are in work at a time
}

// pixelSide is an operand: where its lines begin in the padded image, and how long they are.
type pixelSide struct {
	count         int    // channels of a group
	in            [2]int // lines and pixels of an image
	begin         [2]int // of the padding
	lines, pixels int    // of a strip
	step          int    // lines of the operand to one of the result
}

const (
	pixelFloats = 48 << 10 // about how many floats of both operands a strip has; patches have parts of longer lines
	pixelMost   = 1 << 18  // weights up to which they are added up in another order, in the workspace
)

// newPixelWeights prepares it for so many threads; nil where patches are better.
func newPixelWeights(s WeightsSpec, threads int) *pixelWeights {
	t, one, taps := simd.Active(), [2]int{1, 1}, s.Kernel[0]*s.Kernel[1]
	if t.Level == machine.LevelGeneric || taps == 1 && s.Stride == one || s.Out[1] < 8 || s.Images*s.Out[0] == 0 || s.Channels*s.Filters*taps > pixelMost {
		return nil
	}
	k := &pixelWeights{s: s, t: t}
	least := k.cost(s.Channels, s.Filters)
	if swapped := k.cost(s.Filters, s.Channels); s.Stride[1] == 1 && swapped < least {
		k.swapped, least = true, swapped
	}
	line := (s.Out[1]-1)*s.Stride[1] + (s.Kernel[1]-1)*s.Dilation[1] + 1
	each := s.Stride[0]*line*s.Channels + s.Out[1]*s.Filters
	if least > 3*s.Channels*s.Filters || each > pixelFloats {
		return nil
	}
	rows := s.Filters
	if k.cols = s.Channels; k.swapped {
		k.cols, rows = s.Filters, s.Channels
	}
	k.width, k.panels = machine.RoundUp(k.cols, t.Lanes()), gemm.NewSplit(rows, t.Mr)
	k.parts = gemm.NewSplit(k.panels.P, machine.CeilDiv(k.panels.P, max(1, threads)))
	k.taps = gemm.NewSplit(taps, machine.CeilDiv(taps, machine.CeilDiv(max(1, threads), k.parts.P)))
	k.strips = gemm.NewSplit(s.Out[0], max(1, pixelFloats/each))
	lines := k.strips.Largest()
	k.x = pixelSide{s.Channels, s.In, s.Begin, k.reach(lines), line, s.Stride[0]}
	k.d = pixelSide{s.Filters, s.Out, [2]int{}, lines, s.Out[1], 1}
	return k
}

// cost is what products of so many columns and rows take, in multiply-adds: of whole vectors, and of as many sums as hide their latency.
func (k *pixelWeights) cost(cols, rows int) int {
	const sums = 8
	lanes := k.t.Lanes()
	vectors := machine.CeilDiv(cols, lanes)
	return vectors * lanes * max(rows, sums/min(2, vectors))
}

// reach is how many lines of the image so many lines of the result depend on.
func (k *pixelWeights) reach(lines int) int {
	return (lines-1)*k.s.Stride[0] + (k.s.Kernel[0]-1)*k.s.Dilation[0] + 1
}

// tasks is how many tasks there are.
func (k *pixelWeights) tasks() int { return k.s.Groups * k.parts.P * k.taps.P }

// sides are the operand in vectors and that in rows.
func (k *pixelWeights) sides() (vectors, rows *pixelSide) {
	if k.swapped {
		return &k.d, &k.x
	}
	return &k.x, &k.d
}

// sizes are the floats of both operands and of the weights of a task.
func (k *pixelWeights) sizes() (vectors, rows, sums int) {
	v, r := k.sides()
	most := k.parts.Largest() * k.panels.Largest()
	return v.lines*v.pixels*k.width + machine.SlackFloats, r.lines*r.pixels*most + machine.SlackFloats, k.taps.Largest() * most * k.cols
}

func (k *pixelWeights) taskBytes() int {
	v, r, s := k.sizes()
	return machine.ScratchBytes(4*v, 4*r, 4*s) + machine.LineBytes
}

// task computes the weights of some panels and taps.
func (k *pixelWeights) task(done <-chan struct{}, i int, x, d, y []float32, ws []byte) {
	r := weightRun{pixelWeights: k}
	r.p0, r.p1 = part(k.parts, i%k.parts.P)
	i /= k.parts.P
	r.tap0, r.tap1 = part(k.taps, i%k.taps.P)
	r.group = i / k.taps.P
	r.row0, _ = k.panels.Part(r.p0)
	last, n := k.panels.Part(r.p1 - 1)
	r.rows = last + n - r.row0
	nv, nr, ns := k.sizes()
	s := machine.NewScratch(ws)
	r.vectors, r.panel, r.sums = s.Floats(nv), s.Floats(nr), s.Floats(ns)
	clear(r.vectors)
	clear(r.sums)
	for n := range k.s.Images {
		at := n*k.s.Groups + r.group
		xs, ds := x[at*k.x.count*k.x.plane():], d[at*k.d.count*k.d.plane():]
		for i := range k.strips.P {
			if machine.Closed(done) {
				return
			}
			r.first, r.lines = k.strips.Part(i)
			r.strip(xs, ds)
		}
	}
	r.leave(y)
}

// part are the bounds of part i.
func part(s gemm.Split, i int) (from, to int) {
	from, n := s.Part(i)
	return from, from + n
}

// weightRun is a task at work.
type weightRun struct {
	*pixelWeights
	group, p0, p1, tap0, tap1 int
	row0, rows                int
	first, lines              int // the strip
	vectors, panel, sums      []float32
}

func (p *pixelSide) plane() int { return p.in[0] * p.in[1] }

// strip adds the products of a strip.
func (r *weightRun) strip(x, d []float32) {
	if r.swapped {
		r.d.bring(r.t, r.vectors, d, r.first, r.lines, 0, r.cols, r.width)
		r.bringPanels(&r.x, x, r.reach(r.lines))
	} else {
		r.x.bring(r.t, r.vectors, x, r.first, r.reach(r.lines), 0, r.cols, r.width)
		r.bringPanels(&r.d, d, r.lines)
	}
	u := simd.UkArgs{K: r.s.Out[1], Ldb: 4 * r.width, Ldc: 4 * r.cols, Beta: 1}
	if !r.swapped {
		u.Ldb *= r.s.Stride[1]
	}
	for tap := r.tap0; tap < r.tap1; tap++ {
		for p := r.p0; p < r.p1; p++ {
			for q := 0; q < r.cols; q += r.t.Nr {
				r.products(&u, tap, p, q)
			}
		}
	}
}

// bringPanels brings lines of the side in rows into panels.
func (r *weightRun) bringPanels(side *pixelSide, from []float32, lines int) {
	for p := r.p0; p < r.p1; p++ {
		row, h := r.panels.Part(p)
		side.bring(r.t, r.panel[(row-r.row0)*side.lines*side.pixels:], from, r.first, lines, row, h, h)
	}
}

// products adds the products of a panel and a tile of columns for all lines of a strip.
func (r *weightRun) products(u *simd.UkArgs, tap, p, q int) {
	row, h := r.panels.Part(p)
	u.Flags, u.Cols = simd.UkAcc, r.cols-q
	if u.Cols < r.t.Nr {
		u.Flags |= simd.UkTail
	}
	u.C = machine.Ptr(r.sums, ((tap-r.tap0)*r.rows+row-r.row0)*r.cols+q)
	_, side := r.sides()
	base := (row - r.row0) * side.lines * side.pixels
	down, right := tap/r.s.Kernel[1]*r.s.Dilation[0], tap%r.s.Kernel[1]*r.s.Dilation[1]
	for i := range r.lines {
		x, d := (i*r.s.Stride[0]+down)*r.x.pixels+right, i*r.d.pixels
		if r.swapped {
			x, d = d, x
		}
		u.B, u.A = machine.Ptr(r.vectors, x*r.width+q), machine.Ptr(r.panel, base+d*h)
		r.t.Micro(h, u)
	}
}

// bring writes lines of some channels from one on, pixels of so many floats; first is the line of the result that they are for.
func (p *pixelSide) bring(t *simd.Table, dst, src []float32, first, lines, channel, channels, width int) {
	lo := min(p.pixels, max(0, p.begin[1])) // pixels from lo to hi lie in the image
	hi := max(lo, min(p.pixels, p.in[1]+p.begin[1]))
	for i := range lines {
		to := dst[i*p.pixels*width:][:p.pixels*width]
		y := first*p.step + i - p.begin[0]
		if y < 0 || y >= p.in[0] || lo == hi {
			clear(to)
			continue
		}
		clear(to[:lo*width])
		clear(to[hi*width:])
		at := y*p.in[1] + lo - p.begin[1]
		for c := 0; c < channels; c += t.Tw {
			t.Transpose(machine.F32p(to, lo*width+c), machine.F32p(src, (channel+c)*p.plane()+at), hi-lo, 4*width, 4*p.plane(), min(t.Tw, channels-c))
		}
	}
}

// leave brings the sums of a task into the order of weights.
func (r *weightRun) leave(y []float32) {
	taps := r.s.Kernel[0] * r.s.Kernel[1]
	for tap := r.tap0; tap < r.tap1; tap++ {
		for i := range r.rows {
			from := r.sums[((tap-r.tap0)*r.rows+i)*r.cols:][:r.cols]
			at, step := ((r.group*r.s.Filters+r.row0+i)*r.s.Channels)*taps+tap, taps
			if r.swapped {
				at, step = (r.group*r.s.Filters*r.s.Channels+r.row0+i)*taps+tap, r.s.Channels*taps
			}
			for _, v := range from {
				y[at] = v
				at += step
			}
		}
	}
}
