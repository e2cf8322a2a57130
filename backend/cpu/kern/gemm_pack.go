package kern

// Packed layouts.
//
//	A: for each block of K: for each panel of rows: [k][height]
//	B: for each block of K: for each panel of nr columns: [k][nr], zero-padded
//
// so a block starts at k0·M in packed A and at k0·(panels·nr) in packed B, and
// within a block of kc, panel i of A starts at row(i)·kc and panel j of B at
// j·nr·kc.

// PackA lays out a constant A (M×K, or K×M with TransA) once.
func (g *Gemm) PackA(a []float32) (*Packed, error) {
	if err := needs("Gemm", "A", a, g.matrixLen(g.s.TransA, g.s.M, g.s.K, g.s.LDA)); err != nil {
		return nil, err
	}
	p := &Packed{alignedFloats(g.s.M*g.s.K + slackFloats), g.keyA()}
	for b := range g.k.p {
		k0, kc := g.k.part(b)
		g.packBlockA(p.data[k0*g.s.M:], a, 0, g.m.p, k0, kc)
	}
	return p, nil
}

// PackB lays out a constant B (K×N, or N×K with TransB) once.
func (g *Gemm) PackB(b []float32) (*Packed, error) {
	if err := needs("Gemm", "B", b, g.matrixLen(g.s.TransB, g.s.K, g.s.N, g.s.LDB)); err != nil {
		return nil, err
	}
	width := g.nPanels * g.t.nr
	p := &Packed{alignedFloats(width*g.s.K + slackFloats), g.keyB()}
	for i := range g.k.p {
		k0, kc := g.k.part(i)
		g.packBlockB(p.data[k0*width:], b, 0, g.nPanels, k0, kc)
	}
	return p, nil
}

// PackABytes is PackA for little-endian bytes of any alignment.
func (g *Gemm) PackABytes(raw []byte) (*Packed, error) { return g.PackA(FloatsOf(raw)) }

// PackBBytes is PackB for little-endian bytes of any alignment.
func (g *Gemm) PackBBytes(raw []byte) (*Packed, error) { return g.PackB(FloatsOf(raw)) }

func (g *Gemm) keyA() packKey { return packKey{g.t.level, false, g.s.M, g.s.K} }
func (g *Gemm) keyB() packKey { return packKey{g.t.level, true, g.s.N, g.s.K} }

// matrixLen is the number of elements of an unbatched operand.
func (g *Gemm) matrixLen(trans bool, rows, cols, ld int) int {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return 0
	}
	return (rows-1)*ld + cols
}

// packBlockA packs panels p0..p1 of one block of K.
func (g *Gemm) packBlockA(dst, a []float32, p0, p1, k0, kc int) {
	first, _ := g.m.part(p0)
	for i := p0; i < p1; i++ {
		row, h := g.m.part(i)
		d := f32p(dst, (row-first)*kc)
		if g.s.TransA {
			g.t.packNarrow(d, f32p(a, k0*g.s.LDA+row), kc, 4*h, 4*g.s.LDA, h)
		} else {
			g.t.packTrans(d, f32p(a, row*g.s.LDA+k0), kc, 4*h, 4*g.s.LDA, h)
		}
	}
}

// packBlockB packs panels p0..p1 of one block of K.
func (g *Gemm) packBlockB(dst, b []float32, p0, p1, k0, kc int) {
	nr, tw := g.t.nr, g.t.tw
	if full := min(p1, g.s.N/nr) - p0; !g.s.TransB && full > 0 {
		g.t.packPanels(f32p(dst, 0), f32p(b, k0*g.s.LDB+p0*nr), kc, 4*nr, 4*g.s.LDB, full, 4*nr*kc)
		dst, p0 = dst[full*nr*kc:], p0+full
	}
	for j := p0; j < p1; j++ {
		panel := dst[(j-p0)*nr*kc:]
		col := j * nr
		cols := min(nr, g.s.N-col)
		if !g.s.TransB {
			g.t.packWide(f32p(panel, 0), f32p(b, k0*g.s.LDB+col), kc, 4*nr, 4*g.s.LDB, cols)
			continue
		}
		for c := 0; c < cols; c += tw {
			g.t.packTrans(f32p(panel, c), f32p(b, (col+c)*g.s.LDB+k0), kc, 4*nr, 4*g.s.LDB, min(tw, cols-c))
		}
	}
}
