package convolve

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Convolution as a matrix product.
//
//	            output pixels, flat over rows
//	          ┌────────────────────────────┐
//	 channels │ Y  =  W · P                │   W: output channels × (tap, input channel)
//	          └────────────────────────────┘   P: (tap, input channel) × output pixels
//
// P, the matrix of patches ("im2col"), never exists as a whole. A task takes a
// tile of pixels and packs, block by block of K, the panels of P that its tile
// needs; they stay in the L2 cache for all output channels. K runs
// over taps first and channels second, so for a fixed tap and a run of pixels
// in one image row, packing is copying one short vector from each channel: see
// segments.go.
//
// A pointwise convolution (1×1, stride 1, no padding) has P = X, and reads X where it lies: packing
// would take longer than it saves, but for images whose channels share sets of the caches.

// convMatrix divides the product of a group's weights with patches into tiles; elements
// are float32, or words of several bytes.
type convMatrix struct {
	m        gemm.Split // output channels of a group into panels
	k        gemm.Split // taps·channels into blocks
	panels   int        // panels of pixels
	tileM    int        // panels of channels in a tile
	tileN    int        // panels of pixels in a tile
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
func newConvMatrix(t *simd.Table, rows, k, pixels, outers int) convMatrix {
	m := convMatrix{m: gemm.NewSplit(rows, t.Mr), k: gemm.NewSplit(k, gemm.GemmBlockK), panels: machine.CeilDiv(pixels, t.Nr), outers: outers}
	if m.m.P == 0 || m.panels == 0 {
		return m
	}
	m.tileN = gemm.NewSplit(m.panels, max(1, convTileCols/t.Nr)).Largest()
	m.tilesN = machine.CeilDiv(m.panels, m.tileN)
	// Few pixels: divide the channels too.
	parts := 1
	if n := outers * m.tilesN; n < convMinTiles {
		tile := rows * k * m.tileN * t.Nr
		parts = max(1, min(machine.CeilDiv(convMinTiles, n), tile/gemm.TaskWork(n*tile, gemm.ProductTask)))
	}
	m.cutRows(t, parts)
	return m
}

// cutRows divides the channels into so many tiles.
func (m *convMatrix) cutRows(t *simd.Table, parts int) {
	if m.tileN == 0 {
		return
	}
	m.tileM = machine.CeilDiv(m.m.P, parts)
	m.tilesM = machine.CeilDiv(m.m.P, m.tileM)
	m.loopRows = m.tileM*t.Mr <= m.tileN*t.Nr
}

// forThreads divides the channels into fewer tiles, each of which packs the same patches, where there are enough for so many threads.
func (m *convMatrix) forThreads(t *simd.Table, threads int) {
	const each = 4 // tiles of a thread, so that all end at about the same time
	most := 1
	if threads > 1 {
		most = machine.CeilDiv(each*threads, max(1, m.outers*m.tilesN))
	}
	if most < m.tilesM {
		m.cutRows(t, most)
	}
}

// limitRows cuts tiles to about so many elements.
func (m *convMatrix) limitRows(t *simd.Table, elems int) {
	if m.tileN == 0 {
		return
	}
	most := max(1, elems/(m.tileN*t.Nr*t.Mr))
	m.tileM = gemm.NewSplit(m.m.P, min(m.tileM, most)).Largest()
	m.tilesM = machine.CeilDiv(m.m.P, m.tileM)
	m.loopRows = m.tileM*t.Mr <= m.tileN*t.Nr
}

// tasks is the number of tiles.
func (m *convMatrix) tasks() int { return m.outers * m.tilesM * m.tilesN }

// bufLen is the number of elements of a block of K of a tile's patches.
func (m *convMatrix) bufLen(t *simd.Table) int { return m.k.Largest() * m.tileN * t.Nr }

// tile is tile i as a sweep, and which product it belongs to.
func (m *convMatrix) tile(t *simd.Table, i, cols int) (w gemm.Sweep, outer int) {
	tm := i % m.tilesM
	tn := i / m.tilesM % m.tilesN
	w = gemm.Sweep{T: t, Rows: m.m, Cols: cols, LoopRows: m.loopRows}
	w.U.Ldc, w.U.Ldr = 4*cols, 4*cols
	w.P0, w.P1 = tm*m.tileM, min((tm+1)*m.tileM, m.m.P)
	w.Q0, w.Q1 = tn*m.tileN, min((tn+1)*m.tileN, m.panels)
	return w, i / m.tilesM / m.tilesN
}

// matrixConv computes a convolution as a product.
type matrixConv struct {
	*geometry
	mat       convMatrix
	pointwise bool
	inPlace   bool // a pointwise one reads panels of pixels where they lie
	groupLen  int  // floats of a group's packed weights
}

func newMatrixConv(g *geometry, pointwise bool) *matrixConv {
	c := &matrixConv{geometry: g, pointwise: pointwise, mat: newConvMatrix(g.t, g.ocg, g.icg*g.taps, g.outN, g.s.Batch*g.s.Groups),
		groupLen: machine.RoundUp(g.ocg*g.icg*g.taps+machine.SlackFloats, machine.SlackFloats)}
	c.inPlace = pointwise && !g.sharesSets()
	return c
}

// packing lays out, for each group, for each block of K, for each panel of channels,
// [k][channel of the panel], k counting taps first. A piece is a panel.
func (c *matrixConv) packing() *gemm.Packing {
	return &gemm.Packing{
		Layout: c.weightLayout("conv panels"), Size: c.s.Groups * c.groupLen, UnitSize: c.mat.k.Largest()*c.t.Mr + machine.SlackFloats,
		SourceLen: c.weightLen(), Pieces: c.s.Groups * c.mat.k.P * c.mat.m.P,
		Span: func(i int) (at, n int) {
			group, row, h, k0, kc := c.place(i)
			return group*c.groupLen + k0*c.ocg + row*kc, kc * h
		},
		Pack: c.packPanel,
	}
}

// place is the panel of piece i: its group, its rows and its part of K.
func (c *matrixConv) place(i int) (group, row, h, k0, kc int) {
	row, h = c.mat.m.Part(i % c.mat.m.P)
	k0, kc = c.mat.k.Part(i / c.mat.m.P % c.mat.k.P)
	return i / c.mat.m.P / c.mat.k.P, row, h, k0, kc
}

// packPanel packs piece i of the weights.
func (c *matrixConv) packPanel(dst, w []float32, i int) {
	group, row, h, k0, kc := c.place(i)
	kAll := c.icg * c.taps
	w = w[(group*c.ocg+row)*kAll:]
	if c.taps == 1 {
		c.t.PackTrans(machine.F32p(dst, 0), machine.F32p(w, k0), kc, 4*h, 4*kAll, h)
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

// bufLen is the floats of the panels that a task packs.
func (c *matrixConv) bufLen() int {
	if c.inPlace {
		return c.mat.k.Largest()*c.t.Nr + machine.SlackFloats
	}
	return c.mat.bufLen(c.t) + machine.SlackFloats
}

func (c *matrixConv) perWorker() int { return machine.ScratchBytes(4 * c.bufLen()) }

func (c *matrixConv) workspace(threads int) int {
	return c.perWorker() * max(1, min(threads, c.mat.tasks()))
}

func (c *matrixConv) run(r *convRun, threads int) {
	r.tiles = c.mat
	if !c.inPlace {
		r.tiles.forThreads(c.t, threads)
	}
	r.overPool(r.tiles.tasks(), c.perWorker(), threads)
}

// task computes one tile.
func (c *matrixConv) task(r *convRun, i, worker int) {
	m := &r.tiles
	w, outer := m.tile(c.t, i, c.outN)
	image, group := outer/c.s.Groups, outer%c.s.Groups
	w.U.Lo, w.U.Hi = c.lo, c.hi
	if c.s.Epilogue.Bias != simd.NoBias {
		w.Bias = machine.Ptr(r.args.Bias, group*c.ocg)
	}
	x := r.args.X[(image*c.s.InC+group*c.icg)*c.inN:]
	off, step := c.resultAt(image, group, 0)
	w.C, w.U.Ldc = machine.Ptr(r.args.Y, off), 4*step
	if c.s.Epilogue.Residual {
		w.Res = machine.Ptr(r.args.Residual, off)
	}
	buf := r.buffer(worker)
	panels := buf.Floats(c.bufLen())
	row0, _ := m.m.Part(w.P0)
	blocks := max(1, m.k.P)
	w.OneA = r.w.Unit
	for kb := range blocks {
		k0, kc := m.k.Part(kb)
		w.Stages(&c.s.Epilogue, 1, 0, c.clamp, kb == 0, kb == blocks-1)
		w.A = unsafe.Pointer(r.w.At(group*c.groupLen + k0*c.ocg + row0*kc))
		if c.inPlace {
			c.pointAt(&w, panels, x, k0, kc)
		} else {
			w.B, w.BStep, w.BLD = machine.Ptr(panels, 0), 4*c.t.Nr*kc, 4*c.t.Nr
			c.packPixels(c.pointwise, panels, x, w.Q0, w.Q1, k0, kc)
		}
		w.Run(kc)
	}
	if c.after != simd.Identity {
		w.Activate(c.after, &c.s.Epilogue, r.args.Y[off:])
	}
}

// pointAt lets a sweep read panels of pixels in the image itself, but for a last, narrow one.
func (c *matrixConv) pointAt(w *gemm.Sweep, narrow, x []float32, k0, kc int) {
	nr := c.t.Nr
	w.B, w.BStep, w.BLD = machine.Ptr(x, k0*c.inN+w.Q0*nr), 4*nr, 4*c.inN
	w.Tail = machine.Ptr(narrow, 0)
	if w.Q1*nr > c.outN {
		c.packPixels(true, narrow, x, w.Q1-1, w.Q1, k0, kc)
	}
}

// packPixels packs panels q0..q1 of pixels for one block of K.
func (c *geometry) packPixels(pointwise bool, dst, x []float32, q0, q1, k0, kc int) {
	nr := c.t.Nr
	if !pointwise {
		for q := q0; q < q1; q++ {
			c.packPatches(dst[(q-q0)*nr*kc:], x, q, k0, kc)
		}
		return
	}
	full := min(q1, c.outN/nr) - q0
	if full > 0 {
		c.t.PackPanels(machine.F32p(dst, 0), machine.F32p(x, k0*c.inN+q0*nr), kc, 4*nr, 4*c.inN, full, 4*nr*kc)
	}
	if q0+full < q1 && kc > 0 {
		q := q0 + full
		c.t.PackWide(machine.F32p(dst, full*nr*kc), machine.F32p(x, k0*c.inN+q*nr), kc, 4*nr, 4*c.inN, c.outN-q*nr)
	}
}
