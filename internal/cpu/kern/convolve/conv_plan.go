package convolve

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// The choice of the algorithm of a convolution: PlanConv looks at the geometry and
// returns an algorithm with the reason for it. Nothing else chooses.
//
//	32 or more taps along one channel            filter      inner products
//	patches, long frames                         rows        product, positions as rows
//	few output positions                         rows        the same; with many channels, rows of pixels
//	one output channel                           sum         depthwise, then added up
//	few output channels that slide by one        columns     product, then sums into the image
//	one input channel to each output channel     depthwise   windows
//	3×3 that slides by one                       winograd    transforms and products
//	output channels that fill blocks             direct      sums in registers
//	few output channels to each group            direct      the same, rows of pixels in vectors
//	1×1 that slides by one                       pointwise   product with the input
//	volumes                                      planes      convolutions of images
//	transposed                                   turned      as a convolution, where the stride is one and weights are those of a run
//	                                             phases      direct convolutions of stride one, interleaved
//	                                             columns     product, then sums into the image
//	anything else                                patches     product with patches
//
// Package convolve computes all but the first four, which are put together from
// products, copies and other convolutions by the caller, and but columns, which are a kernel of their own.

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
	ConvPlanes
	ConvPhases  // transposed
	ConvColumns // computed by [Columns]
)

var convAlgorithmNames = [...]string{"patches", "pointwise", "depthwise", "direct", "winograd 2x2", "winograd 4x4", "filter", "rows", "rows of pixels", "sum", "planes", "phases", "columns"}

// String returns the name that profiles show.
func (a ConvAlgorithm) String() string { return convAlgorithmNames[a] }

// ConvPlan is how a convolution is computed, and why.
type ConvPlan struct {
	Algorithm ConvAlgorithm
	Reason    string

	winograd Winograd // by planes: the form allowed for images
	turned   bool     // a transposed convolution as a convolution, whose weights are turned around
}

// ConvPolicy restricts the choice of a plan.
type ConvPolicy struct {
	Winograd Winograd // the least exact form of Winograd's algorithm allowed
	Memory   bool     // no algorithm whose packed weights are larger than the weights
}

// FewPositions is the number of output positions up to which an image counts as small.
const FewPositions = 16

const (
	maxFilters = 4       // kernels up to which inner products are the fastest way
	longKernel = 32      // taps of a row from which on a kernel counts as long
	maxWindows = 1 << 20 // elements up to which the overlapping windows of long frames are copied
)

// PlanConv chooses how a convolution is computed at the active level.
func PlanConv(s ConvSpec, o ConvPolicy) (ConvPlan, error) {
	g, err := newGeometry(s)
	if err != nil {
		return ConvPlan{}, err
	}
	if g.s.Transposed {
		return g.planTransposed(o)
	}
	if g.isBlocked() {
		return g.planBlocked(o)
	}
	if p, ok := g.composed(); ok {
		return p, nil
	}
	if g.isDepthwise() && !g.s.Shuffle {
		return ConvPlan{Algorithm: ConvDepthwise, Reason: "one input channel to each output channel"}, nil
	}
	if g.multiplies() {
		return ConvPlan{Algorithm: ConvDepthwise, Reason: fmt.Sprintf("%d output channels to each input channel", g.ocg)}, nil
	}
	if p, ok := g.planColumns(); ok {
		return p, nil
	}
	direct := g.laysOut() && g.prefersDirect()
	if direct && g.s.Groups == 1 && !g.s.Shuffle {
		if p, ok := g.planWinograd(o); ok {
			return p, nil
		}
	}
	if n := g.groupChannels(); direct && n > 0 {
		return ConvPlan{Algorithm: ConvDirect, Reason: fmt.Sprintf("rows of pixels of %d channels of a group", n)}, nil
	}
	if direct {
		return ConvPlan{Algorithm: ConvDirect, Reason: fmt.Sprintf("%d output channels fill blocks of %d", g.ocg, g.t.Block())}, nil
	}
	if g.isPointwise() {
		return ConvPlan{Algorithm: ConvPointwise, Reason: "a product with the input itself"}, nil
	}
	if p, ok := g.planPlanes(o); ok {
		return p, nil
	}
	return ConvPlan{Algorithm: ConvPatches, Reason: g.whyPatches()}, nil
}

