package convolve

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Weights that a run is given, as those of a model that is trained: every run lays them out. They are few beside what is computed
// of them unless images are small, so the algorithms are those of constant weights.
//
// The derivative of a convolution by its image is a transposed convolution, which for a stride of one is a convolution as well, of weights
// that are turned around: the roles of input and output channels are exchanged, the last tap comes first.
//
//	Y[m, o] = Σ_c,k X[c, o + k·d − pad] · W[c, m, K−1−k]        pad of the convolution: (K−1)·d less that of the transposed one

// given are the functions for such weights, nil in programs that do not train: few other models have convolutions of computed weights, which
// take products with patches and columns there.
var given *givenWeights

type givenWeights struct {
	plan        func(g *geometry, o ConvPolicy) (ConvPlan, bool)
	untranspose func(s ConvSpec) ConvSpec
	pack        func(r *convRun, s machine.Scratch) (rest machine.Scratch)
	rounds      func(r *convRun, threads int)
	round       func(g *geometry) *geometry
	mark        func(p *winograd, r *convRun)
	weights     func(p *winograd, pair int, dst, w []float32)
}

// LinkGivenWeights lets convolutions that are planned from now on take weights of a run by the algorithms of constant ones. It is called while a
// program starts.
func LinkGivenWeights() {
	given = &givenWeights{plan: (*geometry).planTurned, untranspose: ConvSpec.untranspose, pack: (*convRun).packRun, rounds: (*convRun).rounds,
		round: (*geometry).round, mark: (*winograd).markAll, weights: (*winograd).weightsOf}
}

// fewUses is how many pixels a weight must be multiplied with for laying it out to be little; longRow is up to how many pixels a row
// of the result, of which a task of the direct kernels has one at least, stays near.
const (
	fewUses = 128
	longRow = 4096
)

// laysOut reports that weights are laid out once, or often enough used in a run.
func (g *geometry) laysOut() bool {
	return g.s.ConstW || given != nil && !g.isBlocked() && g.s.Batch*g.outN >= fewUses && g.out[2] <= longRow
}

// planTurned plans a transposed convolution of stride one as a convolution, unless it is better computed by columns: few output channels
// fill neither blocks nor the rows of a product with patches, where their taps are many rows of one with the image.
func (g *geometry) planTurned(o ConvPolicy) (ConvPlan, bool) {
	s := &g.s
	if s.ConstW || s.Stride != [3]int{1, 1, 1} || g.isBlocked() || s.Shuffle {
		return ConvPlan{}, false
	}
	turned, err := newGeometry(s.untranspose())
	if err != nil {
		return ConvPlan{}, false
	}
	p, err := PlanConv(turned.s, o)
	if err != nil || p.Algorithm > ConvWinograd4 {
		return ConvPlan{}, false
	}
	share := turned.productShare()
	if turned.directFits() {
		share = max(share, turned.directShare())
	}
	if (p.Algorithm == ConvPatches || p.Algorithm == ConvDirect) && g.columnsCost()*1.25 <= turned.work()/share {
		return ConvPlan{}, false
	}
	p.turned = true
	p.Reason += ", of weights turned around"
	return p, true
}

// untranspose is the convolution that a transposed one of stride one is.
func (s ConvSpec) untranspose() ConvSpec {
	out := s.Out
	s.Transposed, s.Out = false, [3]int{}
	for d := range 3 {
		reach := (s.Kernel[d] - 1) * max(1, s.Dilation[d])
		s.PadBegin[d] = reach - s.PadBegin[d]
		s.PadEnd[d] = out[d] + reach - s.In[d] - s.PadBegin[d]
	}
	return s
}

// turn writes weights [C, M, taps] of each group as [M, C, taps], the last tap first.
func (c *Conv) turn(dst, w []float32) {
	for group := range c.s.Groups {
		part := w[group*c.icg*c.ocg*c.taps:]
		for m := range c.ocg {
			for ic := range c.icg {
				from := part[(ic*c.ocg+m)*c.taps:][:c.taps]
				for t := range from {
					dst[t] = from[c.taps-1-t]
				}
				dst = dst[c.taps:]
			}
		}
	}
}

// roundFloats is about how many floats of images and results in blocks of channels a round of Winograd's algorithm has, all of which lie
// in the workspace; mostFloats is the most that one image may have.
const (
	roundFloats = 96 << 10
	mostFloats  = 8 << 20
)

// blockFloats are the floats of an image and its result in blocks of channels.
func (g *geometry) blockFloats() int {
	b := g.t.Block()
	return machine.RoundUp(g.s.InC, b)*g.inN + machine.RoundUp(g.s.OutC, b)*g.outN
}

