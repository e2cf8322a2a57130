package kern

import "fmt"

// How a convolution is computed is decided here and nowhere else: PlanConv looks
// at the geometry and names an algorithm with the reason for it.
//
//	32 or more taps along one channel            filter      inner products
//	patches, long frames                         rows        product, positions as rows
//	few output positions                         rows        the same, with enough channels pixel by pixel
//	one output channel                           sum         depthwise, then added up
//	one input channel to each output channel     depthwise   windows
//	3×3 that slides by one                       winograd    transforms and products
//	output channels that fill blocks             direct      sums in registers
//	1×1 that slides by one                       pointwise   product with the input
//	anything else                                patches     product with patches
//
// Package kern computes all but the first four, which are put together from
// products, copies and other convolutions by the caller.

// ConvAlgorithm is a way to compute a convolution.
type ConvAlgorithm uint8

// The algorithms.
const (
	ConvPatches ConvAlgorithm = iota
	ConvPointwise
	ConvDepthwise
	ConvDirect
	ConvWinograd2 // F(2,3)
	ConvWinograd4 // F(4,3)
	ConvFilter    // computed by the caller
	ConvRows      // computed by the caller
	ConvPixelRows // computed by the caller
	ConvSum       // computed by the caller
)

var convAlgorithmNames = [...]string{"patches", "pointwise", "depthwise", "direct", "winograd 2x2", "winograd 4x4", "filter", "rows", "rows of pixels", "sum"}

// String returns the name that profiles show.
func (a ConvAlgorithm) String() string { return convAlgorithmNames[a] }

// ConvPlan is how a convolution is computed, and why.
type ConvPlan struct {
	Algorithm ConvAlgorithm
	Reason    string
}

// ConvPolicy is what a plan may choose from.
type ConvPolicy struct {
	Winograd Winograd // the form of Winograd's algorithm with the most error allowed
	Memory   bool     // weights are not multiplied to save time
}

// FewPositions is up to how many output positions an image counts as small.
const FewPositions = 16

const (
	maxFilters = 4       // kernels up to which inner products are the fastest way
	longKernel = 32      // taps of a row from which on a kernel counts as long
	maxWindows = 1 << 20 // elements that the windows of long frames, which overlap, may have
)

// PlanConv chooses how a convolution is computed at the active level.
func PlanConv(s ConvSpec, o ConvPolicy) (ConvPlan, error) {
	g, err := newGeometry(s)
	if err != nil {
		return ConvPlan{}, err
	}
	if p, ok := g.composed(); ok {
		return p, nil
	}
	if g.isDepthwise() {
		return ConvPlan{ConvDepthwise, "one input channel to each output channel"}, nil
	}
	direct := g.s.ConstW && g.prefersDirect()
	if direct && g.s.Groups == 1 {
		if p, ok := g.planWinograd(o); ok {
			return p, nil
		}
	}
	if direct {
		return ConvPlan{ConvDirect, fmt.Sprintf("%d output channels fill blocks of %d", g.ocg, g.t.block())}, nil
	}
	if g.isPointwise() {
		return ConvPlan{ConvPointwise, "a product with the input itself"}, nil
	}
	return ConvPlan{ConvPatches, g.whyPatches()}, nil
}

// composed plans what callers compute.
func (g *geometry) composed() (ConvPlan, bool) {
	s := &g.s
	if s.Epilogue.Residual {
		return ConvPlan{}, false
	}
	along := s.Kernel[0] == 1 && s.Kernel[1] == 1 && s.Stride[0] == 1 && s.Stride[1] == 1 &&
		s.In[0] == g.out[0] && s.In[1] == g.out[1] && s.PadBegin[0] == 0 && s.PadBegin[1] == 0
	if s.InC == 1 && s.OutC <= maxFilters && along && s.Kernel[2] >= longKernel && s.Dilation[2] == 1 {
		return ConvPlan{ConvFilter, fmt.Sprintf("%d filters of %d taps over one channel", s.OutC, s.Kernel[2])}, true
	}
	if s.Groups != 1 || !s.ConstW {
		return ConvPlan{}, false
	}
	if g.cutsPatches() {
		return ConvPlan{ConvRows, "the kernel cuts the image into patches"}, true
	}
	if g.overFrames() {
		return ConvPlan{ConvRows, fmt.Sprintf("long frames: %d taps of a row", s.Kernel[2])}, true
	}
	if g.outN <= FewPositions {
		algo := ConvPixelRows
		if s.InC < 16 || g.covers() {
			algo = ConvRows
		}
		return ConvPlan{algo, fmt.Sprintf("%d output positions", g.outN)}, true
	}
	if s.OutC == 1 && s.InC >= 2 && g.taps >= 4 {
		return ConvPlan{ConvSum, "one output channel"}, true
	}
	return ConvPlan{}, false
}

// covers reports a single window, which is the image.
func (g *geometry) covers() bool {
	s := &g.s
	return g.outN == 1 && s.In == s.Kernel && s.PadBegin == [3]int{} && s.Dilation == [3]int{1, 1, 1}
}

