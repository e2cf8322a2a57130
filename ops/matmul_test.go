package ops_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var productTypes = []ndarray.DType{
	ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16, ndarray.Int32, ndarray.Int64, ndarray.Uint32, ndarray.Uint64,
}

func TestMatMulForms(t *testing.T) {
	for _, c := range []struct{ a, b, want []int }{
		{[]int{3}, []int{3}, nil},
		{[]int{3}, []int{3, 4}, []int{4}},
		{[]int{2, 3}, []int{3}, []int{2}},
		{[]int{2, 3}, []int{3, 4}, []int{2, 4}},
		{[]int{5, 2, 3}, []int{3, 4}, []int{5, 2, 4}},
		{[]int{2, 3}, []int{5, 3, 4}, []int{5, 2, 4}},
		{[]int{5, 1, 2, 3}, []int{6, 3, 4}, []int{5, 6, 2, 4}},
		{[]int{3}, []int{5, 3, 4}, []int{5, 4}},
		{[]int{5, 2, 3}, []int{3}, []int{5, 2}},
		{[]int{0, 3}, []int{3, 4}, []int{0, 4}},
		{[]int{2, 0}, []int{0, 4}, []int{2, 4}},
		{[]int{0, 2, 3}, []int{1, 3, 4}, []int{0, 2, 4}},
		{[]int{17, 9}, []int{9, 13}, []int{17, 13}},
	} {
		for _, dt := range productTypes {
			a, b := smallRamp(dt, c.a), smallRamp(dt, c.b)
			got := mustEval(t, "MatMul", nil, a, b)
			assert.Equal(t, c.want, append([]int(nil), got.Shape...))
			assert.Equal(t, plainMatMul(a, b), numbers(got), "%s %v·%v", dt, c.a, c.b)
		}
	}
}

// smallRamp holds small numbers of which every sum below is exact in any type.
func smallRamp(dt ndarray.DType, shape []int) *ndarray.Array {
	a := ndarray.Must(dt, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64(i%3))
	}
	return a
}

// plainMatMul is numpy.matmul written down index by index.
func plainMatMul(a, b *ndarray.Array) []float64 {
	as, bs := append([]int(nil), a.Shape...), append([]int(nil), b.Shape...)
	if len(as) == 1 {
		as = []int{1, as[0]}
	}
	if len(bs) == 1 {
		bs = []int{bs[0], 1}
	}
	for len(as) < len(bs) {
		as = append([]int{1}, as...)
	}
	for len(bs) < len(as) {
		bs = append([]int{1}, bs...)
	}
	r := len(as)
	m, k, n := as[r-2], as[r-1], bs[r-1]
	batches := 1
	for d := range r - 2 {
		batches *= max(as[d], bs[d]) * min(as[d], bs[d], 1)
	}
	out := []float64{}
	for x := range batches {
		ia, ib, sa, sb, rest := 0, 0, m*k, k*n, x
		for d := r - 3; d >= 0; d-- {
			size := max(as[d], bs[d])
			i := rest % size
			rest /= size
			if as[d] > 1 {
				ia += i * sa
			}
			if bs[d] > 1 {
				ib += i * sb
			}
			sa, sb = sa*as[d], sb*bs[d]
		}
		for i := range m {
			for j := range n {
				s := 0.0
				for p := range k {
					s += a.Float(ia+i*k+p) * b.Float(ib+p*n+j)
				}
				out = append(out, s)
			}
		}
	}
	return out
}

func TestMatMulRejects(t *testing.T) {
	for _, c := range [][2]*ndarray.Array{
		{num(1), vec(1)}, {vec(1, 2), vec(1)}, {mat(1, 2, 1, 2), mat(1, 2, 1, 2)}, {vec(1), i64(1)}, {bools(true), bools(true)},
		{ramp([]int{2, 1, 3}), ramp([]int{3, 3, 1})},
	} {
		_, err := evalOp(t, "MatMul", nil, 1, c[0], c[1])
		assert.Errorf(t, err, "%s · %s", c[0], c[1])
	}
}

func TestMatMulIntegersWrap(t *testing.T) {
	a := ndarray.Of([]int64{1 << 62, 1}, 1, 2)
	b := ndarray.Of([]int64{4, 5}, 2, 1)
	assert.Equal(t, []float64{5}, numbers(mustEval(t, "MatMul", nil, a, b)))
	u := ndarray.Of([]uint32{1 << 31, 3}, 2)
	assert.Equal(t, []float64{9}, numbers(mustEval(t, "MatMul", nil, u, ndarray.Of([]uint32{2, 3}, 2))))
}

