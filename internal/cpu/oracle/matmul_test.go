package oracle

import (
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func TestMatMul(t *testing.T) {
	for _, f := range [][2][]int{
		{{3, 5}, {5, 7}},
		{{1, 64}, {64, 33}},
		{{40, 100}, {100, 70}},
		{{2, 3, 5}, {5, 7}},
		{{2, 3, 5}, {2, 5, 7}},
		{{2, 4, 3, 5}, {2, 4, 5, 7}},
		{{2, 1, 3, 5}, {1, 4, 5, 7}},
		{{3, 5}, {2, 4, 5, 7}},
		{{1, 3, 5}, {4, 5, 7}},
		{{5}, {5, 7}},
		{{3, 5}, {5}},
		{{5}, {5}},
		{{2, 3, 5}, {5}},
		{{5}, {2, 5, 7}},
		{{2, 1, 3, 1, 4, 5}, {1, 2, 1, 3, 5, 2}},
	} {
		a, b := f32s(f[0]...), f32s(f[1]...)
		runCases(t, []opCase{
			{op: "MatMul", in: []arg{a, b}, tol: 1e-5},
			{op: "MatMul", in: []arg{a, b.c()}, tol: 1e-5},
			{op: "MatMul", in: []arg{a.c(), b}, tol: 1e-5},
			{op: "MatMul", in: []arg{a.c(), b.c()}, tol: 1e-5},
		})
	}
	runCases(t, []opCase{
		{op: "MatMul", name: "rows by a column", in: []arg{f32s(300, 100), f32s(100)}, tol: 1e-4},
		{op: "MatMul", name: "rows by a column", in: []arg{f32s(3, 300, 100), f32s(100, 1)}, tol: 1e-4},
		{op: "Gemm", name: "a row by rows", in: []arg{f32s(2, 300), f32s(200, 300)}, attrs: []ssa.Attr{ssa.IntAttr("transB", 1)}, tol: 1e-4},
		{op: "MatMul", name: "splat", in: []arg{f32s(3, 5), f32s(5, 4).asSplat()}, tol: 1e-5},
		{op: "MatMul", in: []arg{tensor(ndarray.Float64, 3, 5), tensor(ndarray.Float64, 5, 4)}, left: true},
		{op: "MatMul", name: "no terms", in: []arg{f32s(3, 0), f32s(0, 4)}, left: true},
	})
	runRandom(t, 60, func(r *rand.Rand) opCase {
		m, n, k := 1+r.Intn(40), 1+r.Intn(60), 1+r.Intn(90)
		a, b := f32s(m, k), f32s(k, n)
		if r.Intn(2) == 0 {
			b = b.c()
		}
		return opCase{op: "MatMul", in: []arg{a, b}, tol: 1e-5}
	})
}

func TestGemm(t *testing.T) {
	attrs := func(alpha, beta float32, ta, tb int64) []ssa.Attr {
		return []ssa.Attr{ssa.FloatAttr("alpha", alpha), ssa.FloatAttr("beta", beta), ssa.IntAttr("transA", ta), ssa.IntAttr("transB", tb)}
	}
	matrix := func(rows, cols int, trans int64) arg {
		if trans != 0 {
			rows, cols = cols, rows
		}
		return f32s(rows, cols)
	}
	for _, beta := range []float32{1, 0.5, 0} {
		for trans := range int64(4) {
			a, b := matrix(9, 20, trans&1), matrix(20, 35, trans>>1)
			for _, c := range []arg{absent, f32s(35), f32s(1, 35), f32s(9, 1), f32s(), f32s(1), f32s(1, 1), f32s(9, 35)} {
				runCases(t, []opCase{{op: "Gemm", in: []arg{a, b.c(), c}, attrs: attrs(1, beta, trans&1, trans>>1), tol: 1e-5}})
				if !c.absent {
					runCases(t, []opCase{{op: "Gemm", in: []arg{a, b.c(), c.c()}, attrs: attrs(0.7, beta, trans&1, trans>>1), tol: 1e-5}})
				}
			}
		}
	}
	runCases(t, []opCase{
		{op: "Gemm", in: []arg{f32s(1, 300), f32s(40, 300).c(), f32s(40).c()}, attrs: attrs(1, 1, 0, 1), tol: 1e-4},
		{op: "Gemm", in: []arg{f32s(7, 8), f32s(8, 9), f32s(9)}, tol: 1e-5},
		{op: "Gemm", in: []arg{f32s(7, 8).c(), f32s(8, 9), f32s(7, 1)}, tol: 1e-5},
		{op: "FusedGemm", domain: microsoft, in: []arg{f32s(7, 8), f32s(8, 9).c(), f32s(9).c()}, attrs: []ssa.Attr{ssa.StringAttr("activation", "Relu")}, tol: 1e-5},
		{op: "FusedMatMul", domain: microsoft, in: []arg{f32s(2, 7, 8), f32s(2, 9, 8)}, attrs: []ssa.Attr{ssa.IntAttr("transB", 1), ssa.FloatAttr("alpha", 0.125)}, tol: 1e-5},
		{op: "GemmFastGelu", domain: microsoft, in: []arg{f32s(2, 7, 8), f32s(8, 9).c(), f32s(9)}, tol: 1e-5},
		{op: "GemmFastGelu", domain: microsoft, in: []arg{f32s(7, 8), f32s(8, 9)}, tol: 1e-5},
		{op: "FusedMatMulActivation", domain: microsoft, in: []arg{f32s(7, 8), f32s(8, 9).c()}, attrs: append(strs("activation", "LeakyRelu"), ssa.FloatAttr("activation_alpha", 0.2)), tol: 1e-5},
		{op: "FusedMatMul", domain: microsoft, in: []arg{f32s(2, 8, 7), f32s(8, 9).c()}, attrs: []ssa.Attr{ssa.IntAttr("transA", 1)}, tol: 1e-5},
	})
}
