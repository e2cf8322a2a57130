package kern

// Convolution in the channel-blocked layout.
//
// Each of a row's outputs is a sum over blocks of input channels, kernel rows
// and taps; a direct kernel computes up to 14 neighbouring pixels of two blocks
// of channels and keeps them in registers throughout:
//
//	for pairs of output blocks          weights of a pair stay in the L2 cache
//	  for output rows
//	    for pieces of a row             one call: all input channels, all taps
//
// The input is first copied with its padding written out (unless it has none),
// so no kernel ever tests for borders. A pointwise convolution takes the whole
// image for one row.

// BlockedSpec describes a convolution in the blocked layout. Input and output
// are blocked; depth must be one and padding not negative.
type BlockedSpec struct {
	ConvSpec
	PlainInput bool // the input is in the plain layout (first layers)
}

// blockedAlgo is the way a blocked convolution is computed.
type blockedAlgo uint8

const (
	blockedDirect blockedAlgo = iota
	blockedDepth
	blockedWinograd
)

var blockedAlgoNames = [...]string{"blocked direct", "blocked depthwise", "blocked winograd"}

// BlockedConv is a prepared convolution. It is immutable.
type BlockedConv struct {
	c    *Conv // geometry
	s    BlockedSpec
	t    *table
	algo blockedAlgo
	b    int // channels of a block

	inBlocks, outBlocks int // of a group
	maxT                int // pixels of a kernel call
	flat                bool
	pad                 paddedCopy
	inPlanes            int // planes of one image: blocks, or channels if plain
	width               int // floats of an input pixel in a plane
	rowLen              int // output pixels of a row
	rows                int // output rows
	pieces              split
	perTask             int // rows of a task
	rowTasks            int
	rowsFirst           bool // neighbouring tasks share rows rather than weights

	weights []float32
	pairLen int  // floats of a pair of blocks' weights
	clears  bool // the activation makes padding channels differ from zero

	depth tapGrid
	cuts  int // strips of rows of a depthwise convolution
	wino  winoPlan
}

// NewBlockedConv prepares a convolution at the active level; weights are OIHW.
func NewBlockedConv(s BlockedSpec, weights []float32) (*BlockedConv, error) {
	c := &Conv{s: s.ConvSpec, t: active.Load()}
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &BlockedConv{c: c, s: s, t: c.t, b: c.t.block()}
	p.s.ConvSpec = c.s
	if err := p.checkBlocked(); err != nil {
		return nil, err
	}
	if err := needs("BlockedConv", "weights", weights, c.weightLen()); err != nil {
		return nil, err
	}
	c.lo, c.hi, c.clamp = c.s.Epilogue.clamp()
	c.after = c.s.Epilogue.after()
	p.clears = c.s.OutC%p.b != 0 && !keepsZero(&c.s.Epilogue)
	p.inBlocks, p.outBlocks = ceilDiv(c.icg, p.b), ceilDiv(c.ocg, p.b)
	switch {
	case p.depthwise():
		p.algo = blockedDepth
		p.planDepth(weights)
	case p.wantsWinograd():
		p.algo = blockedWinograd
		p.planWinograd(weights)
	default:
		p.planDirect()
		p.packDirect(weights)
	}
	return p, nil
}

// keepsZero reports whether an activation maps zero to zero.
func keepsZero(e *Epilogue) bool {
	x := []float32{0}
	unaryGeneric(e.Act, x, x, e.P0, e.P1)
	return x[0] == 0
}

func (p *BlockedConv) depthwise() bool {
	c := p.c
	return c.s.Groups > 1 && c.icg == 1 && c.ocg == 1 && !p.s.PlainInput
}

