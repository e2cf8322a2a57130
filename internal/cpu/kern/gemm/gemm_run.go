package gemm

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// gemmRun is the state of one run; it is the Task of the pool.
type gemmRun struct {
	g    *Gemm
	args GemmArgs
	ws   []byte
	per  int // bytes of workspace of one worker

	sharedA []float32 // the whole of A, packed
	packing bool      // tasks pack A
	whole   bool      // the only task is all tiles
}

var gemmRuns machine.FreeList[gemmRun]

// Run computes the product on at most threads threads. The workspace must have
// Workspace(threads) bytes. C may be the residual, laid out alike; otherwise C
// overlaps nothing.
func (g *Gemm) Run(a GemmArgs, ws []byte, threads int) error {
	if err := g.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	if threads = g.workers(threads); threads == 1 {
		g.runAlone(&a, ws)
		return nil
	}
	r := gemmRuns.Get()
	defer gemmRuns.Release(r)
	r.begin(g, &a, ws)
	if g.shareA && g.tasks() > 0 {
		r.packing = true
		machine.Parallel(g.k.P*g.tilesM, threads, r)
		r.packing = false
	}
	machine.Parallel(g.tasks(), threads, r)
	return nil
}

// runAlone is Run on the caller: its state is no other goroutine's, so it lies on the stack.
func (g *Gemm) runAlone(a *GemmArgs, ws []byte) {
	var r gemmRun
	r.begin(g, a, ws)
	if g.shareA && g.tasks() > 0 {
		r.packing = true
		for i := range g.k.P * g.tilesM {
			r.Run(i, 0)
		}
		r.packing = false
	}
	if r.whole = g.oneSweep(); r.whole {
		r.Run(0, 0)
		return
	}
	last := g.tasks() - 1
	for i := range g.tasks() {
		if a.Backwards {
			i = last - i
		}
		r.Run(i, 0)
	}
}

// oneSweep reports a product of one row by packed columns: the micro-kernel goes over all panels by itself. With several
// blocks of K, tiles keep together what the next run, backwards, finds in a cache.
func (g *Gemm) oneSweep() bool {
	return g.s.M == 1 && g.s.ConstB && g.k.P == 1 && g.batches == 1 && !g.dots && !g.fewRows && g.tasks() > 0
}

// begin sets the state up, and takes the memory for the packed A from the workspace.
func (r *gemmRun) begin(g *Gemm, a *GemmArgs, ws []byte) {
	r.g, r.args, r.per, r.ws = g, *a, g.per, ws
	if len(ws) > 0 {
		s := machine.NewScratch(ws)
		if g.shareA {
			r.sharedA = s.Floats(g.pieceA * g.k.P * g.tilesM)
		}
		r.ws = s.Rest
	}
}

func (g *Gemm) checkArgs(a *GemmArgs, ws []byte, threads int) error {
	s := &g.s
	if g.tasks() == 0 {
		return nil
	}
	if err := g.checkConstants(a); err != nil {
		return err
	}
	switch {
	case !s.ConstA && len(a.A) < g.needA:
		return machine.Needs("Gemm", "A", a.A, g.needA)
	case !s.ConstB && !s.NBitsB && len(a.B) < g.needB:
		return machine.Needs("Gemm", "B", a.B, g.needB)
	case len(a.C) < g.needC:
		return machine.Needs("Gemm", "C", a.C, g.needC)
	case len(a.Bias) < s.Epilogue.BiasLen(s.M, s.N):
		return machine.Needs("Gemm", "bias", a.Bias, s.Epilogue.BiasLen(s.M, s.N))
	case len(a.Residual) < s.Epilogue.ResidualLen(g.needR):
		return machine.Needs("Gemm", "residual", a.Residual, s.Epilogue.ResidualLen(g.needR))
	}
	return machine.Needs("Gemm", "workspace", ws, g.Workspace(threads))
}

// checkConstants compares operands that come packed with the layouts that the run reads.
func (g *Gemm) checkConstants(a *GemmArgs) error {
	s := &g.s
	if s.ConstA && !a.PackedA.is(rowsKind, g.t.Level, s.M, g.k) {
		return &machine.SpecError{Kernel: "Gemm", Field: "PackedA", Why: "missing, or packed for another shape or level"}
	}
	if s.NBitsB {
		if b := a.NBitsB; b == nil || b.packed == nil || b.t != g.t || b.s.N != s.N || b.s.K != s.K || s.BytesBlock != b.BytesBlock() || s.BytesDigits != b.digits || b.byBytes && !g.fewRows || s.WholeBits > 0 && s.WholeBits != b.WholeBits() {
			return &machine.SpecError{Kernel: "Gemm", Field: "NBitsB", Why: "missing, or of another shape or level"}
		}
		return nil
	}
	if s.ConstB && !a.PackedB.is(colsKind, g.t.Level, s.N, g.k) {
		return &machine.SpecError{Kernel: "Gemm", Field: "PackedB", Why: "missing, or packed for another shape or level"}
	}
	return nil
}