// planBlocked plans the convolutions of blocked images, which have no products with
// patches: what is best computed as such a product stays plain.
func (g *geometry) planBlocked(o ConvPolicy) (ConvPlan, error) {
	if g.depthwiseBlocks() {
		return ConvPlan{Algorithm: ConvDepthwise, Reason: "one input channel to each output channel, in blocks"}, nil
	}
	if !g.s.ConstW {
		return ConvPlan{}, &machine.SpecError{Kernel: "Conv", Field: "ConstW", Why: "blocked images take packed weights only"}
	}
	if g.s.Groups == 1 {
		if p, ok := g.planWinograd(o); ok {
			p.Reason += ", in blocks"
			return p, nil
		}
	}
	return ConvPlan{Algorithm: ConvDirect, Reason: fmt.Sprintf("blocks of %d channels", g.t.Block())}, nil
}

// composed plans the convolutions that callers put together from other kernels.
func (g *geometry) composed() (ConvPlan, bool) {
	s := &g.s
	if s.Epilogue.Residual || s.Shuffle {
		return ConvPlan{}, false
	}
	along := s.Kernel[0] == 1 && s.Kernel[1] == 1 && s.Stride[0] == 1 && s.Stride[1] == 1 &&
		s.In[0] == g.out[0] && s.In[1] == g.out[1] && s.PadBegin[0] == 0 && s.PadBegin[1] == 0
	if s.InC == 1 && s.OutC <= maxFilters && along && s.Kernel[2] >= longKernel && s.Dilation[2] == 1 {
		return ConvPlan{Algorithm: ConvFilter, Reason: fmt.Sprintf("%d filters of %d taps over one channel", s.OutC, s.Kernel[2])}, true
	}
	if s.Groups != 1 || !s.ConstW {
		return ConvPlan{}, false
	}
	if g.cutsPatches() && !g.prefersDirect() {
		return ConvPlan{Algorithm: ConvRows, Reason: "the kernel cuts the image into patches"}, true
	}
	const manyFrames = 1024 // for which the direct kernels, which copy no windows, are faster
	if g.overFrames() && !(g.outN >= manyFrames && g.prefersDirect()) {
		return ConvPlan{Algorithm: ConvRows, Reason: fmt.Sprintf("long frames: %d taps of a row", s.Kernel[2])}, true
	}
	if g.outN <= FewPositions {
		algo := ConvPixelRows
		if s.InC < 16 || g.covers() {
			algo = ConvRows
		}
		return ConvPlan{Algorithm: algo, Reason: fmt.Sprintf("%d output positions", g.outN)}, true
	}
	if s.OutC == 1 && s.InC >= 2 && g.taps >= 4 {
		return ConvPlan{Algorithm: ConvSum, Reason: "one output channel"}, true
	}
	return ConvPlan{}, false
}

// covers reports whether there is a single window, the whole image.
func (g *geometry) covers() bool {
	s := &g.s
	return g.outN == 1 && s.In == s.Kernel && s.PadBegin == [3]int{} && s.Dilation == [3]int{1, 1, 1}
}

// cutsPatches reports whether windows adjoin without overlap (stride equal to kernel),
// with rows long enough to copy.
func (g *geometry) cutsPatches() bool {
	s := &g.s
	return s.Stride == s.Kernel && s.Kernel[2] >= 4 && s.Dilation == [3]int{1, 1, 1} && s.PadBegin == [3]int{} && s.PadEnd == [3]int{}
}

// overFrames reports whether the kernel is long and its windows are few enough to be
// copied.
func (g *geometry) overFrames() bool {
	s := &g.s
	n, ok := machine.MulAll(s.Batch, g.outN, s.InC, g.taps)
	return s.Kernel[2] >= longKernel && s.Dilation[2] == 1 && ok && n <= maxWindows
}

