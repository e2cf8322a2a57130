package convolve

import (
	"context"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
)

// Convolution of bytes whose channels lie side by side, by the kernels that multiply four bytes at once.
//
// First the image is transposed, with its padding (which holds the zero point), so that the channels
// of a pixel are neighbours:
//
//	bytes  [channel][y][x]   ──▶   [y+padding][x+padding][channel]
//
// Images that lie so between nodes (IntConvSpec.InPixels) are copied row by row, or read where they lie if there is
// neither padding nor a bit to flip.
//
// A window then is a few runs of bytes: a row of its taps, or one tap where they lie apart or channels
// are in groups. Pixels are the rows of a product, read where they lie; weights are its columns, in
// panels of words. A task sums up some pixels for a panel in the cache, where sums are quantized. Their bytes are
// results if those lie so, too; else they are transposed back.
//
// Where an output channel has one input channel of its own, channels are summed up side by side: see depthPixels.
//
// Zero points of weights ask for the sums of the windows: those of pixels are the product with ones, those of
// windows add them up.

// bytePixels is the geometry of the form.
type bytePixels struct {
	c        *IntConv
	groups   int // of channels of the image: one where windows are of one channel each
	channels int // of such a group
	depth    *depthPixels

	words int    // of a group's channels of a pixel
	pixel int    // bytes of a pixel
	pad   [3]int // extents of the padded image
	offs  []int  // bytes from a window's first to each of its runs
	run   int    // words of a run
	k     int    // words of all runs

	panels       int        // of output channels of a group
	lines, width int        // output pixels that follow each other evenly in the image
	tiles        gemm.Split // of a line
	perChunk     int        // tiles whose sums wait in the cache
	perTask      int        // chunks
	chunks       int        // of an image
	ones         []uint32   // words of a panel of ones, where zero points of the weights are not zero
	taps         []int      // pixels from a window's first to each of its taps
}

const (
	chunkPixels = 140 // about, of a chunk
	packWords   = 64  // of a pixel, that one task transposes
	packPixels  = 256 // at most, that one task transposes
)

func newBytePixels(c *IntConv) *bytePixels {
	s, t := &c.s, c.ints
	b := &bytePixels{c: c, groups: s.Groups, channels: c.icg, panels: machine.CeilDiv(c.ocg, t.Nr)}
	depth := c.icg == 1 && c.ocg == 1 && s.Groups > 1 && c.zw == nil && c.quantized && c.outN > 0 && s.In[0] == 1 && s.Kernel[0] == 1 && c.out[0] == 1 && s.PadBegin[0] == 0
	if depth {
		b.groups, b.channels = 1, s.InC
	}
	b.words = machine.CeilDiv(b.channels, c.kind.Group())
	b.pixel = 4 * b.words * b.groups
	b.k = b.words * c.taps
	for d := range 3 {
		b.pad[d] = max(s.In[d]+s.PadBegin[d]+s.PadEnd[d], 0)
	}
	b.lines, b.width = c.out[0]*c.out[1], c.out[2]
	if c.isPointwise() {
		b.pad = [3]int{1, 1, c.inN}
		b.lines, b.width = 1, c.outN
	}
	b.windows()
	b.tiles = gemm.NewSplit(b.width, t.Mr)
	if b.tiles.P == 0 {
		return b
	}
	if depth {
		b.depth = newDepthPixels(b)
		return b
	}
	b.perChunk = min(max(1, chunkPixels/b.tiles.Largest()), b.lines*b.tiles.P)
	b.chunks = machine.CeilDiv(b.lines*b.tiles.P, b.perChunk)
	perChunk := b.perChunk * b.tiles.Largest() * b.k * t.Nr
	all := b.chunks * b.panels * s.Batch * s.Groups * perChunk
	b.perTask = min(max(1, gemm.TaskWork(all, byteTask)/max(1, perChunk)), b.chunks*b.panels)
	return b
}

// fits reports whether the form takes and gives pixels where the specification says so.
func (b *bytePixels) fits(s *IntConvSpec) bool {
	return !s.InPixels && !s.OutPixels || s.Quantized && (!s.InPixels || b.pixel == s.InC) && (b.depth == nil || b.pixel == s.OutC)
}

