package convolve

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// WeightsSpec is a convolution whose derivative by its weights is wanted: of a number of images and groups, channels and filters being those of
// a group, over two dimensions.
type WeightsSpec struct {
	Images, Groups, Channels, Filters        int
	In, Out, Kernel, Stride, Dilation, Begin [2]int
}

// Weights is the derivative of a convolution by its weights as products over blocks of an image, of some lines or of a part of a wide one:
// patches are the columns of one operand, written for a block and a part of the channels at a time, and what the convolution gave is the
// other where it lies.
//
//	          lines × width                 taps of channels
//	        ┌───────────────┐              ┌───────────────┐
//	filters │ d, image n    │   ×   lines  │ patches of x  │   added to   w[filters, taps of channels]
//	        └───────────────┘   × width    └───────────────┘
//
// A task has a part of the channels and a part of the filters. The parts do not depend on the number of threads, since the order in which a
// product sums up depends on its number of rows.
type Weights struct {
	s                 WeightsSpec
	filters, channels gemm.Split // of a group into tasks
	rows, columns     gemm.Split // of an image into blocks: lines, and the pixels of a line where a block is less than one
	products          map[[3]int]*gemm.Gemm
	pixels            *pixelWeights // in the place of all this, or nil
	inPlace           bool          // patches are the image
	per, cols         int           // workspace of a task: bytes, and floats of patches
}

// Bounds of a task: taps of channels, floats of the patches of a block, which stay in the second cache, and the least number of filters where
// those of a group are shared out: products of fewer rows are scalar products, and patches are written for each part.
const (
	weightTaps    = 160
	weightPatches = 96 << 10
	weightFilters = 5
)

// NewWeights prepares it for so many threads.
func NewWeights(s WeightsSpec, threads int) (*Weights, error) {
	if p := newPixelWeights(s, threads); p != nil {
		return &Weights{pixels: p}, nil
	}
	k := &Weights{s: s, products: map[[3]int]*gemm.Gemm{}}
	taps := s.Kernel[0] * s.Kernel[1]
	k.channels = gemm.NewSplit(s.Channels, max(1, weightTaps/taps))
	if k.filters = gemm.NewSplit(s.Filters, s.Filters); k.channels.P*s.Groups == 1 && s.Filters/2 >= weightFilters {
		k.filters = gemm.NewSplit(s.Filters, machine.CeilDiv(s.Filters, 2))
	}
	one := [2]int{1, 1}
	k.inPlace = taps == 1 && s.Stride == one && s.Begin == [2]int{} && s.In == s.Out
	pixels := max(1, weightPatches/(k.channels.Largest()*taps))
	if k.inPlace {
		pixels = s.Out[0] * s.Out[1]
	}
	k.rows, k.columns = gemm.NewSplit(s.Out[0], max(1, pixels/s.Out[1])), gemm.NewSplit(s.Out[1], min(pixels, s.Out[1]))
	if !k.inPlace {
		k.cols = k.channels.Largest() * taps * k.rows.Largest() * k.columns.Largest()
	}
	bytes, err := k.prepareProducts(s.Channels * taps)
	k.per = machine.ScratchBytes(4*k.cols) + machine.RoundUp(bytes, machine.LineBytes)
	return k, err
}

// prepareProducts prepares a product for each size of a task and of a block, and returns the workspace of the largest.
func (k *Weights) prepareProducts(ld int) (bytes int, err error) {
	plane, taps := k.s.Out[0]*k.s.Out[1], k.s.Kernel[0]*k.s.Kernel[1]
	for _, filters := range k.filters.Sizes() {
		for _, channels := range k.channels.Sizes() {
			for _, lines := range k.rows.Sizes() {
				for _, columns := range k.columns.Sizes() {
					s := gemm.GemmSpec{M: filters, N: channels * taps, K: lines * columns, TransB: true, LDA: plane, LDC: ld, Alpha: 1, Beta: 1}
					g, err := gemm.NewGemm(s)
					if err != nil {
						return 0, err
					}
					k.products[[3]int{filters, channels, lines * columns}], bytes = g, max(bytes, g.Workspace(1))
				}
			}
		}
	}
	return bytes, nil
}