// isDepthwise reports whether each output channel depends on one input channel, through
// a window of more than one element whose taps can be listed.
func (g *geometry) isDepthwise() bool { return g.ocg == 1 && g.hasWindows() }

// multiplies reports a depthwise convolution of plain images with a few output channels to each input channel.
func (g *geometry) multiplies() bool {
	const few = 4
	return g.ocg > 1 && g.ocg <= few && g.s.Groups >= g.t.Block()/2 && !g.isBlocked() && !g.s.Shuffle && g.hasWindows()
}

// hasWindows reports groups of one input channel under a window of more than one element whose taps can be listed.
func (g *geometry) hasWindows() bool {
	s := &g.s
	return g.icg == 1 && s.Groups > 1 && g.taps > 1 && s.Kernel[0] == 1 && s.In[0] == 1 && s.PadBegin[0] == 0 && s.PadEnd[0] == 0 && g.listsTaps()
}

// isPointwise reports whether the matrix of patches is the input.
func (g *geometry) isPointwise() bool {
	s, one := &g.s, [3]int{1, 1, 1}
	return s.Kernel == one && s.Stride == one && s.PadBegin == [3]int{} && s.PadEnd == [3]int{}
}

// planWinograd chooses Winograd's algorithm where it is faster than the direct one:
// not for other windows than 3×3 of stride one, for too few channels to make up for the
// transforms, or where much of the tiles lies beyond the border.
func (g *geometry) planWinograd(o ConvPolicy) (ConvPlan, bool) {
	if o.Memory || !g.s.ConstW && g.blockFloats() > mostFloats || o.Winograd == WinogradOff || !g.slidesByOne() || min(g.icg, g.ocg) < 16 {
		return ConvPlan{}, false
	}
	small, large := g.tiles(2), g.tiles(4)
	covered := func(tiles, m int) bool { return float64(g.out[1]*g.out[2]) > 0.6*float64(tiles*m*m) }
	fits := large >= 9 && covered(large, 4)
	if fits && o.Winograd == Winograd4 && !lessWeightsPay(small, large) && (!g.isLittle() || !g.s.ConstW) {
		return ConvPlan{Algorithm: ConvWinograd4, Reason: fmt.Sprintf("3x3 by one over %d tiles of 4x4: 4 times fewer products, 4 times the weights", large)}, true
	}
	if large >= 4 && (covered(small, 2) || fits) {
		return ConvPlan{Algorithm: ConvWinograd2, Reason: "3x3 by one over tiles of 2x2: 2.25 times fewer products, 1.8 times the weights"}, true
	}
	return ConvPlan{}, false
}

// tiles is how many tiles of m×m cover an image.
func (g *geometry) tiles(m int) int {
	return machine.CeilDiv(g.out[1], m) * machine.CeilDiv(g.out[2], m)
}

// lessWeightsPay reports that tiles of 2×2 cost no more than tiles of 4×4 although they take more products, 16 for each tile instead
// of 36: few tiles share a weight, and there are less than half of them to be read. Images of 10×10, where they take 1.23 times the
// products, are computed 2 to 5% slower for themselves, and a net with eight of them runs 1% faster, 3% on two threads.
func lessWeightsPay(small, large int) bool { return 16*small*10 <= 36*large*13 }

// isLittle reports few products of few channels. Their sums are so short that the transforms make most of the error of tiles of 4×4, three
// times that of direct sums; tiles of 2×2 add nothing to it and cost 40 µs at most.
func (g *geometry) isLittle() bool {
	const channels, products = 32, 10_000_000
	return g.icg <= channels && g.work() <= products
}

// slidesByOne reports whether the window is 3×3 of stride and dilation one.
func (g *geometry) slidesByOne() bool {
	s := &g.s
	return s.Kernel == [3]int{1, 3, 3} && s.Stride == [3]int{1, 1, 1} && s.Dilation == [3]int{1, 1, 1}
}