// isRead reports that the image is read where it lies.
func (b *bytePixels) isRead() bool {
	s := &b.c.s
	return b.c.inPixels && !b.c.x.Flip && b.depth == nil && (b.c.isPointwise() || b.pad == s.In && s.PadBegin == [3]int{})
}

// byteTask is how many words a task multiplies at most, by lanes.
const byteTask = 1 << 22

// windows lists the taps and the runs of a window.
func (b *bytePixels) windows() {
	s := &b.c.s
	b.run = b.words
	whole := b.groups == 1 && s.Dilation[2] == 1 // a row of taps is one run
	if whole {
		b.run *= s.Kernel[2]
	}
	for z := range s.Kernel[0] {
		for y := range s.Kernel[1] {
			for x := range s.Kernel[2] {
				at := (z*s.Dilation[0]*b.pad[1]+y*s.Dilation[1])*b.pad[2] + x*s.Dilation[2]
				b.taps = append(b.taps, at)
				if x == 0 || !whole {
					b.offs = append(b.offs, at*b.pixel)
				}
			}
		}
	}
	if b.c.zw != nil {
		b.ones = make([]uint32, b.words*b.c.ints.Nr)
		for w := range b.words {
			b.ones[w*b.c.ints.Nr] = 0x01010101 >> (8 * max(0, 4*(w+1)-b.c.icg))
		}
	}
}

// pixels is how many the padded image has.
func (b *bytePixels) pixels() int { return b.pad[0] * b.pad[1] * b.pad[2] }

// packW lays the weights out: for each group and panel, the words of a window, each of Nr channels.
func (b *bytePixels) packW(ctx context.Context, weights []byte) (*gemm.Packed, error) {
	if b.depth != nil {
		return b.depth.packW(ctx, weights)
	}
	c, nr := b.c, b.c.ints.Nr
	n, size := c.s.Groups*b.panels, b.k*nr
	threads, perWorker := gemm.PackThreads(4*n*size), nr*c.taps
	if err := machine.AskPacked(ctx, 4*(n*size+c.s.OutC+threads*perWorker)); err != nil {
		return nil, err
	}
	out := &gemm.Packed{Order: c.WeightLayout(), Words: make([]uint32, n*size), Sums: make([]int32, c.s.OutC)}
	tmp := make([]uint32, threads*perWorker)
	err := gemm.InPieces(ctx, n, threads, func(i, worker int) {
		first := i % b.panels * nr
		oc, rows := i/b.panels*c.ocg+first, min(nr, c.ocg-first)
		panel := out.Words[i*size:][:size]
		b.packPanel(panel, weights[oc*c.icg*c.taps:], rows, tmp[worker*perWorker:][:perWorker])
		c.ints.AddColumns(c.kind, &out.Sums[oc], machine.Ptr(panel, 0), b.k, rows)
	})
	return out, err
}

// packPanel packs the weights of some output channels: a word of all taps of a channel at a time, transposed so that
// channels are neighbours.
func (b *bytePixels) packPanel(panel []uint32, weights []byte, rows int, tmp []uint32) {
	c, t, nr := b.c, b.c.ints, b.c.ints.Nr
	if c.taps == 1 {
		c.w.PackRows(t, panel, weights, rows, c.icg, c.icg, nr, nil)
		return
	}
	flip := uint32(0)
	if c.w.Flip {
		flip = 0x80808080
	}
	for w := range b.words {
		for j := range rows {
			row, src := tmp[j*c.taps:][:c.taps], weights[(j*c.icg+4*w)*c.taps:]
			if n := c.icg - 4*w; n < 4 {
				packRest(row, src, n, c.w)
			} else {
				t.Ints.QuadRow(&row[0], &src[0], c.taps, c.taps, flip)
			}
		}
		for j := 0; j < rows; j += t.Tw {
			t.Transpose((*float32)(machine.Ptr(panel, w*nr+j)), (*float32)(machine.Ptr(tmp, j*c.taps)), c.taps, 4*b.words*nr, 4*c.taps, min(t.Tw, rows-j))
		}
	}
}

