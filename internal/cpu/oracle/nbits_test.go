package oracle

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestMatMulNBits has few and many rows, blocks that tiles of K cut, odd K and columns that
// do not fill panels.
func TestMatMulNBits(t *testing.T) {
	u8 := ndarray.Uint8
	for _, bits := range []int{2, 4, 8} {
		for _, s := range []struct{ m, n, k, block int }{{1, 40, 64, 16}, {3, 33, 300, 32}, {20, 64, 999, 32}, {150, 70, 512, 128}, {2, 5, 20, 64}} {
			blocks := (s.k + s.block - 1) / s.block
			attrs := []ssa.Attr{ssa.IntAttr("N", int64(s.n)), ssa.IntAttr("K", int64(s.k)), ssa.IntAttr("bits", int64(bits)), ssa.IntAttr("block_size", int64(s.block))}
			x, b := f32s(s.m, s.k), tensor(u8, s.n, blocks, s.block*bits/8).between(0, 256).c()
			scales, packed := f32s(s.n*blocks).between(0.01, 0.1).c(), tensor(u8, s.n*((blocks*bits+7)/8)).between(0, 256).c()
			cases := []opCase{
				{in: []arg{x, b, scales}},
				{in: []arg{x, b, scales, packed, absent, f32s(s.n)}},
				{in: []arg{x, b, scales, f32s(s.n * blocks).c()}},
				{in: []arg{tensor(ndarray.Float16, s.m, s.k), b, tensor(ndarray.Float16, s.n*blocks).between(0.01, 0.1).c()}, tol: 2e-3},
			}
			for i := range cases {
				c := &cases[i]
				c.domain, c.op, c.attrs, c.name = microsoft, "MatMulNBits", attrs, fmt.Sprintf("%d bits", bits)
				if c.tol == 0 {
					c.tol = 1e-3 // of sums of up to 999 products of either sign
				}
			}
			runCases(t, cases)
		}
	}
	runCases(t, quantizedRows())
	left := []ssa.Attr{ssa.IntAttr("N", 4), ssa.IntAttr("K", 32), ssa.IntAttr("block_size", 16)}
	x, b, scales := f32s(2, 32), tensor(u8, 4, 2, 8), f32s(8)
	runCases(t, []opCase{
		{domain: microsoft, op: "MatMulNBits", in: []arg{x, b, scales}, attrs: left, left: true},
		{domain: microsoft, op: "MatMulNBits", in: []arg{x, b.c(), scales}, attrs: left, left: true},
	})
}

// quantizedRows are products of accuracy_level 4. Rows hold −1, 0 and 1 and so lose nothing by bytes: the largest number of a block becomes 127.
func quantizedRows() (cases []opCase) {
	for i, s := range []struct{ m, n, k, block int }{{1, 40, 64, 16}, {3, 33, 300, 32}, {20, 64, 999, 32}, {150, 70, 512, 128}, {2, 5, 20, 64},
		{1, 40, 64, 16}, {3, 33, 300, 32}, {20, 64, 999, 32}} {
		bits := 4 + i/5*4
		blocks := (s.k + s.block - 1) / s.block
		attrs := []ssa.Attr{ssa.IntAttr("N", int64(s.n)), ssa.IntAttr("K", int64(s.k)), ssa.IntAttr("bits", int64(bits)), ssa.IntAttr("accuracy_level", 4), ssa.IntAttr("block_size", int64(s.block))}
		signs := func(dt ndarray.DType) arg {
			return tensor(dt, s.m, s.k).from(func(r *rand.Rand) float64 { return float64(r.Intn(3) - 1) })
		}
		b, scales := tensor(ndarray.Uint8, s.n, blocks, s.block*bits/8).between(0, 256).c(), tensor(ndarray.Float16, s.n*blocks).between(0.01, 0.1).c()
		floats, zeros := f32s(s.n*blocks).between(0.01, 0.1).c(), tensor(ndarray.Uint8, s.n*((blocks*bits+7)/8)).between(0, 256).c()
		cases = append(cases,
			opCase{in: []arg{signs(ndarray.Float32), b, floats}, tol: 1e-3},
			opCase{in: []arg{signs(ndarray.Float32), b, floats, zeros, absent, f32s(s.n)}, tol: 1e-3},
			opCase{in: []arg{signs(ndarray.Float16), b, scales}, tol: 2e-3})
		for i := range cases[len(cases)-3:] {
			c := &cases[len(cases)-3+i]
			c.domain, c.op, c.attrs, c.name = microsoft, "MatMulNBits", attrs, "accuracy_level 4"
		}
	}
	return cases
}
