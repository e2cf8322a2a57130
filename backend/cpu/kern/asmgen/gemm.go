package main

import (
	"fmt"

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
// AVX-512 multiplies with a broadcast folded into the instruction; AVX2 loads
// the broadcast first. Low tiles (h ≤ 3) have too few sums to hide the latency
// of the multiply-add, so they keep several sets of sums for consecutive k and
// add them at the end.
//
// The epilogue runs while the sums are still in registers: scale, add β·C, add
// a bias per row or per column, add a residual, clamp; each stage behind a flag.

// Fields of the argument block, in units of 8 bytes; package kern declares the
// same order.
const (
	ukA, ukB, ukC, ukBias, ukRes  = 0, 8, 16, 24, 32
	ukK, ukLDB, ukLDC, ukLDR      = 40, 48, 56, 64
	ukFlags, ukCols               = 72, 80
	ukAlpha, ukBeta, ukLo, ukHi   = 88, 92, 96, 100
	flagAcc, flagAlpha, flagRow   = 1, 2, 4
	flagCol, flagRes, flagClamp   = 8, 16, 32
	flagTail                      = 64
	ukPre                         = 104
	maxHeightAVX512, maxHeightAVX = 14, 6

	// Up to this height a tile is bound by reading b, and fetches b itself
	// ahead; higher tiles leave that to the processor.
	narrow      = 8
	narrowAhead = 4096
)

func emitGemm(g *gen) {
	g.both(func() {
		top := maxHeightAVX
		if g.isa.zmm {
			top = maxHeightAVX512
		}
		for h := 1; h <= top; h++ {
			g.microKernel(h)
		}
	})
}

// tile is the state of one micro-kernel while it is being emitted.
type tile struct {
	*gen
	h    int
	args gp
	acc  [][2]vec
}

func (g *gen) microKernel(h int) {
	g.fn(fmt.Sprintf("uk%d", h), "(args *byte)", fmt.Sprintf("computes a tile of %d rows by two vectors.", h))
	t := &tile{gen: g, h: h, args: g.arg("args")}
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
			for j := range 2 {
				all[s][i][j] = g.v()
				g.zero(all[s][i][j])
			}
		}
	}
	t.prefetchTile()
	t.products(all)
	t.acc = all[0]
	for step := sets / 2; step >= 1; step /= 2 {
		for s := range step {
			for i := range h {
				for j := range 2 {
					g.add(all[s][i][j], all[s][i][j], all[s+step][i][j])
				}
			}
		}
	}
	t.epilogue()
}

func (t *tile) field(off int) gp {
	r := t.GP64()
	t.MOVQ(at(t.args, off), r)
	return r
}

// prefetchTile fetches the tile of C ahead of the epilogue.
func (t *tile) prefetchTile() {
	p, step := t.field(ukC), t.field(ukLDC)
	for i := range t.h {
		t.PREFETCHT0(at(p, 0))
		if t.isa.zmm {
			t.PREFETCHT0(at(p, 64))
		}
		if i+1 < t.h {
			t.ADDQ(step, p)
		}
	}
}

