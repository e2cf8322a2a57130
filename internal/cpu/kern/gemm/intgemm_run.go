package gemm

import (
	"cmp"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// intRun is the state of one run; it is a Task.
type intRun struct {
	g       *IntGemm
	args    IntGemmArgs
	l       intLayout
	za      int32 // zero point of all rows, for the values as packed
	perRow  bool  // zero points differ from row to row
	hasZB   bool  // the zero point of some column, for the values as packed, is not zero
	packing bool
	packsA  int // tasks that pack rows; those after it pack columns
}

var intRuns machine.FreeList[intRun]

// intPackPanels is the number of panels that one task packs.
const intPackPanels = 8

// Run computes the product on at most threads threads. The workspace must have
// Workspace(threads) bytes.
func (g *IntGemm) Run(a IntGemmArgs, ws []byte, threads int) error {
	if g.tasks() == 0 {
		return nil
	}
	if err := g.checkArgs(&a, ws, threads); err != nil {
		return err
	}
	r := intRuns.Get()
	defer intRuns.Release(r)
	r.g, r.args, r.l = g, a, g.layout(ws, threads)
	r.zeroPoints()
	r.packing = true
	r.packsA = g.copies(g.s.StrideA) * machine.CeilDiv(g.m.P, intPackPanels)
	packs := r.packsA
	if !g.s.ConstB {
		packs += g.copies(g.s.StrideB) * machine.CeilDiv(g.panels, intPackPanels)
	}
	machine.Parallel(packs, threads, r)
	r.packing = false
	r.columnStarts()
	machine.Parallel(g.tasks(), threads, r)
	return nil
}

func (g *IntGemm) checkArgs(a *IntGemmArgs, ws []byte, threads int) error {
	var errB error
	if !g.s.ConstB {
		errB = machine.Needs("IntGemm", "B", a.B, g.needB)
	} else if a.PackedB == nil || a.PackedB.Order != g.LayoutB() {
		errB = &machine.SpecError{Kernel: "IntGemm", Field: "PackedB", Why: "missing, or packed for another shape or level"}
	}
	if n := len(a.ZA); n > 1 && n != g.s.M {
		return &machine.SizeError{Kernel: "IntGemm", Operand: "ZA", Have: n, Need: g.s.M}
	}
	if n := len(a.ZB); n > 1 && n != g.s.N {
		return &machine.SizeError{Kernel: "IntGemm", Operand: "ZB", Have: n, Need: g.s.N}
	}
	return cmp.Or(
		machine.Needs("IntGemm", "A", a.A, g.needA),
		errB,
		machine.Needs("IntGemm", "C", a.C, g.needC),
		machine.Needs("IntGemm", "workspace", ws, g.Workspace(threads)),
	)
}

// zeroPoints shifts the zero points as packing shifts the values.
func (r *intRun) zeroPoints() {
	g := r.g
	sb := g.b.Shift()
	r.za = g.a.Shift()
	if len(r.args.ZA) == 1 {
		r.za += r.args.ZA[0]
	}
	r.perRow = len(r.args.ZA) > 1
	for _, z := range r.args.ZB {
		r.hasZB = r.hasZB || z+sb != 0
	}
	if len(r.args.ZB) == 0 {
		r.hasZB = sb != 0
	}
	if !r.hasZB {
		return // zb is not read
	}
	clear(r.l.zb)
	for j := range g.s.N {
		r.l.zb[j] = sb + ZeroOf(r.args.ZB, j)
	}
}

// colSums returns the sums of the columns of matrix b.
func (r *intRun) colSums(b int) []int32 {
	if r.g.s.ConstB {
		return r.args.PackedB.Sums
	}
	n := r.g.panels * r.g.t.Nr
	return r.l.sums[b*n:][:n]
}

// columnStarts computes −za·sums, the initial values of the columns of C.
func (r *intRun) columnStarts() {
	n := r.g.panels * r.g.t.Nr
	for b := range r.g.copies(r.g.s.StrideB) {
		init := r.l.init[b*n:][:n]
		clear(init)
		if !r.perRow && r.za != 0 {
			r.g.t.Ints.MulSub(&init[0], &r.colSums(b)[0], n, r.za)
		}
	}
}

// Run packs a few panels, or computes a tile.
func (r *intRun) Run(i, worker int) {
	switch {
	case machine.Closed(r.args.Done):
		return
	case !r.packing:
		r.tile(i)
		return
	}
	g := r.g
	var tmp []byte
	if g.a.Kind == simd.IntPairs {
		n := pairTmp(g.t, g.s.K)
		tmp = r.l.tmp[worker*n:][:n]
	}
	if i < r.packsA {
		per := machine.CeilDiv(g.m.P, intPackPanels)
		p0 := i % per * intPackPanels
		r.packRows(i/per, p0, min(p0+intPackPanels, g.m.P), tmp)
		return
	}
	per := machine.CeilDiv(g.panels, intPackPanels)
	b := (i - r.packsA) / per
	q0 := (i - r.packsA) % per * intPackPanels
	n := g.panels * g.t.Nr
	g.packB(r.l.b[b*n*g.words:][:n*g.words], r.l.sums[b*n:][:n], r.args.B[b*g.s.StrideB:], q0, min(q0+intPackPanels, g.panels), tmp)
}

// packRows packs panels p0..p1 of matrix m for all of K.
func (r *intRun) packRows(m, p0, p1 int, tmp []byte) {
	g := r.g
	grp := g.kind.Group()
	src := r.args.A[m*g.s.StrideA:]
	dst := r.l.a[m*g.s.M*g.words:]
	for p := p0; p < p1; p++ {
		row, h := g.m.Part(p)
		for kb := range g.k.P {
			w0, wc := g.k.Part(kb)
			kc := min(wc*grp, g.s.K-w0*grp)
			g.a.PackRows(g.t, dst[w0*g.s.M+row*wc:][:wc*h], src[row*g.s.LDA+w0*grp:], h, kc, g.s.LDA, h, tmp)
		}
		if !r.hasZB {
			continue
		}
		for i := range h {
			r.l.rowSum[m*g.s.M+row+i] = g.a.rowSum(src[(row+i)*g.s.LDA:][:g.s.K])
		}
	}
}

// tile computes one tile of C.
func (r *intRun) tile(i int) {
	g := r.g
	tn := i % g.tilesN
	tm := i / g.tilesN % g.tilesM
	batch := i / g.tilesN / g.tilesM
	ma, mb := min(batch, g.copies(g.s.StrideA)-1), min(batch, g.copies(g.s.StrideB)-1)
	n := g.panels * g.t.Nr
	words := r.l.b
	if g.s.ConstB {
		words = r.args.PackedB.Words
	} else {
		words = words[mb*n*g.words:]
	}
	w := Sweep{T: g.t, Ints: g.kind, Rows: g.m, Cols: g.s.N, Bias: machine.Ptr(r.l.init, mb*n)}
	w.U.Ldc = 4 * g.s.LDC
	w.P0, w.P1 = tm*g.tileM, min((tm+1)*g.tileM, g.m.P)
	w.Q0, w.Q1 = tn*g.tileN, min((tn+1)*g.tileN, g.panels)
	w.LoopRows = g.tileM*g.t.Mr <= g.tileN*g.t.Nr
	off := batch * g.s.StrideC
	w.C = machine.Ptr(r.args.C, off)
	row0, _ := g.m.Part(w.P0)
	for kb := range max(1, g.k.P) {
		w0, wc := g.k.Part(kb)
		w.U.Flags = simd.UkAcc
		if kb == 0 {
			w.U.Flags = simd.UkCol
		}
		w.A = machine.Ptr(r.l.a, ma*g.s.M*g.words+w0*g.s.M+row0*wc)
		w.BLD = g.rowBytes()
		w.B, w.BStep = machine.Ptr(words, (w0*g.panels+w.Q0*wc)*w.BLD/4), w.BLD*wc
		w.Run(wc)
	}
	r.correct(&w, ma, mb, r.args.C[off:])
}

// correct subtracts the correction terms that the initial values do not contain: of the
// zero points of columns, and of rows where they differ.
func (r *intRun) correct(w *Sweep, ma, mb int, c []int32) {
	if !r.hasZB && !r.perRow {
		return
	}
	g := r.g
	r0, _ := g.m.Part(w.P0)
	last, h := g.m.Part(w.P1 - 1)
	c0, c1 := w.Q0*g.t.Nr, min(w.Q1*g.t.Nr, g.s.N)
	for row := r0; row < last+h; row++ {
		dst := c[row*g.s.LDC+c0:][:c1-c0]
		za := r.za
		if r.perRow {
			za += r.args.ZA[row]
			sums := r.colSums(mb)[c0:c1]
			g.t.Ints.MulSub(&dst[0], &sums[0], len(dst), za)
		}
		if r.hasZB {
			g.t.Ints.MulSub(&dst[0], &r.l.zb[c0], len(dst), r.l.rowSum[ma*g.s.M+row]-int32(g.s.K)*za)
		}
	}
}
