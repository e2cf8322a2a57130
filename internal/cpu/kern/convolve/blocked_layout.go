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
// zeros, which FromBlocked ignores.

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
	c, spatial int
	blocks     int
	back       bool // from blocked to plain
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

// Run converts one block.
func (j *layoutJob) Run(i, _ int) {
	t, b := j.t, j.t.Block()
	image, block := i/j.blocks, i%j.blocks
	have := min(b, j.c-block*b)
	plainAt := (image*j.c + block*b) * j.spatial
	blockedAt := i * j.spatial * b
	if !j.back {
		dst := j.dst[blockedAt:][:j.spatial*b]
		t.Transpose(&dst[0], machine.F32p(j.src, plainAt), j.spatial, 4*b, 4*j.spatial, have)
		for p := have; have < b && p < len(dst); p += b {
			clear(dst[p : p+b-have])
		}
		return
	}
	unblock(t, j.dst[plainAt:], j.src[blockedAt:], have, j.spatial, j.spatial)
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
func (p *blockedGeometry) bounds() (lo, hi float32) {
	if p.clamp {
		return p.lo, p.hi
	}
	return simd.NegInf, simd.PosInf
}
