package kern

import "math"

var posInf, negInf = float32(math.Inf(1)), float32(math.Inf(-1))

// BlockedPool is a prepared pooling in the channel-blocked layout. It is
// immutable.
type BlockedPool struct {
	p      *Pool // geometry
	t      *table
	b      int
	blocks int
	grid   tapGrid
	scales map[int][]float32 // averages: 1/count in every weight, by count
}

// NewBlockedPool prepares a pooling at the active level.
func NewBlockedPool(s PoolSpec) (*BlockedPool, error) {
	p, err := NewPool(s)
	if err != nil {
		return nil, err
	}
	q := &BlockedPool{p: p, t: p.t, b: p.t.block()}
	w := &p.win
	q.blocks = ceilDiv(s.Channels, q.b)
	q.grid = tapGrid{in: w.in, kernel: w.kernel, stride: w.stride, dilation: w.dilation, pad: w.pad, out: w.out, b: q.b}
	q.grid.plan()
	if s.Kind != PoolMax {
		for i := range q.grid.taps { // all taps share one weight
			for k := 1; k < len(q.grid.taps[i]); k += 2 {
				q.grid.taps[i][k] = 0
			}
		}
		q.scales = map[int][]float32{}
		for _, row := range p.counts {
			for _, n := range row {
				if _, ok := q.scales[int(n)]; !ok {
					q.scales[int(n)] = repeated(1/n, q.b)
				}
			}
		}
	}
	return q, nil
}

func repeated(v float32, n int) []float32 {
	x := alignedFloats(n)
	for i := range x {
		x[i] = v
	}
	return x
}

// Out returns the output's height and width.
func (q *BlockedPool) Out() [2]int { return q.p.win.out }

// blockedPoolRun is the state of one run; it is a Task, one block each.
type blockedPoolRun struct {
	q    *BlockedPool
	x, y []float32
}

var blockedPoolRuns freeList[blockedPoolRun]

// Run pools x into y, both blocked, on at most threads threads.
func (q *BlockedPool) Run(x, y []float32, threads int) error {
	n := q.p.s.Batch * q.blocks
	if n == 0 {
		return nil
	}
	g := &q.grid
	if err := needs("BlockedPool", "X", x, n*g.in[0]*g.in[1]*q.b); err != nil {
		return err
	}
	if err := needs("BlockedPool", "Y", y, n*g.out[0]*g.out[1]*q.b); err != nil {
		return err
	}
	r := blockedPoolRuns.get()
	defer func() {
		*r = blockedPoolRun{}
		blockedPoolRuns.put(r)
	}()
	r.q, r.x, r.y = q, x, y
	Parallel(n, threads, r)
	return nil
}

// Run pools one block of one image.
func (r *blockedPoolRun) Run(i, _ int) {
	q := r.q
	g := &q.grid
	x := r.x[i*g.in[0]*g.in[1]*q.b:][:g.in[0]*g.in[1]*q.b]
	y := r.y[i*g.out[0]*g.out[1]*q.b:][:g.out[0]*g.out[1]*q.b]
	for row := range g.out[0] {
		out := y[row*g.out[1]*q.b:][:g.out[1]*q.b]
		for _, seg := range g.cols {
			q.segment(out, x, g.rows[row], seg)
		}
	}
	if have := q.p.s.Channels % q.b; have != 0 && i%q.blocks == q.blocks-1 {
		clearLanes(y, have, q.b) // windows of nothing but padding are −∞ or NaN
	}
}

