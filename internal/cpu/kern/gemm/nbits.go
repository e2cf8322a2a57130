package gemm

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Columns of 2, 4 or 8 bits, with a scale and a zero point for each block of K:
//
//	B[k][n] = (q[k][n] − zero[k/block][n]) · scale[k/block][n]
//
// They stay as small as they are: a product dequantizes the panels of a tile for one block
// of its K into its workspace, where they are in the cache, and multiplies. Bytes of
// neighbouring columns lie side by side, so that a row of bytes becomes rows of a panel:
//
//	source  [n][k·bits/8]   ──▶   packed  [panel][k·bits/8][Nr]
//
// Where there are kernels for it, rows are quantized (nbits_bytes.go). Else products of few rows, which read all numbers for little arithmetic, never write them down as floats: kernels of 1, 2 and 4 rows turn
// the bytes of a panel into floats in registers, and scale sums of blocks rather than numbers, if zero points are whole numbers:
//
//	C[m][n] = bias[n] + Σ over blocks: scale[block][n] · Σ over k of the block: A[m][k] · (q[k][n] − zero[block][n])
//
// which is within (K + 3)·2⁻²⁴·Σ|A·B| of the exact sum, as the formula that scales each number is.

// NBitsSpec describes the columns: N columns of K numbers, in blocks of Block, a power of two of
// at least 16.
type NBitsSpec struct{ N, K, Bits, Block int }

// NBits is a constant B of few bits. It is immutable but for [NBits.ByBytes].
type NBits struct {
	s             NBitsSpec
	t             *simd.Table
	per           int // numbers in a byte
	rows          int // rows of bytes
	panels        int
	packed        *Packed
	scales, zeros []float32 // [panel][block][Nr]; zeros of one block where all are equal
	byteZeros     []byte    // in place of zeros, where rows are quantized
	byBytes       bool      // the rows that it is multiplied with are quantized, see nbits_bytes.go
	digits        int       // to so many bytes
	whole         bool      // zero points are whole numbers of so few bits that kernels of few rows take them
}

// NewNBits describes columns at the active level.
func NewNBits(s NBitsSpec) (*NBits, error) {
	if s.Bits != 2 && s.Bits != 4 && s.Bits != 8 || s.Block < 16 || bits.OnesCount(uint(s.Block)) != 1 {
		return nil, &machine.SpecError{Kernel: "NBits", Field: "Bits, Block", Why: fmt.Sprintf("%d bits in blocks of %d", s.Bits, s.Block)}
	}
	t := simd.Active()
	b := &NBits{s: s, t: t, per: 8 / s.Bits, rows: machine.CeilDiv(s.K*s.Bits, 8), panels: machine.CeilDiv(s.N, t.Nr)}
	if _, ok := machine.MulAll(b.panels, t.Nr, s.K, 4); !ok || min(s.N, s.K) < 1 || s.Block > machine.MaxExtent {
		return nil, &machine.SpecError{Kernel: "NBits", Field: "N, K", Why: "not positive, or too large"}
	}
	return b, nil
}

// Blocks is the number of blocks of a column.
func (b *NBits) Blocks() int { return machine.CeilDiv(b.s.K, b.s.Block) }

// Layout identifies the order of the packed numbers.
func (b *NBits) Layout() Layout {
	return Layout{Kind: "columns of few bits", Level: b.t.Level, Dims: [8]int{b.s.N, b.s.K, b.s.Bits, b.s.Block, b.word()}}
}

// Pack lays the numbers out; those of a column are whole blocks one after the other.
func (b *NBits) Pack(ctx context.Context, src []byte) (*Packed, error) {
	column := b.Blocks() * b.s.Block * b.s.Bits / 8
	nr, word := b.t.Nr, b.word()
	if err := cmp.Or(machine.Needs("NBits", "B", src, b.s.N*column), machine.AskPacked(ctx, b.panels*b.rows*nr)); err != nil {
		return nil, err
	}
	p := &Packed{Order: b.Layout(), Words: make([]uint32, b.panels*b.rows*nr/4)}
	dst := bytesOf(p)
	err := InPieces(ctx, b.panels, PackThreads(len(dst)), func(q, _ int) {
		panel := dst[q*b.rows*nr:][:b.rows*nr]
		for j := range min(nr, b.s.N-q*nr) {
			for r, v := range src[(q*nr+j)*column:][:b.rows] {
				row, at := b.place(r)
				panel[(row*nr+j)*word+at] = v
			}
		}
	})
	return p, err
}

