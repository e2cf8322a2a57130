package kern

// Direct and Winograd convolution of plain images, by way of the blocked
// kernels: a direct task computes a few rows of a pair of output blocks into the
// cache and turns them into the plain layout there; Winograd converts whole
// images, which costs little beside what it saves.

// directWork is the size of a task of a plain output, in multiply-adds: larger
// than that of a blocked one, so that rows are written in longer runs.
const directWork = 4 << 20

// directConv computes plain images directly.
type directConv struct{ directPlan }

func newDirectConv(g *geometry) *directConv {
	c := &directConv{newDirectPlan(g, true)}
	c.layOut(directWork)
	return c
}

// extra are the pieces of workspace beside that of the workers, in bytes: the padded
// bias, the padded image.
func (c *directConv) extra() (bias, image int) {
	if c.s.Epilogue.Bias != NoBias {
		bias = 4 * (c.s.OutC + 2*c.b)
	}
	if c.pad.needed() {
		image = 4 * c.inPlanes * c.pad.size()
	}
	return bias, image
}

// pixels is the most pixels of a task.
func (c *directConv) pixels() int {
	if c.flat {
		return c.perTask * c.cuts.largest()
	}
	return c.perTask * c.rowLen
}

func (c *directConv) perWorker() int {
	return scratchBytes(8*c.b*c.pixels(), 4*c.leaveLen(c.pixels()))
}

func (c *directConv) workspace(threads int) int {
	bias, image := c.extra()
	return c.perWorker()*max(1, min(threads, c.tasks())) + scratchBytes(bias, image)
}

// run does one image after the other.
func (c *directConv) run(r *convRun, threads int) {
	s := newScratch(r.ws)
	nb, ni := c.extra()
	if nb > 0 {
		r.bias = s.floats(nb / 4)
		clear(r.bias[copy(r.bias, r.args.Bias[:c.s.OutC]):])
	}
	padded := s.floats(ni / 4)
	r.ws = s.rest
	for r.image = range c.s.Batch {
		r.in = r.args.X[r.image*c.s.InC*c.inN:]
		if ni > 0 {
			r.padded, r.phase = padded, convPads
			Parallel(c.inPlanes, threads, r)
			r.in, r.phase = padded, convComputes
		}
		r.overPool(c.tasks(), c.perWorker(), threads)
	}
}

// task computes one task and brings it into the plain layout, or pads a plane.
func (c *directConv) task(r *convRun, i, worker int) {
	if r.phase == convPads {
		c.pad.plane(r.padded[i*c.pad.size():], r.in[i*c.inN:])
		return
	}
	buf := r.buffer(worker)
	e := &c.s.Epilogue
	k := c.directPlan.task(i)
	channel := k.group*c.ocg + 2*k.pair*c.b
	a := c.args(&r.w, &k)
	a.outBlock = 4 * k.pixels * c.b
	if e.Bias != NoBias {
		a.flags |= directBias
		a.bias = ptr(r.bias, channel)
	}
	if c.clamp && !e.Residual {
		a.flags |= directCut
	}
	tile := buf.floats(2 * c.b * c.pixels())[:k.blocks*k.pixels*c.b]
	c.compute(&a, r.in, &k, tile, nil, 0)
	to := (r.image*c.s.OutC+channel)*c.outN + k.pixel
	for j := range k.blocks {
		rest := buf // each block takes the same room
		r.leave(tile[j*k.pixels*c.b:][:k.pixels*c.b], &rest, to+j*c.b*c.outN, min(c.b, c.ocg-(2*k.pair+j)*c.b), k.pixels)
	}
}

// winogradConv computes plain images by Winograd's algorithm, which is at home in the
// blocked layout: it converts the image, computes, and converts the result.
type winogradConv struct{ *winograd }

func newWinogradConv(g *geometry, form Winograd) winogradConv {
	return winogradConv{newWinograd(newBlockedGeometry(g, false), form)}
}

// lens are the floats of the blocked input and output.
func (c winogradConv) lens() (in, out int) { return c.s.Batch * c.inLen(), c.s.Batch * c.outLen() }

func (c winogradConv) workspace(threads int) int {
	in, out := c.lens()
	return scratchBytes(4*in, 4*out, c.blockedWorkspace(c.winograd, threads))
}

func (c winogradConv) run(r *convRun, threads int) {
	s := newScratch(r.ws)
	n, m := c.lens()
	x, y := s.floats(n), s.floats(m)
	a := ConvArgs{X: x, Y: y, Bias: r.args.Bias}
	c.t.changeLayout(x, r.args.X, c.s.Batch, c.s.InC, c.inN, false, threads)
	if c.s.Epilogue.Residual { // the result takes its place
		c.t.changeLayout(y, r.args.Residual, c.s.Batch, c.s.OutC, c.outN, false, threads)
		a.Residual = y
	}
	runBlocked(c.blockedGeometry, c.winograd, r.w, a, s.rest, threads)
	c.t.changeLayout(r.args.Y, y, c.s.Batch, c.s.OutC, c.outN, true, threads)
}

// task is not called: the tasks are those of the blocked run.
func (winogradConv) task(*convRun, int, int) {}
