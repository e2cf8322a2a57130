package kern

// Convolution as a matrix product.
//
//	            output pixels, flat over rows
//	          ┌────────────────────────────┐
//	 channels │ Y  =  W · P                │   W: output channels × (tap, input channel)
//	          └────────────────────────────┘   P: (tap, input channel) × output pixels
//
// P, the matrix of patches ("im2col"), never exists as a whole. A task takes a
// tile of pixels and packs, block by block of K, just the panels of P that its
// tile needs; they live in the L2 cache and serve all output channels. K runs
// over taps first and channels second, so for a fixed tap and a run of pixels
// in one image row, packing is copying one short vector from each channel: see
// segments.go.
//
// A pointwise convolution (1×1, stride 1, no padding) has P = X.

// convMatrix lays out the product.
type convMatrix struct {
	m        split // output channels of a group into panels
	k        split // taps·channels into blocks
	panels   int   // panels of pixels
	tileM    int   // panels of channels in a tile
	tileN    int   // panels of pixels in a tile
	tilesM   int
	tilesN   int
	groupLen int // floats of a group's packed weights
	bufLen   int // floats of workspace per worker
	loopRows bool
}

const (
	convTileCols = 256 // output pixels of a tile
	convMinTiles = 16  // fewer tiles of pixels: cut channels too
)

// planMatrix lays out the product.
func (c *Conv) planMatrix() {
	m := &c.mat
	m.m = newSplit(c.ocg, c.t.mr)
	m.k = newSplit(c.icg*c.taps, gemmBlockK)
	m.panels = ceilDiv(c.outN, c.t.nr)
	m.groupLen = roundUp(c.ocg*c.icg*c.taps+slackFloats, slackFloats)
	if m.m.p == 0 || m.panels == 0 {
		return
	}
	m.tileN = newSplit(m.panels, max(1, convTileCols/c.t.nr)).largest()
	m.tilesN = ceilDiv(m.panels, m.tileN)
	// Few pixels: share the channels out too, down to a megaflop or so a task.
	parts := 1
	if n := c.s.Batch * c.s.Groups * m.tilesN; n < convMinTiles {
		work := c.ocg * c.icg * c.taps * m.tileN * c.t.nr
		parts = max(1, min(ceilDiv(convMinTiles, n), work/gemmTileWork))
	}
	m.tileM = ceilDiv(m.m.p, parts)
	m.tilesM = ceilDiv(m.m.p, m.tileM)
	m.bufLen = m.k.largest()*m.tileN*c.t.nr + slackFloats
	m.loopRows = m.tileM*c.t.mr <= m.tileN*c.t.nr
}

// pack lays out one group's weights: for each block of K, for each panel of
// channels, [k][channel of the panel], k counting taps first.
func (m *convMatrix) pack(c *Conv, dst, w []float32) {
	kAll := c.icg * c.taps
	for kb := range m.k.p {
		k0, kc := m.k.part(kb)
		for p := range m.m.p {
			row, h := m.m.part(p)
			d := dst[k0*c.ocg+row*kc:][:kc*h]
			if c.taps == 1 {
				c.t.packTrans(f32p(dst, k0*c.ocg+row*kc), f32p(w, row*kAll+k0), kc, 4*h, 4*kAll, h)
				continue
			}
			for i := range h {
				src := w[(row+i)*kAll:][:kAll]
				tap, ch := k0/c.icg, k0%c.icg
				for k := range kc {
					d[k*h+i] = src[ch*c.taps+tap]
					if ch++; ch == c.icg {
						tap, ch = tap+1, 0
					}
				}
			}
		}
	}
}

// matrixTask computes one tile.
func (r *convRun) matrixTask(i int, buf *scratch) {
	c := r.c
	m := &c.mat
	tm := i % m.tilesM
	tn := i / m.tilesM % m.tilesN
	group := i / m.tilesM / m.tilesN % c.s.Groups
	image := i / m.tilesM / m.tilesN / c.s.Groups
	w := sweep{t: c.t, rows: m.m, cols: c.outN, loopRows: m.loopRows}
	w.u.ldc, w.u.ldr, w.u.lo, w.u.hi = 4*c.outN, 4*c.outN, c.lo, c.hi
	w.p0, w.p1 = tm*m.tileM, min((tm+1)*m.tileM, m.m.p)
	w.q0, w.q1 = tn*m.tileN, min((tn+1)*m.tileN, m.panels)
	if c.s.Epilogue.Bias != NoBias {
		w.bias = ptr(r.args.Bias, group*c.ocg)
	}
	x := r.args.X[(image*c.s.InC+group*c.icg)*c.inN:]
	off := (image*c.s.OutC + group*c.ocg) * c.outN
	w.c = ptr(r.args.Y, off)
	if c.s.Epilogue.Residual {
		w.res = ptr(r.args.Residual, off)
	}
	panels := buf.floats(m.bufLen)
	row0, _ := m.m.part(w.p0)
	blocks := max(1, m.k.p)
	for kb := range blocks {
		k0, kc := m.k.part(kb)
		w.stages(&c.s.Epilogue, 1, 0, c.clamp, kb == 0, kb == blocks-1)
		w.a = ptr(r.weights, group*m.groupLen+k0*c.ocg+row0*kc)
		w.b, w.bStep, w.bLD = ptr(panels, 0), 4*c.t.nr*kc, 4*c.t.nr
		c.packPixels(panels, x, w.q0, w.q1, k0, kc)
		w.run(kc)
	}
	if c.after != Identity {
		w.activate(c.after, &c.s.Epilogue, r.args.Y[off:])
	}
}

// packPixels packs panels q0..q1 of pixels for one block of K.
func (c *Conv) packPixels(dst, x []float32, q0, q1, k0, kc int) {
	nr := c.t.nr
	if c.algo != convPointwise {
		for q := q0; q < q1; q++ {
			c.packPatches(dst[(q-q0)*nr*kc:], x, q, k0, kc)
		}
		return
	}
	full := min(q1, c.outN/nr) - q0
	if full > 0 {
		c.t.packPanels(f32p(dst, 0), f32p(x, k0*c.inN+q0*nr), kc, 4*nr, 4*c.inN, full, 4*nr*kc)
	}
	if q0+full < q1 && kc > 0 {
		q := q0 + full
		c.t.packWide(f32p(dst, full*nr*kc), f32p(x, k0*c.inN+q*nr), kc, 4*nr, 4*c.inN, c.outN-q*nr)
	}
}