func (p *BlockedConv) checkBlocked() error {
	c, s := p.c, &p.c.s
	if s.In[0] != 1 || s.Kernel[0] != 1 || s.PadBegin[0] != 0 || s.PadEnd[0] != 0 || s.Stride[0] != 1 {
		return &SpecError{"BlockedConv", "In", "depth must be one"}
	}
	if s.PadBegin[1] < 0 || s.PadBegin[2] < 0 || s.PadEnd[1] < 0 || s.PadEnd[2] < 0 {
		return &SpecError{"BlockedConv", "Pad", "must not be negative"}
	}
	if s.Batch < 1 || s.InC < 1 || s.OutC < 1 {
		return &SpecError{"BlockedConv", "Batch", "must not be empty"}
	}
	aligned := c.icg%p.b == 0 && c.ocg%p.b == 0
	if s.Groups > 1 && !p.depthwise() && (!aligned || p.s.PlainInput) {
		return &SpecError{"BlockedConv", "Groups", "a group must consist of whole blocks, or be one channel"}
	}
	return nil
}

// planDirect lays out the rows and tasks of a direct convolution.
func (p *BlockedConv) planDirect() {
	c, s := p.c, &p.c.s
	p.width, p.inPlanes = p.b, s.Groups*p.inBlocks
	if p.s.PlainInput {
		p.width, p.inPlanes = 1, s.InC
	}
	p.maxT = p.t.mr
	p.pad = paddedCopy{
		rows: s.In[1], cols: s.In[2], top: s.PadBegin[1], left: s.PadBegin[2], width: p.width,
		pRows: (c.out[1]-1)*s.Stride[1] + (s.Kernel[1]-1)*s.Dilation[1] + 1,
		pCols: (c.out[2]-1)*s.Stride[2] + (s.Kernel[2]-1)*s.Dilation[2] + 1,
	}
	if !p.pad.needed() { // read in place, rows as they are
		p.pad.pRows, p.pad.pCols = s.In[1], s.In[2]
	}
	p.rows, p.rowLen = c.out[1], c.out[2]
	if c.taps == 1 && s.Stride == [3]int{1, 1, 1} && !p.pad.needed() {
		p.flat, p.rows, p.rowLen = true, 1, c.outN
	}
	p.pieces = newSplit(p.rowLen, p.maxT)
	p.pairLen = c.icg * c.taps * 2 * p.b
	if !p.s.PlainInput {
		p.pairLen = p.inBlocks * p.b * c.taps * 2 * p.b
	}
	p.cutTasks()
}

// cutTasks divides rows (or, of a flat image, pieces of the one row) over
// tasks.
func (p *BlockedConv) cutTasks() {
	c := p.c
	units, unit := p.rows, p.rowLen
	if p.flat {
		units, unit = p.pieces.p, p.pieces.largest()
	}
	work := unit * 2 * p.b * c.icg * c.taps
	p.perTask = max(1, min(units, ceilDiv(gemmTileWork, max(1, work))))
	p.perTask = newSplit(units, p.perTask).largest()
	p.rowTasks = ceilDiv(units, p.perTask)
	const small = 1 << 17 // floats of weights that stay in the L2 cache
	p.rowsFirst = p.pairLen*ceilDiv(p.outBlocks, 2) <= small
}

// pairs is the number of pairs of output blocks in a group; the last may be a
// single block.
func (p *BlockedConv) pairs() int { return ceilDiv(p.outBlocks, 2) }

// packDirect lays out the weights: for each group and pair of blocks, input
// channel blocks, kernel rows, taps, channels of the block, two blocks.
func (p *BlockedConv) packDirect(w []float32) {
	c, b := p.c, p.b
	p.weights = alignedFloats(c.s.Groups * p.pairs() * p.pairLen)
	inner := b
	if p.s.PlainInput {
		inner = 1
	}
	for g := range c.s.Groups {
		for pair := range p.pairs() {
			dst := p.weights[(g*p.pairs()+pair)*p.pairLen:]
			blocks := min(2, p.outBlocks-2*pair)
			for k := range ceilDiv(c.icg, inner) * c.taps * inner {
				ic := k/inner/c.taps*inner + k%inner
				tap := k / inner % c.taps
				for j := range blocks * b {
					oc := pair*2*b + j
					if ic < c.icg && oc < c.ocg {
						dst[k*blocks*b+j] = w[((g*c.ocg+oc)*c.icg+ic)*c.taps+tap]
					}
				}
			}
		}
	}
}

// Out returns the spatial extents of the output.
func (p *BlockedConv) Out() [3]int { return p.c.out }

