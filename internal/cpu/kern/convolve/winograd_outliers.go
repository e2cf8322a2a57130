package convolve

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Tiles with outliers.
//
// Every output of a tile is a sum of all inputs of the tile, in which those outside its
// window cancel up to rounding. A NaN or an infinite input does not cancel, and the rounding
// error of one that is far larger than the others exceeds the other outputs:
//
//	inputs of a tile        window of an output     direct: the output does not depend on x;
//	. . . . . .             # # #                   Winograd: it contains (x − x)·c
//	. . . . . .             # # #
//	. . . . . x             # # #
//
// So such tiles are computed directly after the transforms. An outlier
// is an input that is not finite or whose magnitude is above
//
//	T = max(2¹⁴, 2¹⁰ · median of the mean magnitudes of the segments of an image)
//
// where a segment is some rows of a block of channels. The transform of the tiles sums the
// magnitudes of each segment, or where a residual may lie in the result, whose marked tiles must
// be left alone, a pass before it; only a segment whose sum exceeds T is looked at again. The weights
// of the direct sum are recovered from the transformed ones, to within 2⁻²⁰ of the largest of
// their filter; smaller ones count as zero. Weights that a run is given are at hand.
//
// Cost: one addition for each input of a channel, against 4·OutC (F(2,3)) or 2.25·OutC
// (F(4,3)) multiplications and the transforms.

const (
	outlierFloor   = 1 << 14 // magnitudes up to it are no outliers
	outlierFactor  = 1 << 10 // times the median magnitude
	outlierCeiling = 1 << 84 // largest input; times the largest weight and 598·C it must not overflow
	weightCeiling  = 1 << 20 // largest weight
	segmentFloats  = 512     // least length of a segment that is not a whole image
	weightNoise    = 1.0 / (1 << 20)
)

// outlierSearch lays out the segments of a block and the way back to the weights.
type outlierSearch struct {
	rows     int // image rows of a segment
	segments int // of one block of channels
	inverse  [][6]float64
}

// newOutlierSearch plans the search.
func newOutlierSearch(w *winograd) outlierSearch {
	h, row := w.s.In[1], w.s.In[2]*w.b
	o := outlierSearch{rows: min(h, machine.CeilDiv(segmentFloats, row)), inverse: winoInverse(w.filter, w.n)}
	o.segments = machine.CeilDiv(h, o.rows)
	return o
}

// winoInverse recovers the three taps of a line from its transform: the first from the
// point 0, the last from infinity, the middle one from the difference at the first pair ±p.
func winoInverse(rows []float64, n int) [][6]float64 {
	inv := make([][6]float64, 3)
	inv[0][0] = 1 / rows[0]
	inv[1][1], inv[1][2] = 0.5/rows[2], -0.5/rows[2]
	inv[2][n-1] = 1
	return inv
}

// exceeds reports whether an element is NaN or its magnitude is above a limit. Where the magnitudes of a segment add up to no
// more than the limit, none is above it.
func exceeds(t *simd.Table, x []float32, limit float32) bool {
	for part := range slices.Chunk(x, segmentFloats) {
		if !(t.SumAbs(&part[0], len(part)) <= limit) && slices.ContainsFunc(part, func(v float32) bool { return !(v <= limit && v >= -limit) }) {
			return true
		}
	}
	return false
}

// hardSizes are the floats of the sums of the segments and the bytes of the marks.
func (p *winograd) hardSizes() (sums, marks int) {
	return p.s.Batch * p.inBlocks * p.direct.segments, p.s.Batch * p.tiles
}

// directSizes are the floats of the workspace of a worker that computes tiles directly: the
// weights of a pair of blocks, the inputs and the outputs of a tile.
func (p *winograd) directSizes() (weights, in, out int) {
	return p.inBlocks * p.b * 9 * 2 * p.b, p.inBlocks * p.patchFloats, 2 * p.m * p.m * p.b
}

// directTasks is the number of tasks that compute the marked tiles.
func (p *winograd) directTasks() int { return p.s.Batch * p.pairs() }

// directWorkspace is the workspace for it; that of the transforms serves again.
func (p *winograd) directWorkspace(threads int) int {
	w, in, out := p.directSizes()
	return machine.LineBytes + max(1, min(threads, p.directTasks()))*machine.ScratchBytes(4*w, 4*in, 4*out)
}