// products is the loop over k, four steps a round. Each round also fetches a
// few lines of the panel that will be needed next.
func (t *tile) products(all [][][2]vec) {
	a, b, ldb, k := t.field(ukA), t.field(ukB), t.field(ukLDB), t.field(ukK)
	pre := t.field(ukPre)
	const unroll = 4
	t.loop("k4", k, unroll, func() {
		for u := range unroll {
			t.step(all[u%len(all)], a, u, b)
			t.ADDQ(ldb, b)
			if t.h > narrow {
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
	b0, b1 := t.ld(at(b, 0)), t.ld(at(b, t.bytes()))
	if t.h <= narrow {
		t.PREFETCHT0(at(b, narrowAhead))
		if t.isa.zmm {
			t.PREFETCHT0(at(b, narrowAhead+64))
		}
	}
	for i := range t.h {
		m := at(a, (u*t.h+i)*4)
		if t.isa.zmm {
			t.VFMADD231PS_BCST(m, b0, acc[i][0])
			t.VFMADD231PS_BCST(m, b1, acc[i][1])
			continue
		}
		s := t.v()
		t.VBROADCASTSS(m, s)
		t.VFMADD231PS(s, b0, acc[i][0])
		t.VFMADD231PS(s, b1, acc[i][1])
	}
}

// epilogue finishes the sums and stores the tile.
func (t *tile) epilogue() {
	flags := t.field(ukFlags)
	when := func(flag int, name string, body func()) {
		t.TESTQ(operand.I32(flag), flags)
		t.JZ(operand.LabelRef("no_" + name))
		body()
		t.Label("no_" + name)
	}
	when(flagAlpha, "alpha", func() {
		alpha := t.all(ukAlpha)
		t.each(func(i, j int) { t.mul(t.acc[i][j], t.acc[i][j], alpha) })
	})
	when(flagRow, "row", t.biasRow)
	when(flagCol, "col", func() {
		p := t.field(ukBias)
		b := [2]vec{t.ld(at(p, 0)), t.ld(at(p, t.bytes()))}
		t.each(func(i, j int) { t.add(t.acc[i][j], t.acc[i][j], b[j]) })
	})
	t.TESTQ(operand.I32(flagTail), flags)
	t.JNZ(operand.LabelRef("tail"))
	when(flagAcc, "acc", func() { t.addTile(ukC, ukLDC, true, nil) })
	when(flagRes, "res", func() { t.addTile(ukRes, ukLDR, false, nil) })
	when(flagClamp, "clamp", t.clamp)
	t.store(nil)
	t.ret()

	t.Label("tail")
	m := t.tileMasks()
	when(flagAcc, "acct", func() { t.addTile(ukC, ukLDC, true, m) })
	when(flagRes, "rest", func() { t.addTile(ukRes, ukLDR, false, m) })
	when(flagClamp, "clampt", t.clamp)
	t.store(m)
	t.ret()
}

// all loads a float32 field of the argument block into all lanes.
func (t *tile) all(off int) vec {
	v := t.v()
	t.VBROADCASTSS(at(t.args, off), v)
	return v
}

// clamp bounds the tile; the tile is the last operand and so wins when NaN.
func (t *tile) clamp() {
	lo, hi := t.all(ukLo), t.all(ukHi)
	t.each(func(i, j int) {
		t.max(t.acc[i][j], lo, t.acc[i][j])
		t.min(t.acc[i][j], hi, t.acc[i][j])
	})
}

func (t *tile) each(f func(i, j int)) {
	for i := range t.h {
		for j := range 2 {
			f(i, j)
		}
	}
}

func (t *tile) biasRow() {
	p := t.field(ukBias)
	for i := range t.h {
		if t.isa.zmm {
			t.VADDPS_BCST(at(p, 4*i), t.acc[i][0], t.acc[i][0])
			t.VADDPS_BCST(at(p, 4*i), t.acc[i][1], t.acc[i][1])
			continue
		}
		b := t.v()
		t.VBROADCASTSS(at(p, 4*i), b)
		t.add(t.acc[i][0], t.acc[i][0], b)
		t.add(t.acc[i][1], t.acc[i][1], b)
	}
}

// tileMasks selects the columns of a narrow tile: the field holds their number.
func (t *tile) tileMasks() *[2]tail {
	m := t.pairMasks(t.field(ukCols))
	return &m
}

// addTile adds memory to the sums: β·C, or the residual.
func (t *tile) addTile(ptr, ld int, scaled bool, m *[2]tail) {
	p, step := t.field(ptr), t.field(ld)
	var beta vec
	if scaled && (t.isa.zmm || m == nil) {
		beta = t.all(ukBeta)
	}
	for i := range t.h {
		for j := range 2 {
			t.addVec(t.acc[i][j], at(p, j*t.bytes()), beta, scaled, m, j)
		}
		if i+1 < t.h {
			t.ADDQ(step, p)
		}
	}
}

func (t *tile) addVec(acc vec, mem operand.Mem, beta vec, scaled bool, m *[2]tail, j int) {
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
		x := t.v()
		t.VMASKMOVPS(mem, m[j].v, x)
		if scaled {
			t.fma(acc, x, t.all(ukBeta))
			return
		}
		t.add(acc, acc, x)
	}
}

func (t *tile) store(m *[2]tail) {
	p, step := t.field(ukC), t.field(ukLDC)
	for i := range t.h {
		for j := range 2 {
			mem := at(p, j*t.bytes())
			if m == nil {
				t.st(t.acc[i][j], mem)
			} else {
				t.stTail(t.acc[i][j], mem, m[j])
			}
		}
		if i+1 < t.h {
			t.ADDQ(step, p)
		}
	}
}