// segment pools a segment of a row. An average that includes padding may divide
// by another number for every pixel.
func (q *BlockedPool) segment(out, x []float32, row, seg tapSegment) {
	g := &q.grid
	taps, from := g.segment(row, seg)
	pixel := 4 * q.b * g.stride[1]
	if len(taps) == 0 {
		v := negInf
		if q.p.s.Kind != PoolMax {
			v = float32(math.NaN())
			if q.p.s.Kind == PoolAveragePad {
				v = 0
			}
		}
		for i := range out[seg.x*q.b : (seg.x+seg.n)*q.b] {
			out[seg.x*q.b+i] = v
		}
		return
	}
	src := &x[from]
	if q.p.s.Kind == PoolMax {
		q.t.blockMax(&out[seg.x*q.b], src, seg.n, pixel, &taps[0], len(taps)/2)
		return
	}
	counts := q.p.counts[q.p.rows[row.x]]
	for i := seg.x; i < seg.x+seg.n; {
		j := i + 1
		for j < seg.x+seg.n && counts[j] == counts[i] {
			j++
		}
		w := q.scales[int(counts[i])]
		s := &x[from+(i-seg.x)*g.stride[1]*q.b]
		q.t.blockTaps(&out[i*q.b], s, j-i, pixel, &taps[0], len(taps)/2, &w[0], &noBias[0], negInf, posInf)
		i = j
	}
}

// BlockedScale is dst = src·scale[c] + shift[c] over a blocked tensor, for batch
// normalization and channel attention. scale has one value for each channel of
// each image (perImage) or for each channel; shift likewise, or is nil. In
// place allowed.
func BlockedScale(dst, src, scale, shift []float32, n, channels, spatial int, perImage bool, threads int) {
	if n*channels*spatial == 0 {
		return
	}
	j := scaleJobs.get()
	defer func() {
		*j = scaleJob{}
		scaleJobs.put(j)
	}()
	t := active.Load()
	size := BlockedLen(n, channels, spatial)
	*j = scaleJob{t: t, dst: dst[:size], src: src[:size], scale: scale, shift: shift, c: channels, spatial: spatial, perImage: perImage}
	Parallel(n*ceilDiv(channels, t.block()), threads, j)
}

// scaleJob is one run of BlockedScale; it is a Task, one block each.
type scaleJob struct {
	t                      *table
	dst, src, scale, shift []float32
	c, spatial             int
	perImage               bool
}

var scaleJobs freeList[scaleJob]

// blockFactors keeps the padded factors of blocks in work.
var blockFactors freeList[[2][16]float32]

// Run scales one block.
func (j *scaleJob) Run(i, _ int) {
	b := j.t.block()
	blocks := ceilDiv(j.c, b)
	at, have := i%blocks*b, min(b, j.c-i%blocks*b)
	if j.perImage {
		at += i / blocks * j.c
	}
	f := blockFactors.get()
	defer blockFactors.put(f)
	*f = [2][16]float32{}
	copy(f[0][:], j.scale[at:at+have])
	if j.shift != nil {
		copy(f[1][:], j.shift[at:at+have])
	}
	n := j.spatial * b
	j.t.blockMulAdd(&j.dst[i*n], &j.src[i*n], j.spatial, &f[0][0], &f[1][0])
}

// BlockedGlobalAverage averages each channel of a blocked tensor over its
// pixels; dst is plain, n × channels.
func BlockedGlobalAverage(dst, src []float32, n, channels, spatial, threads int) {
	if n*channels == 0 {
		return
	}
	j := scaleJobs.get()
	defer func() {
		*j = scaleJob{}
		scaleJobs.put(j)
	}()
	t := active.Load()
	*j = scaleJob{t: t, dst: dst[:n*channels], src: src[:BlockedLen(n, channels, spatial)], c: channels, spatial: spatial}
	Parallel(n*ceilDiv(channels, t.block()), threads, (*meanJob)(j))
}

// meanJob is a scaleJob that averages.
type meanJob scaleJob

// Run averages one block.
func (j *meanJob) Run(i, _ int) {
	b := j.t.block()
	blocks := ceilDiv(j.c, b)
	f := blockFactors.get()
	defer blockFactors.put(f)
	*f = [2][16]float32{}
	if j.spatial > 0 {
		j.t.blockSum(&f[0][0], &j.src[i*j.spatial*b], j.spatial)
	}
	at := i/blocks*j.c + i%blocks*b
	for k := range min(b, j.c-i%blocks*b) {
		j.dst[at+k] = f[0][k] / float32(j.spatial)
	}
}