// Run computes tile i of the product, or packs piece i of A.
func (r *gemmRun) Run(i, worker int) {
	if machine.Closed(r.args.Done) {
		return
	}
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
		r.dotTile(tn*g.tileN*g.t.Nr, min((tn+1)*g.tileN*g.t.Nr, g.s.N), [4]int{a, b, c, res})
		return
	}
	if g.fewRows {
		s := machine.NewScratch(r.ws[worker*r.per:])
		r.nbitsTile(tm, tn*g.tileN, min((tn+1)*g.tileN, g.nPanels), s.Floats(g.packA))
		return
	}
	w := Sweep{T: g.t, Rows: g.m, Cols: g.s.N, LoopRows: g.loopRows, Far: g.far, Backwards: r.args.Backwards}
	w.U.Ldc, w.U.Ldr, w.U.Lo, w.U.Hi = 4*g.s.LDC, 4*g.s.LDR, g.lo, g.hi
	w.P0, w.P1 = tm*g.tileM, min((tm+1)*g.tileM, g.m.P)
	w.Q0, w.Q1 = tn*g.tileN, min((tn+1)*g.tileN, g.nPanels)
	if r.whole {
		w.Q1 = g.nPanels
	}
	w.C = machine.Ptr(r.args.C, c)
	if g.s.Epilogue.Residual {
		w.Res = machine.Ptr(r.args.Residual, res)
	}
	var bufA, bufB []float32
	if r.per > 0 {
		s := machine.NewScratch(r.ws[worker*r.per:])
		bufA, bufB, w.lastCol = s.Floats(g.packA), s.Floats(g.packB), s.Floats(g.colBias)
	}
	if g.s.Epilogue.Bias != simd.NoBias {
		w.Bias = machine.Ptr(r.args.Bias, 0)
		if g.colBias > 0 {
			copy(w.lastCol, r.args.Bias[(g.nPanels-1)*g.t.Nr:g.s.N])
		}
	}
	blocks := max(1, g.k.P) // K = 0 still scales C and adds the bias
	for kb := range blocks {
		w.Stages(&g.s.Epilogue, g.s.Alpha, g.s.Beta, g.clamp, kb == 0, kb == blocks-1)
		r.rowsOf(&w, bufA, a, kb)
		r.colsOf(&w, bufB, b, kb)
		r.nextOf(&w, kb)
		_, kc := g.k.Part(kb)
		w.Run(kc)
	}
	if g.after != simd.Identity {
		w.Activate(g.after, &g.s.Epilogue, r.args.C[c:])
	}
}

// nextOf points the sweep at the panel of a packed B that is read after one block of K.
func (r *gemmRun) nextOf(w *Sweep, kb int) {
	g := r.g
	w.Next = nil
	if !g.s.ConstB || r.args.PackedB.Unit {
		return
	}
	k0, kc := g.k.Part(kb)
	q := w.Q0
	if kb+1 == g.k.P {
		k0, q = 0, w.Q1%g.nPanels
		_, kc = g.k.Part(0)
	} else {
		k0 += kc
		_, kc = g.k.Part(kb + 1)
	}
	w.Next = unsafe.Pointer(r.args.PackedB.At((k0*g.nPanels + q*kc) * g.t.Nr))
}

// packPiece packs the panels of one row of tiles for one block of K.
func (r *gemmRun) packPiece(i int) {
	g := r.g
	if g.fewRows {
		r.quantizeRows(i)
		return
	}
	k0, kc := g.k.Part(i / g.tilesM)
	p0 := i % g.tilesM * g.tileM
	g.packBlockA(r.sharedA[i*g.pieceA:], r.args.A, p0, min(p0+g.tileM, g.m.P), k0, kc)
}

// rowsOf points the sweep at its packed rows of A for one block of K.
func (r *gemmRun) rowsOf(w *Sweep, buf []float32, off, kb int) {
	g := r.g
	k0, kc := g.k.Part(kb)
	switch {
	case g.s.ConstA:
		row, _ := g.m.Part(w.P0)
		w.A, w.OneA = unsafe.Pointer(r.args.PackedA.At(k0*g.s.M+row*kc)), r.args.PackedA.Unit
	case g.directA:
		w.A = machine.Ptr(r.args.A, off+k0)
	case g.shareA:
		w.A = machine.Ptr(r.sharedA, (kb*g.tilesM+w.P0/g.tileM)*g.pieceA)
	default:
		g.packBlockA(buf, r.args.A[off:], w.P0, w.P1, k0, kc)
		w.A = machine.Ptr(buf, 0)
	}
}

// colsOf points the sweep at its panels of B for one block of K.
func (r *gemmRun) colsOf(w *Sweep, buf []float32, off, kb int) {
	g := r.g
	nr := g.t.Nr
	k0, kc := g.k.Part(kb)
	w.BStep, w.BLD = 4*nr*kc, 4*nr
	switch {
	case g.s.ConstB:
		w.B = unsafe.Pointer(r.args.PackedB.At((k0*g.nPanels + w.Q0*kc) * nr))
		if r.args.PackedB.Unit {
			w.BStep = 0
		}
	case g.s.NBitsB:
		r.args.NBitsB.dequantize(buf, w.Q0, w.Q1, k0, kc)
		w.B = machine.Ptr(buf, 0)
	case !g.directB:
		g.packBlockB(buf, r.args.B[off:], w.Q0, w.Q1, k0, kc)
		w.B = machine.Ptr(buf, 0)
	default:
		w.B, w.BStep, w.BLD = machine.Ptr(r.args.B, off+k0*g.s.LDB+w.Q0*nr), 4*nr, 4*g.s.LDB
		w.Tail = machine.Ptr(buf, 0)
		if w.Q1*nr > g.s.N {
			g.packBlockB(buf, r.args.B[off:], w.Q1-1, w.Q1, k0, kc)
		}
	}
}
