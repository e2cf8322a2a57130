package kern

import "math"

var posInf, negInf = float32(math.Inf(1)), float32(math.Inf(-1))

// BlockedPool is a prepared pooling in the channel-blocked layout. It is
// immutable.
type BlockedPool struct {
	p      *Pool
	blocks int
}

// NewBlockedPool prepares a pooling at the active level.
func NewBlockedPool(s PoolSpec) (*BlockedPool, error) {
	p, err := NewPool(s)
	if err != nil {
		return nil, err
	}
	return &BlockedPool{p, p.strips.blocks}, nil
}

// Out returns the output's height and width.
func (q *BlockedPool) Out() [2]int { return q.p.Out() }

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
	g := &q.p.strips.g
	if err := needs("BlockedPool", "X", x, n*g.in[0]*g.in[1]*g.b); err != nil {
		return err
	}
	if err := needs("BlockedPool", "Y", y, n*g.out[0]*g.out[1]*g.b); err != nil {
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
	p := r.q.p
	g := &p.strips.g
	inN, outN := g.in[0]*g.in[1]*g.b, g.out[0]*g.out[1]*g.b
	y := r.y[i*outN:][:outN]
	p.rows(g, y, r.x[i*inN:][:inN], 0, g.out[0], 0)
	if have := p.s.Channels % g.b; have != 0 && i%r.q.blocks == r.q.blocks-1 {
		clearLanes(y, have, g.b) // windows of nothing but padding are −∞ or NaN
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
