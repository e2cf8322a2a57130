package kern

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
	s          BlockedSpec
	algo       blockedAlgo
	directPlan // rows, tasks and weights of a direct convolution

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
	p := &BlockedConv{s: s, directPlan: newDirectPlan(c, s.PlainInput)}
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
	switch {
	case p.depthwise():
		p.algo = blockedDepth
		p.planDepth(weights)
	case p.wantsWinograd():
		p.algo = blockedWinograd
		p.planWinograd(weights)
	default:
		p.layOut(gemmTileWork)
		p.weights = alignedFloats(p.packedLen())
		for g := range c.s.Groups {
			p.packGroup(p.weights, weights, g)
		}
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
		Parallel(p.tasks(), threads, r)
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
		r.directRows(i)
	}
}

// directRows computes one task.
func (r *blockedRun) directRows(i int) {
	p, c := r.p, r.p.c
	k := p.task(i)
	a := p.args(p.weights, &k)
	a.outBlock = 4 * c.outN * p.b
	block := k.group*p.outBlocks + 2*k.pair
	e := &c.s.Epilogue
	if e.Bias != NoBias {
		a.flags |= directBias
		a.bias = ptr(r.bias, block*p.b)
	}
	if e.Residual {
		a.flags |= directRes
	}
	if c.clamp {
		a.flags |= directCut
	}
	out := r.image*p.outLen() + block*c.outN*p.b
	p.compute(&a, r.in, &k, r.args.Y, r.args.Residual, out+k.pixel*p.b)
	for j := range k.blocks {
		at := out + j*c.outN*p.b
		p.after(r.args.Y[at+k.pixel*p.b:][:k.pixels*p.b], at)
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
