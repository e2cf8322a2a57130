package kern

import "context"

// BlockedSpec describes a convolution in the blocked layout. Input and output
// are blocked; depth must be one and padding not negative.
type BlockedSpec struct {
	ConvSpec
	PlainInput bool     // the input is in the plain layout (first layers)
	Winograd   Winograd // for 3×3 kernels of stride and dilation one: see winograd.go
}

// blockedGeometry is the geometry of a convolution whose result is blocked.
type blockedGeometry struct {
	*geometry
	b       int  // channels of a block
	plainIn bool // the input is in the plain layout
	clears  bool // the activation makes padding channels differ from zero

	inBlocks, outBlocks int // of a group
	maxT                int // pixels of a kernel call
}

func newBlockedGeometry(g *geometry, plainIn bool) *blockedGeometry {
	b := g.t.block()
	return &blockedGeometry{geometry: g, b: b, plainIn: plainIn, maxT: g.t.mr, inBlocks: ceilDiv(g.icg, b), outBlocks: ceilDiv(g.ocg, b),
		clears: g.s.OutC%b != 0 && !keepsZero(&g.s.Epilogue)}
}

// keepsZero reports whether an activation maps zero to zero.
func keepsZero(e *Epilogue) bool {
	x := []float32{0}
	unaryGeneric(e.Act, x, x, e.P0, e.P1)
	return x[0] == 0
}

// pairs is the number of pairs of output blocks in a group; the last may be a
// single block.
func (p *blockedGeometry) pairs() int { return ceilDiv(p.outBlocks, 2) }

// inLen and outLen are the elements of one image.
func (p *blockedGeometry) inLen() int {
	if p.plainIn {
		return p.s.InC * p.inN
	}
	return ceilDiv(p.s.InC, p.b) * p.b * p.inN
}

func (p *blockedGeometry) outLen() int { return ceilDiv(p.s.OutC, p.b) * p.b * p.outN }

// biasLen is the room for a padded copy of the bias; zero if it needs none.
func (p *blockedGeometry) biasLen() int {
	if p.s.Epilogue.Bias == NoBias || p.s.OutC%p.b == 0 {
		return 0
	}
	return ceilDiv(p.s.OutC, p.b) * p.b
}

// bounds returns the clamp of the epilogue.
func (p *blockedGeometry) bounds() (lo, hi float32) {
	if p.clamp {
		return p.lo, p.hi
	}
	return negInf, posInf
}

// finish applies what kernels do not: activations that are no clamps, and zeros
// in the padding channels where the activation spoils them. blockAt is the
// element of Y at which the block starts.
func (p *blockedGeometry) finish(y []float32, blockAt int) {
	e := &p.s.Epilogue
	if p.after != Identity {
		p.t.unaryRow(p.after, y, y, e.P0, e.P1)
	}
	if blockAt%p.outLen() == (ceilDiv(p.s.OutC, p.b)-1)*p.outN*p.b && p.clears {
		clearLanes(y, p.s.OutC%p.b, p.b)
	}
}

// blockedAlgorithm computes convolutions of the blocked layout in one way.
type blockedAlgorithm interface {
	packer
	workspaceBlocked(threads int) int // bytes
	runBlocked(r *blockedRun, threads int)
	taskBlocked(r *blockedRun, i, worker int) // of the pool
	name() string
}

// blockedWorkspace is the workspace of a run with an algorithm.
func (p *blockedGeometry) blockedWorkspace(a blockedAlgorithm, threads int) int {
	return scratchBytes(4*p.biasLen(), a.workspaceBlocked(threads))
}

// BlockedConv is a prepared convolution. It is immutable.
type BlockedConv struct {
	*blockedGeometry
	algo blockedAlgorithm
}

// NewBlockedConv prepares a convolution at the active level.
func NewBlockedConv(s BlockedSpec) (*BlockedConv, error) {
	g, err := newGeometry(s.ConvSpec)
	if err != nil {
		return nil, err
	}
	p := &BlockedConv{blockedGeometry: newBlockedGeometry(g, s.PlainInput)}
	if err := p.checkBlocked(); err != nil {
		return nil, err
	}
	switch {
	case p.depthwise():
		p.algo = newBlockedDepth(p.blockedGeometry)
	case !s.PlainInput && s.Winograd != WinogradOff && g.s.Groups == 1 && g.slidesByOne():
		p.algo = newWinograd(p.blockedGeometry, s.Winograd)
	default:
		d := &blockedDirect{directPlan{blockedGeometry: p.blockedGeometry}}
		d.layOut(gemmTileWork)
		p.algo = d
	}
	return p, nil
}

func (p *blockedGeometry) depthwise() bool {
	return p.s.Groups > 1 && p.icg == 1 && p.ocg == 1 && !p.plainIn
}

