package kern

// intRun is the state of one run; it is a Task.
type intRun struct {
	g       *IntGemm
	args    IntGemmArgs
	l       intLayout
	za      int32 // of all rows, as packed
	perRow  bool  // zero points differ from row to row
	hasZB   bool  // some column's zero point, as packed, is not zero
	packing bool
	packsA  int // tasks that pack rows; those after it pack columns
}

var intRuns freeList[intRun]

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
	r := intRuns.get()
	defer func() {
		*r = intRun{}
		intRuns.put(r)
	}()
	r.g, r.args, r.l = g, a, g.layout(ws, threads)
	r.zeroPoints()
	r.packing = true
	r.packsA = g.copies(g.s.StrideA) * ceilDiv(g.m.p, intPackPanels)
	packs := r.packsA
	if !g.s.ConstB {
		packs += g.copies(g.s.StrideB) * ceilDiv(g.panels, intPackPanels)
	}
	Parallel(packs, threads, r)
	r.packing = false
	r.columnStarts()
	Parallel(g.tasks(), threads, r)
	return nil
}

func (g *IntGemm) checkArgs(a *IntGemmArgs, ws []byte, threads int) error {
	if err := needs("IntGemm", "A", a.A, g.needA); err != nil {
		return err
	}
	if err := needs("IntGemm", "C", a.C, g.needC); err != nil {
		return err
	}
	if g.s.ConstB {
		if a.PackedB == nil || a.PackedB.layout != g.LayoutB() {
			return &SpecError{"IntGemm", "PackedB", "missing, or packed for another shape or level"}
		}
	} else if err := needs("IntGemm", "B", a.B, g.needB); err != nil {
		return err
	}
	if n := len(a.ZA); n > 1 && n != g.s.M {
		return &SizeError{"IntGemm", "ZA", n, g.s.M}
	}
	if n := len(a.ZB); n > 1 && n != g.s.N {
		return &SizeError{"IntGemm", "ZB", n, g.s.N}
	}
	return needs("IntGemm", "workspace", ws, g.Workspace(threads))
}

// zeroPoints moves the zero points as packing moves the values.
func (r *intRun) zeroPoints() {
	g := r.g
	sb := g.b.shift()
	r.za = g.a.shift()
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
		return // nobody reads them
	}
	clear(r.l.zb)
	for j := range g.s.N {
		r.l.zb[j] = sb + zeroOf(r.args.ZB, j)
	}
}

// colSums returns the sums of the columns of matrix b.
func (r *intRun) colSums(b int) []int32 {
	if r.g.s.ConstB {
		return r.args.PackedB.sums
	}
	n := r.g.panels * r.g.t.nr
	return r.l.sums[b*n:][:n]
}

// columnStarts works out −za·sums, from which the columns of C start.
func (r *intRun) columnStarts() {
	n := r.g.panels * r.g.t.nr
	for b := range r.g.copies(r.g.s.StrideB) {
		init := r.l.init[b*n:][:n]
		clear(init)
		if !r.perRow && r.za != 0 {
			r.g.t.ints.mulSub(&init[0], &r.colSums(b)[0], n, r.za)
		}
	}
}

// Run packs a few panels, or computes a tile.
func (r *intRun) Run(i, worker int) {
	if !r.packing {
		r.tile(i)
		return
	}
	g := r.g
	var tmp []byte
	if g.kind == intPairs {
		n := g.t.pairTmp(g.s.K)
		tmp = r.l.tmp[worker*n:][:n]
	}
	if i < r.packsA {
		per := ceilDiv(g.m.p, intPackPanels)
		p0 := i % per * intPackPanels
		r.packRows(i/per, p0, min(p0+intPackPanels, g.m.p), tmp)
		return
	}
	per := ceilDiv(g.panels, intPackPanels)
	b := (i - r.packsA) / per
	q0 := (i - r.packsA) % per * intPackPanels
	n := g.panels * g.t.nr
	g.packB(r.l.b[b*n*g.words:][:n*g.words], r.l.sums[b*n:][:n], r.args.B[b*g.s.StrideB:], q0, min(q0+intPackPanels, g.panels), tmp)
}

// packRows packs panels p0..p1 of matrix m for all of K.
func (r *intRun) packRows(m, p0, p1 int, tmp []byte) {
	g := r.g
	grp := g.kind.group()
	src := r.args.A[m*g.s.StrideA:]
	dst := r.l.a[m*g.s.M*g.words:]
	for p := p0; p < p1; p++ {
		row, h := g.m.part(p)
		for kb := range g.k.p {
			w0, wc := g.k.part(kb)
			kc := min(wc*grp, g.s.K-w0*grp)
			g.a.packRows(g.t, dst[w0*g.s.M+row*wc:][:wc*h], src[row*g.s.LDA+w0*grp:], h, kc, g.s.LDA, h, tmp)
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
	n := g.panels * g.t.nr
	words := r.l.b
	if g.s.ConstB {
		words = r.args.PackedB.words
	} else {
		words = words[mb*n*g.words:]
	}
	w := sweep{t: g.t, ints: g.kind, rows: g.m, cols: g.s.N, bias: ptr(r.l.init, mb*n)}
	w.u.ldc = 4 * g.s.LDC
	w.p0, w.p1 = tm*g.tileM, min((tm+1)*g.tileM, g.m.p)
	w.q0, w.q1 = tn*g.tileN, min((tn+1)*g.tileN, g.panels)
	w.loopRows = g.tileM*g.t.mr <= g.tileN*g.t.nr
	off := batch * g.s.StrideC
	w.c = ptr(r.args.C, off)
	row0, _ := g.m.part(w.p0)
	for kb := range max(1, g.k.p) {
		w0, wc := g.k.part(kb)
		w.u.flags = ukAcc
		if kb == 0 {
			w.u.flags = ukCol
		}
		w.a = ptr(r.l.a, ma*g.s.M*g.words+w0*g.s.M+row0*wc)
		w.b, w.bStep, w.bLD = ptr(words, (w0*g.panels+w.q0*wc)*g.t.nr), 4*g.t.nr*wc, 4*g.t.nr
		w.run(wc)
	}
	r.correct(&w, ma, mb, r.args.C[off:])
}

// correct subtracts what the zero points of rows and of columns still owe.
func (r *intRun) correct(w *sweep, ma, mb int, c []int32) {
	if !r.hasZB && !r.perRow {
		return
	}
	g := r.g
	r0, _ := g.m.part(w.p0)
	last, h := g.m.part(w.p1 - 1)
	c0, c1 := w.q0*g.t.nr, min(w.q1*g.t.nr, g.s.N)
	for row := r0; row < last+h; row++ {
		dst := c[row*g.s.LDC+c0:][:c1-c0]
		za := r.za
		if r.perRow {
			za += r.args.ZA[row]
			sums := r.colSums(mb)[c0:c1]
			g.t.ints.mulSub(&dst[0], &sums[0], len(dst), za)
		}
		if r.hasZB {
			g.t.ints.mulSub(&dst[0], &r.l.zb[c0], len(dst), r.l.rowSum[ma*g.s.M+row]-int32(g.s.K)*za)
		}
	}
}
