package oracle

import (
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var u8, i8 = ndarray.Uint8, ndarray.Int8

// scaleOf is a positive scale.
func scaleOf(shape ...int) arg { return f32s(shape...).between(0.01, 0.1) }

func TestQuantize(t *testing.T) {
	axis := func(a int64) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("axis", a)} }
	for _, dt := range []ndarray.DType{u8, i8, ndarray.Uint16, ndarray.Int16} {
		z := tensor(dt).between(0, 50)
		zs := tensor(dt, 5).between(0, 50)
		runCases(t, []opCase{
			{op: "QuantizeLinear", in: []arg{f32s(3, 40), scaleOf(), z}},
			{op: "QuantizeLinear", in: []arg{f32s(40000).between(-500, 500), scaleOf(1), z}},
			{op: "QuantizeLinear", in: []arg{f32s(2, 5, 7).odd(), scaleOf(5), zs}},
			{op: "QuantizeLinear", in: []arg{f32s(2, 7, 5), scaleOf(5), zs}, attrs: axis(-1)},
			{op: "DequantizeLinear", in: []arg{tensor(dt, 3, 40), scaleOf(), z}},
			{op: "DequantizeLinear", in: []arg{tensor(dt, 2, 5, 7), scaleOf(5), zs}},
			{op: "DequantizeLinear", in: []arg{tensor(dt, 2, 5, 7), scaleOf(7)}, attrs: axis(2)},
		})
	}
	half := f32s(60).from(func(r *rand.Rand) float64 { return float64(r.Intn(40)-20) / 2 })
	runCases(t, []opCase{
		{op: "QuantizeLinear", name: "ties", in: []arg{half, scalarOf(ndarray.Float32, 1), scalarOf(i8, 0)}},
		{op: "QuantizeLinear", in: []arg{f32s(60), scaleOf()}},
		{op: "DequantizeLinear", in: []arg{tensor(ndarray.Int32, 60), scaleOf()}},
		{op: "QuantizeLinear", in: []arg{f32s(4, 6), scaleOf(2, 6), tensor(u8, 2, 6)}, attrs: append(axis(0), ssa.IntAttr("block_size", 2)), left: true},
	})
}

func TestDynamicQuantize(t *testing.T) {
	runCases(t, []opCase{
		{op: "DynamicQuantizeLinear", in: []arg{f32s(3, 40)}, outs: 3},
		{op: "DynamicQuantizeLinear", in: []arg{f32s(70000)}, outs: 3},
		{op: "DynamicQuantizeLinear", in: []arg{f32s(300).between(1, 2)}, outs: 3},
		{op: "DynamicQuantizeLinear", in: []arg{f32s(300).between(-2, -1)}, outs: 3},
		{op: "DynamicQuantizeLinear", in: []arg{f32s(30).between(0, 0)}, outs: 3},
		{op: "DynamicQuantizeLinear", name: "nan", in: []arg{f32s(30).from(func(r *rand.Rand) float64 {
			if r.Intn(4) == 0 {
				return nan
			}
			return r.NormFloat64()
		})}, outs: 3},
	})
}

func TestIntProducts(t *testing.T) {
	for _, a := range []ndarray.DType{u8, i8} {
		for _, b := range []ndarray.DType{u8, i8} {
			x, w := tensor(a, 9, 40), tensor(b, 40, 21)
			runCases(t, []opCase{
				{op: "MatMulInteger", in: []arg{x, w.c()}},
				{op: "MatMulInteger", in: []arg{x, w, tensor(a), tensor(b)}},
				{op: "MatMulInteger", in: []arg{x, w.c(), tensor(a, 9), tensor(b, 21)}},
				{op: "MatMulInteger", in: []arg{x, w.c(), tensor(a, 9, 1), tensor(b, 1, 21)}},
				{op: "MatMulInteger", in: []arg{tensor(a, 2, 3, 40), w.c(), tensor(a), tensor(b, 21)}},
				{op: "MatMulInteger", in: []arg{tensor(a, 2, 3, 40), tensor(b, 2, 40, 5), tensor(a), tensor(b)}},
				{op: "MatMulInteger", in: []arg{tensor(a, 40), w.c()}},
			})
			for _, y := range []ndarray.DType{u8, i8} {
				runCases(t, []opCase{
					{op: "QLinearMatMul", in: []arg{x, scaleOf(), tensor(a), w.c(), scaleOf(), tensor(b), scaleOf().between(1, 9), tensor(y)}},
					{op: "QLinearMatMul", in: []arg{tensor(a, 2, 3, 40), scaleOf(1), tensor(a, 1), w, scaleOf(21), tensor(b, 21), scaleOf(1).between(1, 9), tensor(y, 1)}},
				})
			}
		}
	}
	runCases(t, []opCase{
		{op: "MatMulInteger", in: []arg{tensor(u8, 2, 3, 40), tensor(u8, 40, 7).c(), tensor(u8, 2, 3, 1)}, left: true},
	})
}

