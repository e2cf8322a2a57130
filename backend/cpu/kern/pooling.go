package kern

import (
	"fmt"
	"math"
)

// PoolKind is what a pooling window computes.
type PoolKind uint8

// The kinds of pooling.
const (
	PoolMax        PoolKind = iota // largest element; NaN if there is one
	PoolAverage                    // mean over the elements inside the image
	PoolAveragePad                 // mean over image and padding (count_include_pad)
)

// PoolSpec describes a pooling over NCHW; pairs are height, width. A 1-D
// pooling has height 1. Zero strides and dilations read as 1.
type PoolSpec struct {
	Kind                         PoolKind
	Batch, Channels              int
	In, Kernel, Stride, Dilation [2]int
	PadBegin, PadEnd             [2]int
	Ceil                         bool // round the output extent up
}

// Pool is a prepared pooling. It is immutable.
type Pool struct {
	s      PoolSpec
	t      *table
	win    windows
	chunk  int // channels of a task
	chunks int
	ones   []float32   // weights of a sum
	counts [][]float32 // divisors of a row, by number of rows in the window
	rows   []int       // rows in the window, by output row
}

// NewPool prepares a pooling at the active level.
func NewPool(s PoolSpec) (*Pool, error) {
	p := &Pool{s: s, t: active.Load()}
	if s.Kind > PoolAveragePad || s.Batch < 0 || s.Channels < 0 {
		return nil, &SpecError{"Pool", "Kind", "unknown kind or negative size"}
	}
	var out [2]int
	for d := range 2 {
		n, err := poolExtent(&p.s, d)
		if err != nil {
			return nil, err
		}
		out[d] = n
	}
	if _, ok := mulAll(s.Batch, s.Channels, max(1, s.In[0]), max(1, s.In[1]), max(1, out[0]), 4); !ok {
		return nil, &SpecError{"Pool", "In", "sizes overflow"}
	}
	taps, ok := mulAll(s.Kernel[0], s.Kernel[1])
	if !ok || taps > 1<<24 {
		return nil, &SpecError{"Pool", "Kernel", "more than 2²⁴ elements"}
	}
	s = p.s
	p.win = windows{in: s.In, kernel: s.Kernel, stride: s.Stride, dilation: s.Dilation, pad: s.PadBegin, out: out}
	p.win.plan(p.t.lanes)
	p.chunk = p.win.chunk(max(1, s.Channels))
	p.chunks = ceilDiv(s.Channels, p.chunk)
	if s.Kind != PoolMax {
		p.countAll(taps)
	}
	return p, nil
}

// poolExtent fills in the defaults of one dimension and returns the output
// extent by the ONNX rule: with Ceil, a last window that would start beyond the
// image and its leading padding is dropped.
func poolExtent(s *PoolSpec, d int) (int, error) {
	if s.Stride[d] == 0 {
		s.Stride[d] = 1
	}
	if s.Dilation[d] == 0 {
		s.Dilation[d] = 1
	}
	in, k, st, dl, pb, pe := s.In[d], s.Kernel[d], s.Stride[d], s.Dilation[d], s.PadBegin[d], s.PadEnd[d]
	const limit = 1 << 31
	if in < 1 || k < 1 || st < 1 || dl < 1 || pb < 0 || pe < 0 || in > limit || k > limit || st > limit || pb > limit || pe > limit {
		return 0, &SpecError{"Pool", "Kernel", fmt.Sprintf("dimension %d: extents must be positive and below 2³¹", d)}
	}
	span, ok := mulAll(k-1, dl)
	room := in + pb + pe - span - 1
	if !ok || room < 0 {
		return 0, &SpecError{"Pool", "Kernel", fmt.Sprintf("dimension %d: kernel larger than padded input", d)}
	}
	out := room/st + 1
	if s.Ceil {
		out = ceilDiv(room, st) + 1
		if (out-1)*st >= in+pb {
			out--
		}
	}
	return out, nil
}

// countAll works out the divisors: the number of elements of a window is that
// of its rows times that of its columns.
func (p *Pool) countAll(taps int) {
	p.ones = make([]float32, taps)
	for i := range p.ones {
		p.ones[i] = 1
	}
	cols := make([]int, p.win.out[1])
	for x := range cols {
		cols[x] = p.count(1, x)
	}
	p.rows = make([]int, p.win.out[0])
	p.counts = make([][]float32, p.s.Kernel[0]+1)
	for y := range p.rows {
		n := p.count(0, y)
		p.rows[y] = n
		if p.counts[n] != nil {
			continue
		}
		p.counts[n] = make([]float32, len(cols))
		for x, c := range cols {
			p.counts[n][x] = float32(n * c)
		}
	}
}

