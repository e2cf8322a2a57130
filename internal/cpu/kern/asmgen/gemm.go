package main

import (
	"strconv"

	"github.com/mmcloughlin/avo/operand"
)

// The micro-kernel of the matrix product: a tile of h rows by two vectors.
//
//	            b: k rows of 2 vectors (packed, or straight from the matrix)
//	            ┌──────┬──────┐
//	            │  b0  │  b1  │ ← loaded once per k
//	            └──────┴──────┘
//	 a: k×h     ┌──────┬──────┐
//	 a[k][0] ─▶ │ acc  │ acc  │   acc += broadcast(a[k][i]) · b
//	 a[k][i] ─▶ │  …   │  …   │
//	            └──────┴──────┘  h = 1..14 (28 of 32 ZMM), 1..6 (12 of 16 YMM)
//
// An element of a is broadcast to a register once for its two multiply-adds. The
// broadcast folded into the instruction (AVX-512) saves an instruction and costs a
// load for every multiply-add: with h rows 2h+2 loads for 2h sums in place of h+2,
// and no processor loads more than two vectors in a cycle. Three instructions for two
// sums stay below the four a cycle of all processors with AVX-512.
//
// The far kernels are those of low tiles whose b comes from far away: they are bound by
// reading it, so they fetch it ahead and fold: fewer instructions let more of the loads
// that miss the cache be under way at once. Where b is in the second cache, one core of an
// Ice Lake computes 4 rows of 256×256 at 105 GFLOP/s without either, at 79 with both; 8 rows
// at 141 and 94; 1 row of 128×512 at 54 and 38.
//
// Low tiles (h ≤ 3) have too few sums to hide the latency of the multiply-add, so
// they keep several sets of sums for consecutive k and add them at the end.
//
// A tile of one row takes about as long as calling it, so the kernels of one row go on to
// the next panels of b by themselves:
//
//	b ┌────┐ stepB ┌────┐        c ┌───────┐ stepC ┌───────┐
//	  │ k  │──────▶│ k  │─▶ …      │ panel │──────▶│ panel │─▶ …
//
// The epilogue runs while the sums are still in registers: scale, add β·C, add
// a bias per row or per column, add a residual, clamp; each stage behind a flag.

// Fields of the argument block, in units of 8 bytes; package simd declares the
// same order.
const (
	ukA, ukB, ukC, ukBias, ukRes = 0, 8, 16, 24, 32
	ukK, ukLDB, ukLDC, ukLDR     = 40, 48, 56, 64
	ukFlags, ukCols              = 72, 80
	ukAlpha, ukBeta, ukLo, ukHi  = 88, 92, 96, 100
	flagAcc, flagAlpha, flagRow  = 1, 2, 4
	flagCol, flagRes, flagClamp  = 8, 16, 32
	flagTail                     = 64
	ukPre, ukPanels              = 104, 112
	ukStepB, ukStepC             = 120, 128

	// Up to this height there are far kernels, which fetch b so many bytes ahead.
	farRows = 8
	// Tiles of more rows, if they are not far, fetch what the next panel needs. Lower ones have no loads to spare.
	lowRows  = 4
	farAhead = 4096
)

func emitGemm(g *gen) {
	g.both(func() {
		for _, f := range []struct {
			name          string
			rows, vectors int
			doc           string
		}{
			{"uk", g.isa.rows, 2, "computes a tile of i+1 rows by two vectors."},
			{"ukFar", min(g.isa.rows, farRows), 2, "is the same for b far away."},
			{"ukHalf", g.isa.rows, 1, "computes a tile of i+1 rows by the first vector of a panel."},
		} {
			for h := 1; h <= f.rows; h++ {
				g.microKernel(f.name, h, f.vectors)
			}
			g.family(f.name, f.doc)
		}
	})
}

// tile is the state of one micro-kernel while it is being emitted.
type tile struct {
	*gen
	h       int
	vectors int // of a row
	far     bool
	args    gp
	acc     [][2]vec
	several bool
	b       gp // where the kernel goes on to other panels: the next row of b
	off     gp // and where the present one begins in c, residual and column bias
}

func (g *gen) microKernel(name string, h, vectors int) {
	t := &tile{gen: g, h: h, vectors: vectors, far: name == "ukFar", args: g.kernel(name, strconv.Itoa(h)), several: h == 1 && vectors == 2}
	var left gp
	if t.several {
		t.b, left, t.off = t.field(t.args, ukB), t.field(t.args, ukPanels), t.GP64()
		t.XORQ(t.off, t.off)
		t.Label("panel")
	}
	sets := 1
	switch {
	case h == 1:
		sets = 4
	case h <= 3:
		sets = 2
	}
	all := make([][][2]vec, sets)
	for s := range all {
		all[s] = make([][2]vec, h)
		for i := range all[s] {
			all[s][i] = t.zeros()
		}
	}
	t.prefetchTile()
	t.products(all)
	t.acc = all[0]
	for step := sets / 2; step >= 1; step /= 2 {
		for s := range step {
			for i := range h {
				for j := range vectors {
					g.add(all[s][i][j], all[s][i][j], all[s+step][i][j])
				}
			}
		}
	}
	t.epilogue(left)
}

