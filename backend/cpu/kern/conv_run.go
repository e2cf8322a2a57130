package kern

// convRun is the state of one run; it is the Task of the pool.
type convRun struct {
	c       *Conv
	args    ConvArgs
	weights []float32 // packed
	ws      []byte
	per     int // bytes of workspace of one worker
	phase   convPhase

	// Direct convolution.
	image  int
	in     []float32 // the image, with its padding
	padded []float32 // room for it
	bias   []float32 // with a block of zeros after it
}

// convPhase says what the tasks do.
type convPhase uint8

const (
	convComputes convPhase = iota
	convPacks              // pack the weights of a group
	convPads               // copy a plane with its padding
)

var convRuns freeList[convRun]

// Run computes the convolution on at most threads threads. The workspace must
// have Workspace(threads) bytes. Y overlaps no operand but the residual.
func (c *Conv) Run(a ConvArgs, ws []byte, threads int) error {
	if c.tasks() == 0 || c.outN == 0 {
		return nil
	}
	if err := c.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	r := convRuns.get()
	defer r.release()
	r.c, r.args, r.weights, r.per = c, a, c.weights, c.perWorker()
	s := newScratch(ws)
	if c.wino == nil && c.weights == nil {
		r.weights, r.phase = s.floats(c.packedLen()), convPacks
		for g := range c.s.Groups { // in order: a group writes into the slack after it
			r.Run(g, 0)
		}
		r.phase = convComputes
	}
	switch c.algo {
	case convWinograd:
		return r.runWinograd(&s, threads)
	case convDirect:
		r.runDirect(&s, threads)
	default:
		r.ws = s.rest
		Parallel(c.tasks(), c.workers(threads), r)
	}
	return nil
}

func (r *convRun) release() {
	*r = convRun{}
	convRuns.put(r)
}

func (c *Conv) checkArgs(a *ConvArgs, ws []byte, threads int) error {
	s := &c.s
	if err := needs("Conv", "X", a.X, s.Batch*s.InC*c.inN); err != nil {
		return err
	}
	if c.wino == nil && c.weights == nil {
		if err := needs("Conv", "W", a.W, c.weightLen()); err != nil {
			return err
		}
	}
	if err := needs("Conv", "Y", a.Y, s.Batch*s.OutC*c.outN); err != nil {
		return err
	}
	if s.Epilogue.Bias == BiasPerRow {
		if err := needs("Conv", "bias", a.Bias, s.OutC); err != nil {
			return err
		}
	}
	if s.Epilogue.Residual {
		if err := needs("Conv", "residual", a.Residual, s.Batch*s.OutC*c.outN); err != nil {
			return err
		}
	}
	return needs("Conv", "workspace", ws, c.Workspace(threads))
}

// Run does task i of the present phase.
func (r *convRun) Run(i, worker int) {
	c := r.c
	switch r.phase {
	case convPacks:
		c.packGroup(r.weights, r.args.W, i)
		return
	case convPads:
		c.direct.pad.plane(r.padded[i*c.direct.pad.size():], r.in[i*c.inN:])
		return
	}
	var buf scratch
	if r.per > 0 {
		buf = newScratch(r.ws[worker*r.per:])
	}
	switch c.algo {
	case convDepthwise:
		r.depthTask(i, &buf)
	case convDirect:
		r.directTask(i, &buf)
	default:
		r.matrixTask(i, &buf)
	}
}
