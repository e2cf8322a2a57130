package convolve

import (
	"cmp"
	"fmt"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
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
	Blocked                      bool // X and Y are in the channel-blocked layout
	Half                         Half // their type, if blocked
}

// Pool is a prepared pooling. It is immutable.
type Pool struct {
	s      PoolSpec
	t      *simd.Table
	strips strips
}

// TapBytes is the memory that preparing a pooling takes for its taps.
func (s PoolSpec) TapBytes() int64 {
	g, err := s.grid(simd.Active())
	if err != nil {
		return 0 // [NewPool] refuses
	}
	return g.bytes()
}

// NewPool prepares a pooling at the active level.
func NewPool(s PoolSpec) (*Pool, error) {
	t := simd.Active()
	g, err := s.grid(t)
	if err != nil {
		return nil, err
	}
	p := &Pool{s: s, t: t}
	p.strips.g = *g
	p.strips.g.plan(true)
	p.strips.inBlocked, p.strips.outBlocked, p.strips.half = s.Blocked, s.Blocked, s.Half
	p.strips.plan(s.Channels)
	return p, nil
}

// grid checks the specification and works out the geometry of its windows.
func (s *PoolSpec) grid(t *simd.Table) (*tapGrid, error) {
	if s.Half != NoHalf && !s.Blocked {
		return nil, &machine.SpecError{Kernel: "Pool", Field: "Half", Why: "plain images are of float32"}
	}
	if s.Kind > PoolAveragePad || s.Batch < 0 || s.Channels < 0 {
		return nil, &machine.SpecError{Kernel: "Pool", Field: "Kind", Why: "unknown kind or negative size"}
	}
	var out [2]int
	for d := range 2 {
		n, err := poolExtent(s, d)
		if err != nil {
			return nil, err
		}
		out[d] = n
	}
	_, ok := machine.MulAll(s.Batch, s.Channels+16, s.In[0], s.In[1], 4)
	_, ok2 := machine.MulAll(s.Batch, s.Channels+16, max(1, out[0]), max(1, out[1]), 4)
	taps, ok3 := machine.MulAll(s.Kernel[0], s.Kernel[1])
	if !ok || !ok2 {
		return nil, &machine.SpecError{Kernel: "Pool", Field: "In", Why: "sizes overflow"}
	}
	if !ok3 || taps > 1<<24 {
		return nil, &machine.SpecError{Kernel: "Pool", Field: "Kernel", Why: "more than 2²⁴ elements"}
	}
	g := &tapGrid{
		in: s.In, kernel: s.Kernel, stride: s.Stride, dilation: s.Dilation, pad: s.PadBegin, padEnd: s.PadEnd, out: out,
		countPad: s.Kind == PoolAveragePad, b: t.Block(),
	}
	if n := g.listed(); n > mostTaps {
		return nil, &machine.SpecError{Kernel: "Pool", Field: "Kernel", Why: manyTaps}
	}
	return g, nil
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
	if in < 1 || k < 1 || st < 1 || dl < 1 || pb < 0 || pe < 0 || in > machine.MaxExtent || k > machine.MaxExtent || st > machine.MaxExtent || pb > machine.MaxExtent || pe > machine.MaxExtent {
		return 0, &machine.SpecError{Kernel: "Pool", Field: "Kernel", Why: fmt.Sprintf("dimension %d: extents must be positive and not too large", d)}
	}
	span, ok := machine.MulAll(k-1, dl)
	room := in + pb + pe - span - 1
	if !ok || room < 0 {
		return 0, &machine.SpecError{Kernel: "Pool", Field: "Kernel", Why: fmt.Sprintf("dimension %d: kernel larger than padded input", d)}
	}
	out := room/st + 1
	if s.Ceil {
		out = machine.CeilDiv(room, st) + 1
		if (out-1)*st >= in+pb {
			out--
		}
	}
	return out, nil
}

// Out returns the height and width of the output.
func (p *Pool) Out() [2]int { return p.strips.g.out }

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (p *Pool) Workspace(threads int) int {
	return p.strips.perWorker()*max(1, min(threads, p.strips.tasks(p.s.Batch))) + machine.LineBytes
}

// stepTaps is how many elements of windows are pooled, for a block of channels, between two looks at what ends a run.
const stepTaps = 1 << 21

// poolRun is the state of one run; it is a Task.
type poolRun struct {
	p      *Pool
	x      source
	y      []float32
	halves []uint16 // in the place of y
	ws     []byte
	done   <-chan struct{}
	// first … past−1 are the planes of a wave of overlaid; past is 0 without waves.
	first, past int
}

var poolRuns machine.FreeList[poolRun]

