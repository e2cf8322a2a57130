package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ops"
)

var convOps = []entry{
	{op: "Conv", prepare: prepareConv},
	{domain: ops.Private, op: "Conv", prepare: prepareConv},
	{domain: microsoft, op: "FusedConv", prepare: prepareConv},
	{op: "ConvTranspose", prepare: prepareConvTranspose},
	{domain: ops.Private, op: "ConvTranspose", prepare: prepareConvTranspose},
}

// window is the geometry of a sliding window over up to three spatial dimensions,
// as depth, height and width; missing ones are 1.
type window struct {
	rank                     int
	in, out                  [3]int
	kernel, stride, dilation [3]int
	begin, end               [3]int
	ceil                     bool
}

// windowOf reads the window attributes of a node for spatial shapes; ok is false
// for more than three dimensions or attributes that do not fit.
func (p *prep) windowOf(kernel, in, out []int) (w window, ok bool) {
	w.rank = len(kernel)
	if w.rank < 1 || w.rank > 3 || len(in) != w.rank || len(out) != w.rank {
		return w, false
	}
	var strides, dilations [3]int
	var padding [6]int
	stride, dilation, pads := strides[:w.rank], dilations[:w.rank], padding[:2*w.rank]
	if !p.list("strides", stride, 1) || !p.list("dilations", dilation, 1) || !p.list("pads", pads, 0) {
		return w, false
	}
	w.ceil = ops.Int(p.node, "ceil_mode") != 0
	for i := range 3 {
		w.in[i], w.out[i], w.kernel[i], w.stride[i], w.dilation[i] = 1, 1, 1, 1, 1
	}
	for i := range w.rank {
		d := 3 - w.rank + i
		w.in[d], w.out[d], w.kernel[d] = in[i], out[i], kernel[i]
		w.stride[d], w.dilation[d] = stride[i], dilation[i]
		w.begin[d], w.end[d] = pads[i], pads[w.rank+i]
	}
	return w, w.autoPad(ops.Str(p.node, "auto_pad"))
}

// squeezed moves dimensions in which nothing slides in front of the others, which
// leaves memory as it is: a signal that came as an image one pixel wide becomes an
// image one pixel high, whose rows are long enough for vectors.
//
//	in  [512, 1]  kernel [5, 1]   ->   in  [1, 512]  kernel [1, 5]
func (w window) squeezed() window {
	s, at := w, 2
	put := func(from int) {
		s.in[at], s.out[at], s.kernel[at] = w.in[from], w.out[from], w.kernel[from]
		s.stride[at], s.dilation[at] = w.stride[from], w.dilation[from]
		s.begin[at], s.end[at] = w.begin[from], w.end[from]
		if w.idle(from) {
			s.stride[at], s.dilation[at] = 1, 1
		}
		at--
	}
	for _, idle := range []bool{false, true} {
		for d := 2; d >= 0; d-- {
			if w.idle(d) == idle {
				put(d)
			}
		}
	}
	return s
}

// idle reports a dimension of one pixel under a kernel of one.
func (w *window) idle(d int) bool {
	return w.in[d] == 1 && w.out[d] == 1 && w.kernel[d] == 1 && w.begin[d] == 0 && w.end[d] == 0
}

// list reads a list attribute of so many numbers, def each if it is absent; false if it has another number of them.
func (p *prep) list(name string, out []int, def int) bool {
	given := ops.Ints(p.node, name)
	for i := range out {
		out[i] = def
		if i < len(given) {
			out[i] = int(given[i])
		}
	}
	return len(given) == 0 || len(given) == len(out)
}

// extent is the span of the window along dimension d.
func (w *window) extent(d int) int { return (w.kernel[d]-1)*w.dilation[d] + 1 }

// taps returns the taps lo up to hi of output position o along d that lie in the input,
// and the input position of tap 0.
func (w *window) taps(d, o int) (first, lo, hi int) {
	first = o*w.stride[d] - w.begin[d]
	if first < 0 {
		lo = ceilDiv(-first, w.dilation[d])
	}
	if last := w.in[d] - 1 - first; last >= 0 {
		hi = min(last/w.dilation[d]+1, w.kernel[d])
	}
	return first, lo, hi
}

// position is output position i by dimensions.
func (w *window) position(i int) [3]int {
	return [3]int{i / (w.out[1] * w.out[2]), i / w.out[2] % w.out[1], i % w.out[2]}
}

// isPointwise reports that every output position reads the input at the same position
// alone.
func (w *window) isPointwise() bool {
	return sizeOf(w.kernel[:]) == 1 && w.in == w.out && w.stride == [3]int{1, 1, 1} && w.begin == [3]int{}
}

