package oracle

import (
	"fmt"
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
	left := []ssa.Attr{ssa.IntAttr("N", 4), ssa.IntAttr("K", 32), ssa.IntAttr("block_size", 16)}
	x, b, scales := f32s(2, 32), tensor(u8, 4, 2, 8), f32s(8)
	runCases(t, []opCase{
		{domain: microsoft, op: "MatMulNBits", in: []arg{x, b, scales}, attrs: left, left: true},
		{domain: microsoft, op: "MatMulNBits", in: []arg{x, b.c(), scales}, attrs: left, left: true},
	})
}
