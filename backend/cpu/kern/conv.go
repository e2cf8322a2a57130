package kern

import (
	"fmt"
)

// ConvSpec describes a convolution over NCHW (NCDHW) with weights OIHW
// (OIDHW). Spatial extents come as depth, height, width: a 2-D convolution has
// depth 1, a 1-D one depth and height 1. Zero strides and dilations read as 1.
type ConvSpec struct {
	Batch, InC, OutC, Groups int

	In, Kernel, Stride, Dilation [3]int
	PadBegin, PadEnd             [3]int // zeros around the input; may be negative (cropping)

	Winograd Winograd // for 3×3 kernels of stride and dilation one: see winograd.go
	Epilogue Epilogue // bias: BiasPerRow, one per output channel
}

// ConvArgs are the operands of one run. W is read only by plans made without
// weights. Residual is shaped like Y and may be Y itself.
type ConvArgs struct{ X, W, Y, Bias, Residual []float32 }

// convAlgo is the way a convolution is computed.
type convAlgo uint8

const (
	convImplicit  convAlgo = iota // product with the implicit matrix of patches
	convPointwise                 // product with the input itself
	convDepthwise                 // one input channel to each output channel
	convDirect                    // sums in registers
	convWinograd
)

var convAlgoNames = [...]string{"implicit", "pointwise", "depthwise", "direct", "winograd"}

// Conv is a prepared convolution. It is immutable.
type Conv struct {
	s    ConvSpec
	t    *table
	algo convAlgo
	out  [3]int
	inN  int // input pixels of a channel
	outN int // output pixels of a channel
	icg  int // input channels of a group
	ocg  int // output channels of a group
	taps int // kernel elements

	weights []float32 // packed; nil: given to Run
	lo, hi  float32
	clamp   bool
	after   UnaryOp

	mat    convMatrix
	dw     depthPlan
	direct directPlan
	wino   *BlockedConv
}

// NewConv prepares a convolution at the active level. Weights may be nil when
// they are known only at run time.
func NewConv(s ConvSpec, weights []float32) (*Conv, error) {
	c := &Conv{s: s, t: active.Load()}
	if err := c.check(); err != nil {
		return nil, err
	}
	c.lo, c.hi, c.clamp = s.Epilogue.clamp()
	c.after = s.Epilogue.after()
	if weights != nil {
		if err := needs("Conv", "weights", weights, c.weightLen()); err != nil {
			return nil, err
		}
		if ok, err := c.planWinograd(weights); ok || err != nil {
			c.algo = convWinograd
			return c, err
		}
	}
	c.choose(weights != nil)
	if weights != nil {
		c.weights = alignedFloats(c.packedLen())
		for g := range c.s.Groups {
			c.packGroup(c.weights, weights, g)
		}
	}
	return c, nil
}

// check validates the specification and derives the sizes.
func (c *Conv) check() error {
	s := &c.s
	if s.Groups == 0 {
		s.Groups = 1
	}
	if err := s.Epilogue.check("Conv"); err != nil {
		return err
	}
	if s.Epilogue.Bias == BiasPerCol {
		return &SpecError{"Conv", "Epilogue.Bias", "a convolution's bias is per output channel"}
	}
	if s.Groups < 0 || s.InC < 0 || s.OutC < 0 || s.Batch < 0 || s.InC%s.Groups != 0 || s.OutC%s.Groups != 0 {
		return &SpecError{"Conv", "Groups", fmt.Sprintf("%d groups do not divide %d and %d channels", s.Groups, s.InC, s.OutC)}
	}
	for d := range 3 {
		n, err := convExtent(s, d)
		if err != nil {
			return err
		}
		c.out[d] = n
	}
	c.icg, c.ocg = s.InC/s.Groups, s.OutC/s.Groups
	var ok [5]bool
	c.inN, ok[0] = mulAll(s.In[0], s.In[1], s.In[2])
	c.outN, ok[1] = mulAll(c.out[0], c.out[1], c.out[2])
	c.taps, ok[2] = mulAll(s.Kernel[0], s.Kernel[1], s.Kernel[2])
	_, ok[3] = mulAll(s.Batch, max(s.InC, s.OutC), max(c.inN, c.outN), 4)
	_, ok[4] = mulAll(s.OutC, c.icg, c.taps, 4)
	if ok != [5]bool{true, true, true, true, true} {
		return &SpecError{"Conv", "In", "sizes overflow"}
	}
	return nil
}