// Algorithm names the way the convolution is computed.
func (p *BlockedConv) Algorithm() string { return blockedAlgoNames[p.algo] }

// FLOPs returns the operations of the plain definition.
func (p *BlockedConv) FLOPs() int { return p.c.FLOPs() }

// WeightBytes returns the memory held by packed weights.
func (p *BlockedConv) WeightBytes() int { return 4 * len(p.weights) }

// inLen and outLen are the elements of one image.
func (p *BlockedConv) inLen() int {
	if p.s.PlainInput {
		return p.c.s.InC * p.c.inN
	}
	return ceilDiv(p.c.s.InC, p.b) * p.b * p.c.inN
}

func (p *BlockedConv) outLen() int { return ceilDiv(p.c.s.OutC, p.b) * p.b * p.c.outN }

// biasLen is the room for a padded copy of the bias; zero if it needs none.
func (p *BlockedConv) biasLen() int {
	if p.c.s.Epilogue.Bias == NoBias || p.c.s.OutC%p.b == 0 {
		return 0
	}
	return ceilDiv(p.c.s.OutC, p.b) * p.b
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (p *BlockedConv) Workspace(threads int) int {
	n := 0
	switch {
	case p.algo == blockedWinograd:
		n = p.winoBytes(threads)
	case p.algo == blockedDirect && p.pad.needed():
		n = 4 * p.inPlanes * p.pad.size()
	}
	return scratchBytes(4*p.biasLen(), n)
}

// blockedRun is the state of one run; it is a Task.
type blockedRun struct {
	p       *BlockedConv
	args    ConvArgs
	bias    []float32 // padded
	image   int
	in      []float32 // the image, with its padding
	padded  []float32 // room for it
	packing bool      // tasks copy planes there
	wino    winoRun
}

var blockedRuns freeList[blockedRun]

// Run computes the convolution on at most threads threads. X (unless plain), Y
// and the residual are blocked; Bias has one value for each channel. The
// workspace must have Workspace(threads) bytes. Y overlaps no operand but the
// residual.
func (p *BlockedConv) Run(a ConvArgs, ws []byte, threads int) error {
	if err := p.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	r := blockedRuns.get()
	defer func() {
		*r = blockedRun{}
		blockedRuns.put(r)
	}()
	r.p, r.args, r.bias = p, a, a.Bias
	s := newScratch(ws)
	if n := p.biasLen(); n > 0 {
		r.bias = s.floats(n)
		clear(r.bias[copy(r.bias, a.Bias[:p.c.s.OutC]):])
	}
	switch p.algo {
	case blockedWinograd:
		p.runWinograd(r, &s, threads)
	case blockedDepth:
		Parallel(p.c.s.Batch*ceilDiv(p.c.s.OutC, p.b)*p.cuts, threads, r)
	default:
		p.runDirect(r, &s, threads)
	}
	return nil
}

// runDirect does one image after the other: the padded copy of one is all the
// workspace there is.
func (p *BlockedConv) runDirect(r *blockedRun, s *scratch, threads int) {
	var padded []float32
	if p.pad.needed() {
		padded = s.floats(p.inPlanes * p.pad.size())
	}
	for r.image = range p.c.s.Batch {
		r.in = r.args.X[r.image*p.inLen():]
		if padded != nil {
			r.padded, r.packing = padded, true
			Parallel(p.inPlanes, threads, r)
			r.in, r.packing = padded, false
		}
		Parallel(p.c.s.Groups*p.pairs()*p.rowTasks, threads, r)
	}
}

func (p *BlockedConv) checkArgs(a *ConvArgs, ws []byte, threads int) error {
	s := &p.c.s
	if err := needs("BlockedConv", "X", a.X, s.Batch*p.inLen()); err != nil {
		return err
	}
	if err := needs("BlockedConv", "Y", a.Y, s.Batch*p.outLen()); err != nil {
		return err
	}
	if s.Epilogue.Bias != NoBias {
		if err := needs("BlockedConv", "bias", a.Bias, s.OutC); err != nil {
			return err
		}
	}
	if s.Epilogue.Residual {
		if err := needs("BlockedConv", "residual", a.Residual, s.Batch*p.outLen()); err != nil {
			return err
		}
	}
	return needs("BlockedConv", "workspace", ws, p.Workspace(threads))
}

// Run does task i of the present phase.
func (r *blockedRun) Run(i, worker int) {
	p := r.p
	switch {
	case p.algo == blockedWinograd:
		r.winoTask(i, worker)
	case p.algo == blockedDepth:
		r.depthTask(i)
	case r.packing:
		p.pad.plane(r.padded[i*p.pad.size():], r.in[i*p.c.inN*p.width:])
	default:
		r.directTask(i)
	}
}

// directTask computes a few rows of a pair of blocks.
func (r *blockedRun) directTask(i int) {
	p, c, s := r.p, r.p.c, &r.p.c.s
	pairsAll := s.Groups * p.pairs()
	gp, rt := i/p.rowTasks, i%p.rowTasks
	if p.rowsFirst {
		gp, rt = i%pairsAll, i/pairsAll
	}
	group, pair := gp/p.pairs(), gp%p.pairs()
	blocks := min(2, p.outBlocks-2*pair)
	block := group*p.outBlocks + 2*pair
	in := r.in
	if p.s.PlainInput {
		in = in[group*c.icg*p.pad.size():]
	} else {
		in = in[group*p.inBlocks*p.pad.size():]
	}
	line := 4 * p.pad.pCols * p.width
	a := directArgs{
		w: ptr(p.weights, gp*p.pairLen), ic: p.inBlocks, kh: s.Kernel[1], kw: s.Kernel[2],
		plane: 4 * p.pad.size(), row: line * s.Dilation[1], tap: 4 * p.width * s.Dilation[2], pixel: 4 * p.width * s.Stride[2],
		outBlock: 4 * c.outN * p.b, lo: c.lo, hi: c.hi,
	}
	if p.s.PlainInput {
		a.ic = c.icg
	}
	r.epilogue(&a, block)
	out := r.image*p.outLen() + block*c.outN*p.b
	u0 := rt * p.perTask
	if p.flat {
		p.directPieces(&a, r, in, 0, u0, min(u0+p.perTask, p.pieces.p), blocks, out)
		return
	}
	for y := u0; y < min(u0+p.perTask, p.rows); y++ {
		p.directPieces(&a, r, in, y, 0, p.pieces.p, blocks, out)
	}
}

// epilogue sets what follows the sums.
func (r *blockedRun) epilogue(a *directArgs, block int) {
	e := &r.p.c.s.Epilogue
	if e.Bias != NoBias {
		a.flags |= directBias
		a.bias = ptr(r.bias, block*r.p.b)
	}
	if e.Residual {
		a.flags |= directRes
	}
	if r.p.c.clamp {
		a.flags |= directCut
	}
}

// directPieces computes pieces q0..q1 of output row y.
func (p *BlockedConv) directPieces(a *directArgs, r *blockedRun, in []float32, y, q0, q1, blocks, out int) {
	c := p.c
	for q := q0; q < q1; q++ {
		x, n := p.pieces.part(q)
		at := out + (y*p.rowLen+x)*p.b
		a.in = ptr(in, (y*c.s.Stride[1]*p.pad.pCols+x*c.s.Stride[2])*p.width)
		a.out = ptr(r.args.Y, at)
		if a.flags&directRes != 0 {
			a.res = ptr(r.args.Residual, at)
		}
		p.t.direct(n, blocks, p.s.PlainInput, a)
		for j := range blocks {
			p.after(r.args.Y[at+j*c.outN*p.b:][:n*p.b], out+j*c.outN*p.b)
		}
	}
}

// after applies what kernels do not: activations that are no clamps, and zeros
// in the padding channels where the activation spoils them. blockAt is the
// element of Y at which the block starts.
func (p *BlockedConv) after(y []float32, blockAt int) {
	e := &p.c.s.Epilogue
	if p.c.after != Identity {
		p.t.unaryRow(p.c.after, y, y, e.P0, e.P1)
	}
	if blockAt%p.outLen() == (ceilDiv(p.c.s.OutC, p.b)-1)*p.c.outN*p.b && p.clears {
		clearLanes(y, p.c.s.OutC%p.b, p.b)
	}
}
