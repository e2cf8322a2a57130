package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Bytes of images: planes of channels, and pixels whose channels lie side by side.

// toPlanes copies the first cols channels of n pixels, pitch bytes apart, to planes. words has room for Tw·Nr.
func toPlanes(t *simd.Table, dst []byte, plane int, src []byte, n, pitch, cols int, words []uint32) {
	for c := 0; c < cols; c += t.Nr {
		have := min(t.Nr, cols-c)
		for p := 0; p < n/4; p += t.Tw {
			h := min(t.Tw, n/4-p)
			for i := range h {
				t.Ints.QuadRow(&words[i*t.Nr], &src[4*(p+i)*pitch+c], have, pitch, 0)
			}
			t.Transpose((*float32)(machine.Ptr(dst, c*plane+4*p)), (*float32)(machine.Ptr(words, 0)), have, plane, 4*t.Nr, h)
		}
	}
	for p := n &^ 3; p < n; p++ {
		for c, v := range src[p*pitch:][:cols] {
			dst[c*plane+p] = v
		}
	}
}

// toPixels copies n pixels of planes whose channels are a multiple of four. words has room for Tw·Nr.
func toPixels(t *simd.Table, dst []byte, src []byte, plane, n, channels int, words []uint32) {
	for c := 0; c < channels; c += 4 * t.Tw {
		h := min(t.Tw, (channels-c)/4)
		for p := 0; p < n; p += t.Nr {
			m := min(t.Nr, n-p)
			for i := range h {
				t.Ints.QuadRow(&words[i*m], &src[(c+4*i)*plane+p], m, plane, 0)
			}
			t.Transpose((*float32)(machine.Ptr(dst, p*channels+c)), (*float32)(machine.Ptr(words, 0)), m, channels, 4*m, h)
		}
	}
}

// HasPixels reports that the active level has kernels for bytes whose channels lie side by side.
func HasPixels() bool { return simd.Active().Products().Ints.Quads }

// pixelsOfTask is how many pixels a task brings from one order into the other.
const pixelsOfTask = 512

// ChangePixelsWorkspace is the bytes of workspace that ChangePixels needs.
func ChangePixelsWorkspace(threads int) int { return pixelWords * 4 * threads }

// pixelWords are the words that a worker transposes in, Tw·Nr.
const pixelWords = 16 * 32

// ChangePixels converts images of bytes between planes and pixels whose channels lie side by side, a multiple of four.
// It is for levels that have them.
func ChangePixels(dst, src []byte, n, channels, spatial int, back bool, ws []byte, threads int) {
	if n*channels*spatial == 0 {
		return
	}
	j := layoutJobs.Get()
	defer layoutJobs.Release(j)
	size := n * channels * spatial
	*j = layoutJob{t: simd.Active().Products(), bytes: [2][]byte{dst[:size], src[:size]}, c: channels, spatial: spatial, blocks: machine.CeilDiv(spatial, pixelsOfTask), back: back, ws: ws}
	machine.Parallel(n*j.blocks, threads, j)
}

// pixels converts some pixels of an image.
func (j *layoutJob) pixels(i, worker int) {
	image, p := i/j.blocks, i%j.blocks*pixelsOfTask
	n := min(pixelsOfTask, j.spatial-p)
	planes, pixels := image*j.c*j.spatial+p, (image*j.spatial+p)*j.c
	ws := machine.NewScratch(j.ws[4*pixelWords*worker:])
	if j.back {
		toPlanes(j.t, j.bytes[0][planes:], j.spatial, j.bytes[1][pixels:], n, j.c, j.c, ws.Uint32s(pixelWords))
		return
	}
	toPixels(j.t, j.bytes[0][pixels:], j.bytes[1][planes:], j.spatial, n, j.c, ws.Uint32s(pixelWords))
}
