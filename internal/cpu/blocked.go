package cpu

import (
	"context"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/epilogue"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The operators of the channel-blocked layout (package blocked). Preparation sees operands in
// the shapes of the plain layout, with a mark for those that lie in blocks.

var blockedOps = []entry{
	{domain: ops.Private, op: "ToBlocked", prepare: prepareLayoutChange},
	{domain: ops.Private, op: "FromBlocked", prepare: prepareLayoutChange},
	{domain: ops.Private, op: "BlockedConv", prepare: prepareConv},
	{domain: ops.Private, op: "BlockedFusedConv", prepare: prepareConv},
	{domain: ops.Private, op: "BlockedMaxPool", prepare: blockedPool(convolve.PoolMax)},
	{domain: ops.Private, op: "BlockedAveragePool", prepare: blockedPool(convolve.PoolAverage)},
	{domain: ops.Private, op: "BlockedGlobalAveragePool", prepare: blockedGlobal(convolve.PoolAverage)},
	{domain: ops.Private, op: "BlockedGlobalMaxPool", prepare: blockedGlobal(convolve.PoolMax)},
	{domain: ops.Private, op: "BlockedBatchNormalization", prepare: prepareBlockedNorm},
	{domain: ops.Private, op: "BlockedResize", prepare: prepareResize, empties: true},
	{domain: ops.Private, op: "BlockedMul", prepare: blockedPerChannel(false)},
	{domain: ops.Private, op: "BlockedAdd", prepare: blockedPerChannel(true)},
	{domain: ops.Private, op: "BlockedQLinearConv", prepare: prepareQLinearConv},
	{domain: ops.Private, op: "BlockedQLinearAdd", prepare: prepareQLinearAdd},
}

// seePlain gives blocked operands and results the shapes of the plain layout; false if the
// blocks are not those of the kernels.
func (p *prep) seePlain() bool {
	for _, list := range [][]operand{p.in, p.out} {
		for i := range list {
			o := &list[i]
			if !o.present || !o.value.Type.IsBlocked() {
				continue
			}
			if o.dt.IsByte() {
				if o.value.Type.Block() != o.value.Type.Channels || o.value.Type.Channels%4 != 0 || !convolve.HasPixels() {
					return false
				}
			} else if o.value.Type.Block() != convolve.Block() {
				return false
			}
			o.shape, _ = o.value.Type.Plain().Static()
			o.n, o.blocked = sizeOf(o.shape), true
		}
	}
	return true
}

// seeStored gives blocked operands and results the shapes that are stored.
func (p *prep) seeStored() {
	for _, list := range [][]operand{p.in, p.out} {
		for i := range list {
			if o := &list[i]; o.blocked {
				o.shape, _ = o.value.Type.Static()
				o.n, o.blocked = sizeOf(o.shape), false
			}
		}
	}
}

// layoutChange is a conversion between the layouts.
type layoutChange struct {
	n, channels, spatial, threads int
	bytes, back                   bool
	ws                            int
}

func prepareLayoutChange(p *prep) (ops.Kernel, error) {
	shape, bytes := p.in[0].shape, p.in[0].dt.IsByte()
	if !bytes && !p.allF32() || len(shape) < 3 {
		return nil, nil
	}
	k := &layoutChange{n: shape[0], channels: shape[1], spatial: sizeOf(shape[2:]), threads: p.threads, bytes: bytes, back: p.in[0].blocked}
	if bytes {
		k.ws = p.workspace(convolve.ChangePixelsWorkspace(p.threads))
	}
	return k, nil
}

// Run converts.
func (k *layoutChange) Run(c *ops.Call) error {
	threads := min(k.threads, c.Threads)
	switch {
	case k.bytes:
		convolve.ChangePixels(arrayOf(c.Out[0]).Data, arrayOf(c.In[0]).Data, k.n, k.channels, k.spatial, k.back, c.Scratch[k.ws:], threads)
	case k.back:
		convolve.FromBlocked(f32(c.Out[0]), f32(c.In[0]), k.n, k.channels, k.spatial, threads)
	default:
		convolve.ToBlocked(f32(c.Out[0]), f32(c.In[0]), k.n, k.channels, k.spatial, threads)
	}
	return nil
}

// Choice says how it is computed.
func (k *layoutChange) Choice() backend.Choice {
	return backend.Choice{Algorithm: "change of layout", Reason: "convolutions beside it save more than it takes"}
}

// blockedPool serves pooling.
func blockedPool(kind convolve.PoolKind) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		w, ok := p.poolWindow()
		if !ok || !p.in[0].blocked || !p.out[0].blocked {
			return nil, nil
		}
		if p.in[0].dt.IsByte() {
			return p.newBytePool(w), nil
		}
		if kind == convolve.PoolAverage && ops.Int(p.node, "count_include_pad") != 0 {
			return p.newPool(convolve.PoolAveragePad, w)
		}
		return p.newPool(kind, w)
	}
}