// convExtent fills in the defaults of one spatial dimension and returns the
// output extent.
func convExtent(s *ConvSpec, d int) (int, error) {
	if s.Stride[d] == 0 {
		s.Stride[d] = 1
	}
	if s.Dilation[d] == 0 {
		s.Dilation[d] = 1
	}
	in, k, st, dl, pb, pe := s.In[d], s.Kernel[d], s.Stride[d], s.Dilation[d], s.PadBegin[d], s.PadEnd[d]
	if in < 0 || k < 1 || st < 1 || dl < 1 {
		return 0, &SpecError{"Conv", "Kernel", fmt.Sprintf("dimension %d: extents must be positive", d)}
	}
	if in > maxExtent || k > maxExtent || st > maxExtent || dl > maxExtent || pb > maxExtent || pe > maxExtent || pb < -maxExtent || pe < -maxExtent {
		return 0, &SpecError{"Conv", "Kernel", fmt.Sprintf("dimension %d: extent too large", d)}
	}
	span, ok := mulAll(k-1, dl)
	if !ok || span > maxExtent {
		return 0, &SpecError{"Conv", "Dilation", fmt.Sprintf("dimension %d: extent too large", d)}
	}
	room := in + pb + pe - span - 1
	if room < 0 {
		return 0, &SpecError{"Conv", "Kernel", fmt.Sprintf("dimension %d: kernel larger than padded input", d)}
	}
	return room/st + 1, nil
}

// choose picks the algorithm and lays out its work. Weights known beforehand may
// be packed in any order; others are packed in every run.
func (c *Conv) choose(packed bool) {
	s := &c.s
	one := [3]int{1, 1, 1}
	switch {
	case c.icg == 1 && c.ocg == 1 && s.Groups > 1 && c.taps > 1 && s.Kernel[0] == 1 && s.In[0] == 1 && s.PadBegin[0] == 0 && s.PadEnd[0] == 0:
		c.algo = convDepthwise
		c.planDepth()
		return
	case packed && c.prefersDirect():
		c.algo = convDirect
		c.direct = newDirectPlan(c, true)
		c.direct.layOut(directWork)
		return
	case s.Kernel == one && s.Stride == one && s.PadBegin == [3]int{} && s.PadEnd == [3]int{}:
		c.algo = convPointwise
	}
	c.planMatrix()
}

// Out returns the spatial extents of the output.
func (c *Conv) Out() [3]int { return c.out }

// Spec returns the specification with its defaults filled in.
func (c *Conv) Spec() ConvSpec { return c.s }

// Algorithm names the way the convolution is computed.
func (c *Conv) Algorithm() string { return convAlgoNames[c.algo] }

// FLOPs returns the floating point operations of one run, products with the
// zeros of the padding included.
func (c *Conv) FLOPs() int { return 2 * c.s.Batch * c.s.OutC * c.outN * c.icg * c.taps }

// WeightBytes returns the memory held by packed weights.
func (c *Conv) WeightBytes() int {
	if c.wino != nil {
		return c.wino.WeightBytes()
	}
	return 4 * len(c.weights)
}

// weightLen is the number of plain weights.
func (c *Conv) weightLen() int { return c.s.OutC * c.icg * c.taps }

// packedLen is the number of floats that packed weights take.
func (c *Conv) packedLen() int {
	switch c.algo {
	case convDepthwise:
		return roundUp(c.s.OutC, c.t.block()) * c.taps
	case convDirect:
		return c.direct.packedLen()
	}
	return c.s.Groups * c.mat.groupLen
}

// packGroup packs the weights of one group.
func (c *Conv) packGroup(dst, w []float32, group int) {
	switch c.algo {
	case convDepthwise:
		if group == 0 { // all of them
			packDepth(dst, w, c.s.OutC, c.taps, c.t.block())
		}
	case convDirect:
		c.direct.packGroup(dst, w, group)
	default:
		c.mat.pack(c, dst[group*c.mat.groupLen:], w[group*c.ocg*c.icg*c.taps:])
	}
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads; it is enough for fewer threads, too.
func (c *Conv) Workspace(threads int) int {
	if c.algo == convWinograd {
		in, out := c.winogradPieces()
		return scratchBytes(4*in, 4*out, c.wino.Workspace(threads))
	}
	n := c.perWorker() * c.workers(threads)
	if c.weights == nil {
		n += scratchBytes(4 * c.packedLen())
	}
	if c.algo == convDirect {
		bias, image := c.directPieces()
		n += scratchBytes(bias, image)
	}
	if n > 0 {
		n += lineBytes
	}
	return n
}

// tasks is the number of pieces of work of a run; of an image of one, if direct.
func (c *Conv) tasks() int {
	switch c.algo {
	case convDepthwise:
		return c.dw.strips.tasks(c.s.Batch)
	case convDirect:
		return c.direct.tasks()
	case convWinograd:
		return c.s.Batch
	}
	return c.s.Batch * c.s.Groups * c.mat.tilesM * c.mat.tilesN
}

func (c *Conv) workers(threads int) int { return max(1, min(threads, c.tasks())) }

// perWorker is the workspace of one worker.
func (c *Conv) perWorker() int {
	switch c.algo {
	case convDepthwise:
		return c.dw.strips.perWorker() + scratchBytes(4*c.t.block(), 4*c.leaveLen(c.dw.strips.rows*c.out[2]))
	case convDirect:
		return scratchBytes(8*c.direct.b*c.directPixels(), 4*c.leaveLen(c.directPixels()))
	}
	return scratchBytes(4 * c.mat.bufLen)
}
