package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

// Convolutions with so few channels that a product of matrices would have next to
// no rows.

// filterConv is a filter along the last dimension of single-channel signals: every
// output is the inner product of a run of the signal with a kernel.
//
//	signal   ─ ─ ─[─ ─ ─ ─ ─ ─ ─ ─]─ ─      run at p·stride − pad
//	kernel m      └── 32 or more ──┘        Y[m, p] = run · kernel + bias
//
// Sums are those of float64: banks of filters halve a signal octave by octave, and spectra of what is left, whose small values count in
// logarithms, have the errors of every filter before.
type filterConv struct {
	planned
	win window
	m   int // output channels
	act activation
	cut // over the outputs of one line
}

// filterConv prepares this form.
func (p *prep) filterConv(w window, act activation, plan convolve.ConvPlan) ops.Kernel {
	k := &filterConv{planned(plan), w, p.out[0].shape[1], act, newCut(1, w.out[2], max(1, 2*TileElems/w.kernel[2]))}
	return allTiles(p.in[0].shape[0]*k.m*w.out[0]*w.out[1]*k.tiles, k)
}

// present is a position, -1 where the operand is absent, or for -1.
func present(p *prep, i int) int {
	if i >= 0 && p.has(i) {
		return i
	}
	return -1
}

func (k *filterConv) tile(c *ops.Call, i, _ int) {
	w := &k.win
	_, _, lo, hi := k.cut.tile(i % k.tiles)
	line := i / k.tiles // of the result: image, channel, line
	lines := w.out[0] * w.out[1]
	ch := line / lines % k.m
	x := f32(c.In[0])[(line/lines/k.m*lines+line%lines)*w.in[2]:][:w.in[2]]
	taps := f32(c.In[1])[ch*w.kernel[2]:][:w.kernel[2]]
	y := f32(c.Out[0])[line*w.out[2]:][:w.out[2]]
	bias := float32(0)
	if b := optF32(c.In, 2); b != nil {
		bias = b[ch]
	}
	for o := lo; o < hi; {
		first, from, to := w.taps(2, o)
		n := 1
		if from == 0 && to == w.kernel[2] { // and others that lie inside the signal, too
			n = min(hi-o, (w.in[2]-to-first)/w.stride[2]+1)
		}
		clear(y[o:][:n])
		if from < to {
			vec.WideDots(y[o:], taps[from:to], x[first+from:], n, w.stride[2], 1)
		}
		o += n
	}
	if bias != 0 {
		vec.BinaryScalar(simd.Add, y[lo:hi], y[lo:hi], bias)
	}
	if k.act.op != simd.Identity {
		vec.Unary(k.act.op, y[lo:hi], y[lo:hi], k.act.p0, k.act.p1)
	}
}

// sumConv computes a single output channel: its weights are those of a depthwise
// convolution, whose channels are then added up.
//
//	weights [1, C, k…] = [C, 1, k…]      Y = act(Σ depthwise(X) + bias)
type sumConv struct {
	planned
	c           *convolve.Conv
	packed      *gemm.Packed
	n, channels int
	plane       int
	act         activation
	tmp, ws     int // workspace: the channels; of the convolution
	threads     int
}

// sumConv prepares this form of a convolution.
func (p *prep) sumConv(s convolve.ConvSpec, act activation, taken arrangement, why convolve.ConvPlan) (ops.Kernel, error) {
	s.Groups, s.OutC, s.Epilogue = s.InC, s.InC, simd.Epilogue{}
	k := &sumConv{planned: planned(why), n: s.Batch, channels: s.InC, act: act, threads: p.threads}
	plan, err := p.planConv(s)
	if err != nil {
		return nil, err
	}
	if k.c, err = p.newConv(s, plan); err != nil {
		return nil, err
	}
	out := k.c.Out()
	if k.plane = sizeOf(out[:]); k.n*k.plane != p.out[0].n {
		return nil, nil
	}
	if k.packed, err = p.packConv(k.c, taken); err != nil {
		return nil, err
	}
	k.tmp, k.ws = p.workspace(4*k.n*k.channels*k.plane), p.workspace(k.c.Workspace(p.threads))
	return k, nil
}

// Run convolves every channel and adds them up.
func (k *sumConv) Run(c *ops.Call) error {
	threads := min(k.threads, c.Threads)
	tmp, y := scratchOf[float32](c, k.tmp, k.n*k.channels*k.plane), f32(c.Out[0])
	if err := k.c.Run(convolve.ConvArgs{Done: c.Done(), X: f32(c.In[0]), Y: tmp, Packed: k.packed}, c.Scratch[k.ws:], threads); err != nil {
		return err
	}
	vec.ReduceCols(c.Done(), vec.ReduceSum, y, tmp, k.n, k.channels, k.plane, threads)
	if bias := optF32(c.In, 2); bias != nil {
		vec.BinaryScalar(simd.Add, y, y, bias[0])
	}
	if k.act.op != simd.Identity {
		vec.UnaryN(k.act.op, y, y, k.act.p0, k.act.p1, threads)
	}
	return nil
}