// globalBlocks pools columns, then the row that is left; sums are short that way.
//
//	[N, C/B, H, W, B] -> [N, C/B, 1, W, B] -> [N, C/B, 1, 1, B] -> [N, C]
type globalBlocks struct {
	columns, row   *convolve.Pool
	n, channels    int
	rowLen, padded int // floats of the rows, of the blocked result
	ws, rest       int
	threads        int
}

func blockedGlobal(kind convolve.PoolKind) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x := p.in[0].shape
		if !p.allF32() || !p.in[0].blocked || p.out[0].blocked {
			return nil, nil
		}
		h, w := 1, sizeOf(x[2:])
		if len(x) == 4 {
			h, w = x[2], x[3]
		}
		s := convolve.PoolSpec{Kind: kind, Batch: x[0], Channels: x[1], In: [2]int{h, w}, Kernel: [2]int{h, 1}, Blocked: true}
		k := &globalBlocks{n: x[0], channels: x[1], threads: p.threads}
		var err error
		if k.columns, err = convolve.NewPool(s); err != nil {
			return nil, err
		}
		s.In, s.Kernel = [2]int{1, w}, [2]int{1, w}
		if k.row, err = convolve.NewPool(s); err != nil {
			return nil, err
		}
		k.rowLen, k.padded = convolve.BlockedLen(x[0], x[1], w), convolve.BlockedLen(x[0], x[1], 1)
		k.ws = p.workspace(4 * (k.rowLen + k.padded))
		k.rest = p.workspace(max(k.columns.Workspace(p.threads), k.row.Workspace(p.threads)))
		return k, nil
	}
}

// Run pools.
func (k *globalBlocks) Run(c *ops.Call) error {
	buf := scratchOf[float32](c, k.ws, k.rowLen+k.padded)
	rows, out := buf[:k.rowLen], buf[k.rowLen:]
	threads := min(k.threads, c.Threads)
	if err := k.columns.Run(c.Done(), f32(c.In[0]), rows, c.Scratch[k.rest:], threads); err != nil {
		return err
	}
	if err := k.row.Run(c.Done(), rows, out, c.Scratch[k.rest:], threads); err != nil {
		return err
	}
	y, each := f32(c.Out[0]), k.padded/max(1, k.n)
	for i := range k.n {
		copy(y[i*k.channels:][:k.channels], out[i*each:])
	}
	return nil
}

// Choice says how it is computed.
func (k *globalBlocks) Choice() backend.Choice {
	return backend.Choice{Algorithm: "columns, then the row that is left", Reason: "the image is blocked"}
}

// lanesPixels are the pixels that are scaled before an activation is computed that is no clamp.
const lanesPixels = 256

// onlyTap is the tap of a window of one pixel, as which an image is scaled: factors stay in registers.
var onlyTap [2]int

// lanes is y = act(x·scale[c] + shift[c]) over blocked images. Factors are constant, or operand 1,
// which has one for each channel (of each image, or of all).
type lanes struct {
	n, blocks, channels, spatial int
	b                            int
	scale, shift                 []float32 // of all blocks, padded with zeros; nil if operand 1 is one of them
	adds                         bool      // operand 1 is the shift
	perImage                     bool
	then                         simd.Epilogue // its activation
	ws, threads                  int
}