// packRest packs the word of all taps of a channel that has fewer than four input channels left.
func packRest(row []uint32, weights []byte, channels int, side gemm.IntSide) {
	for tap := range row {
		var word [4]byte
		for i := range channels {
			word[i] = weights[i*len(row)+tap]
		}
		row[tap] = side.Word(word, channels)
	}
}

// tasks is how many a product has: for each image and group, ranges of panels of chunks.
func (b *bytePixels) tasks() int {
	if b.depth != nil {
		return b.depth.tasks()
	}
	return b.c.s.Batch * b.c.s.Groups * machine.CeilDiv(b.chunks*b.panels, max(1, b.perTask))
}

// perWorker is the workspace of one worker: sums of a chunk, or a window and the bytes of a line; rows of words; a few planes of a row.
func (b *bytePixels) perWorker() int {
	return machine.ScratchBytes(4*b.room(), b.depth.windowRoom(), 4*b.c.ints.Tw*packPixels, 4*packPixels+byteSlack)
}

// room is the number of sums that a worker has room for.
func (b *bytePixels) room() int {
	switch {
	case b.depth == nil:
		return b.chunkRoom() * b.c.ints.Nr
	case b.c.outPixels:
		return 0
	}
	return machine.CeilDiv(b.width*b.pixel, 4)
}

// chunkRoom is the number of pixels that the sums of a chunk have room for.
func (b *bytePixels) chunkRoom() int {
	return machine.RoundUp(b.perChunk*b.tiles.Largest(), b.c.ints.Tw)
}

// workers is how many there are, in all phases.
func (b *bytePixels) workers(threads int) int {
	return max(1, min(threads, max(b.tasks(), b.packTasks()*min(b.imageRoom(), 1))))
}

// workspace is that of a run.
func (b *bytePixels) workspace(threads int) int {
	s := &b.c.s
	sums, windows := 0, 0
	if b.ones != nil {
		sums, windows = s.Batch*s.Groups*b.pixels(), s.Batch*s.Groups*b.c.outN
	}
	return machine.ScratchBytes(b.imageRoom(), 4*sums, 4*windows, 4*(s.OutC+b.c.ints.Nr), b.depth.room(), b.perWorker()*b.workers(threads))
}

// imageRoom is the bytes of the images in the workspace, and of what is read beyond them.
func (b *bytePixels) imageRoom() int {
	if b.isRead() || b.depth != nil {
		return 0
	}
	return b.c.s.Batch*b.pixels()*b.pixel + byteSlack
}

// byteSlack follows the images: kernels read whole vectors.
const byteSlack = 128

// byteRun is what a run of the form holds beside its operands.
type byteRun struct {
	image   []byte    // the images, transposed
	sums    []int32   // of each pixel of each group, less the zero point of the image
	windows []int32   // of each window of each group
	factors []float32 // of the output channels, and of some more that are not there
	shrinks bool      // all factors are between -1 and 1
	starts  []int32   // of windows of one channel each
	phase   bytePhase
}

// bytePhase says what the tasks do.
type bytePhase uint8

const (
	byteTransposes bytePhase = iota
	byteAdds                 // the sums of pixels and windows of one group of an image
	byteMultiplies
)

// start runs the phases.
func (b *bytePixels) start(r *intConvRun, ws machine.Scratch, threads int) {
	s := &b.c.s
	r.image = ws.Bytes(b.imageRoom())
	if b.ones != nil {
		r.sums, r.windows = ws.Int32s(s.Batch*s.Groups*b.pixels()), ws.Int32s(s.Batch*s.Groups*b.c.outN)
	}
	if b.c.quantized {
		r.factors = ws.Floats(s.OutC + b.c.ints.Nr)
		copy(r.factors, r.q.Factors)
		r.shrinks = !slices.ContainsFunc(r.q.Factors[:s.OutC], func(f float32) bool { return !(f > -1 && f < 1) })
	}
	if b.depth != nil {
		r.starts = b.depth.starts(r, ws.Int32s(b.depth.room()/4))
	}
	r.ws = ws.Rest
	switch {
	case b.isRead():
		r.image = r.x
	case b.depth == nil:
		r.phase = byteTransposes
		machine.Parallel(b.packTasks(), threads, r)
	}
	if b.ones != nil {
		r.phase = byteAdds
		machine.Parallel(s.Batch*s.Groups, threads, r)
	}
	r.phase = byteMultiplies
	machine.Parallel(b.tasks(), threads, r)
}

