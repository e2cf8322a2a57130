package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// paddedInput is what convolutions have in common that the direct kernels compute: pairs of output blocks over an image with its padding.
type paddedInput struct {
	*blockedGeometry
	pad      paddedCopy
	inPlanes int  // planes of an image: blocks, or channels if plain
	perGroup int  // those of a group
	width    int  // floats of an input pixel in a plane
	widens   bool // tasks widen the halves that they read
}

func newPaddedInput(g *geometry) paddedInput {
	p := paddedInput{blockedGeometry: newBlockedGeometry(g), width: 1, inPlanes: g.s.InC, perGroup: g.icg}
	if g.s.InBlocked {
		p.width, p.inPlanes, p.perGroup = p.b, g.s.Groups*p.inBlocks, p.inBlocks
	}
	return p
}

// allPairs is the number of pairs of output blocks of all groups.
func (p *paddedInput) allPairs() int { return p.s.Groups * p.pairs() }

// pairLen is the floats of a pair of blocks' weights.
func (p *paddedInput) pairLen() int { return p.perGroup * p.width * p.taps * 2 * p.b }

// packingOf packs the weights of each pair of blocks by a function.
func (p *paddedInput) packingOf(layout gemm.Layout, pack func(dst, w []float32, i int)) *gemm.Packing {
	return &gemm.Packing{
		Layout: layout, Size: p.allPairs() * p.pairLen(), UnitSize: p.pairLen(),
		SourceLen: p.weightLen(), Pieces: p.allPairs(),
		Span: func(i int) (at, n int) { return i * p.pairLen(), p.pairLen() },
		Pack: pack,
	}
}

// extra are the pieces of workspace beside that of the workers, in bytes: the padded bias, the padded image.
func (p *paddedInput) extra() (bias, image int) {
	if p.s.Epilogue.Bias != simd.NoBias {
		bias = 4 * (p.s.OutC + 2*p.b)
	}
	if p.pad.needed() || p.s.Half != NoHalf && !p.widens {
		image = 4 * p.inPlanes * p.pad.size()
	}
	return bias, image
}

// workspaceOf is the workspace of so many tasks, each of which needs so many bytes.
func (p *paddedInput) workspaceOf(tasks, each, threads int) int {
	bias, image := p.extra()
	return each*max(1, min(threads, tasks)) + machine.ScratchBytes(bias, image)
}

// runTasks pads one image after the other and does its tasks.
func (p *paddedInput) runTasks(r *convRun, tasks, each, threads int) {
	s := machine.NewScratch(r.ws)
	nb, ni := p.extra()
	if nb > 0 {
		r.bias = s.Floats(nb / 4)
		clear(r.bias[copy(r.bias, r.args.Bias[:p.s.OutC]):])
	}
	padded := s.Floats(ni / 4)
	r.ws = s.Rest
	for r.image = range p.s.Batch {
		r.from = r.input(r.image * p.inImage())
		r.in = r.from.floats
		if ni > 0 {
			r.padded, r.phase = padded, convPads
			machine.Parallel(p.inPlanes, threads, r)
			r.in, r.phase = padded, convComputes
		}
		r.overPool(tasks, each, threads)
	}
}

// padPlane copies a plane with its padding.
func (p *paddedInput) padPlane(r *convRun, i int) {
	p.pad.plane(r.padded[i*p.pad.size():], r.from.after(i*p.inN*p.width))
}