func (p *blockedGeometry) checkBlocked() error {
	s := &p.s
	if s.In[0] != 1 || s.Kernel[0] != 1 || s.PadBegin[0] != 0 || s.PadEnd[0] != 0 || s.Stride[0] != 1 {
		return &SpecError{"BlockedConv", "In", "depth must be one"}
	}
	if s.PadBegin[1] < 0 || s.PadBegin[2] < 0 || s.PadEnd[1] < 0 || s.PadEnd[2] < 0 {
		return &SpecError{"BlockedConv", "Pad", "must not be negative"}
	}
	if s.Batch < 1 || s.InC < 1 || s.OutC < 1 {
		return &SpecError{"BlockedConv", "Batch", "must not be empty"}
	}
	aligned := p.icg%p.b == 0 && p.ocg%p.b == 0
	if s.Groups > 1 && !p.depthwise() && (!aligned || p.plainIn) {
		return &SpecError{"BlockedConv", "Groups", "a group must consist of whole blocks, or be one channel"}
	}
	return nil
}

// Algorithm names the way the convolution is computed.
func (p *BlockedConv) Algorithm() string { return p.algo.name() }

// PackW lays the weights (OIHW) out. A splat is written out: padding channels of the
// result must be zero.
func (p *BlockedConv) PackW(ctx context.Context, w Source) (*Packed, error) {
	return packAll(ctx, "BlockedConv", p.algo, dense(w.elements(p.sourceLen())))
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (p *BlockedConv) Workspace(threads int) int { return p.blockedWorkspace(p.algo, threads) }

// blockedRun is the state of one run; it is a Task.
type blockedRun struct {
	algo    blockedAlgorithm
	w       packedView
	args    ConvArgs
	bias    []float32 // padded
	image   int
	in      []float32 // the image, with its padding
	padded  []float32 // room for it
	packing bool      // tasks copy planes there
	wino    winoRun
	ws      []byte // what is left of the workspace
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
	runBlocked(p.blockedGeometry, p.algo, a.Packed.packedView, a, ws, threads)
	return nil
}

// runBlocked runs an algorithm over operands that were checked.
func runBlocked(p *blockedGeometry, algo blockedAlgorithm, w packedView, a ConvArgs, ws []byte, threads int) {
	r := blockedRuns.get()
	defer func() {
		*r = blockedRun{}
		blockedRuns.put(r)
	}()
	r.algo, r.w, r.args, r.bias = algo, w, a, a.Bias
	s := newScratch(ws)
	if n := p.biasLen(); n > 0 {
		r.bias = s.floats(n)
		clear(r.bias[copy(r.bias, a.Bias[:p.s.OutC]):])
	}
	r.ws = s.rest
	algo.runBlocked(r, threads)
}

func (p *BlockedConv) checkArgs(a *ConvArgs, ws []byte, threads int) error {
	s := &p.s
	if err := needs("BlockedConv", "X", a.X, s.Batch*p.inLen()); err != nil {
		return err
	}
	if a.Packed == nil || a.Packed.layout != p.algo.layout() {
		return &SpecError{"BlockedConv", "Packed", "missing, or packed for another layout"}
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
func (r *blockedRun) Run(i, worker int) { r.algo.taskBlocked(r, i, worker) }

// blockedDirect convolves directly.
type blockedDirect struct{ directPlan }

func (p *blockedDirect) name() string { return "blocked direct" }

func (p *blockedDirect) workspaceBlocked(int) int {
	if !p.pad.needed() {
		return 0
	}
	return 4 * p.inPlanes * p.pad.size()
}

// runBlocked does one image after the other: the padded copy of one is all the
// workspace there is.
func (p *blockedDirect) runBlocked(r *blockedRun, threads int) {
	var padded []float32
	if p.pad.needed() {
		s := newScratch(r.ws)
		padded = s.floats(p.inPlanes * p.pad.size())
	}
	for r.image = range p.s.Batch {
		r.in = r.args.X[r.image*p.inLen():]
		if padded != nil {
			r.padded, r.packing = padded, true
			Parallel(p.inPlanes, threads, r)
			r.in, r.packing = padded, false
		}
		Parallel(p.tasks(), threads, r)
	}
}

// taskBlocked computes one task, or pads a plane.
func (p *blockedDirect) taskBlocked(r *blockedRun, i, _ int) {
	if r.packing {
		p.pad.plane(r.padded[i*p.pad.size():], r.in[i*p.inN*p.width:])
		return
	}
	k := p.task(i)
	a := p.args(&r.w, &k)
	a.outBlock = 4 * p.outN * p.b
	block := k.group*p.outBlocks + 2*k.pair
	e := &p.s.Epilogue
	if e.Bias != NoBias {
		a.flags |= directBias
		a.bias = ptr(r.bias, block*p.b)
	}
	if e.Residual {
		a.flags |= directRes
	}
	if p.clamp {
		a.flags |= directCut
	}
	out := r.image*p.outLen() + block*p.outN*p.b
	p.compute(&a, r.in, &k, r.args.Y, r.args.Residual, out+k.pixel*p.b)
	for j := range k.blocks {
		at := out + j*p.outN*p.b
		p.finish(r.args.Y[at+k.pixel*p.b:][:k.pixels*p.b], at)
	}
}
