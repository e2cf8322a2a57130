package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ops"
)

// Convolutions with so few channels that a product of matrices would have next to
// no rows.

// filterConv is a filter along the last dimension of single-channel signals: every
// output is the inner product of a run of the signal with a kernel.
//
//	signal   ─ ─ ─[─ ─ ─ ─ ─ ─ ─ ─]─ ─      run at p·stride − pad
//	kernel m      └── 32 or more ──┘        Y[m, p] = run · kernel + bias
type filterConv struct {
	win     window
	n, m    int
	weights int // operand position
	bias    int // the same, -1 for none
	act     activation
	cut     // over the outputs of one line
}

// filterConv prepares this form.
func (p *prep) filterConv(w window, act activation) ops.Kernel {
	return &filterConv{win: w, n: p.in[0].shape[0], m: p.out[0].shape[1], weights: 1, bias: present(p, 2), act: act,
		cut: newCut(1, w.out[2], max(1, 2*tileElems/w.kernel[2]))}
}

// present is a position, -1 where the operand is absent, or for -1.
func present(p *prep, i int) int {
	if i >= 0 && p.has(i) {
		return i
	}
	return -1
}

// Run filters all lines.
func (k *filterConv) Run(c *ops.Call) error {
	runTiles(c, k.n*k.m*k.win.out[0]*k.win.out[1]*k.tiles, k)
	return nil
}

func (k *filterConv) tile(c *ops.Call, i, _ int) {
	w := &k.win
	_, _, lo, hi := k.cut.tile(i % k.tiles)
	line := i / k.tiles // of the result: image, channel, line
	lines := w.out[0] * w.out[1]
	ch := line / lines % k.m
	x := f32(c.In[0])[(line/lines/k.m*lines+line%lines)*w.in[2]:][:w.in[2]]
	taps := f32(c.In[k.weights])[ch*w.kernel[2]:][:w.kernel[2]]
	y := f32(c.Out[0])[line*w.out[2]:][:w.out[2]]
	bias := float32(0)
	if k.bias >= 0 {
		bias = f32(c.In[k.bias])[ch]
	}
	for o := lo; o < hi; o++ {
		first, from, to := w.taps(2, o)
		y[o] = bias
		if from < to {
			y[o] += kern.Dot(taps[from:to], x[first+from:first+to])
		}
	}
	if k.act.op != kern.Identity {
		kern.Unary(k.act.op, y[lo:hi], y[lo:hi], k.act.p0, k.act.p1)
	}
}

// sumConv computes a single output channel: its weights are those of a depthwise
// convolution, whose channels are then added up.
//
//	weights [1, C, k…] = [C, 1, k…]      Y = act(Σ depthwise(X) + bias)
type sumConv struct {
	c           *kern.Conv
	packed      *kern.Packed
	n, channels int
	plane       int
	act         activation
	bias        int // operand position, -1 for none
	tmp, ws     int // workspace: the channels; of the convolution
	threads     int
}

// sumConv prepares this form of a convolution.
func (p *prep) sumConv(s kern.ConvSpec, act activation, taken arrangement) (ops.Kernel, error) {
	s.Groups, s.OutC, s.Epilogue = s.InC, s.InC, kern.Epilogue{}
	k := &sumConv{n: s.Batch, channels: s.InC, act: act, bias: present(p, 2), threads: p.threads}
	plan, err := p.planConv(s)
	if err != nil {
		return nil, err
	}
	if k.c, err = kern.NewConv(s, plan); err != nil {
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
	if err := k.c.Run(kern.ConvArgs{X: f32(c.In[0]), Y: tmp, Packed: k.packed}, c.Scratch[k.ws:], threads); err != nil {
		return err
	}
	kern.ReduceCols(kern.ReduceSum, y, tmp, k.n, k.channels, k.plane, threads)
	if k.bias >= 0 {
		kern.BinaryScalar(kern.Add, y, y, f32(c.In[k.bias])[0])
	}
	if k.act.op != kern.Identity {
		kern.UnaryN(k.act.op, y, y, k.act.p0, k.act.p1, threads)
	}
	return nil
}
