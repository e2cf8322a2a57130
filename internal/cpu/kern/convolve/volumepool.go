package convolve

import "github.com/berth-onnx/berth/internal/cpu/kern/machine"

// A VolumePool pools NCDHW as two poolings of images, one behind the other: every plane of a volume along height and width,
// then the lines of pixels above each other, for which the planes' results are the rows of an image.
//
//	X [N·C·D, H, W]  ──planes──▶  [N·C, D, H'·W']  ──depth──▶  Y [N·C, D', H'·W']
//
// A maximum of maxima is the maximum, and a mean of means is the mean: how many elements of a window lie inside is a product over
// the dimensions.
type VolumePool struct {
	planes, depth *Pool // nil where nothing slides
	mid           int   // floats between them
}

// VolumeSpec describes a pooling over NCDHW; triples are depth, height, width.
type VolumeSpec struct {
	Kind                         PoolKind
	Batch, Channels              int
	In, Kernel, Stride, Dilation [3]int
	PadBegin, PadEnd             [3]int
	Ceil                         bool
}

// slides reports whether windows of some dimensions have more than one element, or others than every element have one.
func (s *VolumeSpec) slides(dims ...int) bool {
	for _, d := range dims {
		if s.Kernel[d] != 1 || s.Stride[d] > 1 || s.PadBegin[d] != 0 || s.PadEnd[d] != 0 {
			return true
		}
	}
	return false
}

// Planes describes the pooling of planes, and Depth that of rows of so many pixels above each other.
func (s *VolumeSpec) Planes() PoolSpec {
	two := func(v [3]int) [2]int { return [2]int{v[1], v[2]} }
	return PoolSpec{
		Kind: s.Kind, Batch: s.Batch, Channels: s.Channels * s.In[0], In: two(s.In), Kernel: two(s.Kernel), Stride: two(s.Stride),
		Dilation: two(s.Dilation), PadBegin: two(s.PadBegin), PadEnd: two(s.PadEnd), Ceil: s.Ceil,
	}
}

// Depth describes the pooling along depth, of planes of so many pixels.
func (s *VolumeSpec) Depth(pixels int) PoolSpec {
	return PoolSpec{
		Kind: s.Kind, Batch: s.Batch, Channels: s.Channels, In: [2]int{s.In[0], pixels}, Kernel: [2]int{s.Kernel[0], 1},
		Stride: [2]int{s.Stride[0], 1}, Dilation: [2]int{s.Dilation[0], 1}, PadBegin: [2]int{s.PadBegin[0]}, PadEnd: [2]int{s.PadEnd[0]},
		Ceil: s.Ceil,
	}
}

// NewVolumePool prepares a pooling at the active level. ask is told the memory of the taps of each of its poolings before it is made.
func NewVolumePool(s VolumeSpec, ask func(bytes int64) error) (*VolumePool, [3]int, error) {
	p, out := &VolumePool{}, s.In
	overflow := &machine.SpecError{Kernel: "VolumePool", Field: "In", Why: "sizes overflow"}
	if _, ok := machine.MulAll(s.Batch, s.Channels, s.In[0]); !ok {
		return nil, out, overflow
	}
	var err error
	if s.slides(1, 2) {
		if p.planes, err = askedPool(s.Planes(), ask); err != nil {
			return nil, out, err
		}
		o := p.planes.Out()
		out[1], out[2] = o[0], o[1]
	}
	if p.planes == nil || s.slides(0) {
		if p.depth, err = askedPool(s.Depth(out[1]*out[2]), ask); err != nil {
			return nil, out, err
		}
		out[0] = p.depth.Out()[0]
	}
	if p.planes != nil && p.depth != nil {
		bytes, ok := machine.MulAll(4, s.Batch, s.Channels, s.In[0], out[1], out[2])
		if !ok {
			return nil, out, overflow
		}
		p.mid = bytes / 4
	}
	return p, out, nil
}

func askedPool(s PoolSpec, ask func(bytes int64) error) (*Pool, error) {
	if err := ask(s.TapBytes()); err != nil {
		return nil, err
	}
	return NewPool(s)
}

// Workspace returns the bytes of workspace that Run needs with this many threads.
func (p *VolumePool) Workspace(threads int) int {
	n := 0
	for _, k := range []*Pool{p.planes, p.depth} {
		if k != nil {
			n = max(n, k.Workspace(threads))
		}
	}
	return n + machine.ScratchBytes(4*p.mid)
}

// Run pools x into y as [Pool.Run] does.
func (p *VolumePool) Run(done <-chan struct{}, x, y []float32, ws []byte, threads int) error {
	if p.planes == nil {
		return p.depth.Run(done, x, y, ws, threads)
	}
	if p.depth == nil {
		return p.planes.Run(done, x, y, ws, threads)
	}
	buf := machine.NewScratch(ws)
	mid := buf.Floats(p.mid)
	if err := p.planes.Run(done, x, mid, buf.Rest, threads); err != nil {
		return err
	}
	return p.depth.Run(done, mid, y, buf.Rest, threads)
}
