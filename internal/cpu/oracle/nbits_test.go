package oracle

import (
	"fmt"
	"math"
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

// TestMatMulNBitsNonFinite: a scale, zero point, bias or number of a row that is NaN or infinite reaches the results that read it, and no others,
// as it does in the reference kernel; a huge one changes no others. Scales and zero points that are
// not finite are left to it. Rows of bytes, whose blocks are added up before they are scaled, may
// have infinities of either sign, or NaN, for one another.
func TestMatMulNBitsNonFinite(t *testing.T) {
	for _, bits := range []int{2, 4, 8} {
		for _, s := range []struct{ m, n, k, block int }{{1, 40, 64, 16}, {3, 33, 300, 32}, {20, 64, 999, 32}, {150, 70, 512, 128}, {2, 5, 20, 64}} {
			blocks := (s.k + s.block - 1) / s.block
			for _, level := range []int64{0, 4} {
				attrs := []ssa.Attr{ssa.IntAttr("N", int64(s.n)), ssa.IntAttr("K", int64(s.k)), ssa.IntAttr("bits", int64(bits)), ssa.IntAttr("block_size", int64(s.block)), ssa.IntAttr("accuracy_level", level)}
				for _, v := range []float64{nan, math.Inf(1), math.Inf(-1), 3e38} {
					x, b := f32s(s.m, s.k), tensor(ndarray.Uint8, s.n, blocks, s.block*bits/8).between(0, 256).c()
					scales, zeros, bias := f32s(s.n*blocks).between(0.01, 0.1).c(), f32s(s.n*blocks).c(), f32s(s.n)
					last := s.n*blocks - 1 // of the last column, whose block K may cut
					column := func(n int) func(i int) bool { return func(i int) bool { return i%s.n == n } }
					for _, c := range []struct {
						what   string
						in, by []arg
						reads  func(i int) bool
					}{
						{"first scale", []arg{x, b, scales.set(v, 0)}, []arg{x, b, scales}, column(0)},
						{"last scale", []arg{x, b, scales.set(v, last)}, []arg{x, b, scales}, column(s.n - 1)},
						{"scale of a block", []arg{x, b, scales.set(v, last/2), zeros}, []arg{x, b, scales, zeros}, column(last / 2 / blocks)},
						{"zero point", []arg{x, b, scales, zeros.set(v, last/2)}, []arg{x, b, scales, zeros}, column(last / 2 / blocks)},
						{"number of a row", []arg{x.set(v, s.m*s.k/2), b, scales}, []arg{x, b, scales}, func(i int) bool { return i/s.n == s.m*s.k/2/s.k }},
						{"bias", []arg{x, b, scales, absent, absent, bias.set(v, s.n/2)}, []arg{x, b, scales, absent, absent, bias}, column(s.n / 2)},
					} {
						t.Run(fmt.Sprintf("%d bits, %v, level %d, %s %g", bits, s, level, c.what, v), func(t *testing.T) {
							k := opCase{domain: microsoft, op: "MatMulNBits", attrs: attrs, in: c.in}
							b := k.build(t, 3)
							k.in = c.by
							plain := map[string]*ndarray.Array{}
							k.build(t, 3).eachLevel(t, func(machine string, _ int, _, got *ndarray.Array) { plain[machine] = got })
							b.eachLevel(t, func(machine string, _ int, want, got *ndarray.Array) {
								for i := range want.Len() {
									w, g := want.Float(i), got.Float(i)
									switch {
									case !c.reads(i):
										if p := plain[machine].Float(i); g != p {
											t.Errorf("%s: element %d is %g instead of %g, which the number has no part in", machine, i, g, p)
											return
										}
									case v < 1e38 || v > 3.5e38 || v != v:
										if level == 0 && placeOf(w) != placeOf(g) || (w-w == 0) != (g-g == 0) {
											t.Errorf("%s: element %d is %g instead of %g", machine, i, g, w)
											return
										}
									}
								}
							})
						})
					}
				}
			}
		}
	}
}

// TestMatMulNBitsHuge: a number near the largest gives the results that the formula has, which are finite: sums of numbers that are not scaled yet
// are larger.
func TestMatMulNBitsHuge(t *testing.T) {
	for _, bits := range []int{2, 4, 8} {
		for _, s := range []struct{ m, n, k, block int }{{1, 40, 64, 16}, {3, 33, 300, 32}, {20, 64, 999, 32}, {2, 5, 20, 64}} {
			blocks := (s.k + s.block - 1) / s.block
			for _, level := range []int64{0, 4} {
				for _, v := range []float64{3e38, -1e38, 3e37} {
					t.Run(fmt.Sprintf("%d bits, %v, level %d, %g", bits, s, level, v), func(t *testing.T) {
						attrs := []ssa.Attr{ssa.IntAttr("N", int64(s.n)), ssa.IntAttr("K", int64(s.k)), ssa.IntAttr("bits", int64(bits)), ssa.IntAttr("block_size", int64(s.block)), ssa.IntAttr("accuracy_level", level)}
						b := tensor(ndarray.Uint8, s.n, blocks, s.block*bits/8).between(0, 256).c()
						k := opCase{domain: microsoft, op: "MatMulNBits", attrs: attrs, in: []arg{f32s(s.m, s.k).set(v, s.m*s.k/2), b, f32s(s.n*blocks).between(0.0005, 0.005).c()}}
						k.build(t, 3).eachLevel(t, func(machine string, _ int, want, got *ndarray.Array) {
							for i := range want.Len() {
								w, g := want.Float(i), got.Float(i)
								if near := math.Abs(w-g) <= 0.005*math.Abs(w)+1e-4*math.Abs(v); i/s.n == s.m*s.k/2/s.k && !near {
									t.Errorf("%s: element %d is %g instead of %g", machine, i, g, w)
									return
								}
							}
						})
					})
				}
			}
		}
	}
}