func TestGemm(t *testing.T) {
	scale := attrs{ssa.FloatAttr("alpha", 2), ssa.FloatAttr("beta", 3)}
	a, at := mat(2, 3, 1, 2, 3, 4, 5, 6), mat(3, 2, 1, 4, 2, 5, 3, 6)
	b, bt := mat(3, 2, 1, 0, 0, 1, 1, 1), mat(2, 3, 1, 0, 1, 0, 1, 1) // product 4 5 / 10 11
	for _, c := range []struct {
		at   attrs
		a, b *ndarray.Array
		bias *ndarray.Array
		want []float64
	}{
		{nil, a, b, nil, []float64{4, 5, 10, 11}},
		{attrs{ssa.IntAttr("transA", 1)}, at, b, nil, []float64{4, 5, 10, 11}},
		{attrs{ssa.IntAttr("transB", 1)}, a, bt, nil, []float64{4, 5, 10, 11}},
		{attrs{ssa.IntAttr("transA", 1), ssa.IntAttr("transB", 1)}, at, bt, nil, []float64{4, 5, 10, 11}},
		{scale, a, b, num(1), []float64{11, 13, 23, 25}},
		{scale, a, b, vec(1, 2), []float64{11, 16, 23, 28}},
		{scale, a, b, mat(2, 1, 1, 2), []float64{11, 13, 26, 28}},
		{scale, a, b, mat(2, 2, 1, 2, 3, 4), []float64{11, 16, 29, 34}},
		{attrs{ssa.FloatAttr("beta", 0)}, a, b, num(nan), []float64{4, 5, 10, 11}},
	} {
		for _, dt := range productTypes {
			bias := c.bias
			if bias != nil {
				bias = as(dt, bias)
			}
			assert.Equal(t, c.want, numbers(mustEval(t, "Gemm", c.at, as(dt, c.a), as(dt, c.b), bias)), dt)
		}
	}
	empty := mustEval(t, "Gemm", nil, array(ndarray.Float32, []int{2, 0}), array(ndarray.Float32, []int{0, 2}), vec(1, 2))
	assert.Equal(t, []float64{1, 2, 1, 2}, numbers(empty))
	for _, in := range [][]*ndarray.Array{{a, a}, {vec(1), b}, {a, b, mat(3, 2, 1, 2, 3, 4, 5, 6)}, {a, b, i64(1)}} {
		_, err := evalOp(t, "Gemm", nil, 1, in...)
		assert.Error(t, err)
	}
}

// as converts an array to another type.
func as(dt ndarray.DType, a *ndarray.Array) *ndarray.Array { return array(dt, a.Shape, numbers(a)...) }

func TestEinsum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		eq     string
		shapes [][]int
		labels []string // with the ellipsis spelled out as 0, 1, …
		want   string
	}{
		{"ij,jk->ik", [][]int{{2, 3}, {3, 4}}, []string{"ij", "jk"}, "ik"},
		{"ij, jk", [][]int{{2, 3}, {3, 4}}, []string{"ij", "jk"}, "ik"},
		{"ii->i", [][]int{{3, 3}}, []string{"ii"}, "i"},
		{"ii", [][]int{{3, 3}}, []string{"ii"}, ""},
		{"ij->", [][]int{{2, 3}}, []string{"ij"}, ""},
		{"Ba->aB", [][]int{{2, 3}}, []string{"Ba"}, "aB"},
		{"ba", [][]int{{2, 3}}, []string{"ba"}, "ab"},
		{"...ij,...jk->...ik", [][]int{{5, 2, 3}, {5, 3, 4}}, []string{"0ij", "0jk"}, "0ik"},
		{"...ij,jk", [][]int{{6, 5, 2, 3}, {3, 4}}, []string{"10ij", "jk"}, "10ik"},
		{"a...->...", [][]int{{2, 3}}, []string{"a0"}, "0"},
		{"ab,bc,cd,da->", [][]int{{2, 3}, {3, 4}, {4, 5}, {5, 2}}, []string{"ab", "bc", "cd", "da"}, ""},
		{"ab,b,bc->ac", [][]int{{2, 3}, {3}, {3, 4}}, []string{"ab", "b", "bc"}, "ac"},
		{"i,j,k->kji", [][]int{{2}, {3}, {4}}, []string{"i", "j", "k"}, "kji"},
		{",ij->ij", [][]int{{}, {2, 3}}, []string{"", "ij"}, "ij"},
		{"ij,jk->ik", [][]int{{2, 0}, {0, 4}}, []string{"ij", "jk"}, "ik"},
	} {
		for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.Int8, ndarray.Int64, ndarray.Uint16} {
			var in []*ndarray.Array
			for _, s := range c.shapes {
				a := ndarray.Must(dt, s...)
				for i := range a.Len() {
					a.SetInt(i, int64(rng.IntN(2)))
				}
				in = append(in, a)
			}
			got := mustEval(t, "Einsum", attrs{ssa.StringAttr("equation", c.eq)}, in...)
			assert.Equal(t, plainEinsum(c.labels, c.want, in), numbers(got), "%s %s", c.eq, dt)
		}
	}
}