// task does one task of a phase.
func (b *bytePixels) task(r *intConvRun, i, worker int) {
	buf := machine.NewScratch(r.ws[worker*b.perWorker():])
	sums, window := buf.Int32s(b.room()), buf.Bytes(b.depth.windowRoom())
	pack := packBuffers{buf.Uint32s(b.c.ints.Tw * packPixels), buf.Bytes(4*packPixels + byteSlack)}
	switch {
	case b.depth != nil:
		b.depth.task(r, i, sums, window, pack)
	case r.phase == byteTransposes:
		b.transpose(r, i, pack)
	case r.phase == byteAdds:
		b.addWindows(r, i, sums)
	default:
		b.multiply(r, i, sums, pack.words)
	}
}

// packTasks is how many tasks transpose: pieces of the rows of each image, some words of each pixel.
func (b *bytePixels) packTasks() int {
	return b.c.s.Batch * b.pad[0] * b.pad[1] * machine.CeilDiv(b.pad[2], packPixels) * machine.CeilDiv(b.groups*b.words, packWords)
}

// packBuffers are what a worker transposes in.
type packBuffers struct {
	words  []uint32 // Tw rows of packPixels, or of Nr
	planes []byte
}

// transpose does task i of the first phase.
func (b *bytePixels) transpose(r *intConvRun, i int, buf packBuffers) {
	all := b.groups * b.words
	parts, pieces := machine.CeilDiv(all, packWords), machine.CeilDiv(b.pad[2], packPixels)
	w0 := i % parts * packWords
	w1 := min(w0+packWords, all)
	i /= parts
	x0 := i % pieces * packPixels
	x1 := min(x0+packPixels, b.pad[2])
	i /= pieces
	y, z, image := i%b.pad[1], i/b.pad[1]%b.pad[0], i/b.pad[1]/b.pad[0]
	b.packRow(r, r.image[((image*b.pad[0]+z)*b.pad[1]+y)*b.pad[2]*b.pixel:][:b.pad[2]*b.pixel], [3]int{image, z, y}, x0, x1, w0, w1, buf)
}

// packRow packs words w0 up to w1 of pixels x0 up to x1, packPixels at most, of row (image, z, y) of the padded image.
func (b *bytePixels) packRow(r *intConvRun, row []byte, at [3]int, x0, x1, w0, w1 int, buf packBuffers) {
	s := &b.c.s
	image, z, y := at[0], at[1], at[2]
	all := b.groups * b.words
	words, planes := buf.words, buf.planes
	lo, hi, from := x0, x1, 0 // the pixels of the image, and where the first lies in a plane
	if b.c.isPointwise() {
		from = x0
	} else {
		z, y = z-s.PadBegin[0], y-s.PadBegin[1]
		lo, hi = max(x0, s.PadBegin[2]), min(x1, s.PadBegin[2]+s.In[2])
		if z < 0 || z >= s.In[0] || y < 0 || y >= s.In[1] || lo >= hi {
			lo, hi = x1, x1
		}
		from = (z*s.In[1]+y)*s.In[2] + lo - s.PadBegin[2]
	}
	b.fill(row, x0, lo, w0, w1, byte(r.zx))
	b.fill(row, hi, x1, w0, w1, byte(r.zx))
	if n := hi - lo; n > 0 && b.c.inPixels {
		at, size := lo*b.pixel+4*w0, 4*(w1-w0)
		rows, bytes, pitch := n, size, b.pixel
		if size == b.pixel { // one row
			rows, bytes = 1, n*size
		}
		x := r.x[(image*b.c.inN+from)*b.pixel+4*w0:]
		b.c.ints.Ints.BytePlane(&row[at], &x[0], rows, bytes, pitch, pitch, b.flip())
		return
	}
	if n := hi - lo; n > 0 && all == 1 { // a pixel is a word
		b.interleave(unsafe.Slice((*uint32)(machine.Ptr(row, 4*lo)), n), r.x[image*s.InC*b.c.inN+from:], 0, planes)
		return
	}
	for n := hi - lo; n > 0 && w0 < w1; w0 += b.c.ints.Tw {
		h := min(b.c.ints.Tw, w1-w0)
		for w := range h {
			b.interleave(words[w*n:][:n], r.x[image*s.InC*b.c.inN+from:], w0+w, planes)
		}
		b.c.ints.Transpose((*float32)(machine.Ptr(row, lo*b.pixel+4*w0)), (*float32)(machine.Ptr(words, 0)), n, b.pixel, 4*n, h)
	}
}

