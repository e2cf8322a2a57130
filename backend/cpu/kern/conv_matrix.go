package kern

import "unsafe"

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

// convMatrix lays out the product of a group's weights with patches, in numbers or in
// words of several bytes.
type convMatrix struct {
	m        split // output channels of a group into panels
	k        split // taps·channels into blocks
	panels   int   // panels of pixels
	tileM    int   // panels of channels in a tile
	tileN    int   // panels of pixels in a tile
	tilesM   int
	tilesN   int
	outers   int // products: images by groups
	loopRows bool
}

const (
	convTileCols = 256 // output pixels of a tile
	convMinTiles = 16  // fewer tiles of pixels: cut channels too
)

// newConvMatrix lays out outers products of rows by k by pixels.
func newConvMatrix(t *table, rows, k, pixels, outers int) convMatrix {
	m := convMatrix{m: newSplit(rows, t.mr), k: newSplit(k, gemmBlockK), panels: ceilDiv(pixels, t.nr), outers: outers}
	if m.m.p == 0 || m.panels == 0 {
		return m
	}
	m.tileN = newSplit(m.panels, max(1, convTileCols/t.nr)).largest()
	m.tilesN = ceilDiv(m.panels, m.tileN)
	// Few pixels: share the channels out too, down to a megaflop or so a task.
	parts := 1
	if n := outers * m.tilesN; n < convMinTiles {
		parts = max(1, min(ceilDiv(convMinTiles, n), rows*k*m.tileN*t.nr/gemmTileWork))
	}
	m.tileM = ceilDiv(m.m.p, parts)
	m.tilesM = ceilDiv(m.m.p, m.tileM)
	m.loopRows = m.tileM*t.mr <= m.tileN*t.nr
	return m
}

// tasks is the number of tiles.
func (m *convMatrix) tasks() int { return m.outers * m.tilesM * m.tilesN }

// bufLen is the room for a block of K of a tile's patches.
func (m *convMatrix) bufLen(t *table) int { return m.k.largest() * m.tileN * t.nr }

// tile is tile i as a sweep, and which product it belongs to.
func (m *convMatrix) tile(t *table, i, cols int) (w sweep, outer int) {
	tm := i % m.tilesM
	tn := i / m.tilesM % m.tilesN
	w = sweep{t: t, rows: m.m, cols: cols, loopRows: m.loopRows}
	w.u.ldc, w.u.ldr = 4*cols, 4*cols
	w.p0, w.p1 = tm*m.tileM, min((tm+1)*m.tileM, m.m.p)
	w.q0, w.q1 = tn*m.tileN, min((tn+1)*m.tileN, m.panels)
	return w, i / m.tilesM / m.tilesN
}

// matrixConv computes a convolution as a product.
type matrixConv struct {
	*geometry
	mat       convMatrix
	pointwise bool
	groupLen  int // floats of a group's packed weights
}

func newMatrixConv(g *geometry, pointwise bool) *matrixConv {
	return &matrixConv{geometry: g, pointwise: pointwise, mat: newConvMatrix(g.t, g.ocg, g.icg*g.taps, g.outN, g.s.Batch*g.s.Groups),
		groupLen: roundUp(g.ocg*g.icg*g.taps+slackFloats, slackFloats)}
}

// Weights: for each group, for each block of K, for each panel of channels,
// [k][channel of the panel], k counting taps first.
func (c *matrixConv) layout() Layout { return c.weightLayout("conv panels") }
func (c *matrixConv) size() int      { return c.s.Groups * c.groupLen }
func (c *matrixConv) unitSize() int  { return c.mat.k.largest()*c.t.mr + slackFloats }
func (c *matrixConv) pieces() int    { return c.s.Groups * c.mat.k.p * c.mat.m.p }

func (c *matrixConv) packUnit(dst []float32, v float32) { fillUnit(dst, v) }

// place is the panel of piece i: its group, its rows and its part of K.
func (c *matrixConv) place(i int) (group, row, h, k0, kc int) {
	row, h = c.mat.m.part(i % c.mat.m.p)
	k0, kc = c.mat.k.part(i / c.mat.m.p % c.mat.k.p)
	return i / c.mat.m.p / c.mat.k.p, row, h, k0, kc
}

func (c *matrixConv) span(i int) (at, n int) {
	group, row, h, k0, kc := c.place(i)
	return group*c.groupLen + k0*c.ocg + row*kc, kc * h
}

func (c *matrixConv) pack(dst, w []float32, i int) {
	group, row, h, k0, kc := c.place(i)
	kAll := c.icg * c.taps
	w = w[(group*c.ocg+row)*kAll:]
	if c.taps == 1 {
		c.t.packTrans(f32p(dst, 0), f32p(w, k0), kc, 4*h, 4*kAll, h)
		return
	}
	for i := range h {
		src := w[i*kAll:][:kAll]
		tap, ch := k0/c.icg, k0%c.icg
		for d := dst[i : (kc-1)*h+i+1]; ; d = d[h:] {
			d[0] = src[ch*c.taps+tap]
			if ch++; ch == c.icg {
				tap, ch = tap+1, 0
			}
			if len(d) <= h {
				break
			}
		}
	}
}

func (c *matrixConv) perWorker() int { return scratchBytes(4 * (c.mat.bufLen(c.t) + slackFloats)) }

func (c *matrixConv) workspace(threads int) int {
	return c.perWorker() * max(1, min(threads, c.mat.tasks()))
}

func (c *matrixConv) run(r *convRun, threads int) {
	r.overPool(c.mat.tasks(), c.perWorker(), threads)
}

// task computes one tile.
func (c *matrixConv) task(r *convRun, i, worker int) {
	m := &c.mat
	w, outer := m.tile(c.t, i, c.outN)
	image, group := outer/c.s.Groups, outer%c.s.Groups
	w.u.lo, w.u.hi = c.lo, c.hi
	if c.s.Epilogue.Bias != NoBias {
		w.bias = ptr(r.args.Bias, group*c.ocg)
	}
	x := r.args.X[(image*c.s.InC+group*c.icg)*c.inN:]
	off := (image*c.s.OutC + group*c.ocg) * c.outN
	w.c = ptr(r.args.Y, off)
	if c.s.Epilogue.Residual {
		w.res = ptr(r.args.Residual, off)
	}
	buf := r.buffer(worker)
	panels := buf.floats(m.bufLen(c.t) + slackFloats)
	row0, _ := m.m.part(w.p0)
	blocks := max(1, m.k.p)
	w.oneA = r.w.unit
	for kb := range blocks {
		k0, kc := m.k.part(kb)
		w.stages(&c.s.Epilogue, 1, 0, c.clamp, kb == 0, kb == blocks-1)
		w.a = unsafe.Pointer(r.w.at(group*c.groupLen + k0*c.ocg + row0*kc))
		w.b, w.bStep, w.bLD = ptr(panels, 0), 4*c.t.nr*kc, 4*c.t.nr
		c.packPixels(c.pointwise, panels, x, w.q0, w.q1, k0, kc)
		w.run(kc)
	}
	if c.after != Identity {
		w.activate(c.after, &c.s.Epilogue, r.args.Y[off:])
	}
}

// packPixels packs panels q0..q1 of pixels for one block of K.
func (c *geometry) packPixels(pointwise bool, dst, x []float32, q0, q1, k0, kc int) {
	nr := c.t.nr
	if !pointwise {
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