// round is the convolution of the images that are computed at a time, whose number is a divisor of that of all.
func (g *geometry) round() *geometry {
	n := max(1, min(g.s.Batch, roundFloats/max(1, g.blockFloats())))
	for g.s.Batch%n != 0 {
		n--
	}
	part := *g
	part.s.Batch = n
	return &part
}

// packRun lays out the weights of a run.
func (r *convRun) packRun(s machine.Scratch) (rest machine.Scratch) {
	c := r.c
	if c.turned {
		turned := s.Floats(c.weightLen())
		c.turn(turned, r.args.W)
		r.args.W = turned
	}
	r.w.Data, r.w.Unit = s.Floats(c.weights.Size), false
	if c.icg%c.t.Block() != 0 { // channels that fill a block have weights of zero
		clear(r.w.Data)
	}
	if p, ok := c.algo.(*winograd); ok {
		for i := range c.weights.Pieces {
			p.packBy(&r.wino.filter, r.w.Data, r.args.W, i)
		}
		return s
	}
	c.weights.PackInOrder(r.w.Data, r.args.W)
	return s
}

// byDefinition computes a convolution of weights that were turned around and are not finite: a result depends on those that meet an element of
// the image, where the algorithms multiply zeros of the padding as well.
func (r *convRun) byDefinition() {
	c, a, e := r.c, &r.args, &r.c.s.Epilogue
	for i := range c.s.Batch * c.s.OutC {
		if machine.Closed(a.Done) {
			return
		}
		n, m := i/c.s.OutC, i%c.s.OutC
		x, w, bias := a.X[(n*c.s.InC+m/c.ocg*c.icg)*c.inN:], a.W[m*c.icg*c.taps:][:c.icg*c.taps], float32(0)
		if e.Bias != simd.NoBias {
			bias = a.Bias[m]
		}
		y := a.Y[i*c.outN:][:c.outN]
		for o := range y {
			y[o] = bias + c.window(x, w, o)
		}
		if e.Act != simd.Identity {
			c.t.UnaryRow(e.Act, y, y, e.P0, e.P1)
		}
	}
}

// window is the sum of the products with weights w at output position o.
func (c *Conv) window(x, w []float32, o int) (sum float32) {
	s, k := &c.s, c.s.Kernel
	to := [3]int{o / (c.out[1] * c.out[2]), o / c.out[2] % c.out[1], o % c.out[2]}
	for i, v := range w {
		at, tap := i/c.taps, i%c.taps
		for d, t := range [3]int{tap / (k[1] * k[2]), tap / k[2] % k[1], tap % k[2]} {
			if p := to[d]*s.Stride[d] + t*s.Dilation[d] - s.PadBegin[d]; p < 0 || p >= s.In[d] || at < 0 {
				at = -1
			} else {
				at = at*s.In[d] + p
			}
		}
		if at >= 0 {
			sum += v * x[at]
		}
	}
	return sum
}

// markAll marks all tiles if a weight of the run is one that [Conv.PackW] refuses: they are computed directly.
func (p *winograd) markAll(r *convRun) {
	if !exceeds(p.t, r.args.W[:p.weightLen()], weightCeiling) {
		return
	}
	for i := range r.wino.marks {
		r.wino.marks[i] = 1
	}
	r.wino.hard = true
}

// weightsOf lays out the weights of a pair as they are given to a run, as recoverWeights does.
func (p *winograd) weightsOf(pair int, dst, w []float32) {
	width := min(2, p.outBlocks-2*pair) * p.b
	clear(dst)
	for j := range min(width, p.ocg-2*pair*p.b) {
		from := w[(2*pair*p.b+j)*p.icg*9:]
		for ic := range p.icg {
			for tap, v := range from[ic*9:][:9] {
				dst[((ic/p.b*9+tap)*p.b+ic%p.b)*width+j] = v
			}
		}
	}
}

// rounds computes all images, some at a time.
func (r *convRun) rounds(threads int) {
	c, a := r.c, r.args
	if c.turned && exceeds(c.t, a.W[:c.weightLen()], math.MaxFloat32) {
		r.byDefinition()
		return
	}
	for image := 0; image < c.s.Batch && !machine.Closed(a.Done); image += c.each {
		r.args.X, r.args.Y = a.X[image*c.inImage():], a.Y[image*c.outImage():]
		if c.s.Epilogue.Residual {
			r.args.Residual = a.Residual[image*c.outImage():]
		}
		r.c.algo.run(r, threads)
	}
}