func (p *prep) newLanes() *lanes {
	x := p.in[0].shape
	b := convolve.Block()
	k := &lanes{n: x[0], blocks: ceilDiv(x[1], b), channels: x[1], spatial: sizeOf(x[2:]), b: b, threads: p.threads}
	k.ws = p.perWorker(8*b, k.n*k.blocks)
	return k
}

// prepareBlockedNorm serves normalization with constant statistics.
func prepareBlockedNorm(p *prep) (ops.Kernel, error) {
	then, ok := epilogue.Activation(p.node)
	if !ok || !p.allF32() || !p.in[0].blocked || !p.out[0].blocked || ops.Int(p.node, "training_mode") != 0 || p.options.Strict {
		return nil, nil
	}
	k := p.newLanes()
	k.then = simd.Epilogue{Act: then.Act, P0: then.P0, P1: then.P1}
	var stats [4][]float32
	for i := range stats {
		v, err := p.floats(i + 1)
		if err != nil || len(v) != k.channels {
			return nil, err
		}
		stats[i] = v
	}
	k.scale, k.shift = make([]float32, k.blocks*k.b), make([]float32, k.blocks*k.b)
	fold := batchNorm{eps: ops.Float(p.node, "epsilon")}
	if !fold.fold(k.scale[:k.channels], k.shift[:k.channels], stats[0], stats[1], stats[2], stats[3]) {
		return nil, nil
	}
	for i := range stats {
		p.absorb(i+1, 2*k.channels)
	}
	return k, nil
}

// blockedPerChannel serves Mul, or Add, of an image and a factor for each channel.
func blockedPerChannel(adds bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		x, s := p.in[0], p.in[1]
		if !p.allF32() || !x.blocked || !p.out[0].blocked || s.blocked || s.n != x.shape[1] && s.n != x.shape[0]*x.shape[1] {
			return nil, nil
		}
		k := p.newLanes()
		k.adds, k.perImage = adds, s.n != x.shape[1]
		return k, nil
	}
}

// Run scales blocks.
func (k *lanes) Run(c *ops.Call) error {
	runSmall(c, k.n*k.blocks, k.spatial*k.b, k.threads, k)
	return nil
}

// Choice says how it is computed.
func (k *lanes) Choice() backend.Choice {
	return backend.Choice{Algorithm: "blocks of channels", Reason: "the image is blocked"}
}

// tile scales one block of an image.
func (k *lanes) tile(c *ops.Call, i, worker int) {
	buf := scratchOf[float32](c, k.ws+worker*8*k.b, 2*k.b)
	scale, shift := buf[:k.b], buf[k.b:]
	k.factors(c, i, scale, shift)
	lo, hi, clamps := k.then.Clamp()
	if !clamps {
		lo, hi = simd.NegInf, simd.PosInf
	}
	t, after, size := simd.Active(), k.then.After(), k.spatial*k.b
	x, y := f32(c.In[0])[i*size:][:size], f32(c.Out[0])[i*size:][:size]
	for at := 0; at < size; at += lanesPixels * k.b {
		n := min(lanesPixels*k.b, size-at)
		t.BlockTaps(&y[at], &x[at], 0, 1, n/k.b, 0, 0, 4*k.b, &onlyTap[0], 1, &scale[0], &shift[0], nil, lo, hi)
		if after != simd.Identity {
			t.UnaryRow(after, y[at:at+n], y[at:at+n], k.then.P0, k.then.P1)
		}
	}
	if have := k.channels - i%k.blocks*k.b; have < k.b {
		for at := have; at < size; at += k.b { // zero times an infinite factor
			clear(y[at : at+k.b-have])
		}
	}
}