// count is the number of elements that the window at an output place has in
// one dimension.
func (p *Pool) count(d, at int) int {
	s := &p.s
	lo, hi := 0, s.In[d]
	if s.Kind == PoolAveragePad {
		lo, hi = -s.PadBegin[d], s.In[d]+s.PadEnd[d]
	}
	n := 0
	for k := range s.Kernel[d] {
		if i := at*s.Stride[d] - s.PadBegin[d] + k*s.Dilation[d]; i >= lo && i < hi {
			n++
		}
	}
	return n
}

// Out returns the output's height and width.
func (p *Pool) Out() [2]int { return p.win.out }

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (p *Pool) Workspace(threads int) int {
	return p.perWorker()*max(1, min(threads, p.tasks())) + lineBytes
}

func (p *Pool) perWorker() int { return scratchBytes(4*p.win.bufLen, 4*p.win.flatLen) }

func (p *Pool) tasks() int { return p.s.Batch * p.chunks * p.win.strips }

// poolRun is the state of one run; it is a Task.
type poolRun struct {
	p    *Pool
	x, y []float32
	ws   []byte
}

var poolRuns freeList[poolRun]

// Run pools x into y on at most threads threads.
func (p *Pool) Run(x, y []float32, ws []byte, threads int) error {
	n := p.s.Batch * p.s.Channels
	if n == 0 {
		return nil
	}
	if err := needs("Pool", "X", x, n*p.s.In[0]*p.s.In[1]); err != nil {
		return err
	}
	if err := needs("Pool", "Y", y, n*p.win.out[0]*p.win.out[1]); err != nil {
		return err
	}
	if err := needs("Pool", "workspace", ws, p.Workspace(threads)); err != nil {
		return err
	}
	r := poolRuns.get()
	defer func() {
		*r = poolRun{}
		poolRuns.put(r)
	}()
	r.p, r.x, r.y, r.ws = p, x, y, newScratch(ws).rest
	Parallel(p.tasks(), threads, r)
	return nil
}

// Run does one strip of a chunk of channels.
func (r *poolRun) Run(i, worker int) {
	p := r.p
	buf := newScratch(r.ws[worker*p.perWorker():])
	planes, flat := buf.floats(p.win.bufLen), buf.floats(p.win.flatLen)
	strip := i % p.win.strips
	first := i / p.win.strips % p.chunks * p.chunk
	image := i / p.win.strips / p.chunks
	for ch := first; ch < min(first+p.chunk, p.s.Channels); ch++ {
		r.strip(planes, flat, image*p.s.Channels+ch, strip*p.win.rows)
	}
}

// strip computes output rows y0.. of one channel.
func (r *poolRun) strip(planes, flat []float32, ch, y0 int) {
	p := r.p
	d, t := &p.win, p.t
	inN, ow := d.in[0]*d.in[1], d.out[1]
	rows := min(d.rows, d.out[0]-y0)
	x := r.x[ch*inN:][:inN]
	y := r.y[(ch*d.out[0]+y0)*ow:][:rows*ow]
	if p.s.Kind == PoolMax {
		d.fillWith(t, float32(math.Inf(-1)), planes, x, y0, rows)
	} else {
		d.fill(t, planes, x, y0, rows)
	}
	dst, n, cols, step := y, rows, ow, 4*ow
	if d.flat {
		dst, n, cols, step = flat, 1, (rows-1)*d.planeW+ow, 0
	}
	if p.s.Kind == PoolMax {
		t.poolMax(f32p(dst, 0), f32p(planes, 0), n, cols, step, 4*d.planeW, &d.offs[0], len(d.offs))
	} else {
		t.depth(f32p(dst, 0), f32p(planes, 0), n, cols, step, 4*d.planeW, &d.offs[0], &p.ones[0], len(d.offs), 0, float32(math.Inf(-1)), float32(math.Inf(1)))
	}
	for i := range rows {
		row := y[i*ow:][:ow]
		if d.flat {
			copy(row, flat[i*d.planeW:])
		}
		if p.s.Kind != PoolMax {
			t.binaryRow(Div, row, row, p.counts[p.rows[y0+i]])
		}
	}
}