// plainEinsum sums over every combination of labels.
func plainEinsum(terms []string, result string, in []*ndarray.Array) []float64 {
	dims := map[byte]int{}
	order := []byte(result)
	for i, term := range terms {
		for k := range term {
			if _, ok := dims[term[k]]; !ok {
				dims[term[k]] = in[i].Shape[k]
			}
		}
	}
	for _, term := range terms {
		for k := range term {
			if !containsByte(order, term[k]) {
				order = append(order, term[k])
			}
		}
	}
	size, combos := 1, 1
	for i, l := range order {
		combos *= dims[l]
		if i < len(result) {
			size *= dims[l]
		}
	}
	out := make([]float64, size)
	for c := range combos {
		at, rest := map[byte]int{}, c
		for i := len(order) - 1; i >= 0; i-- {
			at[order[i]] = rest % dims[order[i]]
			rest /= dims[order[i]]
		}
		p := 1.0
		for i, term := range terms {
			pos := 0
			for k := range term {
				pos = pos*in[i].Shape[k] + at[term[k]]
			}
			p *= in[i].Float(pos)
		}
		pos := 0
		for i := range len(result) {
			pos = pos*dims[result[i]] + at[result[i]]
		}
		out[pos] += p
	}
	return out
}

func containsByte(s []byte, b byte) bool {
	for _, x := range s {
		if x == b {
			return true
		}
	}
	return false
}

func TestEinsumRejects(t *testing.T) {
	for _, eq := range []string{"", "ij", "ij,jk->iz", "ij,jk->ii", "i1,jk->ik", "ij,jk,kl->il", "ijk,jk->i", "..ij,jk->ik", "ij,ij->ij"} {
		_, err := evalOp(t, "Einsum", attrs{ssa.StringAttr("equation", eq)}, 1, mat(2, 3, 1, 2, 3, 4, 5, 6), ramp([]int{3, 4}))
		assert.Error(t, err, eq)
	}
}

func TestDet(t *testing.T) {
	for _, c := range []struct {
		m    int
		x    []float64
		want float64
	}{
		{1, []float64{-3}, -3},
		{2, []float64{1, 2, 3, 4}, -2},
		{2, []float64{0, 1, 1, 0}, -1},
		{3, []float64{2, 0, 0, 0, 0, 3, 0, 4, 0}, -24},
		{3, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0},
		{0, nil, 1},
	} {
		for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16} {
			got := mustEval(t, "Det", nil, array(dt, []int{c.m, c.m}, c.x...))
			assert.Empty(t, got.Shape)
			assert.InDelta(t, c.want, got.Float(0), 1e-9, "%v", c.x)
		}
	}
	assert.Equal(t, []float64{-2, 1}, numbers(mustEval(t, "Det", nil, array(ndarray.Float32, []int{2, 2, 2}, 1, 2, 3, 4, 1, 0, 0, 1))))
	_, err := evalOp(t, "Det", nil, 1, mat(1, 2, 1, 2))
	assert.ErrorContains(t, err, "square")
}

func TestTrilu(t *testing.T) {
	x := ramp([]int{2, 3})
	lower := attrs{ssa.IntAttr("upper", 0)}
	for _, c := range []struct {
		at   attrs
		k    float64
		want []float64
	}{
		{nil, 0, []float64{1, 2, 3, 0, 5, 6}}, {nil, 1, []float64{0, 2, 3, 0, 0, 6}}, {nil, -1, []float64{1, 2, 3, 4, 5, 6}},
		{nil, 9, []float64{0, 0, 0, 0, 0, 0}}, {lower, 0, []float64{1, 0, 0, 4, 5, 0}}, {lower, -1, []float64{0, 0, 0, 4, 0, 0}},
		{lower, 2, []float64{1, 2, 3, 4, 5, 6}}, {lower, -9, []float64{0, 0, 0, 0, 0, 0}},
	} {
		assert.Equal(t, c.want, numbers(mustEval(t, "Trilu", c.at, x, i64s(c.k))), "k=%v", c.k)
	}
	s := mustEval(t, "Trilu", nil, ndarray.Strings([]string{"a", "b", "c", "d"}, 2, 2))
	assert.Equal(t, []string{"a", "b", "", "d"}, s.Str)
	assert.Zero(t, mustEval(t, "Trilu", nil, array(ndarray.Float32, []int{3, 0})).Len())
}