// sumBlock sums the magnitudes of the segments of one block of channels that begin in the rows of tiles
// whose first ones are those from first up to past.
func (p *winograd) sumBlock(w *winoRun, block, first, past int) {
	x := w.x[block*p.inN*p.b:][:p.inN*p.b]
	step := p.direct.rows * p.s.In[2] * p.b
	down := p.tiles / p.across
	for i := range p.direct.segments {
		if tile := min(i*p.direct.rows/p.m, down-1) * p.across; tile < first || tile >= past {
			continue
		}
		part := x[i*step : min((i+1)*step, len(x))]
		w.sums[block*p.direct.segments+i] = p.t.SumAbs(&part[0], len(part))
	}
}

// markOutliers marks the tiles with outliers of all images.
func (p *winograd) markOutliers(w *winoRun) {
	each := p.inBlocks * p.direct.segments
	for image := range p.s.Batch {
		sums := w.sums[image*each:][:each]
		if largest(sums) <= outlierFloor {
			continue
		}
		limit := p.outlierLimit(sums)
		for i, s := range sums {
			if !(s <= limit) {
				p.markSegment(w, image, i/p.direct.segments, i%p.direct.segments, limit)
			}
		}
	}
}

// largest is the largest sum, infinite if one is NaN.
func largest(sums []float32) float32 {
	most := float32(0)
	for _, s := range sums {
		if !(s <= most) {
			most = s
		}
		if s != s {
			return simd.PosInf
		}
	}
	return most
}

// outlierLimit is T for an image. Its median is one of binary exponents, rounded up,
// of those sums that are finite and not zero.
func (p *winograd) outlierLimit(sums []float32) float32 {
	var count [256]int
	total := 0
	for _, s := range sums {
		if e := math.Float32bits(s) >> 23 & 255; e != 0 && e != 255 {
			count[e]++
			total++
		}
	}
	e, below := 0, 0
	for ; e < 255 && 2*(below+count[e]) < total; e++ {
		below += count[e]
	}
	mean := math.Ldexp(1, e-126) / float64(p.direct.rows*p.s.In[2]*p.b)
	return float32(min(outlierCeiling, max(outlierFloor, outlierFactor*mean)))
}

// markSegment marks the tiles that read an outlier of one segment.
func (p *winograd) markSegment(w *winoRun, image, block, segment int, limit float32) {
	x := w.x[image*p.inLen()+block*p.inN*p.b:][:p.inN*p.b]
	line := p.s.In[2] * p.b
	part := x[segment*p.direct.rows*line : min((segment+1)*p.direct.rows*line, len(x))]
	if p.t.Max(&part[0], len(part)) <= limit && p.t.Min(&part[0], len(part)) >= -limit {
		return // none, only many large elements
	}
	for y := segment * p.direct.rows; y < min((segment+1)*p.direct.rows, p.s.In[1]); y++ {
		for i, v := range x[y*line:][:line] {
			if !(v <= limit && v >= -limit) {
				p.markPixel(w, image, y, i/p.b)
			}
		}
	}
}

// markPixel marks the tiles that read a pixel.
func (p *winograd) markPixel(w *winoRun, image, y, x int) {
	down := p.tiles / p.across
	y0, y1 := p.tilesOver(y+p.s.PadBegin[1], down)
	x0, x1 := p.tilesOver(x+p.s.PadBegin[2], p.across)
	for ty := y0; ty < y1; ty++ {
		for tx := x0; tx < x1; tx++ {
			w.marks[image*p.tiles+ty*p.across+tx] = 1
			w.hard = true
		}
	}
}

// tilesOver is the range of tiles, of n in a line, whose inputs contain a position.
func (p *winograd) tilesOver(at, n int) (first, past int) {
	return max(0, machine.CeilDiv(max(0, at-p.n+1), p.m)), min(n, at/p.m+1)
}

// directly computes the marked tiles of all images.
func (p *winograd) directly(r *convRun, s machine.Scratch, threads int) {
	w, in, out := p.directSizes()
	r.wino.phase, r.wino.workers, r.per = winoDirect, s.Rest, machine.ScratchBytes(4*w, 4*in, 4*out)
	machine.Parallel(p.directTasks(), threads, r)
}

// directPair computes the marked tiles of an image for one pair of output blocks.
func (p *winograd) directPair(r *convRun, image, pair, worker int) {
	w := &r.wino
	s := machine.NewScratch(w.workers[worker*r.per:])
	nw, ni, no := p.directSizes()
	d := directTiles{winograd: p, image: image, pair: pair, blocks: min(2, p.outBlocks-2*pair)}
	d.weights, d.in, d.out = s.Floats(nw), s.Floats(ni), s.Floats(no)
	if p.s.ConstW {
		d.recoverWeights(&r.w)
	} else {
		given.weights(p, pair, d.weights, r.args.W)
	}
	d.setArgs(r)
	for tile, mark := range w.marks[image*p.tiles:][:p.tiles] {
		if mark != 0 {
			d.tile(w, tile/p.across*p.m, tile%p.across*p.m)
		}
	}
}