// cutsPatches reports a kernel that moves by its own size, with rows worth copying.
func (g *geometry) cutsPatches() bool {
	s := &g.s
	return s.Stride == s.Kernel && s.Kernel[2] >= 4 && s.Dilation == [3]int{1, 1, 1} && s.PadBegin == [3]int{} && s.PadEnd == [3]int{}
}

// overFrames reports a long kernel whose windows are few enough to be written out.
func (g *geometry) overFrames() bool {
	s := &g.s
	return s.Kernel[2] >= longKernel && s.Dilation[2] == 1 && s.Batch*g.outN*s.InC*g.taps <= maxWindows
}

// isDepthwise reports one input channel to each output channel, under windows.
func (g *geometry) isDepthwise() bool {
	s := &g.s
	return g.icg == 1 && g.ocg == 1 && s.Groups > 1 && g.taps > 1 && s.Kernel[0] == 1 && s.In[0] == 1 && s.PadBegin[0] == 0 && s.PadEnd[0] == 0
}

// isPointwise reports a convolution whose matrix of patches is its input.
func (g *geometry) isPointwise() bool {
	s, one := &g.s, [3]int{1, 1, 1}
	return s.Kernel == one && s.Stride == one && s.PadBegin == [3]int{} && s.PadEnd == [3]int{}
}

// planWinograd chooses Winograd's algorithm where it is faster than the direct one:
// not where the window does not allow it, where there are too few channels for the
// transforms to pay, or where tiles would hang far over the border.
func (g *geometry) planWinograd(o ConvPolicy) (ConvPlan, bool) {
	if o.Memory || o.Winograd == WinogradOff || !g.slidesByOne() || min(g.icg, g.ocg) < 16 {
		return ConvPlan{}, false
	}
	covered := func(m int) float64 {
		h, w := g.out[1], g.out[2]
		return float64(h*w) / float64(ceilDiv(h, m)*ceilDiv(w, m)*m*m)
	}
	tiles := ceilDiv(g.out[1], 4) * ceilDiv(g.out[2], 4)
	if o.Winograd == Winograd4 && tiles >= 9 && covered(4) > 0.6 {
		return ConvPlan{ConvWinograd4, fmt.Sprintf("3x3 by one over %d tiles of 4x4: 4 times fewer products, 4 times the weights", tiles)}, true
	}
	if tiles >= 4 && (covered(2) > 0.6 || tiles >= 9 && covered(4) > 0.6) {
		return ConvPlan{ConvWinograd2, "3x3 by one over tiles of 2x2: 2.25 times fewer products, 1.8 times the weights"}, true
	}
	return ConvPlan{}, false
}

// slidesByOne reports a 3×3 window of stride and dilation one.
func (g *geometry) slidesByOne() bool {
	s := &g.s
	return s.Kernel == [3]int{1, 3, 3} && s.Stride == [3]int{1, 1, 1} && s.Dilation == [3]int{1, 1, 1}
}

// whyPatches says what keeps the direct algorithm out.
func (g *geometry) whyPatches() string {
	switch {
	case !g.s.ConstW:
		return "weights are known only while running"
	case !g.directFits():
		return "the window is not one of the direct kernels"
	}
	return fmt.Sprintf("%d pixels fill panels better than %d output channels fill blocks", g.outN, g.ocg)
}

// directFits reports whether the direct kernels compute the convolution at all.
func (g *geometry) directFits() bool {
	s := &g.s
	return g.t.level != LevelGeneric && s.In[0] == 1 && s.Kernel[0] == 1 && s.Stride[0] == 1 && s.Dilation[0] == 1 &&
		s.PadBegin[0] == 0 && s.PadEnd[0] == 0 && min(s.PadBegin[1], s.PadBegin[2], s.PadEnd[1], s.PadEnd[2]) >= 0 &&
		s.Batch != 0 && g.outN != 0 && g.icg != 0 && g.ocg != 0
}

// prefersDirect reports whether a convolution is better computed directly than
// as a product with patches: the direct kernels waste lanes where output
// channels do not fill blocks, the product where pixels do not fill its panels,
// and packing patches costs most where few output channels share them.
func (g *geometry) prefersDirect() bool {
	s := &g.s
	if !g.directFits() || g.taps == 1 && g.t.mr < 8 && (g.inN > 1024 || s.Stride[1] > 1 || s.Stride[2] > 1) {
		return false // few pixels a call, each channel on a page of its own
	}
	b, nr := g.t.block(), g.t.nr
	blocks := ceilDiv(g.ocg, b)
	row := g.out[2]
	if g.taps == 1 && s.Stride[1] == 1 && s.Stride[2] == 1 {
		row = g.outN
	}
	sums := newSplit(row, g.t.mr).base * min(2, blocks) // independent sums of a call
	direct := float64(g.ocg) / float64(blocks*b) * min(1, float64(sums)/8)
	packing := 4.0
	if g.taps > 1 {
		packing = 12
	}
	product := float64(g.outN) / float64(ceilDiv(g.outN, nr)*nr) * float64(g.ocg) / (float64(g.ocg) + packing)
	if g.taps > 1 && g.out[2] < 16 {
		product *= 0.75 // many short segments
	}
	return direct >= product
}