func TestEyeLike(t *testing.T) {
	x := array(ndarray.Int32, []int{2, 3})
	for k, want := range map[int64][]float64{0: {1, 0, 0, 0, 1, 0}, 2: {0, 0, 1, 0, 0, 0}, -1: {0, 0, 0, 1, 0, 0}, 5: {0, 0, 0, 0, 0, 0}} {
		got := mustEval(t, "EyeLike", attrs{ssa.IntAttr("k", k), ssa.IntAttr("dtype", int64(ndarray.Float16))}, x)
		assert.Equal(t, ndarray.Float16, got.DType)
		assert.Equal(t, want, numbers(got))
	}
	assert.Equal(t, ndarray.Int32, mustEval(t, "EyeLike", nil, x).DType)
}

func TestRange(t *testing.T) {
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Int16, ndarray.Int32, ndarray.Int64, ndarray.Float16, ndarray.BFloat16} {
		for _, c := range []struct{ start, limit, delta float64 }{{3, 9, 3}, {10, 4, -2}, {0, 0, 1}, {0, 5, 2}, {5, 0, 1}, {-3, 3, 1}} {
			var want = []float64{}
			for x := c.start; c.delta > 0 && x < c.limit || c.delta < 0 && x > c.limit; x += c.delta {
				want = append(want, x)
			}
			got := mustEval(t, "Range", nil, array(dt, nil, c.start), array(dt, nil, c.limit), array(dt, nil, c.delta))
			assert.Equal(t, want, numbers(got), "%s %v", dt, c)
		}
	}
	long := mustEval(t, "Range", nil, array(ndarray.BFloat16, nil, 0), array(ndarray.BFloat16, nil, 512), array(ndarray.BFloat16, nil, 1))
	assert.Equal(t, 512, long.Len(), "half types count in float32")
	ends := mustEval(t, "Range", nil, ndarray.Scalar(int64(-1<<63)), ndarray.Scalar(int64(1<<63-1)), ndarray.Scalar(int64(1<<62)))
	assert.Equal(t, 4, ends.Len(), "no overflow at the ends of int64")
	for _, c := range [][3]int64{{0, 5, 0}, {0, 1 << 40, 1}} {
		_, err := evalOp(t, "Range", nil, 1, ndarray.Scalar(c[0]), ndarray.Scalar(c[1]), ndarray.Scalar(c[2]))
		assert.Error(t, err)
	}
	_, err := evalOp(t, "Range", nil, 1, num(0), num(inf), num(1))
	assert.Error(t, err)
}

func TestWindows(t *testing.T) {
	symmetric := ssa.IntAttr("periodic", 0)
	for _, c := range []struct {
		op   string
		at   attrs
		n    float64
		want []float64
	}{
		{"HannWindow", nil, 4, []float64{0, 0.5, 1, 0.5}},
		{"HannWindow", attrs{symmetric}, 3, []float64{0, 1, 0}},
		{"HammingWindow", attrs{symmetric}, 3, []float64{4.0 / 46, 1, 4.0 / 46}},
		{"BlackmanWindow", attrs{symmetric}, 3, []float64{0, 1, 0}},
		{"HannWindow", attrs{symmetric}, 1, []float64{1}},
		{"HannWindow", nil, 0, []float64{}},
	} {
		got := mustEval(t, c.op, c.at, i64s(c.n))
		sameNumbers(t, c.want, numbers(got), 1e-6, c.op)
	}
	got := mustEval(t, "HannWindow", attrs{ssa.IntAttr("output_datatype", int64(ndarray.Float64))}, i64s(8))
	assert.Equal(t, ndarray.Float64, got.DType)
	_, err := evalOp(t, "HannWindow", nil, 1, i64s(-1))
	require.Error(t, err)
}

func BenchmarkElementwise(b *testing.B) {
	x := array(ndarray.Float32, []int{1 << 18})
	for _, op := range []string{"Add", "Sigmoid", "Relu"} {
		b.Run(op, func(b *testing.B) {
			in := []*ndarray.Array{x, x}
			if op != "Add" {
				in = in[:1]
			}
			c := newCall(op, in...)
			b.SetBytes(int64(x.Len()) * 4)
			for b.Loop() {
				if err := evalCall(c); err != nil {
					b.Fatal(fmt.Sprint(err))
				}
			}
		})
	}
}
