package convolve

import "github.com/berth-onnx/berth/internal/cpu/kern/machine"

// What convolutions take, estimated, so that layouts can be compared. The unit is the time of
// one multiply-add at the peak. Estimates need not be right beyond the differences between
// layouts: what both have in common, they have in both.
//
// The constants were measured on the convolutions of ResNet-50, MobileNet and EfficientNet
// (BenchmarkConvBlocked).

// MoveCost is what an element costs that a node of its own brings from one layout into the
// other: it is read and written once.
const MoveCost = 12

// ChangeCost is what an element costs that changes its layout inside a convolution or a pool,
// in the cache.
const ChangeCost = 9

// windowShare is the share of the peak that windows over blocks reach.
const windowShare = 0.45

// blockedShare is the share of the peak that direct kernels over blocks reach.
const blockedShare = 0.87

// groupShare is the share of the peak that rows of pixels of a few channels reach.
const groupShare = 0.65

// EstimateConv estimates a convolution that is computed as PlanConv says; ok is false if it is
// left to the caller of package convolve.
func EstimateConv(s ConvSpec, o ConvPolicy) (cost float64, ok bool) {
	p, err := PlanConv(s, o)
	if err != nil {
		return 0, false
	}
	g, err := newGeometry(s)
	if err != nil {
		return 0, false
	}
	s = g.s
	work := g.work()
	changes := g.changes(float64(s.Batch)*float64(s.InC*g.inN), float64(s.Batch)*float64(s.OutC*g.outN))
	switch p.Algorithm {
	case ConvPhases:
		return g.phasesCost(), true
	case ConvColumns:
		return g.columnsCost(), true
	case ConvDepthwise:
		return work/windowShare/g.fill() + changes, true
	case ConvWinograd2:
		return work/2/g.fill() + changes, true
	case ConvWinograd4:
		return work/3/g.fill() + changes, true
	case ConvDirect:
		if g.groupChannels() > 0 {
			return work / groupShare, true
		}
		return work/g.kernelShare()/g.fill() + changes, true
	case ConvPointwise:
		return work / g.pointwiseShare(), true
	case ConvPatches:
		return work / g.productShare(), true
	}
	return 0, false
}

// work is how many multiply-adds a convolution takes by its formula, those of a transposed one without strides.
func (g *geometry) work() float64 {
	return float64(g.s.Batch*g.s.OutC*g.outN) * float64(g.icg*g.taps)
}

// PixelCost is what a byte costs that changes between planes and pixels.
const PixelCost = 6

// EstimateIntConv estimates a convolution of bytes to bytes where images may be planes or pixels; ok is false where the
// kernels do not compute it as the specification says, or in another way.
func EstimateIntConv(s IntConvSpec, zw []int32) (cost float64, ok bool) {
	c, err := NewIntConv(s, zw)
	if err != nil || c.pixels == nil {
		return 0, false
	}
	cost = c.work() / 4 // four products at a time
	if !s.InPixels {
		cost += PixelCost * float64(s.Batch*s.InC*c.inN)
	}
	if !s.OutPixels {
		cost += PixelCost * float64(s.Batch*s.OutC*c.outN)
	}
	return cost, true
}

// pointwiseShare is the share of the peak that a product with the image reaches, on the scale of
// the direct kernels: with few input channels those lose as much.
func (g *geometry) pointwiseShare() float64 {
	if g.sharesSets() { // panels are packed
		return g.productShare() * blockedShare / flatShare
	}
	return blockedShare * g.panelFill() * ratio(g.ocg, 2)
}

// changes is what bringing so many elements of input and output into the other layout costs.
// The direct kernels read plain images as they are.
func (g *geometry) changes(in, out float64) (cost float64) {
	if !g.s.InBlocked && (g.depthwiseBlocks() || g.multiplies() || g.slidesByOne()) {
		cost += ChangeCost * in
	}
	if !g.s.OutBlocked {
		cost += ChangeCost * out
	}
	return cost
}

// fill is the share of the lanes of blocks that hold channels.
func (g *geometry) fill() float64 {
	b := g.t.Block()
	fill := float64(g.ocg) / float64(machine.RoundUp(g.ocg, b))
	if g.depthwiseBlocks() || g.multiplies() {
		return float64(g.s.InC) / float64(machine.RoundUp(g.s.InC, b))
	}
	if g.s.InBlocked {
		fill *= float64(g.icg) / float64(machine.RoundUp(g.icg, b))
	}
	return fill
}

// kernelShare is the share of the peak that the direct kernels reach. Plain images are read
// channel by channel, from as many places: with two accumulator rows the fewer registers of
// AVX2 do not hide that.
func (g *geometry) kernelShare() float64 {
	plain := 0.75
	switch {
	case g.t.Level == machine.LevelAVX512:
		plain = 0.85
	case g.taps == 1:
		plain = 0.65
	case g.icg < g.t.Block():
		plain = 0.87 // first layers
	}
	if g.s.InBlocked {
		return blockedShare
	}
	return plain
}
