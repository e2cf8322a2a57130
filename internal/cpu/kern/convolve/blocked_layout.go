package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// The channel-blocked layout.
//
//	plain    [n][channel][pixel]
//	blocked  [n][channel/B][pixel][channel mod B]      B = Block()
//
// B neighbouring channels of a pixel fill one vector, so kernels need not handle the
// ends of image rows. A last block that is not full is padded with channels of
// zeros: every blocked kernel keeps them zero, so whatever maps zero to zero works on
// blocked tensors as on any slice.

// maxBlock is the largest block of all levels.
const maxBlock = 16

// Block returns the number of channels in a block at the active level: 16 for
// AVX-512, 8 for AVX2, 4 for plain Go.
func Block() int { return simd.Active().Block() }

// BlockedLen returns the elements of a blocked tensor of n × channels × spatial.
func BlockedLen(n, channels, spatial int) int {
	b := Block()
	return n * machine.CeilDiv(channels, b) * b * spatial
}

// layoutJob converts between the layouts; it is a Task, a block each.
type layoutJob struct {
	t          *simd.Table
	dst, src   []float32
	bytes      [2][]byte // the same for bytes: pixels in place of blocks
	c, spatial int
	blocks     int    // of an image, or pieces
	ws         []byte // of bytes
	back       bool   // from blocked to plain
}

var layoutJobs machine.FreeList[layoutJob]

// changeLayout converts n × channels × spatial from the plain to the blocked
// layout, or back.
func changeLayout(t *simd.Table, dst, src []float32, n, channels, spatial int, back bool, threads int) {
	if n*channels*spatial == 0 {
		return
	}
	j := layoutJobs.Get()
	defer layoutJobs.Release(j)
	b := t.Block()
	*j = layoutJob{t: t, c: channels, spatial: spatial, blocks: machine.CeilDiv(channels, b), back: back}
	plain, blocked := n*channels*spatial, n*j.blocks*b*spatial
	if back {
		j.dst, j.src = dst[:plain], src[:blocked]
	} else {
		j.dst, j.src = dst[:blocked], src[:plain]
	}
	machine.Parallel(n*j.blocks, threads, j)
}

// ToBlocked converts n × channels × spatial from the plain to the blocked
// layout.
func ToBlocked(dst, src []float32, n, channels, spatial, threads int) {
	changeLayout(simd.Active(), dst, src, n, channels, spatial, false, threads)
}

// FromBlocked converts from the blocked to the plain layout.
func FromBlocked(dst, src []float32, n, channels, spatial, threads int) {
	changeLayout(simd.Active(), dst, src, n, channels, spatial, true, threads)
}

// Run converts one block, or some pixels.
func (j *layoutJob) Run(i, worker int) {
	if j.bytes[0] != nil {
		j.pixels(i, worker)
		return
	}
	t, b := j.t, j.t.Block()
	image, block := i/j.blocks, i%j.blocks
	have := min(b, j.c-block*b)
	plainAt := (image*j.c + block*b) * j.spatial
	blockedAt := i * j.spatial * b
	if !j.back {
		dst := j.dst[blockedAt:][:j.spatial*b]
		t.Transpose(&dst[0], machine.F32p(j.src, plainAt), j.spatial, 4*b, 4*j.spatial, have)
		if have < b {
			clearLanes(dst, have, b)
		}
		return
	}
	unblock(t, j.dst[plainAt:], j.src[blockedAt:], have, j.spatial, j.spatial)
}

// isBlocked reports that an image is in the blocked layout.
func (g *geometry) isBlocked() bool { return g.s.InBlocked || g.s.OutBlocked }

// inImage and outImage are the elements of one image.
func (g *geometry) inImage() int  { return imageLen(g.t, g.s.InC, g.inN, g.s.InBlocked) }
func (g *geometry) outImage() int { return imageLen(g.t, g.s.OutC, g.outN, g.s.OutBlocked) }

func imageLen(t *simd.Table, channels, spatial int, blocked bool) int {
	if blocked {
		channels = machine.RoundUp(channels, t.Block())
	}
	return channels * spatial
}

// depthwiseBlocks reports whether blocks of channels are independent of each other.
func (g *geometry) depthwiseBlocks() bool { return g.s.Groups > 1 && g.icg == 1 && g.ocg == 1 }

// checkBlocked refuses what the kernels of the blocked layout do not compute.
func (g *geometry) checkBlocked() error {
	s, b := &g.s, g.t.Block()
	switch {
	case !g.isBlocked():
	case s.In[0] != 1 || s.Kernel[0] != 1 || s.PadBegin[0] != 0 || s.PadEnd[0] != 0 || s.Stride[0] != 1 || s.Dilation[0] != 1:
		return &machine.SpecError{Kernel: "Conv", Field: "In", Why: "blocked images have depth one"}
	case !s.Transposed && min(s.PadBegin[1], s.PadBegin[2], s.PadEnd[1], s.PadEnd[2]) < 0:
		return &machine.SpecError{Kernel: "Conv", Field: "PadBegin", Why: "blocked images are not cropped"}
	case min(s.Batch, g.icg, g.ocg, g.outN) < 1:
		return &machine.SpecError{Kernel: "Conv", Field: "Batch", Why: "blocked images are not empty"}
	case !s.Transposed && !g.depthwiseBlocks() && g.spreads():
		return &machine.SpecError{Kernel: "Conv", Field: "PadBegin", Why: "the padded image has many times the pixels of both images"}
	case g.depthwiseBlocks() && !g.listsTaps():
		return &machine.SpecError{Kernel: "Conv", Field: "Kernel", Why: manyTaps}
	case s.Groups > 1 && !g.depthwiseBlocks() && (g.icg%b != 0 || g.ocg%b != 0):
		return &machine.SpecError{Kernel: "Conv", Field: "Groups", Why: "a group of blocked channels is whole blocks, or one channel"}
	}
	return nil
}

// clearLanes zeroes all but the first lanes of every group of b.
func clearLanes[E float32 | uint16](x []E, have, b int) {
	for p := 0; p < len(x); p += b {
		clear(x[p+have : p+b])
	}
}

// finishBlock does for n pixels of a block of the result what the kernels do not: activations
// that are no clamps, and zeros in the padding channels.
func (g *geometry) finishBlock(y []float32, block int) {
	e, b := &g.s.Epilogue, g.t.Block()
	if g.after != simd.Identity {
		g.t.UnaryRow(g.after, y, y, e.P0, e.P1)
	}
	if have := g.s.OutC - block*b; g.clears && have < b {
		clearLanes(y, have, b)
	}
}

// blockedGeometry is the geometry of a convolution whose kernels write blocks.
type blockedGeometry struct {
	*geometry
	b                   int // channels of a block
	inBlocks, outBlocks int // of a group
}

func newBlockedGeometry(g *geometry) *blockedGeometry {
	b := g.t.Block()
	return &blockedGeometry{g, b, machine.CeilDiv(g.icg, b), machine.CeilDiv(g.ocg, b)}
}

// pairs is the number of pairs of output blocks in a group; the last may be a
// single block.
func (p *blockedGeometry) pairs() int { return machine.CeilDiv(p.outBlocks, 2) }

// inLen and outLen are the elements of one blocked image of one group.
func (p *blockedGeometry) inLen() int  { return p.inBlocks * p.b * p.inN }
func (p *blockedGeometry) outLen() int { return p.outBlocks * p.b * p.outN }

// bounds returns the clamp of the epilogue.
func (g *geometry) bounds() (lo, hi float32) {
	if g.clamp {
		return g.lo, g.hi
	}
	return simd.NegInf, simd.PosInf
}