// directTiles computes tiles of one image for a pair of output blocks.
type directTiles struct {
	*winograd
	image, pair, blocks int
	weights, in, out    []float32
	args                simd.DirectArgs
}

// setArgs fills in the arguments that all calls of the kernel share.
func (d *directTiles) setArgs(r *convRun) {
	d.args = simd.DirectArgs{
		W: machine.Ptr(d.weights, 0), Out: machine.Ptr(d.out, 0), Res: machine.Ptr(d.out, 0),
		Ic: d.inBlocks, Kh: 3, Kw: 3,
		Plane: 4 * d.patchFloats, Row: 4 * d.n * d.b, Tap: 4 * d.b, Pixel: 4 * d.b, OutBlock: 4 * d.m * d.b,
	}
	d.args.Lo, d.args.Hi = d.bounds()
	if d.clamp {
		d.args.Flags |= simd.DirectCut
	}
	if d.s.Epilogue.Residual {
		d.args.Flags |= simd.DirectRes
	}
	if d.s.Epilogue.Bias != simd.NoBias {
		d.args.Flags |= simd.DirectBias
		d.args.Bias = machine.Ptr(r.bias, 2*d.pair*d.b)
	}
}

// recoverWeights computes the weights of the pair from the transformed ones, in the order of
// the direct kernel: block of input channels, tap, input channel, output channel.
func (d *directTiles) recoverWeights(w *gemm.PackedView) {
	var v [36][2 * maxBlock]float32
	width, n := d.blocks*d.b, d.n*d.n
	for ic := range d.inBlocks * d.b {
		for at := range n {
			copy(v[at][:width], w.Data[d.weightAt(at, d.pair, w.Unit)+ic*width:])
		}
		for j := range width {
			var filter [9]float64
			winoRecover(d.direct.inverse, &v, j, &filter)
			for tap, x := range filter {
				d.weights[((ic/d.b*9+tap)*d.b+ic%d.b)*width+j] = float32(x)
			}
		}
	}
}

// winoRecover recovers filter j of those whose transforms are next to each other in v.
func winoRecover(inverse [][6]float64, v *[36][2 * maxBlock]float32, j int, filter *[9]float64) {
	last := 3
	if inverse[2][last] == 0 {
		last = 5
	}
	n := last + 1
	most := 0.0
	at := [3][]int{{0}, {1, 2}, {last}}
	for tap := range filter {
		sum := 0.0
		for _, y := range at[tap/3] {
			for _, x := range at[tap%3] {
				sum += inverse[tap/3][y] * inverse[tap%3][x] * float64(v[y*n+x][j])
			}
		}
		filter[tap] = sum
		most = max(most, math.Abs(sum))
	}
	for tap, x := range filter {
		if math.Abs(x) < most*weightNoise {
			filter[tap] = 0
		}
	}
}

// tile computes the tile at rows y.. and columns x.. of the output. A residual may lie in
// the result, which the output transform leaves alone in marked tiles.
func (d *directTiles) tile(w *winoRun, y, x int) {
	for i := range d.inBlocks {
		d.gather(d.in[i*d.patchFloats:], w.x[d.image*d.inLen()+i*d.inN*d.b:], y-d.s.PadBegin[1], x-d.s.PadBegin[2])
	}
	n, line := min(d.m, d.geometry.out[2]-x)*d.b, d.m*d.b
	for row := range min(d.m, d.geometry.out[1]-y) {
		at := d.image*d.outLen() + ((y+row)*d.geometry.out[2]+x)*d.b
		y := w.y[at:]
		for j := range d.blocks {
			if w.res != nil {
				copy(d.out[j*line:][:n], w.res[at+(2*d.pair+j)*d.outN*d.b:])
			}
		}
		d.args.In = machine.Ptr(d.in, row*d.n*d.b)
		d.t.Direct(n/d.b, d.blocks, false, &d.args)
		for j := range d.blocks {
			part := d.out[j*line:][:n]
			if d.after != simd.Identity {
				d.t.UnaryRow(d.after, part, part, d.s.Epilogue.P0, d.s.Epilogue.P1)
			}
			copy(y[(2*d.pair+j)*d.outN*d.b:], part)
		}
	}
}
