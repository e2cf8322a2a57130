package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/epilogue"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/ops"
)

// Transposed convolution, by phases, as a product with a scattering sum, or as a convolution of weights turned around: see package convolve.

// prepareConvTranspose serves ConvTranspose, and ConvTranspose with an activation behind it.
func prepareConvTranspose(p *prep) (ops.Kernel, error) {
	s, ok := p.transposedSpec()
	if !ok {
		return nil, nil
	}
	plan, err := p.planConv(s)
	if err != nil {
		return nil, err
	}
	if plan.Algorithm == convolve.ConvColumns {
		return p.columns(s, plan, arrangement{})
	}
	return p.plainConv(s, plan, s.Out, arrangement{})
}

// columns prepares a convolution, transposed or not, as products with a scattering sum.
func (p *prep) columns(s convolve.ConvSpec, plan convolve.ConvPlan, taken arrangement) (ops.Kernel, error) {
	c, err := convolve.NewColumns(s)
	if err != nil || c.Out() != s.Out && s.Transposed {
		return nil, err
	}
	k := &columns{planned: planned(plan), c: c, threads: p.threads}
	if s.ConstW {
		product, right := c.Product()
		layout, pack := product.LayoutA(), product.PackA
		if right {
			layout, pack = product.LayoutB(), product.PackB
		}
		for g := range max(1, s.Groups) {
			taken.offset, taken.trans, taken.turned = g*c.GroupWeights(), !right, c.Turned()
			packed, err := p.packFloats(1, layout, taken, func(w gemm.Source) (*gemm.Packed, error) {
				w, err := p.crop(w, taken)
				if err == nil && c.Turned() {
					w, err = c.Turn(p.ctx, w)
				}
				if err != nil {
					return nil, err
				}
				return pack(p.ctx, w)
			})
			if err != nil {
				return nil, err
			}
			k.packed = append(k.packed, packed)
		}
	}
	k.ws = p.workspace(c.Workspace(p.threads))
	return k, nil
}

// transposedSpec is the node as package convolve describes it; ok is false where it does not.
func (p *prep) transposedSpec() (s convolve.ConvSpec, ok bool) {
	act, ok := epilogue.Activation(p.node)
	x, w, out := p.in[0], p.in[1], p.out[0]
	group := int(ops.Int(p.node, "group"))
	if !ok || !p.allF32() || len(x.shape) < 3 || len(w.shape) != len(x.shape) || group < 1 ||
		x.shape[1] != w.shape[0] || x.shape[1]%group != 0 || out.shape[1] != w.shape[1]*group ||
		p.has(2) && p.in[2].n != out.shape[1] {
		return s, false
	}
	win, ok := p.transposedWindow(w.shape[2:], x.shape[2:], out.shape[2:])
	if !ok {
		return s, false
	}
	win = win.squeezed()
	s = p.windowSpec(win, x.shape, w.shape)
	s.OutC, s.Transposed, s.In, s.Out = out.shape[1], true, win.out, win.in
	s.ConstW, s.InBlocked, s.OutBlocked = p.isConst(1), x.blocked, out.blocked
	s.Epilogue.Act, s.Epilogue.P0, s.Epilogue.P1 = act.Act, act.P0, act.P1
	if p.has(2) {
		s.Epilogue.Bias = simd.BiasPerRow
	}
	return s, true
}

// transposedWindow is windowOf with the roles of input and output exchanged. Where the
// output's size is given, or is a multiple of the input's, the padding is the difference
// to the full result.
func (p *prep) transposedWindow(kernel, x, y []int) (window, bool) {
	w, ok := p.windowOf(kernel, y, x)
	extra := make([]int, w.rank)
	ok2 := p.list("output_padding", extra, 0)
	mode := ops.Str(p.node, "auto_pad")
	if !ok || !ok2 {
		return w, false
	}
	if len(ops.Ints(p.node, "output_shape")) == 0 && mode != "SAME_UPPER" && mode != "SAME_LOWER" {
		return w, true
	}
	for i := range w.rank {
		d := 3 - w.rank + i
		full := (w.out[d]-1)*w.stride[d] + extra[i] + w.extent(d)
		total := max(full-w.in[d], 0)
		w.begin[d] = total - total/2
		if mode == "SAME_UPPER" {
			w.begin[d] = total / 2
		}
	}
	return w, true
}

// columns is a transposed convolution as products with a scattering sum.
type columns struct {
	planned
	c           *convolve.Columns
	packed      []*gemm.Packed // weights of each group, nil if not constant
	ws, threads int
}

// Run computes the convolution.
func (k *columns) Run(c *ops.Call) error {
	args := convolve.ConvArgs{Done: c.Done(), X: f32(c.In[0]), Y: f32(c.Out[0]), Bias: optF32(c.In, 2), Residual: optF32(c.In, 3)}
	if k.packed == nil {
		args.W = f32(c.In[1])
	}
	return k.c.Run(args, k.packed, c.Scratch[k.ws:], min(k.threads, c.Threads))
}
