package cpu

import (
	"math/rand"
	"testing"

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
		{in: long}, {in: long, attrs: []ssa.Attr{causal}},
		{in: []arg{q, k, v}, outs: 4, left: true},
	}
	for i := range cases {
		cases[i].op, cases[i].tol = "Attention", 1e-5
	}
	runCases(t, cases)
}
