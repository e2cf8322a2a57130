package convolve

import (
	"fmt"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Transposed convolution by phases. The results whose position has one remainder by the stride, a phase, are an ordinary
// convolution of stride one, with every stride-th tap of the kernel in the opposite order; strides in two dimensions give
// as many phases as their product. Along one dimension, with a kernel of 4, a stride of 2 and a padding of 1:
//
//	Y[2i]   = X[i−1]·w3 + X[i]·w1              phase 0
//	Y[2i+1] = X[i]·w2   + X[i+1]·w0            phase 1
//
// No product with the zeros between inputs is computed, and nothing is added up in memory. A task computes the phases of a few rows of
// a pair of output blocks, each as direct convolution does, and interleaves their pixels, blocks of channels, in the cache:
//
//	phase 0    a b c d
//	phase 1    A B C D      ──▶     a A b B c C d D
//
// Source: Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016, https://arxiv.org/abs/1609.07009
type transposedConv struct {
	paddedInput
	phases   [2][]phase // of rows, of columns
	segment  int        // pixels of each phase of a row in a task
	segments gemm.Split // of the longest phase of a row
	perTask  int        // rows of the result in a task
	rowTasks int        // tasks of a pair of blocks
}

// phase are the results along one dimension of one remainder by the stride.
type phase struct {
	at, n int // the first of them, how many
	in    int // the padded input position of the last tap at the first result: the lowest
	tap   int // the first tap: others follow by the stride
	taps  int
}

// mostPhases bounds the strides.
const mostPhases = 64

// phasesOf are the phases of dimension d, which begin at input positions that may be negative; ok is false where a phase has no taps,
// or the taps of one are not at equal distances.
func (g *geometry) phasesOf(d int) (list []phase, ok bool) {
	s := &g.s
	stride, dil, k := s.Stride[d], s.Dilation[d], s.Kernel[d]
	if stride > mostPhases || k < stride || common(stride, dil) != 1 {
		return nil, false
	}
	for at := range min(stride, g.out[d]) {
		v, tap := at+s.PadBegin[d], 0
		for (v-tap*dil)%stride != 0 {
			tap++
		}
		taps := machine.CeilDiv(k-tap, stride)
		list = append(list, phase{
			at: at, n: machine.CeilDiv(g.out[d]-at, stride),
			in: (v-tap*dil)/stride - (taps-1)*dil, tap: tap, taps: taps,
		})
	}
	return list, true
}

// common is the greatest common divisor.
func common(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// phased are the phases of rows and of columns, in an image with so much padding before it and so large in all.
type phased struct {
	phases       [2][]phase
	before, size [2]int
}

// phased works the phases out; ok is false where the convolution can not be computed by phases.
func (g *geometry) phased() (p phased, ok bool) {
	s := &g.s
	if g.t.Level == machine.LevelGeneric || s.In[0] != 1 || s.Kernel[0] != 1 || s.Stride[0] != 1 || g.out[0] != 1 || s.PadBegin[0] != 0 ||
		min(s.Batch, g.icg, g.ocg, g.outN, g.inN) < 1 || s.Epilogue.Residual || s.Shuffle {
		return p, false
	}
	for i := range p.phases {
		if p.phases[i], ok = g.phasesOf(i + 1); !ok {
			return p, false
		}
		after := s.In[i+1]
		for _, x := range p.phases[i] {
			p.before[i] = max(p.before[i], -x.in)
			after = max(after, x.in+(x.taps-1)*s.Dilation[i+1]+x.n)
		}
		p.size[i] = p.before[i] + after
		for j := range p.phases[i] {
			p.phases[i][j].in += p.before[i]
		}
	}
	const margin = 64 // rows and columns: more padding than that is computed otherwise
	return p, p.size[0] <= s.In[1]+margin && p.size[1] <= s.In[2]+margin
}

// newTransposedConv works out the tasks of a convolution by phases.
func newTransposedConv(g *geometry, p phased) *transposedConv {
	d, s := &transposedConv{paddedInput: newPaddedInput(g), phases: p.phases}, &g.s
	d.pad = paddedCopy{rows: s.In[1], cols: s.In[2], pRows: p.size[0], pCols: p.size[1], top: p.before[0], left: p.before[1], width: d.width, step: [2]int{1, 1}}
	d.cut()
	return d
}

// cut divides rows, long ones by pixels, over tasks.
func (d *transposedConv) cut() {
	const (
		most = 512     // pixels of a task: two blocks of channels of so many are 64 kB
		work = 4 << 20 // multiply-adds
	)
	stride, columns := d.s.Stride, d.phases[1][0].n
	d.segments = gemm.NewSplit(columns, max(1, most/stride[2]))
	d.segment = d.segments.Largest()
	row := d.segment * len(d.phases[1])
	d.perTask, d.rowTasks = 1, d.out[1]*d.segments.P
	if d.segments.P > 1 {
		return
	}
	one := row * 2 * d.b * machine.CeilDiv(d.icg*d.taps, stride[1]*stride[2])
	each := gemm.TaskWork(d.s.Batch*d.allPairs()*d.out[1]*one, work)
	rows := max(1, min(machine.CeilDiv(each, max(1, one)), most/row))
	d.perTask = min(machine.RoundUp(rows, stride[1]), d.out[1])
	d.rowTasks = machine.CeilDiv(d.out[1], d.perTask)
}

func (d *transposedConv) tasks() int { return d.allPairs() * d.rowTasks }

// packing lays out, for each pair of blocks, one phase after the other, by their first taps; the weights of each as those of a
// direct convolution.
func (d *transposedConv) packing() *gemm.Packing {
	kind := "conv transposed"
	if d.s.InBlocked {
		kind = "conv transposed blocked"
	}
	layout := d.weightLayout(kind)
	layout.Dims[5], layout.Dims[6], layout.Dims[7] = d.s.Kernel[2], d.s.Stride[1], d.s.Stride[2]
	return d.packingOf(layout, d.packPair)
}

// phaseAt is where the weights of the phase of first taps ty and tx begin in those of a pair of so many lanes.
func (d *transposedConv) phaseAt(ty, tx, lanes int) int {
	s := &d.s
	rows, columns := tapsBefore(s.Kernel[1], s.Stride[1], ty), tapsBefore(s.Kernel[2], s.Stride[2], tx)
	here := machine.CeilDiv(s.Kernel[1]-ty, s.Stride[1])
	return (rows*s.Kernel[2] + columns*here) * d.perGroup * d.width * lanes
}

// tapsBefore is how many of the taps of a kernel belong to phases whose first taps come before one.
func tapsBefore(kernel, stride, first int) (n int) {
	for t := range first {
		n += machine.CeilDiv(kernel-t, stride)
	}
	return n
}

// packPair packs the weights of pair i, which a model holds by input channels.
func (d *transposedConv) packPair(dst, w []float32, i int) {
	group, pair := i/d.pairs(), i%d.pairs()
	lanes := min(2, d.outBlocks-2*pair) * d.b
	have := min(lanes, d.ocg-2*pair*d.b)
	clear(dst[:d.pairLen()])
	for ic := range d.icg {
		from := ((group*d.icg+ic)*d.ocg + 2*pair*d.b) * d.taps
		d.packColumn(dst, w[from:][:have*d.taps], ic, lanes)
	}
}

// packColumn puts the weights of an input channel, output channels by taps, in their places.
func (d *transposedConv) packColumn(dst, column []float32, ic, lanes int) {
	s := &d.s
	for i := range d.taps {
		y, x := i/s.Kernel[2], i%s.Kernel[2]
		ty, tx := y%s.Stride[1], x%s.Stride[2]
		rows, columns := machine.CeilDiv(s.Kernel[1]-ty, s.Stride[1]), machine.CeilDiv(s.Kernel[2]-tx, s.Stride[2])
		tap := (rows-1-y/s.Stride[1])*columns + columns - 1 - x/s.Stride[2]
		at := (ic/d.width*rows*columns+tap)*d.width + ic%d.width
		to := dst[d.phaseAt(ty, tx, lanes)+at*lanes:][:lanes]
		for j := i; j < len(column); j += d.taps {
			to[j/d.taps] = column[j]
		}
	}
}

// transposedTask is a task: a rectangle of results of a pair of blocks, all of its rows, or a part of one.
type transposedTask struct {
	group, pair, blocks int
	y0, y1              int // rows of the result
	i0, i1              int // pixels of the first phase of a row
	pixel, row          int // where the result begins, pixels of a row
}

// taskAt is task i of an image.
func (d *transposedConv) taskAt(i int) transposedTask {
	gp, rt := i/d.rowTasks, i%d.rowTasks
	k := transposedTask{group: gp / d.pairs(), pair: gp % d.pairs(), y0: rt / d.segments.P * d.perTask}
	k.blocks = min(2, d.outBlocks-2*k.pair)
	k.y1 = min(k.y0+d.perTask, d.out[1])
	i0, n := d.segments.Part(rt % d.segments.P)
	k.i0, k.i1 = i0, i0+n
	x := k.i0 * d.s.Stride[2]
	k.row = min(k.i1*d.s.Stride[2], d.out[2]) - x
	k.pixel = k.y0*d.out[2] + x
	return k
}

// pixels is the most pixels of a task, phasePixels those of one phase of it.
func (d *transposedConv) pixels() int { return d.perTask * d.segment * d.s.Stride[2] }
func (d *transposedConv) phasePixels() int {
	return machine.CeilDiv(d.perTask, d.s.Stride[1]) * d.segment
}

// perWorker is a phase, and a plain result before it is brought into its layout.
func (d *transposedConv) perWorker() int {
	tile := 0
	if !d.s.OutBlocked {
		tile = 8 * d.b * d.pixels()
	}
	return machine.ScratchBytes(8*d.b*d.phasePixels(), tile)
}

func (d *transposedConv) workspace(threads int) int {
	return d.workspaceOf(d.tasks(), d.perWorker(), threads)
}

func (d *transposedConv) run(r *convRun, threads int) {
	d.runTasks(r, d.tasks(), d.perWorker(), threads)
}

// task computes one task, or pads a plane.
func (d *transposedConv) task(r *convRun, i, worker int) {
	if r.phase == convPads {
		d.padPlane(r, i)
		return
	}
	k, buf := d.taskAt(i), r.buffer(worker)
	part := buf.Floats(2 * d.b * d.phasePixels())
	pixels := (k.y1 - k.y0) * k.row
	block := k.group*d.outBlocks + 2*k.pair
	y, plane := []float32(nil), d.outN*d.b
	if d.s.OutBlocked {
		y = r.args.Y[r.image*d.outImage()+block*plane+k.pixel*d.b:]
	} else {
		plane = pixels * d.b
		y = buf.Floats(2 * d.b * d.pixels())
	}
	d.compute(r, &k, part, y, plane)
	for j := range k.blocks {
		if d.s.OutBlocked {
			d.finishBlock(y[j*plane:][:pixels*d.b], block+j)
			continue
		}
		to, step := d.resultAt(r.image, k.group, (2*k.pair+j)*d.b)
		r.leave(y[j*plane:][:plane], to+k.pixel, step, min(d.b, d.ocg-(2*k.pair+j)*d.b), pixels)
	}
}

// compute computes the phases of a task and interleaves them in y, whose blocks are so many floats apart.
func (d *transposedConv) compute(r *convRun, k *transposedTask, part, y []float32, plane int) {
	a := d.args(r, k)
	for pi := range d.phases[0] {
		p := &d.phases[0][pi]
		r0, r1 := phaseRange(p, k.y0, k.y1, d.s.Stride[1])
		for qi := range d.phases[1] {
			q := &d.phases[1][qi]
			i1 := min(k.i1, q.n)
			if r0 >= r1 || k.i0 >= i1 || machine.Closed(r.args.Done) {
				continue
			}
			d.phase(r, k, a, p, q, [4]int{r0, r1, k.i0, i1}, part)
			n, size := i1-k.i0, (r1-r0)*(i1-k.i0)*d.b
			for j := range k.blocks {
				for i := r0; i < r1; i++ {
					to := ((p.at+i*d.s.Stride[1]-k.y0)*k.row + q.at) * d.b
					spreadPixels(y[j*plane+to:], part[j*size+(i-r0)*n*d.b:][:n*d.b], d.b, d.s.Stride[2]*d.b)
				}
			}
		}
	}
}

// phaseRange are the results of a phase in lo up to hi.
func phaseRange(p *phase, lo, hi, stride int) (from, to int) {
	return machine.CeilDiv(max(0, lo-p.at), stride), min(p.n, machine.CeilDiv(max(0, hi-p.at), stride))
}

// spreadPixels writes pixels of b floats so many floats apart.
func spreadPixels(dst, src []float32, b, step int) {
	switch {
	case step == b:
		copy(dst, src)
	case b == 16:
		for at := 0; len(src) >= 16; at += step {
			*(*[16]float32)(dst[at:]) = *(*[16]float32)(src)
			src = src[16:]
		}
	default:
		for at := 0; len(src) > 0; at += step {
			copy(dst[at:], src[:b])
			src = src[b:]
		}
	}
}

// args are the arguments that all kernel calls of a task share.
func (d *transposedConv) args(r *convRun, k *transposedTask) simd.DirectArgs {
	s := &d.s
	a := simd.DirectArgs{
		W: unsafe.Pointer(r.w.At((k.group*d.pairs() + k.pair) * d.pairLen())), Ic: d.perGroup,
		Plane: 4 * d.pad.size(), Row: 4 * d.width * d.pad.pCols * s.Dilation[1], Tap: 4 * d.width * s.Dilation[2], Pixel: 4 * d.width,
		Lo: d.lo, Hi: d.hi,
	}
	if s.Epilogue.Bias != simd.NoBias {
		a.Flags |= simd.DirectBias
		a.Bias = machine.Ptr(r.bias, k.group*d.ocg+2*k.pair*d.b)
	}
	if d.clamp {
		a.Flags |= simd.DirectCut
	}
	return a
}

// phaseChain is about how many products of a phase are added up one after the other, in a call each.
const phaseChain = 256

// phase computes rows and pixels of one phase into part, chain by chain, so that the weights of a chain stay near.
func (d *transposedConv) phase(r *convRun, k *transposedTask, a simd.DirectArgs, p, q *phase, at [4]int, part []float32) {
	taps, n := p.taps*q.taps, at[3]-at[2]
	lanes := k.blocks * d.b
	w := unsafe.Add(a.W, 4*d.phaseAt(p.tap, q.tap, lanes))
	a.OutBlock, a.Kh, a.Kw = 4*(at[1]-at[0])*n*d.b, p.taps, q.taps
	cuts, chains := gemm.NewSplit(n, d.t.Mr), gemm.NewSplit(d.perGroup, machine.CeilDiv(phaseChain, d.width*taps))
	in := r.in[k.group*d.perGroup*d.pad.size():]
	for c := range chains.P {
		first, planes := chains.Part(c)
		b := a
		b.W = unsafe.Add(w, 4*first*d.width*taps*lanes)
		if b.Ic = planes; taps == 1 { // planes are the taps of one row: the innermost loop of the kernel
			b.Ic, b.Kw, b.Tap = 1, planes, a.Plane
		}
		if c > 0 {
			b.Flags = simd.DirectRes | a.Flags&simd.DirectCut
		}
		if c < chains.P-1 {
			b.Flags &^= simd.DirectCut
		}
		for y := at[0]; y < at[1]; y++ {
			for i := range cuts.P {
				x, m := cuts.Part(i)
				b.In = machine.Ptr(in, first*d.pad.size()+((p.in+y)*d.pad.pCols+q.in+at[2]+x)*d.width)
				b.Out = machine.Ptr(part, ((y-at[0])*n+x)*d.b)
				b.Res = b.Out
				d.t.Direct(m, k.blocks, !d.s.InBlocked, &b)
			}
		}
	}
}

// planTransposed plans a transposed convolution.
func (g *geometry) planTransposed(o ConvPolicy) (ConvPlan, error) {
	if given != nil {
		if p, ok := given.plan(g, o); ok {
			return p, nil
		}
	}
	_, fits := g.phased()
	if fits && g.laysOut() && (g.isBlocked() || g.phasesCost() <= g.columnsCost()) {
		n := min(g.s.Stride[1], g.out[1]) * min(g.s.Stride[2], g.out[2])
		return ConvPlan{Algorithm: ConvPhases, Reason: fmt.Sprintf("%d convolutions of stride one, interleaved: %d output channels fill blocks of %d", n, g.ocg, g.t.Block())}, nil
	}
	if g.isBlocked() {
		return ConvPlan{}, &machine.SpecError{Kernel: "Conv", Field: "Transposed", Why: "blocked images take phases alone"}
	}
	why := "few output channels to a block, or input pixels to an output"
	if !fits {
		why = "phases do not fit"
	}
	return ConvPlan{Algorithm: ConvColumns, Reason: why}, nil
}

// phasesCost is what the phases of a transposed convolution take, in multiply-adds at the peak.
func (g *geometry) phasesCost() float64 {
	s := &g.s
	row := machine.CeilDiv(g.out[2], s.Stride[2])
	b := g.t.Block()
	blocks := machine.CeilDiv(g.ocg, b)
	sums := gemm.NewSplit(row, g.t.Mr).Base * min(2, blocks) // independent sums of a call
	work := g.work() / float64(s.Stride[1]*s.Stride[2])
	fill := float64(g.ocg) / float64(blocks*b)
	return work/g.kernelShare()/fill/min(1, float64(sums)/8) + ChangeCost*float64(s.Batch*s.OutC*g.outN)
}