// fill writes a byte to words w0 up to w1 of pixels x0 up to x1.
func (b *bytePixels) fill(row []byte, x0, x1, w0, w1 int, v byte) {
	size := 4 * (w1 - w0)
	if size == b.pixel && x1 > x0 { // one run
		row, size = row[x0*b.pixel:], size*(x1-x0)
		x0, x1 = 0, 1
	}
	for x := x0; x < x1; x++ {
		p := row[x*b.pixel+4*w0:][:size]
		p[0] = v
		for n := 1; n < len(p); n *= 2 {
			copy(p[n:], p[:n])
		}
	}
}

// interleave writes word w of neighbouring pixels of planes. Channels that there are not are zero.
func (b *bytePixels) interleave(dst []uint32, x []byte, w int, planes []byte) {
	c, n := b.c, len(dst)
	ch := w % b.words * 4
	have, plane := b.channels-ch, c.inN
	x = x[(w/b.words*b.channels+ch)*c.inN:]
	if have < 4 {
		clear(planes[:4*n])
		for i := range have {
			copy(planes[i*n:][:n], x[i*c.inN:])
		}
		x, plane = planes, n
	}
	c.ints.Ints.QuadRow(&dst[0], &x[0], n, plane, b.flip())
}

// flip is what makes bytes of the image unsigned by exclusive or.
func (b *bytePixels) flip() uint32 {
	if b.c.x.Flip {
		return 0x80808080
	}
	return 0
}

// addWindows adds up the pixels, then the windows of a group of an image.
func (b *bytePixels) addWindows(r *intConvRun, i int, tile []int32) {
	t := b.c.ints
	zeros := tile[t.Mr*t.Nr:][:t.Nr]
	clear(zeros)
	sums := r.sums[i*b.pixels():][:b.pixels()]
	a := simd.PixelArgs{W: machine.Ptr(b.ones, 0), Sums: machine.Ptr(tile, 0), Start: machine.Ptr(zeros, 0), Offs: unsafe.Pointer(&noOffset), Runs: 1, Words: b.words, Pixel: b.pixel}
	image := r.image[i/b.c.s.Groups*b.pixels()*b.pixel+i%b.c.s.Groups*4*b.words:]
	for p := 0; p < len(sums); p += t.Mr {
		h := min(t.Mr, len(sums)-p)
		a.In = machine.Ptr(image, p*b.pixel)
		t.BytePixels(h, &a)
		for j := range h {
			sums[p+j] = tile[j*t.Nr] - int32(b.c.icg)*r.zx
		}
	}
	out := r.windows[i*b.c.outN:][:b.c.outN]
	for line := range b.lines {
		first := b.first(line)
		for x := range b.width {
			total := int32(0)
			for _, tap := range b.taps {
				total += sums[first+tap]
			}
			out[line*b.width+x] = total
			first += b.c.s.Stride[2]
		}
	}
}

// noOffset is the one run of a pixel.
var noOffset int

// first is the pixel of the image at which the first window of a line begins.
func (b *bytePixels) first(line int) int {
	s := &b.c.s
	z, y := line/b.c.out[1], line%b.c.out[1]
	return (z*s.Stride[0]*b.pad[1] + y*s.Stride[1]) * b.pad[2]
}

// multiply does task i of the last phase.
func (b *bytePixels) multiply(r *intConvRun, i int, sums []int32, words []uint32) {
	ranges := machine.CeilDiv(b.chunks*b.panels, b.perTask)
	first := i % ranges * b.perTask
	for at := first; at < min(first+b.perTask, b.chunks*b.panels); at++ {
		b.panelOf(r, i/ranges, at/b.panels, at%b.panels, sums, words)
	}
}