// bytesOf is a packed operand as bytes.
func bytesOf(p *Packed) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(p.Words))), 4*len(p.Words))
}

// With returns the columns with their numbers, from Pack, and their scales and zero points, both
// [n][block]. Zero points of one element are that of all blocks. The context carries the budget.
func (b *NBits) With(ctx context.Context, p *Packed, scales, zeros []float32) (*NBits, error) {
	n := b.s.N * b.Blocks()
	if p == nil || p.Order != b.Layout() || len(scales) != n || len(zeros) != n && len(zeros) != 1 || b.byBytes && !areBytes(zeros) {
		return nil, &machine.SpecError{Kernel: "NBits", Field: "B, scales, zeros", Why: "missing, or of another size"}
	}
	if err := machine.AskPacked(ctx, 2*4*b.panels*b.t.Nr*b.Blocks()); err != nil {
		return nil, err
	}
	c := *b
	c.packed, c.scales = p, b.byBlocks(scales)
	c.whole = !slices.ContainsFunc(zeros, func(z float32) bool { return z != float32(int16(z)) })
	if len(zeros) == n {
		c.zeros = b.byBlocks(zeros)
	} else {
		c.zeros = make([]float32, b.t.Nr)
		fill(c.zeros, zeros[0])
	}
	if b.byBytes {
		c.byteZeros = make([]byte, len(c.zeros))
		for i, z := range c.zeros {
			c.byteZeros[i] = byte(int(z))
		}
		c.zeros = nil
	}
	return &c, nil
}

// WholeBits is what [GemmSpec.WholeBits] wants to know.
func (b *NBits) WholeBits() int {
	if b.whole {
		return b.s.Bits
	}
	return 0
}

// Bytes is the memory of scales and zero points.
func (b *NBits) Bytes() int { return 4*(len(b.scales)+len(b.zeros)) + len(b.byteZeros) }

// byBlocks brings [n][block] into the order of panels.
func (b *NBits) byBlocks(x []float32) []float32 {
	nr, blocks := b.t.Nr, b.Blocks()
	out := make([]float32, b.panels*blocks*nr)
	for n := range b.s.N {
		panel := out[n/nr*blocks*nr+n%nr:]
		for i, v := range x[n*blocks:][:blocks] {
			panel[i*nr] = v
		}
	}
	return out
}

// numbersOf are the bytes of a panel.
func (b *NBits) numbersOf(q int) []byte { return bytesOf(b.packed)[q*b.rows*b.t.Nr:][:b.rows*b.t.Nr] }

// zeroStep is the distance between the zero points of two blocks.
func (b *NBits) zeroStep() int {
	if len(b.zeros)+len(b.byteZeros) > b.t.Nr {
		return b.t.Nr
	}
	return 0
}

// dequantize writes panels q0..q1 for kc numbers from k0 on, each panel [kc][Nr].
func (b *NBits) dequantize(dst []float32, q0, q1, k0, kc int) {
	nr := b.t.Nr
	for q := q0; q < q1; q++ {
		panel := dst[(q-q0)*nr*kc:][:nr*kc]
		for k := k0; k < k0+kc; {
			end := min(k0+kc, (k/b.s.Block+1)*b.s.Block)
			b.run(panel[(k-k0)*nr:(end-k0)*nr], q, k, end)
			k = end
		}
	}
}

// run dequantizes numbers k up to end of one block: whole rows of bytes, and what is left of
// rows before and behind them.
func (b *NBits) run(dst []float32, q, k, end int) {
	nr := b.t.Nr
	block := q*b.Blocks() + k/b.s.Block
	scale, zero := b.scales[block*nr:][:nr], b.zeros[block*b.zeroStep():][:nr]
	src := b.numbersOf(q)
	for k < end {
		row := src[k/b.per*nr:]
		if n := (end - k) / b.per; n > 0 && k%b.per == 0 {
			b.t.NBits[bits.TrailingZeros(uint(b.s.Bits))-1](&dst[0], &row[0], &scale[0], &zero[0], n)
			k, dst = k+n*b.per, dst[n*b.per*nr:]
			continue
		}
		for j, v := range row[:nr] {
			q := v >> (k % b.per * b.s.Bits) & byte(1<<b.s.Bits-1)
			dst[j] = (float32(q) - zero[j]) * scale[j]
		}
		k, dst = k+1, dst[nr:]
	}
}