// nextPanel goes on to the next panel, if there is one.
func (t *tile) nextPanel(left gp) {
	if !t.several {
		return
	}
	t.SUBQ(operand.I32(1), left)
	t.JLE(operand.LabelRef("last"))
	t.ADDQ(at(t.args, ukStepB), t.b)
	t.ADDQ(at(t.args, ukStepC), t.off)
	t.JMP(operand.LabelRef("panel"))
	t.Label("last")
}

// columns is the address in a field, of what has a place for each column: that of the present panel.
func (t *tile) columns(field int) gp {
	p := t.field(t.args, field)
	if t.several {
		t.ADDQ(t.off, p)
	}
	return p
}

// zeros are the sums of a row.
func (t *tile) zeros() (acc [2]vec) {
	for j := range t.vectors {
		acc[j] = t.zeroed()
	}
	return acc
}

// row loads the vectors of a row.
func (t *tile) row(p gp) (x [2]vec) {
	for j := range t.vectors {
		x[j] = t.ld(at(p, j*t.bytes()))
	}
	return x
}

// prefetchTile fetches the tile of C ahead of the epilogue.
func (t *tile) prefetchTile() {
	t.rowsAt(ukC, ukLDC, func(_ int, p gp) {
		t.PREFETCHT0(at(p, 0))
		if t.isa.zmm && t.vectors > 1 {
			t.PREFETCHT0(at(p, 64))
		}
	})
}

// rowsAt visits the rows of a tile in memory; ptr and ld are the fields of its address
// and of the distance between rows.
func (t *tile) rowsAt(ptr, ld int, row func(i int, p gp)) {
	p, step := t.columns(ptr), t.field(t.args, ld)
	for i := range t.h {
		row(i, p)
		if i+1 < t.h {
			t.ADDQ(step, p)
		}
	}
}

// vectorsAt visits the vectors of the rows.
func (t *tile) vectorsAt(ptr, ld int, vector func(i, j int, p gp)) {
	t.rowsAt(ptr, ld, func(i int, p gp) {
		for j := range t.vectors {
			vector(i, j, p)
		}
	})
}

// products is the loop over k, four steps a round. Each round also fetches a
// few lines of the panel that will be needed next.
func (t *tile) products(all [][][2]vec) {
	a, b := t.field(t.args, ukA), t.b
	if !t.several {
		b = t.field(t.args, ukB)
	}
	ldb, k := t.field(t.args, ukLDB), t.field(t.args, ukK)
	pre := t.field(t.args, ukPre)
	unroll := 4
	if t.h > 3 {
		unroll = 2 // long enough for the loop to cost nothing
	}
	t.loop("k4", k, unroll, func() {
		for u := range unroll {
			t.step(all[u%len(all)], a, u, b)
			t.ADDQ(ldb, b)
			if t.h > lowRows {
				t.PREFETCHT0(at(pre, 64*u))
			}
		}
		t.advance(unroll*4*t.h, a)
		t.advance(unroll*64, pre)
	})
	t.loop("k1", k, 1, func() {
		t.step(all[0], a, 0, b)
		t.ADDQ(ldb, b)
		t.advance(4*t.h, a)
	})
}

// step multiplies one k: two vectors of b with h broadcast elements of a.
func (t *tile) step(acc [][2]vec, a gp, u int, b gp) {
	x := t.row(b)
	if t.far {
		t.PREFETCHT0(at(b, farAhead))
		if t.isa.zmm {
			t.PREFETCHT0(at(b, farAhead+64))
		}
	}
	for i := range t.h {
		m := at(a, (u*t.h+i)*4)
		if t.isa.zmm && t.far {
			for j := range t.vectors {
				t.VFMADD231PS_BCST(m, x[j], acc[i][j])
			}
			continue
		}
		s := t.to(t.VBROADCASTSS, m)
		for j := range t.vectors {
			t.VFMADD231PS(s, x[j], acc[i][j])
		}
	}
}

// biasCol adds a bias for each column.
func (t *tile) biasCol(flags gp, add func(d, a vec, b any)) {
	t.when(flags, flagCol, "col", func() {
		b := t.row(t.columns(ukBias))
		t.each(func(i, j int) { add(t.acc[i][j], t.acc[i][j], b[j]) })
	})
}

