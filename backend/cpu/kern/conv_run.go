package kern

// convRun is the state of one run; it is the Task of the pool.
type convRun struct {
	c     *Conv
	args  ConvArgs
	w     packedView
	ws    []byte // what is left of the workspace
	per   int    // bytes of it for one worker
	phase convPhase

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
	convPads               // copy a plane with its padding
)

var convRuns freeList[convRun]

// Run computes the convolution on at most threads threads. The workspace must
// have Workspace(threads) bytes. Y overlaps no operand but the residual.
func (c *Conv) Run(a ConvArgs, ws []byte, threads int) error {
	if c.s.Batch*c.s.OutC*c.outN == 0 {
		return nil
	}
	if err := c.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	r := convRuns.get()
	defer r.release()
	r.c, r.args = c, a
	s := newScratch(ws)
	if c.s.ConstW {
		r.w = a.Packed.packedView
	} else {
		r.w = packedView{data: s.floats(c.algo.size())}
		for i := range c.algo.pieces() { // in order: a piece writes into the slack after it
			at, _ := c.algo.span(i)
			c.algo.pack(r.w.data[at:], a.W, i)
		}
	}
	r.ws = s.rest
	c.algo.run(r, threads)
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
	if err := c.checkWeights(a); err != nil {
		return err
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

func (c *Conv) checkWeights(a *ConvArgs) error {
	switch {
	case !c.s.ConstW:
		return needs("Conv", "W", a.W, c.sourceLen())
	case a.Packed == nil || a.Packed.layout != c.algo.layout():
		return &SpecError{"Conv", "Packed", "missing, or packed for another layout"}
	}
	return nil
}

// overPool computes n tasks with so much of the workspace for each worker.
func (r *convRun) overPool(n, per, threads int) {
	r.per = per
	Parallel(n, min(threads, n), r)
}

// buffer is the workspace of a worker.
func (r *convRun) buffer(worker int) scratch {
	if r.per == 0 {
		return scratch{}
	}
	return newScratch(r.ws[worker*r.per:])
}

// Run does task i of the present phase.
func (r *convRun) Run(i, worker int) { r.c.algo.task(r, i, worker) }
