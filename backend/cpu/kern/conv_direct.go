package kern

// Direct and Winograd convolution of plain images, by way of the blocked
// kernels: a direct task computes a few rows of a pair of output blocks into the
// cache and turns them into the plain layout there; Winograd converts whole
// images, which costs little beside what it saves.

// directWork is the size of a task of a plain output, in multiply-adds: larger
// than that of a blocked one, so that rows are written in longer runs.
const directWork = 4 << 20

// prefersDirect reports whether a convolution is better computed directly than
// as a product with patches: the direct kernels waste lanes where output
// channels do not fill blocks, the product where pixels do not fill its panels,
// and packing patches costs most where few output channels share them.
func (c *Conv) prefersDirect() bool {
	s := &c.s
	if c.t.level == LevelGeneric || s.In[0] != 1 || s.Kernel[0] != 1 || s.Stride[0] != 1 || s.Dilation[0] != 1 ||
		s.PadBegin[0] != 0 || s.PadEnd[0] != 0 || min(s.PadBegin[1], s.PadBegin[2], s.PadEnd[1], s.PadEnd[2]) < 0 {
		return false
	}
	if s.Batch == 0 || c.outN == 0 || c.icg == 0 || c.ocg == 0 {
		return false
	}
	if c.taps == 1 && c.t.mr < 8 && (c.inN > 1024 || s.Stride[1] > 1 || s.Stride[2] > 1) {
		return false // few pixels a call, each channel on a page of its own
	}
	b, nr := c.t.block(), c.t.nr
	blocks := ceilDiv(c.ocg, b)
	row := c.out[2]
	if c.taps == 1 && s.Stride[1] == 1 && s.Stride[2] == 1 {
		row = c.outN
	}
	sums := newSplit(row, c.t.mr).base * min(2, blocks) // independent sums of a call
	direct := float64(c.ocg) / float64(blocks*b) * min(1, float64(sums)/8)
	packing := 4.0
	if c.taps > 1 {
		packing = 12
	}
	product := float64(c.outN) / float64(ceilDiv(c.outN, nr)*nr) * float64(c.ocg) / (float64(c.ocg) + packing)
	if c.taps > 1 && c.out[2] < 16 {
		product *= 0.75 // many short segments
	}
	return direct >= product
}

// directPieces are the pieces of workspace of a direct convolution, in bytes:
// the padded bias, the padded image.
func (c *Conv) directPieces() (bias, image int) {
	if c.s.Epilogue.Bias != NoBias {
		bias = 4 * (c.s.OutC + 2*c.direct.b)
	}
	if c.direct.pad.needed() {
		image = 4 * c.direct.inPlanes * c.direct.pad.size()
	}
	return bias, image
}

// directPixels is the most pixels of a task.
func (c *Conv) directPixels() int {
	d := &c.direct
	if d.flat {
		return d.perTask * d.pieces.largest()
	}
	return d.perTask * d.rowLen
}

// runDirect does one image after the other.
func (r *convRun) runDirect(s *scratch, threads int) {
	c := r.c
	d := &c.direct
	nb, ni := c.directPieces()
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
			Parallel(d.inPlanes, threads, r)
			r.in, r.phase = padded, convComputes
		}
		Parallel(d.tasks(), c.workers(threads), r)
	}
}

// directTask computes one task and brings it into the plain layout.
func (r *convRun) directTask(i int, buf *scratch) {
	c, d := r.c, &r.c.direct
	e := &c.s.Epilogue
	k := d.task(i)
	channel := k.group*c.ocg + 2*k.pair*d.b
	a := d.args(r.weights, &k)
	a.outBlock = 4 * k.pixels * d.b
	if e.Bias != NoBias {
		a.flags |= directBias
		a.bias = ptr(r.bias, channel)
	}
	if c.clamp && !e.Residual {
		a.flags |= directCut
	}
	tile := buf.floats(2 * d.b * c.directPixels())[:k.blocks*k.pixels*d.b]
	d.compute(&a, r.in, &k, tile, nil, 0)
	to := (r.image*c.s.OutC+channel)*c.outN + k.pixel
	for j := range k.blocks {
		rest := *buf // each block takes the same room
		r.leave(tile[j*k.pixels*d.b:][:k.pixels*d.b], &rest, to+j*d.b*c.outN, min(d.b, c.ocg-(2*k.pair+j)*d.b), k.pixels)
	}
}

// planWinograd prepares the blocked convolution that a Winograd convolution of
// plain images runs; false if the shape does not allow one.
func (c *Conv) planWinograd(weights []float32) (bool, error) {
	if c.t.level == LevelGeneric || !c.prefersDirect() || c.s.Groups != 1 || !winogradFits(&c.s) {
		return false, nil
	}
	var err error
	c.wino, err = NewBlockedConv(BlockedSpec{ConvSpec: c.s}, weights)
	return err == nil, err
}

// winogradFits reports whether a specification asks for Winograd and its window
// allows it.
func winogradFits(s *ConvSpec) bool {
	return s.Winograd != WinogradOff && s.Winograd <= Winograd4 && s.Groups == 1 &&
		s.Kernel == [3]int{1, 3, 3} && s.Stride == [3]int{1, 1, 1} && s.Dilation == [3]int{1, 1, 1}
}

// winogradPieces are the floats of the blocked input and output.
func (c *Conv) winogradPieces() (in, out int) {
	return c.s.Batch * c.wino.inLen(), c.s.Batch * c.wino.outLen()
}

// runWinograd converts, convolves and converts back.
func (r *convRun) runWinograd(s *scratch, threads int) error {
	c := r.c
	n, m := c.winogradPieces()
	x, y := s.floats(n), s.floats(m)
	a := ConvArgs{X: x, Y: y, Bias: r.args.Bias}
	c.t.changeLayout(x, r.args.X, c.s.Batch, c.s.InC, c.inN, false, threads)
	if c.s.Epilogue.Residual { // the result takes its place
		c.t.changeLayout(y, r.args.Residual, c.s.Batch, c.s.OutC, c.outN, false, threads)
		a.Residual = y
	}
	if err := c.wino.Run(a, s.rest, threads); err != nil {
		return err
	}
	c.t.changeLayout(r.args.Y, y, c.s.Batch, c.s.OutC, c.outN, true, threads)
	return nil
}
