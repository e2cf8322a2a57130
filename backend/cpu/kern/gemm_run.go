package kern

import "unsafe"

// gemmRun is the state of one run; it is the Task of the pool.
type gemmRun struct {
	g    *Gemm
	args GemmArgs
	ws   []byte
	per  int // bytes of workspace of one worker

	sharedA []float32 // the whole of A, packed
	packing bool      // tasks pack A
}

var gemmRuns freeList[gemmRun]

// Run computes the product on at most threads threads. The workspace must have
// Workspace(threads) bytes. C may be the residual, laid out alike; otherwise C
// overlaps nothing.
func (g *Gemm) Run(a GemmArgs, ws []byte, threads int) error {
	if err := g.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	r := gemmRuns.get()
	r.g, r.args = g, a
	r.per = g.perWorker()
	defer r.release()
	s := newScratch(ws)
	if g.shareA && g.tasks() > 0 {
		r.sharedA, r.packing = s.floats(g.pieceA*g.k.p*g.tilesM), true
		Parallel(g.k.p*g.tilesM, threads, r)
		r.packing = false
	}
	r.ws = s.rest
	Parallel(g.tasks(), g.workers(threads), r)
	return nil
}

func (r *gemmRun) release() {
	*r = gemmRun{}
	gemmRuns.put(r)
}

func (g *Gemm) checkArgs(a *GemmArgs, ws []byte, threads int) error {
	s := &g.s
	if g.tasks() == 0 {
		return nil
	}
	if err := g.checkOperand("A", a.A, a.PackedA, s.ConstA, g.needA, g.LayoutA()); err != nil {
		return err
	}
	if err := g.checkOperand("B", a.B, a.PackedB, s.ConstB, g.needB, g.LayoutB()); err != nil {
		return err
	}
	if err := needs("Gemm", "C", a.C, g.needC); err != nil {
		return err
	}
	bias := 0
	switch s.Epilogue.Bias {
	case BiasPerRow:
		bias = s.M
	case BiasPerCol:
		bias = s.N
	}
	if err := needs("Gemm", "bias", a.Bias, bias); err != nil {
		return err
	}
	if s.Epilogue.Residual {
		if err := needs("Gemm", "residual", a.Residual, g.needR); err != nil {
			return err
		}
	}
	return needs("Gemm", "workspace", ws, g.Workspace(threads))
}

func (g *Gemm) checkOperand(name string, x []float32, p *Packed, constant bool, need int, layout Layout) error {
	if !constant {
		return needs("Gemm", name, x, need)
	}
	if p == nil || p.layout != layout {
		return &SpecError{"Gemm", "Packed" + name, "missing, or packed for another shape or level"}
	}
	return nil
}

// Run computes tile i of the product, or packs its i-th piece of A.
func (r *gemmRun) Run(i, worker int) {
	g := r.g
	if r.packing {
		r.packPiece(i)
		return
	}
	tn := i % g.tilesN
	tm := i / g.tilesN % g.tilesM
	batch := i / g.tilesN / g.tilesM
	var a, b, c, res int
	for d := len(g.s.Batch) - 1; d >= 0; d-- {
		n := &g.s.Batch[d]
		x := batch % n.N
		batch /= n.N
		a, b, c, res = a+x*n.A, b+x*n.B, c+x*n.C, res+x*n.R
	}
	if g.dots {
		r.dotTile(tn*g.tileN*g.t.nr, min((tn+1)*g.tileN*g.t.nr, g.s.N), [4]int{a, b, c, res})
		return
	}
	w := sweep{t: g.t, rows: g.m, cols: g.s.N, loopRows: g.loopRows}
	w.u.ldc, w.u.ldr, w.u.lo, w.u.hi = 4*g.s.LDC, 4*g.s.LDR, g.lo, g.hi
	w.p0, w.p1 = tm*g.tileM, min((tm+1)*g.tileM, g.m.p)
	w.q0, w.q1 = tn*g.tileN, min((tn+1)*g.tileN, g.nPanels)
	w.c = ptr(r.args.C, c)
	if g.s.Epilogue.Residual {
		w.res = ptr(r.args.Residual, res)
	}
	var bufA, bufB []float32
	if r.per > 0 {
		s := newScratch(r.ws[worker*r.per:])
		bufA, bufB, w.lastCol = s.floats(g.packA), s.floats(g.packB), s.floats(g.colBias)
	}
	if g.s.Epilogue.Bias != NoBias {
		w.bias = ptr(r.args.Bias, 0)
		if g.colBias > 0 {
			copy(w.lastCol, r.args.Bias[(g.nPanels-1)*g.t.nr:g.s.N])
		}
	}
	blocks := max(1, g.k.p) // K = 0 still scales C and adds the bias
	for kb := range blocks {
		w.stages(&g.s.Epilogue, g.s.Alpha, g.s.Beta, g.clamp, kb == 0, kb == blocks-1)
		r.rowsOf(&w, bufA, a, kb)
		r.colsOf(&w, bufB, b, kb)
		_, kc := g.k.part(kb)
		w.run(kc)
	}
	if g.after != Identity {
		w.activate(g.after, &g.s.Epilogue, r.args.C[c:])
	}
}

// packPiece packs the panels of one row of tiles for one block of K.
func (r *gemmRun) packPiece(i int) {
	g := r.g
	k0, kc := g.k.part(i / g.tilesM)
	p0 := i % g.tilesM * g.tileM
	g.packBlockA(r.sharedA[i*g.pieceA:], r.args.A, p0, min(p0+g.tileM, g.m.p), k0, kc)
}

// rowsOf points the sweep at its packed rows of A for one block of K.
func (r *gemmRun) rowsOf(w *sweep, buf []float32, off, kb int) {
	g := r.g
	k0, kc := g.k.part(kb)
	switch {
	case g.s.ConstA:
		row, _ := g.m.part(w.p0)
		w.a, w.oneA = unsafe.Pointer(r.args.PackedA.at(k0*g.s.M+row*kc)), r.args.PackedA.unit
	case g.shareA:
		w.a = ptr(r.sharedA, (kb*g.tilesM+w.p0/g.tileM)*g.pieceA)
	default:
		g.packBlockA(buf, r.args.A[off:], w.p0, w.p1, k0, kc)
		w.a = ptr(buf, 0)
	}
}

// colsOf points the sweep at its panels of B for one block of K.
func (r *gemmRun) colsOf(w *sweep, buf []float32, off, kb int) {
	g := r.g
	nr := g.t.nr
	k0, kc := g.k.part(kb)
	w.bStep, w.bLD = 4*nr*kc, 4*nr
	switch {
	case g.s.ConstB:
		w.b = unsafe.Pointer(r.args.PackedB.at((k0*g.nPanels + w.q0*kc) * nr))
		if r.args.PackedB.unit {
			w.bStep = 0
		}
	case !g.directB:
		g.packBlockB(buf, r.args.B[off:], w.q0, w.q1, k0, kc)
		w.b = ptr(buf, 0)
	default:
		w.b, w.bStep, w.bLD = ptr(r.args.B, off+k0*g.s.LDB+w.q0*nr), 4*nr, 4*g.s.LDB
		w.tail = ptr(buf, 0)
		if w.q1*nr > g.s.N {
			g.packBlockB(buf, r.args.B[off:], w.q1-1, w.q1, k0, kc)
		}
	}
}
