package convolve

import (
	"context"
	"math"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// depthPixels is the form of bytePixels for windows of one channel each: 64 neighbouring bytes of an image are
// summed up side by side, four taps at a time.
//
// With a stride of one a row of results is one run of bytes, like the rows that it is the sum of, and vectors need
// not begin with a pixel. Weights then repeat after as many vectors as pixels and vectors have in common:
//
//	96 channels    vectors   0–63 │ 64–95 0–31 │ 32–95 ‖ 0–63 …
//
// A task packs the rows that its windows read. With other strides, and where that would be many vectors, each pixel has vectors of its own.
type depthPixels struct {
	*bytePixels
	at        []int32 // channel of each lane of a period, as the kernel orders them; -1 for none
	tapOffs   []int   // bytes from a window's first to each tap, of whole quads
	rowPixels int     // output pixels of a row of the kernel
	perTask   int     // lines
}

// windowBytes is about how many bytes of an image a task packs.
const windowBytes = 96 << 10

func newDepthPixels(b *bytePixels) *depthPixels {
	d := &depthPixels{bytePixels: b, rowPixels: 1}
	d.perTask = min(max(1, (windowBytes/max(1, b.pad[2]*b.pixel)-d.rows(1))/b.c.s.Stride[1]+1), b.lines)
	size := machine.RoundUp(b.pixel, 64)
	pixels := max(1, 64/(b.pixel&-b.pixel)) // of a period
	if b.c.s.Stride[2] == 1 && pixels*b.pixel <= 4*size {
		d.rowPixels, size = b.width, pixels*b.pixel
	}
	for i := range size {
		ch := i&^63 + simd.DepthLane(i%64)
		if d.rowPixels > 1 {
			ch %= b.pixel
		}
		if ch >= b.c.s.OutC {
			ch = -1
		}
		d.at = append(d.at, int32(ch))
	}
	for i := range machine.RoundUp(b.c.taps, 4) {
		d.tapOffs = append(d.tapOffs, b.taps[min(i, b.c.taps-1)]*b.pixel)
	}
	return d
}

// packW lays the weights out: for each vector of a period and four taps, the words of its lanes.
func (d *depthPixels) packW(ctx context.Context, weights []byte) (*gemm.Packed, error) {
	c := d.c
	quads := len(d.tapOffs) / 4
	if err := machine.AskPacked(ctx, 4*(len(d.at)*quads+c.s.OutC)); err != nil {
		return nil, err
	}
	out := &gemm.Packed{Order: c.WeightLayout(), Words: make([]uint32, len(d.at)*quads), Sums: make([]int32, c.s.OutC)}
	for i, w := range weights[:c.s.OutC*c.taps] {
		out.Sums[i/c.taps] += c.w.Value(w)
	}
	for i, ch := range d.at {
		for q := 0; q < quads && ch >= 0; q++ {
			var quad [4]byte
			n := copy(quad[:], weights[int(ch)*c.taps:][4*q:c.taps])
			out.Words[(i/64*quads+q)*64+i%64] = c.w.Word(quad, n)
		}
	}
	return out, nil
}

// room is the bytes of starts and factors.
func (d *depthPixels) room() int {
	if d == nil {
		return 0
	}
	return 2 * 4 * len(d.at)
}

// starts lays starts of sums and factors out.
func (d *depthPixels) starts(r *intConvRun, dst []int32) []int32 {
	clear(dst)
	for i, ch := range d.at {
		if ch >= 0 {
			at := i/64*128 + i%64
			dst[at], dst[at+64] = r.init[ch], int32(math.Float32bits(r.factors[ch]))
		}
	}
	return dst
}

// rows is how many rows of the padded image some lines of windows read.
func (d *depthPixels) rows(lines int) int {
	s := &d.c.s
	return (lines-1)*s.Stride[1] + (s.Kernel[1]-1)*s.Dilation[1] + 1
}

// windowRoom is the bytes that a task packs.
func (d *depthPixels) windowRoom() int {
	if d == nil {
		return 0
	}
	return d.rows(d.perTask)*d.pad[2]*d.pixel + byteSlack
}

// pack packs the rows that lines of windows read.
func (d *depthPixels) pack(r *intConvRun, window []byte, image, line, lines int, buf packBuffers) {
	size := d.pad[2] * d.pixel
	y := line * d.c.s.Stride[1]
	for i := range d.rows(lines) {
		for x := 0; x < d.pad[2]; x += packPixels {
			d.packRow(r, window[i*size:][:size], [3]int{image, 0, y + i}, x, min(x+packPixels, d.pad[2]), 0, d.words, buf)
		}
	}
}

func (d *depthPixels) tasks() int { return d.c.s.Batch * machine.CeilDiv(d.lines, d.perTask) }

// task computes some lines of an image.
func (d *depthPixels) task(r *intConvRun, i int, sums []int32, window []byte, buf packBuffers) {
	c, s := d.c, &d.c.s
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(sums))), 4*len(sums)) // of a line
	per := machine.CeilDiv(d.lines, d.perTask)
	image, first := i/per, i%per*d.perTask
	lines := min(d.perTask, d.lines-first)
	d.pack(r, window, image, first, lines, buf)
	size := d.rowPixels * d.pixel
	q := simd.PackedZero(r.q.Signed, r.q.Zero)
	a := simd.DepthArgs{W: machine.Ptr(r.w.Words, 0), Start: machine.Ptr(r.starts, 0), Offs: machine.Ptr(d.tapOffs, 0),
		Quads: len(d.tapOffs) / 4, Vectors: machine.CeilDiv(size, 64), Period: len(d.at) / 64, InRow: s.Stride[2] * d.pixel, OutRow: size, Last: (size-1)%64 + 1,
		Most: q.Most, Zeros: q.Zeros, Flip: q.Flip}
	for line := first; line < first+lines; line++ {
		if c.outPixels {
			bytes = r.q.Y[(image*c.outN+line*d.width)*d.pixel:][:d.width*d.pixel]
		}
		a.In, a.Out, a.Rows = machine.Ptr(window, (line-first)*s.Stride[1]*d.pad[2]*d.pixel), machine.Ptr(bytes, 0), d.width/d.rowPixels
		c.ints.DepthPixels(&a)
		if !c.outPixels {
			toPlanes(c.ints, r.q.Y[image*s.OutC*c.outN+line*d.width:], c.outN, bytes, d.width, d.pixel, s.OutC, buf.words)
		}
	}
}