// Run pools x into y on at most threads threads. y may begin where x does if its
// planes are at most half as large and windows move on by more rows than they
// reach back. When done, which may be nil, is closed, the rest is left out.
func (p *Pool) Run(done <-chan struct{}, x, y []float32, ws []byte, threads int) error {
	if empty, err := poolArgs(p, x, y, ws, threads); empty || err != nil {
		return err
	}
	r := poolRuns.Get()
	defer poolRuns.Release(r)
	r.p, r.x, r.y, r.ws, r.done = p, source{floats: x}, y, machine.NewScratch(ws).Rest, done
	if &x[0] == &y[0] && !p.s.Blocked {
		r.overlaid(threads)
		return nil
	}
	machine.Parallel(p.strips.tasks(p.s.Batch), threads, r)
	return nil
}

// RunHalves is Run for images of a half type.
func (p *Pool) RunHalves(done <-chan struct{}, x, y []uint16, ws []byte, threads int) error {
	if empty, err := poolArgs(p, x, y, ws, threads); empty || err != nil {
		return err
	}
	r := poolRuns.Get()
	defer poolRuns.Release(r)
	r.p, r.x, r.halves, r.ws, r.done = p, source{halves: x, half: p.s.Half}, y, machine.NewScratch(ws).Rest, done
	machine.Parallel(p.strips.tasks(p.s.Batch), threads, r)
	return nil
}

// poolArgs checks the sizes of operands; there may be nothing to do.
func poolArgs[E any](p *Pool, x, y []E, ws []byte, threads int) (empty bool, err error) {
	n, out := p.s.Batch*imageLen(p.t, p.s.Channels, 1, p.s.Blocked), p.Out()
	return n == 0, cmp.Or(
		machine.Needs("Pool", "X", x, n*p.s.In[0]*p.s.In[1]),
		machine.Needs("Pool", "Y", y, n*out[0]*out[1]),
		machine.Needs("Pool", "workspace", ws, p.Workspace(threads)),
	)
}

// overlaid pools over the input, in waves of planes. Those of a wave are written
// where only planes of earlier waves were:
//
//	input   0000│1111│2222│3333│4444│…      planes of four
//	result  0│1│2│3│4│5│…                   0; then 1 2 3, behind them 4 and later
//
// The first plane goes strip by strip, each read before it is written.
func (r *poolRun) overlaid(threads int) {
	p, s := r.p, &r.p.strips
	planes := p.s.Batch * p.s.Channels
	in, out := p.s.In[0]*p.s.In[1], s.g.out[0]*s.g.out[1]
	for lo, hi := 0, 1; lo < planes; lo, hi = hi, min(planes, max(hi+1, hi*in/out)) {
		r.first, r.past = lo, hi
		most := threads
		if lo == 0 {
			most = 1
		}
		machine.Parallel(machine.CeilDiv(hi-lo, s.g.b)*s.cuts, most, r)
	}
}

// Run pools one strip.
func (r *poolRun) Run(i, worker int) {
	if machine.Closed(r.done) {
		return
	}
	p, s := r.p, &r.p.strips
	buf := machine.NewScratch(r.ws[worker*s.perWorker():])
	at := s.strip(i)
	if r.past > 0 {
		at = s.stripOf(r.first, r.past, i)
	}
	q := s.loadAt(p.t, at, r.x, r.y, &buf)
	if s.half != NoHalf {
		_, end := s.g.reach(q.y0, q.y1)
		r.x.take(q.in[:(end-q.top)*s.g.in[1]*s.g.b], s.inAt(&q))
	}
	width := s.g.out[1]
	per := max(1, stepTaps/(width*p.s.Kernel[0]*p.s.Kernel[1])) // rows
	for y := q.y0; y < q.y1 && !machine.Closed(r.done); y += per {
		p.rows(r.done, &s.g, q.out[(y-q.y0)*width*s.g.b:], q.in, y, min(y+per, q.y1), q.top)
	}
	if !s.outBlocked {
		s.store(p.t, &q, r.y)
	} else if q.have < s.g.b {
		clearLanes(q.out, q.have, s.g.b) // windows of nothing but padding are −∞
	}
	if n := (q.y1 - q.y0) * width * s.g.b; s.half != NoHalf {
		s.half.narrow(r.halves[s.outAt(&q):][:n], q.out[:n])
	}
}

// rows pools output rows y0..y1 of a block.
func (p *Pool) rows(done <-chan struct{}, g *tapGrid, y, x []float32, y0, y1, top int) {
	if p.s.Kind == PoolMax {
		g.max(done, p.t, y, x, y0, y1, top)
	} else {
		g.average(done, p.t, y, x, y0, y1, top)
	}
}
