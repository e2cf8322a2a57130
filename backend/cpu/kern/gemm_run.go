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
// Workspace(threads) bytes. C may be the residual; otherwise C overlaps
// nothing.
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
	if err := g.checkOperand("A", a.A, a.PackedA, s.ConstA, g.needA, g.keyA()); err != nil {
		return err
	}
	if err := g.checkOperand("B", a.B, a.PackedB, s.ConstB, g.needB, g.keyB()); err != nil {
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

func (g *Gemm) checkOperand(name string, x []float32, p *Packed, constant bool, need int, key packKey) error {
	if !constant {
		return needs("Gemm", name, x, need)
	}
	if p == nil || p.key != key {
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
	j := gemmTile{g: g, args: &r.args, sharedA: r.sharedA}
	for d := len(g.s.Batch) - 1; d >= 0; d-- {
		b := &g.s.Batch[d]
		x := batch % b.N
		batch /= b.N
		j.offA += x * b.A
		j.offB += x * b.B
		j.offC += x * b.C
		j.offR += x * b.R
	}
	j.p0, j.p1 = tm*g.tileM, min((tm+1)*g.tileM, g.m.p)
	j.q0, j.q1 = tn*g.tileN, min((tn+1)*g.tileN, g.nPanels)
	if r.per > 0 {
		s := newScratch(r.ws[worker*r.per:])
		j.bufA, j.bufB, j.colBias = s.floats(g.packA), s.floats(g.packB), s.floats(g.colBias)
	}
	j.run()
}

// packPiece packs the panels of one row of tiles for one block of K.
func (r *gemmRun) packPiece(i int) {
	g := r.g
	k0, kc := g.k.part(i / g.tilesM)
	p0 := i % g.tilesM * g.tileM
	g.packBlockA(r.sharedA[i*g.pieceA:], r.args.A, p0, min(p0+g.tileM, g.m.p), k0, kc)
}

// gemmTile is one tile: panels p0..p1 of A by panels q0..q1 of B.
type gemmTile struct {
	g                      *Gemm
	args                   *GemmArgs
	offA, offB, offC, offR int
	p0, p1, q0, q1         int
	bufA, bufB             []float32
	sharedA                []float32
	u                      ukArgs
	colBias                []float32 // room for the bias of the last, narrow panel
}

// run goes through the blocks of K, then applies what follows on the finished
// tile.
func (j *gemmTile) run() {
	g := j.g
	j.u.ldc, j.u.ldr = 4*g.s.LDC, 4*g.s.LDR
	j.u.alpha, j.u.lo, j.u.hi = g.s.Alpha, g.lo, g.hi
	blocks := max(1, g.k.p) // K = 0 still scales C and adds the bias
	for b := range blocks {
		j.flags(b == 0, b == blocks-1)
		j.block(b)
	}
	if g.after != Identity {
		j.activate()
	}
}

// flags sets the stages of the epilogue for one block of K.
func (j *gemmTile) flags(first, last bool) {
	s := &j.g.s
	u := &j.u
	u.flags, u.beta = ukAcc, 1
	if first {
		u.beta = s.Beta
		if s.Beta == 0 {
			u.flags = 0
		}
	}
	if s.Alpha != 1 {
		u.flags |= ukAlpha
	}
	if !last {
		return
	}
	switch s.Epilogue.Bias {
	case BiasPerRow:
		u.flags |= ukRow
	case BiasPerCol:
		u.flags |= ukCol
	}
	if s.Epilogue.Residual {
		u.flags |= ukRes
	}
	if j.g.clamp {
		u.flags |= ukClamp
	}
}

// block adds block kb of K to the tile.
func (j *gemmTile) block(kb int) {
	g := j.g
	k0, kc := g.k.part(kb)
	j.u.k = kc
	row0, _ := g.m.part(j.p0)
	a, b := j.bufA, j.bufB
	switch {
	case g.s.ConstA:
		a = j.args.PackedA.data[k0*g.s.M+row0*kc:]
	case g.shareA:
		a = j.sharedA[(kb*g.tilesM+j.p0/g.tileM)*g.pieceA:]
	default:
		g.packBlockA(a, j.args.A[j.offA:], j.p0, j.p1, k0, kc)
	}
	switch {
	case g.s.ConstB:
		b = j.args.PackedB.data[(k0*g.nPanels+j.q0*kc)*g.t.nr:]
	case !g.directB:
		g.packBlockB(b, j.args.B[j.offB:], j.q0, j.q1, k0, kc)
	}
	if g.loopRows {
		for q := j.q0; q < j.q1; q++ {
			j.panelB(b, q, k0, kc)
			for p := j.p0; p < j.p1; p++ {
				j.panelA(a, p, row0, kc)
				j.fetch(j.u.b, 4*kc*g.t.nr, p-j.p0, !g.directB && q+1 < j.q1)
				j.call(p, q)
			}
		}
		return
	}
	for p := j.p0; p < j.p1; p++ {
		j.panelA(a, p, row0, kc)
		_, h := g.m.part(p)
		for q := j.q0; q < j.q1; q++ {
			j.panelB(b, q, k0, kc)
			j.fetch(j.u.a, 4*kc*h, q-j.q0, p+1 < j.p1)
			j.call(p, q)
		}
	}
}

// fetch has the micro-kernel prefetch a piece of the outer loop's next panel,
// which follows the present one: piece i of as many as the inner loop has.
func (j *gemmTile) fetch(panel unsafe.Pointer, size, i int, more bool) {
	if off := i * j.u.k * lineBytes; more && off < size {
		j.u.pre = unsafe.Add(panel, size+off)
		return
	}
	j.u.pre = j.u.a // in the cache already
}

// panelA points the micro-kernel at a panel of A.
func (j *gemmTile) panelA(a []float32, p, row0, kc int) {
	row, _ := j.g.m.part(p)
	j.u.a = ptr(a, (row-row0)*kc)
}

// panelB points the micro-kernel at a panel of B.
func (j *gemmTile) panelB(b []float32, q, k0, kc int) {
	g := j.g
	nr := g.t.nr
	switch {
	case !g.directB:
		j.u.b, j.u.ldb = ptr(b, (q-j.q0)*nr*kc), 4*nr
	case (q+1)*nr <= g.s.N:
		j.u.b, j.u.ldb = ptr(j.args.B, j.offB+k0*g.s.LDB+q*nr), 4*g.s.LDB
	default:
		g.packBlockB(b, j.args.B[j.offB:], q, q+1, k0, kc)
		j.u.b, j.u.ldb = ptr(b, 0), 4*nr
	}
}

// call runs the micro-kernel on panel p of A and q of B.
func (j *gemmTile) call(p, q int) {
	g, u := j.g, &j.u
	row, h := g.m.part(p)
	col := q * g.t.nr
	u.c = ptr(j.args.C, j.offC+row*g.s.LDC+col)
	if u.flags&ukRes != 0 {
		u.res = ptr(j.args.Residual, j.offR+row*g.s.LDR+col)
	}
	if u.flags&ukRow != 0 {
		u.bias = ptr(j.args.Bias, row)
	}
	u.flags &^= ukTail
	narrow := col+g.t.nr > g.s.N
	if narrow {
		u.flags |= ukTail
		u.cols = g.s.N - col
	}
	if u.flags&ukCol != 0 {
		u.bias = ptr(j.args.Bias, col)
		if narrow {
			copy(j.colBias, j.args.Bias[col:g.s.N])
			u.bias = ptr(j.colBias, 0)
		}
	}
	g.t.micro(h, u)
}

// activate applies the activation that is no clamp to the finished tile.
func (j *gemmTile) activate() {
	g := j.g
	r0, _ := g.m.part(j.p0)
	last, h := g.m.part(j.p1 - 1)
	c0, c1 := j.q0*g.t.nr, min(j.q1*g.t.nr, g.s.N)
	e := &g.s.Epilogue
	for row := r0; row < last+h; row++ {
		c := j.offC + row*g.s.LDC
		x := j.args.C[c+c0 : c+c1]
		g.t.unaryRow(g.after, x, x, e.P0, e.P1)
	}
}