// autoPad replaces the padding as auto_pad says; false for an unknown mode.
func (w *window) autoPad(mode string) bool {
	switch mode {
	case "", "NOTSET":
		return true
	case "VALID":
		w.begin, w.end = [3]int{}, [3]int{}
		return true
	case "SAME_UPPER", "SAME_LOWER":
	default:
		return false
	}
	for d := range 3 {
		total := max((w.out[d]-1)*w.stride[d]+w.extent(d)-w.in[d], 0)
		w.begin[d] = total / 2
		if mode == "SAME_LOWER" {
			w.begin[d] = total - total/2
		}
		w.end[d] = total - w.begin[d]
	}
	return true
}

// planned is the plan of a convolution.
type planned convolve.ConvPlan

// Choice is the algorithm of the plan and its reason.
func (p planned) Choice() backend.Choice {
	return backend.Choice{Algorithm: p.Algorithm.String(), Reason: p.Reason}
}

// conv is a convolution that package convolve computes.
type conv struct {
	planned
	c           *convolve.Conv
	packed      *gemm.Packed // nil: operand 1 is read
	halves      bool         // images are halves
	ws, threads int
}

// prepareConv serves Conv, FusedConv, which adds operand Z before its activation, and
// Conv with an epilogue that does the same.
func prepareConv(p *prep) (ops.Kernel, error) {
	act, ok := p.activation()
	x, w, out := p.in[0], p.in[1], p.out[0]
	if !ok || !p.allF32() || len(x.shape) < 3 || len(w.shape) != len(x.shape) ||
		p.has(2) && p.in[2].n != w.shape[0] || p.has(3) && !slices.Equal(p.in[3].shape, out.shape) {
		return nil, nil
	}
	win, ok := p.windowOf(w.shape[2:], x.shape[2:], out.shape[2:])
	if !ok {
		return nil, nil
	}
	win = win.squeezed()
	plan, err := p.planConv(p.convSpec(win, act))
	if err != nil {
		return nil, err
	}
	taken := arrangement{}
	if plan.Algorithm != convolve.ConvFilter && p.isConst(1) {
		if cropped := win.cropped(&taken); cropped.kernel != win.kernel {
			win = cropped
			if plan, err = p.planConv(p.convSpec(win, act)); err != nil {
				return nil, err
			}
		}
	}
	switch plan.Algorithm {
	case convolve.ConvFilter:
		return p.filterConv(win, act, plan), nil
	case convolve.ConvRows, convolve.ConvPixelRows:
		return p.rowConv(win, act, taken, plan)
	case convolve.ConvColumns:
		return p.columns(p.convSpec(win, act), plan, taken)
	case convolve.ConvSum:
		return p.sumConv(p.convSpec(win, activation{}), act, taken, plan)
	}
	return p.plainConv(p.convSpec(win, act), plan, win.out, taken)
}

// planConv chooses how a convolution is computed.
func (p *prep) planConv(s convolve.ConvSpec) (convolve.ConvPlan, error) {
	return convolve.PlanConv(s, convolve.ConvPolicy{Winograd: p.options.Winograd, Memory: p.options.Memory})
}

// convSpec is the node under a window as package convolve describes it.
func (p *prep) convSpec(win window, act activation) convolve.ConvSpec {
	x, w := p.in[0].shape, p.in[1].shape
	s := p.windowSpec(win, x, w)
	s.ConstW = p.isConst(1)
	act.into(&s.Epilogue)
	if p.has(2) {
		s.Epilogue.Bias = simd.BiasPerRow
	}
	s.Epilogue.Residual = p.has(3)
	s.InBlocked, s.OutBlocked = p.in[0].blocked, p.out[0].blocked
	s.Shuffle = fused.Shuffles(p.node)
	return s
}

// windowSpec describes the window over an input and weights of shapes x and w.
func (p *prep) windowSpec(win window, x, w []int) convolve.ConvSpec {
	return convolve.ConvSpec{
		Batch: x[0], InC: x[1], OutC: w[0], Groups: int(ops.Int(p.node, "group")),
		In: win.in, Kernel: win.kernel, Stride: win.stride, Dilation: win.dilation, PadBegin: win.begin, PadEnd: win.end,
	}
}

// newConv prepares a convolution within the budget. Convolutions of one geometry that hold no lists are one: a model has many
// that differ in nothing but their weights.
func (p *prep) newConv(s convolve.ConvSpec, plan convolve.ConvPlan) (*convolve.Conv, error) {
	bytes := convolve.TapBytes(s, plan)
	if bytes == 0 {
		made, err := p.weights.Shared.Get(convForm{s, plan, simd.Active()}, func() (any, error) { return convolve.NewConv(s, plan) })
		c, _ := made.(*convolve.Conv)
		return c, err
	}
	if err := p.table(tapLists, bytes); err != nil {
		return nil, err
	}
	return convolve.NewConv(s, plan)
}