// factors are those of block i.
func (k *lanes) factors(c *ops.Call, i int, scale, shift []float32) {
	at := i % k.blocks * k.b
	if k.scale != nil {
		copy(scale, k.scale[at:])
		copy(shift, k.shift[at:])
		return
	}
	clear(scale)
	clear(shift)
	from := f32(c.In[1])
	if k.perImage {
		from = from[i/k.blocks*k.channels:]
	}
	from = from[at:min(at+k.b, k.channels)]
	if !k.adds {
		copy(scale, from)
		return
	}
	copy(shift, from)
	for j := range scale {
		scale[j] = 1
	}
}

// Layouts is what the layout pass asks of the kernels: see package layout.
type Layouts struct{ options Options }

// Layouts returns the costs of layouts for this backend.
func (b *Backend) Layouts() *Layouts { return &Layouts{b.options} }

// Block is the channels of a block.
func (*Layouts) Block() int { return convolve.Block() }

// Move is the cost of bringing an element into the other layout, in multiply-adds at the peak.
func (*Layouts) Move() float64 { return convolve.MoveCost }

// Change is the cost of an element that changes its layout inside an operator.
func (*Layouts) Change() float64 { return convolve.ChangeCost }

// Fits reports that there is a fast kernel for a pooling or a BatchNormalization of static types
// over blocked images.
func (l *Layouts) Fits(n *ssa.Node) bool {
	p, ok := newPrep(n, 1)
	if !ok || p.resultsAreEmpty() || p.hasEmptyOperand() {
		return false
	}
	p.ctx, p.options = context.Background(), l.options
	p.in[0].blocked, p.out[0].blocked = true, true
	if e, found := table[ops.Key{Domain: ops.Private, Name: "Blocked" + n.Op}]; found {
		k, err := prepareEntry(p, e)
		return k != nil && err == nil
	}
	return false
}

// Fuses reports whether the kernel of a product of static or open types computes its epilogue,
// too. Residuals are added by convolutions that keep a tile of the result.
func (l *Layouts) Fuses(n *ssa.Node) bool {
	if !epilogue.Fits(n) {
		return false
	}
	if e, _ := epilogue.Of(n); e.Residual < 0 || !epilogue.IsConv(n) {
		return true
	}
	_, ok := l.Conv(fused.Product(n), false, false)
	return ok
}

// Attends reports whether there is a kernel for an attention over operands where they lie, and the workspace of one thread.
func (l *Layouts) Attends(n *ssa.Node) (workspace int64, ok bool) {
	p, ok := newPrep(n, 1)
	if !ok {
		return 0, false
	}
	p.ctx = context.Background()
	k, err := prepareEntry(p, entry{domain: n.Domain, op: n.Op, prepare: prepareFusedAttention})
	return p.scratch, k != nil && err == nil
}

// Conv is the cost of a Conv, FusedConv or QLinearConv of static types, if its image or its result is
// blocked; ok is false if the kernels do not compute it so.
func (l *Layouts) Conv(n *ssa.Node, in, out bool) (cost float64, ok bool) {
	p, ok := newPrep(n, 1)
	if ok && n.Op == "QLinearConv" {
		p.ctx, p.in[0].blocked, p.out[0].blocked = context.Background(), in, out
		s, _, zeros, err := p.intConvSpec(3, 2, 5, true)
		if s == nil || err != nil || p.resultsAreEmpty() || p.hasEmptyOperand() {
			return 0, false
		}
		return convolve.EstimateIntConv(*s, zeros)
	}
	if ok {
		p = p.inFloat32()
	}
	if !ok || !p.allF32() || p.resultsAreEmpty() || p.hasEmptyOperand() {
		return 0, false
	}
	p.options = l.options
	act, known := p.activation()
	x, w, y := p.in[0], p.in[1], p.out[0]
	if !known || len(x.shape) < 3 || len(x.shape) > 4 || len(w.shape) != len(x.shape) {
		return 0, false
	}
	win, ok := p.windowOf(w.shape[2:], x.shape[2:], y.shape[2:])
	if !ok {
		return 0, false
	}
	p.in[0].blocked, p.out[0].blocked = in, out
	return convolve.EstimateConv(p.convSpec(win.squeezed(), act), convolve.ConvPolicy{Winograd: l.options.Winograd, Memory: l.options.Memory})
}