// whyPatches says why the direct algorithm is not used.
func (g *geometry) whyPatches() string {
	switch {
	case !g.s.ConstW && given == nil:
		return "weights are not constant"
	case !g.laysOut():
		return "weights are not constant, and few pixels use them or rows are long"
	case !g.directFits():
		return "the direct kernels do not support the window"
	}
	return fmt.Sprintf("%d pixels fill panels better than %d output channels fill blocks", g.outN, g.ocg)
}

// directFits reports whether the direct kernels support the convolution.
func (g *geometry) directFits() bool {
	s := &g.s
	return g.t.Level != machine.LevelGeneric && s.In[0] == 1 && s.Kernel[0] == 1 && s.Stride[0] == 1 && s.Dilation[0] == 1 &&
		s.PadBegin[0] == 0 && s.PadEnd[0] == 0 && min(s.PadBegin[1], s.PadBegin[2], s.PadEnd[1], s.PadEnd[2]) >= 0 &&
		s.Batch != 0 && g.outN != 0 && g.icg != 0 && g.ocg != 0 && !g.spreads()
}

// spreads reports that an image with its padding, which direct kernels lay out, has far more pixels than what is read and written: padding
// that strides or dilations pass over.
func (g *geometry) spreads() bool {
	const few, many = 4096, 8 // pixels that count for nothing; pixels for each of both images
	s, pixels := &g.s, 1.0
	for i := range s.In {
		pixels *= float64(s.In[i]) + float64(s.PadBegin[i]) + float64(s.PadEnd[i])
	}
	return pixels > max(few, many*float64(g.inN+g.outN))
}

// prefersDirect reports whether a convolution is better computed directly than
// as a product with patches, by the share of the peak that each is expected to reach:
// the direct kernels waste lanes where output channels do not fill blocks, and bring every
// result into the plain layout, which few products for each result do not hide; the product
// wastes lanes where pixels do not fill its panels, and packs patches, which costs most
// where few output channels share them.
func (g *geometry) prefersDirect() bool {
	return g.directFits() && g.directShare() >= g.productShare()
}

// flatShare is the share of the peak that long sums over an image of one row reach, directly and as a product that packs nothing.
const flatShare = 0.97

// directShare is the share of the peak that the direct kernels are expected to reach.
func (g *geometry) directShare() float64 {
	flat := g.isPointwise() // the image counts as one row
	b := g.t.Block()
	blocks := machine.CeilDiv(g.ocg, b)
	row := g.out[2]
	if flat {
		row = g.outN
	}
	sums := gemm.NewSplit(row, g.t.Mr).Base * min(2, blocks) // independent sums of a call
	share := float64(g.ocg) / float64(blocks*b) * min(1, float64(sums)/8)
	if !flat {
		return share * ratio(g.icg*g.taps, 9)
	}
	share *= flatShare * ratio(g.icg, 13)
	if g.sharesSets() {
		share *= 0.85
	}
	return share
}

// sharesSets reports whether the channels of a pixel share sets of the caches.
func (g *geometry) sharesSets() bool { return g.outN%1024 == 0 }

// productShare is the share of the peak that the product with patches is expected to
// reach.
func (g *geometry) productShare() float64 {
	fill := g.panelFill()
	switch {
	case g.isPointwise() && g.sharesSets():
		return 0.94 * fill * ratio(g.ocg, 5) * ratio(g.icg, 2)
	case g.isPointwise():
		return flatShare * fill * ratio(g.ocg, 2) * ratio(g.icg, 5)
	}
	if g.out[2] < 16 {
		fill *= 0.75 // many short segments
	}
	return 0.75 * fill * ratio(g.ocg, 24)
}

// panelFill is the share of the lanes of panels of pixels, or half panels, that hold pixels.
func (g *geometry) panelFill() float64 {
	return float64(g.outN) / float64(machine.RoundUp(g.outN, g.t.Nr/2))
}

// ratio is the share of n units of work beside so many units of something else.
func ratio(n, extra int) float64 { return float64(n) / float64(n+extra) }
