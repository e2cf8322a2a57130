package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Rows of bytes: where an output channel has one input channel, a word of a product is not four
// channels of a pixel but four neighbouring taps of a row. The images stay planes
// of bytes, with their padding, and a kernel brings the bytes behind each other:
//
//	taps of a row    w0 w1 w2 0    and of wider kernels    w0 w1 w2 w3 │ w4 w5 w6 0
//	pixel x          x  x+1 x+2 ·

// byteRows is the geometry of padded planes of bytes.
type byteRows struct {
	rows, pitch int        // of a padded plane
	words       int        // of a row of taps
	offs        []int      // of each word of a channel, from a pixel's first tap
	step        int        // bytes from one vector of pixels to the next
	line        int        // bytes from one output row to the next
	pick        [32]uint32 // see simd.ByteTaps
}

// byteSlack follows the planes: kernels read whole vectors.
const byteSlack = 128

// newByteRows describes the planes of a convolution; nil if the kernels do not reach its taps.
func newByteRows(g *geometry, t *simd.Table) *byteRows {
	s := &g.s
	stride := s.Stride[2]
	if t.Ints.ByteTaps == nil || s.In[0] != 1 || s.Kernel[0] != 1 || g.out[0] != 1 || s.PadBegin[0] != 0 || s.Dilation[2] != 1 || stride > 4 || g.inN == 0 || g.outN == 0 {
		return nil
	}
	b := &byteRows{words: machine.CeilDiv(s.Kernel[2], 4), step: 16 * stride}
	b.rows, b.pitch = max(s.In[1]+s.PadBegin[1]+s.PadEnd[1], 0), max(s.In[2]+s.PadBegin[2]+s.PadEnd[2], 0)
	b.line = b.pitch * s.Stride[1]
	for y := range s.Kernel[1] {
		for w := range b.words {
			b.offs = append(b.offs, y*s.Dilation[1]*b.pitch+4*w)
		}
	}
	for i := range 16 {
		quarter, j := i/4, i%4
		b.pick[i] = uint32(min(quarter*stride+j, 15))
		b.pick[16+i] = 0x03020100 + 0x01010101*uint32(j*stride)
	}
	return b
}

// size is the number of bytes of a padded plane.
func (b *byteRows) size() int { return b.rows * b.pitch }

// border fills a plane with the bytes of its padding; plane leaves those alone.
func (b *byteRows) border(dst []byte, s *ConvSpec, fill byte) {
	if b.rows == s.In[1] && b.pitch == s.In[2] && s.PadBegin == [3]int{} || b.size() == 0 {
		return
	}
	dst = dst[:b.size()]
	dst[0] = fill
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// plane copies a plane of an image to where it lies within the padding, and flips the top bits.
func (b *byteRows) plane(t *simd.Table, dst, src []byte, s *ConvSpec, flip bool) {
	// The part of the image that is not cropped away by negative padding.
	y0, y1 := max(0, -s.PadBegin[1]), min(s.In[1], b.rows-s.PadBegin[1])
	x0, x1 := max(0, -s.PadBegin[2]), min(s.In[2], b.pitch-s.PadBegin[2])
	if y0 >= y1 || x0 >= x1 {
		return
	}
	bits := uint32(0)
	if flip {
		bits = 0x80808080
	}
	rows, n := y1-y0, x1-x0
	if n == s.In[2] && n == b.pitch { // one row
		rows, n = 1, rows*n
	}
	to, from := dst[(y0+s.PadBegin[1])*b.pitch+x0+s.PadBegin[2]:][:(y1-y0-1)*b.pitch+x1-x0], src[y0*s.In[2]+x0:][:(y1-y0-1)*s.In[2]+x1-x0]
	t.Ints.BytePlane(&to[0], &from[0], rows, n, b.pitch, s.In[2], bits)
}

// pack writes the words of one output channel's taps for one input channel, and returns the sum
// of their bytes.
func (b *byteRows) pack(dst []uint32, taps []byte, width int, side gemm.IntSide) (sum int32) {
	for i := range b.offs {
		row, x := taps[i/b.words*width:][:width], i%b.words*4
		var quad [4]byte
		n := copy(quad[:], row[x:])
		for _, v := range quad[:n] {
			sum += side.Value(v)
		}
		dst[i] = side.Word(quad, n)
	}
	return sum
}