// panelOf computes a chunk for one panel of a group of an image.
func (b *bytePixels) panelOf(r *intConvRun, outer, chunk, panel int, sums []int32, words []uint32) {
	c, t := b.c, b.c.ints
	image, group := outer/c.s.Groups, outer%c.s.Groups
	oc := group*c.ocg + panel*t.Nr
	cols := min(t.Nr, c.ocg-panel*t.Nr)
	a := simd.PixelArgs{W: machine.Ptr(r.w.Words, (group*b.panels+panel)*b.k*t.Nr), Start: machine.Ptr(r.init, oc),
		Offs: machine.Ptr(b.offs, 0), Runs: len(b.offs), Words: b.run, Pixel: b.pixel * c.s.Stride[2]}
	in := r.image[image*b.pixels()*b.pixel+group*4*b.words:]
	bytes, pitch := unsafe.Slice((*byte)(machine.Ptr(sums, 0)), 4*len(sums)), t.Nr // in place
	direct := c.quantized && r.windows == nil && r.shrinks
	if direct {
		q := simd.PackedZero(r.q.Signed, r.q.Zero)
		a.Factors, a.Cols, a.Flip, a.Zeros = machine.Ptr(r.factors, oc), cols, q.Flip, q.Zeros
	}
	first, n := 0, 0
	from, to := chunk*b.perChunk, min((chunk+1)*b.perChunk, b.lines*b.tiles.P)
	for tile := from; tile < to; tile++ {
		b.fetch(&a, tile-from, to-from)
		line := tile / b.tiles.P
		x, h := b.tiles.Part(tile % b.tiles.P)
		if n == 0 {
			first = line*b.width + x
			if c.outPixels {
				pitch = c.s.OutC
				bytes = r.q.Y[(image*c.outN+first)*pitch+oc:]
			}
		}
		if direct {
			a.Out, a.OutRow = machine.Ptr(bytes, n*pitch), pitch
		}
		a.In = machine.Ptr(in, (b.first(line)+x*c.s.Stride[2])*b.pixel)
		a.Sums = machine.Ptr(sums, n*t.Nr)
		t.BytePixels(h, &a)
		n += h
	}
	if !direct {
		b.correct(sums, oc, r.windowsOf(outer, first, n))
	}
	if c.quantized && !direct {
		vec.RequantizePixels(t, bytes, pitch, sums, n, cols, r.factors[oc:], r.q.Signed, r.q.Zero)
	}
	switch {
	case !c.quantized:
		for p := 0; p < n; p += t.Tw {
			t.Transpose((*float32)(machine.Ptr(r.y, (image*c.s.OutC+oc)*c.outN+first+p)), (*float32)(machine.Ptr(sums, p*t.Nr)), cols, 4*c.outN, 4*t.Nr, min(t.Tw, n-p))
		}
	case !c.outPixels:
		toPlanes(t, r.q.Y[(image*c.s.OutC+oc)*c.outN+first:], c.outN, bytes, n, t.Nr, cols, words)
	}
}

// fetch has call i of n by a panel fetch weights: the first one its own, a little ahead, the others each their part of the next panel, which memory
// beyond the caches sends while this one is multiplied.
func (b *bytePixels) fetch(a *simd.PixelArgs, i, n int) {
	const line, little = 2 * 64, 2048
	a.Ahead, a.AheadStep = little, line
	if i > 0 {
		a.AheadStep = machine.CeilDiv(line, n-1)
		a.Ahead = b.k * (line + (i-1)*a.AheadStep)
	}
}

// windowsOf are the sums of some windows of a group of an image, nil if they are not needed.
func (r *intConvRun) windowsOf(outer, first, n int) []int32 {
	if r.windows == nil {
		return nil
	}
	return r.windows[outer*r.p.outN+first:][:n]
}

// correct subtracts the correction terms of the zero points of the weights: zw·(Σx − K·zx) of every window.
func (b *bytePixels) correct(sums []int32, oc int, windows []int32) {
	nr := b.c.ints.Nr
	for i, x := range windows {
		b.c.ints.Ints.MulSub(&sums[i*nr], &b.c.zw[oc], nr, x)
	}
}