// Tasks is how many tasks there are, which do not depend on each other.
func (k *Weights) Tasks() int {
	if k.pixels != nil {
		return k.pixels.tasks()
	}
	return k.s.Groups * k.channels.P * k.filters.P
}

// ByPixels reports that there are no patches.
func (k *Weights) ByPixels() bool { return k.pixels != nil }

// TaskBytes is the workspace of a task.
func (k *Weights) TaskBytes() int {
	if k.pixels != nil {
		return k.pixels.taskBytes()
	}
	return k.per
}

// Task computes a part of the weights y from x and the derivative d, unless done is closed meanwhile.
func (k *Weights) Task(done <-chan struct{}, i int, x, d, y []float32, ws []byte) error {
	if k.pixels != nil {
		k.pixels.task(done, i, x, d, y, ws)
		return nil
	}
	part := i % k.channels.P
	c0, channels := k.channels.Part(part)
	i /= k.channels.P
	f0, filters := k.filters.Part(i % k.filters.P)
	group := i / k.filters.P
	taps, in, out := k.s.Kernel[0]*k.s.Kernel[1], k.s.In[0]*k.s.In[1], k.s.Out[0]*k.s.Out[1]
	ld := k.channels.N * taps
	w := y[(group*k.filters.N+f0)*ld+c0*taps:]
	for f := range filters {
		clear(w[f*ld:][:channels*taps])
	}
	scratch := machine.NewScratch(ws)
	patches := scratch.Floats(k.cols)
	ws = ws[machine.ScratchBytes(4*k.cols):]
	for n := range k.s.Images {
		from := x[((n*k.s.Groups+group)*k.channels.N+c0)*in:][:channels*in]
		by := d[((n*k.s.Groups+group)*k.filters.N+f0)*out:]
		for r := range k.rows.P * k.columns.P {
			if machine.Closed(done) {
				return nil
			}
			b := k.block(r)
			cols := from
			if !k.inPlace {
				cols = patches
				k.patches(cols, from, channels, b)
			}
			g := k.products[[3]int{filters, channels, b.lines * b.columns}]
			if err := g.Run(gemm.GemmArgs{A: by[b.line*k.s.Out[1]+b.column:], B: cols, C: w}, ws, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// weightBlock is a block of an image: some lines from one on, of each the same pixels, all of them where there are several lines.
type weightBlock struct{ line, lines, column, columns int }

// block is block i of an image.
func (k *Weights) block(i int) (b weightBlock) {
	b.line, b.lines = k.rows.Part(i / k.columns.P)
	b.column, b.columns = k.columns.Part(i % k.columns.P)
	return b
}

// patches writes, for each channel and tap, what the tap reads for a block of the result.
func (k *Weights) patches(dst, x []float32, channels int, b weightBlock) {
	s, width := &k.s, b.columns
	in := s.In[0] * s.In[1]
	for ch := range channels {
		plane := x[ch*in:][:in]
		for ky := range s.Kernel[0] {
			for kx := range s.Kernel[1] {
				first := b.column*s.Stride[1] + kx*s.Dilation[1] - s.Begin[1]  // column of the image for the first one
				lo := min(width, max(0, machine.CeilDiv(-first, s.Stride[1]))) // columns from lo to hi lie in the image
				hi := max(lo, min(width, machine.CeilDiv(s.In[1]-first, s.Stride[1])))
				for y := b.line; y < b.line+b.lines; y++ {
					row := y*s.Stride[0] + ky*s.Dilation[0] - s.Begin[0]
					to := dst[:width]
					dst = dst[width:]
					if row < 0 || row >= s.In[0] {
						clear(to)
						continue
					}
					clear(to[:lo])
					clear(to[hi:])
					spread(to[lo:hi], plane[row*s.In[1]:][:s.In[1]], first+lo*s.Stride[1], s.Stride[1])
				}
			}
		}
	}
}

// spread copies every step-th element from one on.
func spread(dst, src []float32, at, step int) {
	switch {
	case len(dst) == 0:
		return
	case step == 1:
		copy(dst, src[at:])
		return
	}
	for i := range dst {
		dst[i] = src[at]
		at += step
	}
}
