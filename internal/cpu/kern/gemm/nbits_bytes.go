package gemm

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Products of rows that are quantized to bytes with columns of 4 or 8 bits, which accuracy_level 4 of MatMulNBits permits. A block of
// a row has the scale of its largest magnitude, as in ONNX Runtime:
//
//	s = max |a| / 127,  x[k] = round(a[k] / s)     C[m][n] = bias[n] + Σ over blocks: scale · s · Σ over k: x[k]·(q[k][n] − zero)
//
// Sums of a block are exact. A number is rounded by at most s·(1/2 + 127·2⁻²²), so that C is within
//
//	Σ over blocks: s·(1/2 + 127·2⁻²²)·Σ|B|  +  (blocks + 5)·2⁻²⁴·(|bias| + Σ (|A| + s)·|B|)
//
// of the exact sum of finite numbers, underflow aside, and overflow, for which nbits_huge.go has a remedy. A block with NaN gives NaN; one with an infinite number and without NaN gives
// infinite results of the sign of the sum over its infinite numbers, or NaN where that is 0.
//
// Where that is not permitted, a number of a row becomes one of three bytes, d2·65536 + d1·256 + d0, each from -128 to 127:
//
//	s = max(max |a| / 8355711, 2⁻¹²⁶),  x[k] = round(a[k] / s)
//
// Sums of a block of each digit are exact, their sum is rounded once. A number is rounded by at most s, some 2⁻²³ of the largest magnitude of its
// block, so that C is within
//
//	Σ over blocks: s·Σ|B|  +  (blocks + 5)·2⁻²⁴·(|bias| + Σ (|A| + s)·|B|)
//
// which for rows whose magnitudes are alike is less than what sums of K products in float32 are off. A product of four bytes takes
// an instruction as one of float32 does, and nothing is made of the columns but words of bytes: 4 bits take six products where they take eight in
// float32 and as many instructions again that make floats of them.
//
// All products read the same packed columns, those of many rows a tile of rows after the other.

// bytesTileRows is how many rows are quantized by one task and multiplied with a panel that is in the cache.
const bytesTileRows = 64

// bytesRows is how many rows a kernel takes, if not one: rows of a tile are rounded up to that, and what is there is not read.
const bytesRows = 4

// bytesMost4 and bytesMost8 are the largest blocks of so many bits, whose sums float32 has: 15·127·8192 and 255·127·512 < 2²⁴.
const bytesMost4, bytesMost8 = 8192, 512

// threeDigits is the digits of a number in the place of a float.
const threeDigits = 3

// ByBytes has the columns, which are not packed yet, laid out for rows that are quantized, where there are kernels for that, and for
// their zero points, which are bytes then. The quantized numbers are one byte or, if the row is to be as exact as in float32, three.
func (b *NBits) ByBytes(zeros []float32, exact bool) {
	fits := b.s.Bits == 4 && b.s.Block <= bytesMost4 || b.s.Bits == 8 && b.s.Block <= bytesMost8
	if b.byBytes = b.t.NBitsQuantize != nil && fits && areBytes(zeros); b.byBytes {
		b.rows, b.digits = b.Blocks()*b.s.Block/b.per, 1
		if exact {
			b.digits = threeDigits
		}
	}
}

// areBytes reports zero points that are whole numbers of 8 bits.
func areBytes(zeros []float32) bool {
	return !slices.ContainsFunc(zeros, func(z float32) bool { return z != float32(uint8(int(z))) })
}

// place is where byte r of a column lies: the row of words of a panel, and the byte of the word. Of eight numbers those of even k come
// first, as in records.
func (b *NBits) place(r int) (row, at int) {
	switch {
	case !b.byBytes:
		return r, 0
	case b.s.Bits == 8:
		return r/8*2 + r%2, r % 8 / 2
	}
	return r / 4, r % 4
}

// BytesDigits is what [GemmSpec.BytesDigits] wants to know.
func (b *NBits) BytesDigits() int { return b.digits }

// BytesBlock is what [GemmSpec.BytesBlock] wants to know.
func (b *NBits) BytesBlock() int {
	if b.byBytes {
		return b.s.Block
	}
	return 0
}

// word is how many bytes of a column lie together.
func (b *NBits) word() int {
	if b.byBytes {
		return 4
	}
	return 1
}

// planBytes makes tiles of some rows, each of which a task quantizes first. It returns the work of a panel: a product of four bytes
// takes an instruction as one of float32 does.
func (g *Gemm) planBytes() (perPanel int) {
	s := &g.s
	g.tileM = min(s.M, bytesTileRows)
	g.tilesM = machine.CeilDiv(s.M, g.tileM)
	g.k, g.shareA = Split{s.K, 1, s.K, 0}, true
	g.blocks = machine.CeilDiv(s.K, s.BytesBlock)
	g.records = g.blocks * (s.BytesDigits*(s.BytesBlock/4+1) + 1)
	g.pieceA = machine.RoundUp((g.tileM+bytesRows-1)*g.records+g.blocks*s.BytesBlock, machine.SlackFloats)
	return s.K * (g.tileM*s.BytesDigits + 2) * g.t.Nr / 4
}

// quantizeRows quantizes the rows of a tile, padded with zeros.
func (r *gemmRun) quantizeRows(tm int) {
	g := r.g
	s, piece := &g.s, r.sharedA[tm*g.pieceA:][:g.pieceA]
	padded := piece[g.pieceA-g.blocks*s.BytesBlock:]
	a := r.args.A[tm*g.tileM*s.LDA:]
	quantize := g.t.NBitsQuantize
	if s.BytesDigits == threeDigits {
		quantize = g.t.NBitsDigits
	}
	for range min(g.tileM, s.M-tm*g.tileM) {
		clear(padded[copy(padded, a[:s.K]):])
		quantize((*byte)(machine.Ptr(piece, 0)), machine.F32p(padded, 0), s.BytesBlock, g.blocks)
		a, piece = a[min(s.LDA, len(a)):], piece[g.records:]
	}
}

// addBytes is addProducts for rows of records.
func (b *NBits) addBytes(args *simd.NBitsArgs, rows int) int {
	if rows > 1 {
		rows = bytesRows
	}
	b.t.NBitsBytes(b.s.Bits, rows, b.digits, args)
	return rows
}
