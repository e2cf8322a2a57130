package convolve

import (
	"context"
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// ConvSpec describes a convolution over NCHW (NCDHW) with weights OIHW
// (OIDHW). Spatial extents come as depth, height, width: a 2-D convolution has
// depth 1, a 1-D one depth and height 1. Zero strides and dilations read as 1.
type ConvSpec struct {
	Batch, InC, OutC, Groups int

	In, Kernel, Stride, Dilation [3]int
	PadBegin, PadEnd             [3]int // zeros around the input; may be negative (cropping)

	// Transposed: the convolution is the transpose of one from Y to X, with weights IOHW (IODHW). Out are the extents of Y, and
	// PadBegin is cut off of the full result.
	Transposed bool
	Out        [3]int

	// InBlocked: X is in the channel-blocked layout. OutBlocked: so are Y and the
	// residual. Padding channels are zero and stay so.
	InBlocked, OutBlocked bool

	// Shuffle: channel i of group g of the result is written as channel i·Groups + g; the result is plain,
	// without a residual.
	Shuffle bool

	// Half: X, Y and the residual are of a half type; see [TakesHalves].
	Half Half

	ConstW   bool          // weights come packed
	Epilogue simd.Epilogue // bias: BiasPerRow, one per output channel
}

// ConvArgs are the operands of one run; Packed takes the place of W where the weights
// are constant. Residual is shaped like Y and may be Y itself.
type ConvArgs struct {
	X, W, Y, Bias, Residual []float32
	Halves                  Halves // in the place of X, Y and Residual
	Packed                  *gemm.Packed
	Done                    <-chan struct{} // when closed, the rest is left undone
}

// geometry is a specification with its defaults filled in, and what follows from it.
type geometry struct {
	s    ConvSpec
	t    *simd.Table
	out  [3]int
	inN  int // input pixels of a channel
	outN int // output pixels of a channel
	icg  int // input channels of a group
	ocg  int // output channels of a group
	taps int // kernel elements

	lo, hi float32
	clamp  bool
	after  simd.UnaryOp
	clears bool // Y has padding channels: activations and infinite inputs make them differ from zero
}

// newGeometry validates a specification at the active level.
func newGeometry(s ConvSpec) (*geometry, error) {
	g := &geometry{s: s, t: simd.Active()}
	if err := g.check(); err != nil {
		return nil, err
	}
	g.lo, g.hi, g.clamp = g.s.Epilogue.Clamp()
	g.after = g.s.Epilogue.After()
	g.clears = g.s.OutBlocked && g.s.OutC%g.t.Block() != 0
	return g, nil
}

// check validates the specification and derives the sizes.
func (g *geometry) check() error {
	s := &g.s
	if s.Groups == 0 {
		s.Groups = 1
	}
	if err := s.Epilogue.Check("Conv"); err != nil {
		return err
	}
	if s.Epilogue.Bias == simd.BiasPerCol {
		return &machine.SpecError{Kernel: "Conv", Field: "Epilogue.Bias", Why: "a convolution's bias is per output channel"}
	}
	if s.Groups < 0 || s.InC < 0 || s.OutC < 0 || s.Batch < 0 || s.InC%s.Groups != 0 || s.OutC%s.Groups != 0 {
		return &machine.SpecError{Kernel: "Conv", Field: "Groups", Why: fmt.Sprintf("%d groups do not divide %d and %d channels", s.Groups, s.InC, s.OutC)}
	}
	if s.Shuffle && (s.OutBlocked || s.InBlocked || s.Epilogue.Residual) {
		return &machine.SpecError{Kernel: "Conv", Field: "Shuffle", Why: "channels are shuffled in plain images without a residual"}
	}
	for d := range 3 {
		n, err := s.extent(d)
		if err != nil {
			return err
		}
		g.out[d] = n
	}
	g.icg, g.ocg = s.InC/s.Groups, s.OutC/s.Groups
	var ok [5]bool
	g.inN, ok[0] = machine.MulAll(s.In[0], s.In[1], s.In[2])
	g.outN, ok[1] = machine.MulAll(g.out[0], g.out[1], g.out[2])
	g.taps, ok[2] = machine.MulAll(s.Kernel[0], s.Kernel[1], s.Kernel[2])
	_, ok[3] = machine.MulAll(s.Batch, max(s.InC, s.OutC)+maxBlock, max(g.inN, g.outN), 4)
	_, ok[4] = machine.MulAll(s.OutC, g.icg, g.taps, 4)
	if ok != [5]bool{true, true, true, true, true} {
		return &machine.SpecError{Kernel: "Conv", Field: "In", Why: "sizes overflow"}
	}
	return g.checkBlocked()
}

// extent fills in the defaults of one spatial dimension and returns the output extent.
func (s *ConvSpec) extent(d int) (int, error) {
	if s.Stride[d] == 0 {
		s.Stride[d] = 1
	}
	if s.Dilation[d] == 0 {
		s.Dilation[d] = 1
	}
	in, k, st, dl, pb, pe := s.In[d], s.Kernel[d], s.Stride[d], s.Dilation[d], s.PadBegin[d], s.PadEnd[d]
	if in < 0 || k < 1 || st < 1 || dl < 1 {
		return 0, &machine.SpecError{Kernel: "Conv", Field: "Kernel", Why: fmt.Sprintf("dimension %d: extents must be positive", d)}
	}
	if in > machine.MaxExtent || k > machine.MaxExtent || st > machine.MaxExtent || dl > machine.MaxExtent || pb > machine.MaxExtent || pe > machine.MaxExtent || pb < -machine.MaxExtent || pe < -machine.MaxExtent {
		return 0, &machine.SpecError{Kernel: "Conv", Field: "Kernel", Why: fmt.Sprintf("dimension %d: extent too large", d)}
	}
	span, ok := machine.MulAll(k-1, dl)
	if !ok || span > machine.MaxExtent {
		return 0, &machine.SpecError{Kernel: "Conv", Field: "Dilation", Why: fmt.Sprintf("dimension %d: extent too large", d)}
	}
	if s.Transposed {
		if s.Out[d] < 0 || s.Out[d] > machine.MaxExtent {
			return 0, &machine.SpecError{Kernel: "Conv", Field: "Out", Why: fmt.Sprintf("dimension %d: extent out of range", d)}
		}
		return s.Out[d], nil
	}
	steps := in + pb + pe - span - 1
	if steps < 0 {
		return 0, &machine.SpecError{Kernel: "Conv", Field: "Kernel", Why: fmt.Sprintf("dimension %d: kernel larger than padded input", d)}
	}
	return steps/st + 1, nil
}

// resultAt is where a channel of a group of a plain result begins, and how far it is to the group's next.
func (g *geometry) resultAt(image, group, channel int) (at, step int) {
	first, step := group*g.ocg, g.outN
	if g.s.Shuffle {
		first, step = group, g.outN*g.s.Groups
	}
	return (image*g.s.OutC+first)*g.outN + channel*step, step
}

// Out returns the spatial extents of the output.
func (g *geometry) Out() [3]int { return g.out }

// Spec returns the specification with its defaults filled in.
func (g *geometry) Spec() ConvSpec { return g.s }

// FLOPs returns the floating point operations of one run, products with the
// zeros of the padding included.
func (g *geometry) FLOPs() int {
	positions := g.outN
	if g.s.Transposed {
		positions = g.inN
	}
	return 2 * g.s.Batch * g.s.OutC * positions * g.icg * g.taps
}

// weightLen is the number of weights.
func (g *geometry) weightLen() int { return g.s.OutC * g.icg * g.taps }

// weightLayout is the layout of weights that depends on nothing but their shape.
func (g *geometry) weightLayout(kind string) gemm.Layout {
	return gemm.Layout{Kind: kind, Level: g.t.Level, Dims: [8]int{g.s.Groups, g.ocg, g.icg, g.taps}}
}

// convAlgorithm computes convolutions of plain images in one way.
type convAlgorithm interface {
	packing() *gemm.Packing
	workspace(threads int) int // bytes, without the weights that a run packs
	run(r *convRun, threads int)
	task(r *convRun, i, worker int) // of the pool
}

// Conv is a prepared convolution of plain images. It is immutable.
type Conv struct {
	*geometry
	plan    ConvPlan
	algo    convAlgorithm
	weights *gemm.Packing
	turned  bool // weights of a run are turned around
	each    int  // images that are computed at a time
}

// NewConv prepares a convolution at the active level, computed as planned.
func NewConv(s ConvSpec, p ConvPlan) (*Conv, error) {
	if p.turned {
		s = given.untranspose(s)
	}
	g, err := newGeometry(s)
	if err != nil {
		return nil, err
	}
	if g.s.Half != NoHalf && !TakesHalves(g.s, p) {
		return nil, &machine.SpecError{Kernel: "Conv", Field: "Half", Why: "the plan takes images of float32"}
	}
	c := &Conv{geometry: g, plan: p, turned: p.turned, each: max(1, g.s.Batch)}
	switch p.Algorithm {
	case ConvPatches, ConvPointwise:
		if g.isBlocked() {
			return nil, &machine.SpecError{Kernel: "Conv", Field: "Algorithm", Why: "a product takes plain images"}
		}
		c.algo = newMatrixConv(g, p.Algorithm == ConvPointwise)
	case ConvDepthwise:
		if g.depthRowsFit() {
			c.algo = newDepthRows(g)
			break
		}
		if !g.listsTaps() {
			return nil, &machine.SpecError{Kernel: "Conv", Field: "Kernel", Why: manyTaps}
		}
		c.algo = newDepthConv(g)
	case ConvDirect:
		if g.groupChannels() > 0 {
			c.algo = newGroupRows(g)
			break
		}
		c.algo = newDirectConv(g)
	case ConvWinograd2, ConvWinograd4:
		if !s.ConstW {
			if given == nil {
				return nil, &machine.SpecError{Kernel: "Conv", Field: "ConstW", Why: "Winograd takes packed weights only"}
			}
			g = given.round(g)
			c.each = g.s.Batch
		}
		c.algo = newWinograd(g, 2+2*int(p.Algorithm-ConvWinograd2))
	case ConvPhases:
		p, ok := g.phased()
		if !ok || !s.Transposed {
			return nil, &machine.SpecError{Kernel: "Conv", Field: "Algorithm", Why: "phases do not fit"}
		}
		c.algo = newTransposedConv(g, p)
	case ConvPlanes:
		if c.algo, err = newPlanesConv(g, p.winograd); err != nil {
			return nil, err
		}
	default:
		return nil, &machine.SpecError{Kernel: "Conv", Field: "Algorithm", Why: p.Algorithm.String() + " is put together by the caller from other kernels"}
	}
	c.weights = c.algo.packing()
	if c.padsWeights() {
		c.weights.Layout.Dims[4] = 1
	}
	return c, nil
}

// Plan returns the algorithm and the reason for it.
func (c *Conv) Plan() ConvPlan { return c.plan }

// WeightLayout identifies the order in which the weights are read.
func (c *Conv) WeightLayout() gemm.Layout { return c.weights.Layout }

// padsWeights reports that the weights of padding channels of Y must be zero, whatever the
// others are: such weights have a layout of their own, in which equal ones are written out.
func (c *Conv) padsWeights() bool { return c.s.OutBlocked && c.s.OutC%c.t.Block() != 0 }

// PackW lays constant weights out. It refuses weights that padding or transforms would turn
// into NaN where the definition has none: 0·Inf at the border, sums that overflow.
func (c *Conv) PackW(ctx context.Context, w gemm.Source) (*gemm.Packed, error) {
	if planes, ok := c.algo.(*planesConv); ok {
		return planes.pack(ctx, w)
	}
	if _, ok := c.algo.(*winograd); !ok || exceeds(c.t, w.Data, weightCeiling) {
		if err := CheckWeights(c.t, w); err != nil {
			return nil, err
		}
		if ok {
			return nil, &machine.SpecError{Kernel: "Conv", Field: "W", Why: fmt.Sprintf("a weight is above %d", weightCeiling)}
		}
	}
	if c.padsWeights() {
		all, err := w.Elements(ctx, c.weightLen())
		if err != nil {
			return nil, err
		}
		w = gemm.Dense(all)
	}
	return gemm.PackAll(ctx, "Conv", c.weights, w)
}

// CheckWeights refuses weights that are not finite.
func CheckWeights(t *simd.Table, w gemm.Source) error {
	if exceeds(t, w.Data, math.MaxFloat32) {
		return &machine.SpecError{Kernel: "Conv", Field: "W", Why: "a weight is not finite"}
	}
	return nil
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads; it is enough for fewer threads, too.
func (c *Conv) Workspace(threads int) int {
	n := c.algo.workspace(max(1, threads))
	if !c.s.ConstW {
		n += machine.ScratchBytes(4 * c.weights.Size)
		if c.turned {
			n += machine.ScratchBytes(4 * c.weightLen())
		}
	}
	if n > 0 {
		n += machine.LineBytes
	}
	return n
}