func TestIntConv(t *testing.T) {
	type form struct {
		x, w  []int
		attrs []ssa.Attr
	}
	for _, f := range []form{
		{[]int{2, 3, 9, 11}, []int{5, 3, 3, 3}, lists("pads", []int{1, 1, 1, 1})},
		{[]int{2, 3, 9, 11}, []int{5, 3, 3, 2}, lists("pads", []int{1, 0, 2, 1}, "strides", []int{2, 3}, "dilations", []int{1, 2})},
		{[]int{1, 8, 40, 40}, []int{12, 8, 1, 1}, nil},
		{[]int{1, 8, 9, 9}, []int{12, 8, 1, 1}, lists("strides", []int{2, 2})},
		{[]int{1, 6, 9, 9}, []int{4, 3, 3, 3}, grouped(2)},
		{[]int{1, 6, 9, 9}, []int{6, 1, 3, 3}, grouped(6, lists("pads", []int{1, 1, 1, 1})...)},
		{[]int{1, 3, 9, 9}, []int{6, 1, 3, 3}, grouped(3, lists("strides", []int{2, 1})...)},
		{[]int{2, 4, 20, 33}, []int{8, 1, 5, 5}, grouped(4, lists("pads", []int{2, 2, 2, 2}, "strides", []int{2, 2})...)},
		{[]int{1, 3, 20, 33}, []int{40, 3, 7, 7}, lists("pads", []int{3, 3, 3, 3}, "strides", []int{2, 2})},
		{[]int{1, 300, 5, 8}, []int{290, 300, 1, 1}, nil},
		{[]int{2, 3, 30}, []int{5, 3, 4}, auto("SAME_UPPER")},
		{[]int{1, 2, 4, 5, 6}, []int{3, 2, 2, 3, 2}, nil},
		{[]int{1, 4, 50, 60}, []int{3, 4, 3, 3}, lists("pads", []int{1, 1, 1, 1})},
		{[]int{2, 20, 3, 4}, []int{17, 20, 1, 1}, nil},
		{[]int{2, 20, 3, 4}, []int{17, 20, 3, 3}, lists("pads", []int{1, 1, 1, 1})},
		{[]int{1, 16, 7, 6}, []int{16, 16, 2, 3}, lists("pads", []int{2, 0, 1, 3}, "strides", []int{3, 2}, "dilations", []int{2, 1})},
		{[]int{1, 16, 3, 3, 3}, []int{16, 16, 2, 2, 2}, nil},
	} {
		for _, dt := range [][2]ndarray.DType{{u8, u8}, {u8, i8}, {i8, i8}} {
			x, w, m := tensor(dt[0], f.x...), tensor(dt[1], f.w...), f.w[0]
			runCases(t, []opCase{
				{op: "ConvInteger", in: []arg{x, w.c()}, attrs: f.attrs},
				{op: "ConvInteger", in: []arg{x, w.c(), tensor(dt[0]), tensor(dt[1]).c()}, attrs: f.attrs},
				{op: "ConvInteger", in: []arg{x, w.c(), tensor(dt[0]), tensor(dt[1], m).c()}, attrs: f.attrs},
				{op: "ConvInteger", in: []arg{x, w}, attrs: f.attrs, left: true},
				{op: "QLinearConv", in: []arg{x, scaleOf(), tensor(dt[0]), w.c(), scaleOf(), tensor(dt[1]).c(), scaleOf().between(1, 9), tensor(dt[0])}, attrs: f.attrs},
				{op: "QLinearConv", in: []arg{x, scaleOf(), tensor(dt[0]), w.c(), scaleOf(m), tensor(dt[1], m).c(), scaleOf().between(1, 9), tensor(dt[0]), tensor(ndarray.Int32, m)}, attrs: f.attrs},
			})
		}
	}
}

// TestQLinearAdd: the scales are powers of two, so factors are exact and so are ties.
func TestQLinearAdd(t *testing.T) {
	scale := func(x float64) arg { return scalarOf(ndarray.Float32, x) }
	for _, dt := range []ndarray.DType{u8, i8} {
		for _, n := range []int{1, 63, 64, 200, 70000} {
			x := tensor(dt, n)
			runCases(t, []opCase{
				{op: "QLinearAdd", domain: microsoft, in: []arg{x, scale(0.5), tensor(dt), x, scale(0.25), tensor(dt), scale(1), tensor(dt)}},
				{op: "QLinearAdd", domain: microsoft, in: []arg{x, scale(4), absent, x, scale(8), absent, scale(0.125)}},
			})
		}
		runCases(t, []opCase{
			{op: "QLinearAdd", domain: microsoft, in: []arg{tensor(dt, 2, 70), scale(0.5), tensor(dt), tensor(dt, 70), scale(2), tensor(dt), scale(1), tensor(dt)}, left: true},
		})
	}
}

// quantLayer is a DynamicQuantizeLSTM with constant weights.
func quantLayer(seq, batch, input, hidden, dirs int, perColumn bool, attrs ...ssa.Attr) opCase {
	n := []int{dirs}
	if perColumn {
		n = []int{dirs, 4 * hidden}
	}
	if dirs == 2 {
		attrs = append(attrs, ssa.StringAttr("direction", "bidirectional"))
	}
	attrs = append(attrs, ssa.IntAttr("hidden_size", int64(hidden)))
	scale := f32s(n...).between(0.001, 0.003).c()
	return opCase{op: "DynamicQuantizeLSTM", domain: microsoft, outs: 3, tol: 2e-2, attrs: attrs, in: []arg{
		f32s(seq, batch, input), tensor(i8, dirs, input, 4*hidden).c(), tensor(i8, dirs, hidden, 4*hidden).c(),
		f32s(dirs, 8*hidden).c(), absent, absent, absent, absent,
		scale, tensor(i8, n...).between(0, 3).c(), scale, tensor(i8, n...).between(0, 3).c(),
	}}
}

func TestQuantRecurrent(t *testing.T) {
	states := quantLayer(5, 3, 7, 9, 2, false)
	states.in[4], states.in[5], states.in[6] = lensOf(3, 5), f32s(2, 3, 9), f32s(2, 3, 9)
	bias := quantLayer(5, 3, 7, 9, 1, true)
	bias.in[3] = f32s(1, 72)
	runCases(t, []opCase{
		quantLayer(5, 3, 7, 9, 1, false), quantLayer(5, 3, 7, 9, 2, true), quantLayer(6, 1, 30, 40, 2, false), states, bias,
	})
}
