package gemm

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Kernels of few rows and of bytes scale sums of blocks, not numbers. Where a row has numbers near the largest, such a sum overflows though
// the result does not:
//
//	scale · Σ a·(q − zero)     0.01 · (3·10³⁸ · 100)     infinite in place of 3·10³⁸
//
// So a result that is not finite, of a row that is, is computed again number by number.

// directly computes the results of a row with the columns of panel q that are not finite again, if the row is finite.
func (r *gemmRun) directly(row, q int, out []float32) {
	sum := float32(0)
	for _, v := range out {
		sum += v - v
	}
	if sum == 0 {
		return
	}
	s := &r.g.s
	a := r.args.A[row*s.LDA:][:s.K]
	for _, v := range a {
		if v-v != 0 {
			return
		}
	}
	for j, v := range out {
		if v-v == 0 || machine.Closed(r.args.Done) {
			continue
		}
		exact := 0.0
		if s.Epilogue.Bias != simd.NoBias {
			exact = float64(r.args.Bias[q*r.g.t.Nr+j])
		}
		for k, x := range a {
			exact += float64(x) * float64(r.args.NBitsB.at(q, k, j))
		}
		out[j] = float32(exact)
	}
}

// at is number k of column j of panel q.
func (b *NBits) at(q, k, j int) float32 {
	nr := b.t.Nr
	row, at := b.place(k / b.per)
	v := b.numbersOf(q)[(row*nr+j)*b.word()+at] >> (k % b.per * b.s.Bits) & byte(1<<b.s.Bits-1)
	block := q*b.Blocks() + k/b.s.Block
	zero := float32(0)
	if b.byBytes {
		zero = float32(b.byteZeros[block*b.zeroStep()+j])
	} else {
		zero = b.zeros[block*b.zeroStep()+j]
	}
	return (float32(v) - zero) * b.scales[block*nr+j]
}