// convForm is what a convolution is prepared from.
type convForm struct {
	spec  convolve.ConvSpec
	plan  convolve.ConvPlan
	level *simd.Table
}

// tapLists is what windows take memory for.
const tapLists = "the taps of a window"

// plainConv prepares what package convolve computes.
func (p *prep) plainConv(s convolve.ConvSpec, plan convolve.ConvPlan, out [3]int, taken arrangement) (ops.Kernel, error) {
	k := &conv{planned: planned(plan), threads: p.threads}
	if convolve.TakesHalves(s, plan) {
		s.Half, k.halves = p.keepHalves(0, 3)
	}
	var err error
	if k.c, err = p.newConv(s, plan); err != nil {
		return nil, err
	}
	if k.c.Out() != out {
		return nil, nil
	}
	if s.ConstW {
		if k.packed, err = p.packConv(k.c, taken); err != nil {
			return nil, err
		}
	}
	k.ws = p.workspace(k.c.Workspace(p.threads))
	return k, nil
}

// packConv packs operand 1 for a convolution, or what is left of it.
func (p *prep) packConv(c *convolve.Conv, taken arrangement) (*gemm.Packed, error) {
	return p.packFloats(1, c.WeightLayout(), taken, func(w gemm.Source) (*gemm.Packed, error) {
		w, err := p.crop(w, taken)
		if err != nil {
			return nil, err
		}
		return c.PackW(p.ctx, w)
	})
}

// Run computes the convolution.
func (k *conv) Run(c *ops.Call) error {
	args := convolve.ConvArgs{Done: c.Done(), Packed: k.packed, Bias: optF32(c.In, 2)}
	if k.halves {
		args.Halves = convolve.Halves{X: optHalves(c.In, 0), Y: optHalves(c.Out, 0), Residual: optHalves(c.In, 3)}
	} else {
		args.X, args.Y, args.Residual = f32(c.In[0]), f32(c.Out[0]), optF32(c.In, 3)
	}
	if k.packed == nil {
		args.W = f32(c.In[1])
	}
	return k.c.Run(args, c.Scratch[k.ws:], min(k.threads, c.Threads))
}

// Taps that read nothing but padding are left out. Where images are small these may be
// most of a kernel: with dilation 4, a 3×3 kernel over 4×4 pixels reads one pixel at
// each position, and is a 1×1 kernel.
//
//	k . . . k . . . k        k: kernel, dilation 4
//	. . . . . . . . .        #: image
//	k . . . # # # # k
//	. . . . # # # # .
//	. . . . # # # # .        at the first output position; the outer taps are
//	k . . . # # # # k        outside at the others, too
//	. . . . . . . . .

// usedTaps returns a range of taps along dimension d that has all those that read the
// image at some output position, and one tap at least.
func (w *window) usedTaps(d int) (lo, hi int) {
	lo = w.kernel[d]
	for o := range w.out[d] {
		if _, from, to := w.taps(d, o); to > from {
			lo, hi = min(lo, from), max(hi, to)
		}
	}
	if hi == 0 {
		return 0, 1
	}
	return lo, hi
}

// cropped is the window without the outer taps that read only padding; the same window
// if there are none. Which weights it keeps is recorded in taken.
func (w window) cropped(taken *arrangement) window {
	s := w
	var first [3]int
	for d := range 3 {
		lo, hi := w.usedTaps(d)
		first[d], s.kernel[d] = lo, hi-lo
		s.begin[d] -= lo * w.dilation[d]
		s.end[d] -= (w.kernel[d] - hi) * w.dilation[d]
	}
	if s.kernel == w.kernel {
		return w
	}
	taken.first, taken.cropped, taken.full = first, s.kernel, w.kernel
	return s
}

// crop returns the weights of a convolution that an arrangement keeps.
func (p *prep) crop(w gemm.Source, taken arrangement) (gemm.Source, error) {
	if w.Splat || taken.cropped == [3]int{} {
		return w, nil
	}
	full, first, left := taken.full, taken.first, taken.cropped
	kernels := len(w.Data) / sizeOf(full[:])
	if err := machine.AskPacked(p.ctx, 4*len(w.Data)); err != nil { // at most
		return w, err
	}
	out := make([]float32, 0, kernels*sizeOf(left[:]))
	for i := range kernels {
		for a := range left[0] {
			for b := range left[1] {
				at := ((i*full[0]+first[0]+a)*full[1]+first[1]+b)*full[2] + first[2]
				out = append(out, w.Data[at:at+left[2]]...)
			}
		}
	}
	return gemm.Source{Data: out}, nil
}