// overColumns emits what reads and writes the tile in memory, goes on to the next panel unless the tile is narrow, and
// leaves. Where masks have registers of their own they select all lanes of whole tiles, and halves of panels are always
// narrow: the code is there once. Else it is for whole tiles, and again for narrow ones.
func (t *tile) overColumns(flags, left gp, body func(form string, m *[2]mask)) {
	if !t.isa.zmm && t.vectors > 1 {
		t.TESTQ(operand.I32(flagTail), flags)
		t.JNZ(operand.LabelRef("tail"))
		body("", nil)
		t.nextPanel(left)
		t.ret()
		t.Label("tail")
	}
	body("t", t.tileMasks(flags))
	if t.isa.zmm && t.several {
		t.TESTQ(operand.I32(flagTail), flags)
		t.JNZ(operand.LabelRef("last"))
		t.nextPanel(left)
	}
	t.ret()
}

// epilogue finishes the sums and stores the tile.
func (t *tile) epilogue(left gp) {
	flags := t.field(t.args, ukFlags)
	t.when(flags, flagAlpha, "alpha", func() {
		alpha := t.to(t.VBROADCASTSS, at(t.args, ukAlpha))
		t.each(func(i, j int) { t.mul(t.acc[i][j], t.acc[i][j], alpha) })
	})
	t.when(flags, flagRow, "row", t.biasRow)
	t.biasCol(flags, t.add)
	t.overColumns(flags, left, func(form string, m *[2]mask) {
		t.when(flags, flagAcc, "acc"+form, func() { t.addTile(ukC, ukLDC, true, m) })
		t.when(flags, flagRes, "res"+form, func() { t.addTile(ukRes, ukLDR, false, m) })
		t.when(flags, flagClamp, "clamp"+form, t.clamp)
		t.store(m)
	})
}

// clamp bounds the tile.
func (t *tile) clamp() {
	lo, hi := t.to(t.VBROADCASTSS, at(t.args, ukLo)), t.to(t.VBROADCASTSS, at(t.args, ukHi))
	t.each(func(i, j int) { t.clampTo(t.acc[i][j], lo, hi) })
}

func (t *tile) each(f func(i, j int)) {
	for i := range t.h {
		for j := range t.vectors {
			f(i, j)
		}
	}
}

func (t *tile) biasRow() {
	p := t.field(t.args, ukBias)
	for i := range t.h {
		b := t.to(t.VBROADCASTSS, at(p, 4*i))
		for j := range t.vectors {
			t.add(t.acc[i][j], t.acc[i][j], b)
		}
	}
}

// tileMasks selects the columns of a tile: all, or, with the flag of a narrow one, as many as the field holds.
func (t *tile) tileMasks(flags gp) *[2]mask {
	cols := t.field(t.args, ukCols)
	if t.isa.zmm {
		all := t.GP64()
		t.MOVQ(operand.I32(2*t.isa.w), all)
		t.TESTQ(operand.I32(flagTail), flags)
		t.CMOVQEQ(all, cols)
	}
	m := t.pairMasks(cols)
	return &m
}

// addTile adds memory to the sums: β·C, or the residual.
func (t *tile) addTile(ptr, ld int, scaled bool, m *[2]mask) {
	p, step := t.columns(ptr), t.field(t.args, ld)
	var beta vec
	if scaled && (t.isa.zmm || m == nil) {
		beta = t.to(t.VBROADCASTSS, at(t.args, ukBeta))
	}
	for i := range t.h {
		for j := range t.vectors {
			t.addVec(t.acc[i][j], at(p, j*t.bytes()), beta, scaled, m, j)
		}
		if i+1 < t.h {
			t.ADDQ(step, p)
		}
	}
}

func (t *tile) addVec(acc vec, mem operand.Mem, beta vec, scaled bool, m *[2]mask, j int) {
	switch {
	case m == nil && scaled:
		t.VFMADD231PS(mem, beta, acc)
	case m == nil:
		t.VADDPS(mem, acc, acc)
	case t.isa.zmm && scaled:
		t.VFMADD231PS(mem, beta, m[j].k, acc)
	case t.isa.zmm:
		t.VADDPS(mem, acc, m[j].k, acc)
	default: // AVX2: the masks leave two registers
		x := t.ldTail(mem, m[j])
		if scaled {
			t.fma(acc, x, t.to(t.VBROADCASTSS, at(t.args, ukBeta)))
			return
		}
		t.add(acc, acc, x)
	}
}

// half is the mask of vector j of a row, nil for all lanes.
func half(m *[2]mask, j int) *mask {
	if m == nil {
		return nil
	}
	return &m[j]
}

// store writes the sums to C.
func (t *tile) store(m *[2]mask) {
	t.vectorsAt(ukC, ukLDC, func(i, j int, p gp) { t.put(t.acc[i][j], p, j*t.bytes(), half(m, j)) })
}
