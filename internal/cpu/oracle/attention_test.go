package oracle

import (
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func TestAttention(t *testing.T) {
	heads := func(q, k int64, more ...ssa.Attr) []ssa.Attr {
		return append(more, ssa.IntAttr("q_num_heads", q), ssa.IntAttr("kv_num_heads", k))
	}
	causal := ssa.IntAttr("is_causal", 1)
	q, k, v := f32s(2, 4, 9, 16), f32s(2, 4, 11, 16), f32s(2, 4, 11, 8)
	past := []arg{f32s(2, 4, 5, 16), f32s(2, 4, 5, 8)}
	long := []arg{f32s(1, 2, 700, 32), f32s(1, 2, 700, 32), f32s(1, 2, 700, 32)}
	masked := func(m arg) arg { return m.from(func(r *rand.Rand) float64 { return float64(r.Intn(3)) - 1 }) }
	cases := []opCase{
		{in: []arg{q, k, v}},
		{in: []arg{q, k, v}, attrs: []ssa.Attr{ssa.FloatAttr("scale", 0.7), ssa.FloatAttr("softcap", 1.5)}},
		{in: []arg{q, k, v}, attrs: []ssa.Attr{causal}},
		{in: []arg{q, k, v, boolean(9, 11)}},
		{in: []arg{q, k, v, boolean(2, 1, 9, 11)}},
		{in: []arg{q, k, v, masked(f32s(2, 4, 9, 11))}},
		{in: []arg{q, k, v, masked(f32s(9, 1))}, attrs: []ssa.Attr{causal}},
		{in: []arg{q, k, v, boolean(9, 11).between(0, 0)}, name: "all hidden"},
		{in: []arg{q, f32s(2, 2, 11, 16), f32s(2, 2, 11, 8)}},
		{in: []arg{f32s(2, 9, 64), f32s(2, 11, 32), f32s(2, 11, 16)}, attrs: heads(4, 2)},
		{in: []arg{f32s(2, 9, 64), f32s(2, 11, 64), f32s(2, 11, 64)}, attrs: heads(4, 4, causal)},
		{in: append([]arg{q, k, v, absent}, past...), outs: 3},
		{in: append([]arg{q, k, v, absent}, past...), attrs: []ssa.Attr{causal}},
		{in: append([]arg{q, k, v, boolean(9, 16)}, past...), outs: 3, unused: []int{1}},
		{in: append([]arg{f32s(2, 9, 64), f32s(2, 11, 64), f32s(2, 11, 32), absent}, past...), outs: 3, attrs: heads(4, 4, causal)},
		{in: []arg{q, k, v}, outs: 3},
		{in: []arg{q, k, v, absent, f32s(2, 4, 0, 16), f32s(2, 4, 0, 8)}, outs: 3},
		{in: []arg{q, k, v}, attrs: []ssa.Attr{ssa.IntAttr("left_window_size", 2)}},
		{in: []arg{q, k, v}, attrs: []ssa.Attr{ssa.IntAttr("left_window_size", 3), ssa.IntAttr("right_window_size", 1)}},
		{in: append([]arg{q, k, v, absent}, past...), attrs: []ssa.Attr{ssa.IntAttr("left_window_size", 3), causal}},
		{in: long}, {in: long, attrs: []ssa.Attr{causal}},
		{in: []arg{q, k, v}, outs: 4, left: true},
	}
	for i := range cases {
		cases[i].op, cases[i].tol = "Attention", 1e-5
	}
	runCases(t, cases)
}

func TestMultiHeadAttention(t *testing.T) {
	heads := func(more ...ssa.Attr) []ssa.Attr { return append(more, ssa.IntAttr("num_heads", 4)) }
	q, k, v, bias := f32s(2, 9, 64), f32s(2, 11, 64), f32s(2, 11, 32), f32s(160)
	past := []arg{f32s(2, 4, 5, 16), f32s(2, 4, 5, 8)}
	i32 := func(hi float64, shape ...int) arg { return tensor(ndarray.Int32, shape...).between(0, hi) }
	filter, causal := ssa.FloatAttr("mask_filter_value", -3), ssa.IntAttr("unidirectional", 1)
	cases := []opCase{
		{in: []arg{q, k, v}},
		{in: []arg{q, k, v}, attrs: []ssa.Attr{ssa.FloatAttr("scale", 0.3), causal}},
		{in: []arg{q, k, v, bias}, outs: 3},
		{in: []arg{q, f32s(2, 4, 11, 16), f32s(2, 4, 11, 8)}},
		{in: []arg{q, k, v, absent, i32(12, 2)}},
		{in: []arg{q, k, v, absent, i32(12, 2)}, attrs: []ssa.Attr{filter}},
		{in: []arg{q, k, v, bias, i32(2, 2, 11)}, attrs: []ssa.Attr{filter}},
		{in: []arg{q, k, v, bias, absent, f32s(2, 4, 9, 11)}},
		{in: []arg{q, k, v, absent, absent, f32s(1, 1, 9, 11)}},
		{in: append([]arg{q, k, v, absent, i32(2, 2, 16), absent}, past...), outs: 3},
		{in: append([]arg{q, k, v, bias, absent, f32s(1, 1, 9, 16)}, past...), outs: 3, attrs: []ssa.Attr{causal}},
		{in: []arg{q, k, v, bias, i32(2, 2, 11), f32s(2, 4, 9, 11)}, left: true},
		{in: []arg{q, k, v}, outs: 4, left: true},
		{in: []arg{f32s(2, 9, 4, 3, 16)}, left: true},
	}
	for i := range cases {
		c := &cases[i]
		c.domain, c.op, c.tol, c.attrs = microsoft, "MultiHeadAttention", 1e-5, heads(c.attrs...)
	}
	runCases(t, cases)
}

func TestRotary(t *testing.T) {
	ids := arg{dt: ndarray.Int64, shape: []int{2, 5}}.between(0, 20)
	outside := arg{dt: ndarray.Int64, shape: []int{2, 5}}.between(20, 30)
	flag := func(name string, v int64) ssa.Attr { return ssa.IntAttr(name, v) }
	runCases(t, []opCase{
		{op: "RotaryEmbedding", in: []arg{f32s(2, 3, 5, 8), f32s(2, 5, 4), f32s(2, 5, 4)}, tol: 1e-6},
		{op: "RotaryEmbedding", in: []arg{f32s(2, 3, 5, 8), f32s(20, 4), f32s(20, 4), ids}, tol: 1e-6},
		{op: "RotaryEmbedding", in: []arg{f32s(2, 3, 5, 8), f32s(20, 4), f32s(20, 4), ids}, attrs: []ssa.Attr{flag("interleaved", 1)}, tol: 1e-6},
		{op: "RotaryEmbedding", in: []arg{f32s(2, 5, 24), f32s(20, 3), f32s(20, 3), ids}, attrs: []ssa.Attr{flag("num_heads", 3), flag("rotary_embedding_dim", 6)}, tol: 1e-6},
		{op: "RotaryEmbedding", in: []arg{f32s(2, 3, 5, 8), f32s(20, 4), f32s(20, 4), outside}, fails: true},
		{op: "SwiGLU", in: []arg{f32s(3, 40), f32s(3, 40)}, tol: 1e-6},
		{op: "TensorScatter", in: []arg{f32s(2, 3, 10, 4), f32s(2, 3, 2, 4), indices(ndarray.Int64, 1, 2).between(0, 8)}},
		{op: "TensorScatter", in: []arg{f32s(2, 3, 10, 4), f32s(2, 3, 4, 4), indices(ndarray.Int64, 1, 2).between(0, 30)}, attrs: strs("mode", "circular")},
		{op: "TensorScatter", in: []arg{tensor(ndarray.Float16, 2, 10, 4), tensor(ndarray.Float16, 2, 4, 4)}},
		{op: "TensorScatter", in: []arg{f32s(2, 3, 10, 4), f32s(2, 3, 2, 4), indices(ndarray.Int64, 1, 2).between(9, 10)}, fails: true},
	})
}
