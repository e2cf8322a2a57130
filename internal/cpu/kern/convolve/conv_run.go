package convolve

import (
	"cmp"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// convRun is the state of one run; it is the Task of the pool.
type convRun struct {
	c     *Conv
	args  ConvArgs
	w     gemm.PackedView
	ws    []byte // the rest of the workspace, for the workers
	per   int    // bytes of it for one worker
	phase convPhase

	image int       // the image in work
	bias  []float32 // padded with zeros to whole blocks

	// Direct convolution.
	in     []float32 // the image, with its padding
	from   source    // what is padded
	padded []float32 // buffer of it

	tiles convMatrix // of a product with patches

	wino winoRun
}

// convPhase says what the tasks do.
type convPhase uint8

const (
	convComputes convPhase = iota
	convPads               // copy a plane with its padding
)

var convRuns machine.FreeList[convRun]

// Run computes the convolution on at most threads threads. The workspace must
// have Workspace(threads) bytes. Y overlaps no operand but the residual.
func (c *Conv) Run(a ConvArgs, ws []byte, threads int) error {
	if c.s.Batch*c.s.OutC*c.outN == 0 {
		return nil
	}
	if err := c.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	r := convRuns.Get()
	defer convRuns.Release(r)
	r.c, r.args = c, a
	s := machine.NewScratch(ws)
	if c.s.ConstW {
		r.w = a.Packed.PackedView
	} else {
		if given == nil {
			r.w = gemm.PackedView{Data: s.Floats(c.weights.Size)}
			c.weights.PackInOrder(r.w.Data, a.W)
		} else {
			s = given.pack(r, s)
		}
	}
	r.ws = s.Rest
	if c.turned || c.each < c.s.Batch {
		given.rounds(r, threads)
	} else {
		c.algo.run(r, threads)
	}
	return nil
}

func (c *Conv) checkArgs(a *ConvArgs, ws []byte, threads int) error {
	s := &c.s
	var images error
	if s.Half == NoHalf {
		images = checkImages(c, a.X, a.Y, a.Residual)
	} else {
		images = checkImages(c, a.Halves.X, a.Halves.Y, a.Halves.Residual)
	}
	return cmp.Or(
		images,
		c.checkWeights(a),
		machine.Needs("Conv", "bias", a.Bias, s.Epilogue.BiasLen(s.OutC, 0)),
		machine.Needs("Conv", "workspace", ws, c.Workspace(threads)),
	)
}

func checkImages[E any](c *Conv, x, y, residual []E) error {
	in, out := c.s.Batch*c.inImage(), c.s.Batch*c.outImage()
	return cmp.Or(
		machine.Needs("Conv", "X", x, in),
		machine.Needs("Conv", "Y", y, out),
		machine.Needs("Conv", "residual", residual, c.s.Epilogue.ResidualLen(out)),
	)
}

func (c *Conv) checkWeights(a *ConvArgs) error {
	switch {
	case !c.s.ConstW:
		return machine.Needs("Conv", "W", a.W, c.weightLen())
	case a.Packed == nil || a.Packed.Order != c.weights.Layout:
		return &machine.SpecError{Kernel: "Conv", Field: "Packed", Why: "missing, or packed for another layout"}
	}
	return nil
}

// overPool computes n tasks on the worker pool, with per bytes of workspace for each worker.
func (r *convRun) overPool(n, per, threads int) {
	r.per = per
	machine.Parallel(n, min(threads, n), r)
}

// buffer is the workspace of one worker.
func (r *convRun) buffer(worker int) machine.Scratch {
	if r.per == 0 {
		return machine.Scratch{}
	}
	return machine.NewScratch(r.ws[worker*r.per:])
}

// Run does task i of the present phase.
func (r *convRun) Run(i, worker int) {
	if !machine.Closed(r.args.Done) {
		r.c.algo.task(r, i, worker)
	}
}
