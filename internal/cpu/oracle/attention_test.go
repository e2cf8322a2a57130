package oracle

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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
		{in: []arg{f32s(2, 1, 64), k, v}, attrs: []ssa.Attr{causal}},
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
		{in: []arg{f32s(2, 9, 4, 3, 16)}, outs: 3},
		{in: []arg{f32s(2, 9, 4, 3, 16), absent, absent, absent, i32(12, 2)}, attrs: []ssa.Attr{causal}},
		{in: []arg{q, f32s(2, 11, 4, 2, 16)}},
		{in: []arg{q, f32s(2, 11, 4, 2, 16), absent, absent, i32(2, 2, 16), absent, f32s(2, 4, 5, 16), f32s(2, 4, 5, 16)}, outs: 3},
		{in: []arg{f32s(2, 9, 4, 3, 16), absent, absent, f32s(192)}, left: true},
	}
	for i := range cases {
		c := &cases[i]
		c.domain, c.op, c.tol, c.attrs = microsoft, "MultiHeadAttention", 1e-5, heads(c.attrs...)
	}
	runCases(t, cases)
}

func TestGroupQueryAttention(t *testing.T) {
	attrs := func(more ...ssa.Attr) []ssa.Attr {
		return append(more, ssa.IntAttr("num_heads", 4), ssa.IntAttr("kv_num_heads", 2))
	}
	lens := func(v ...int32) arg {
		return arg{dt: ndarray.Int32, shape: []int{len(v)}, fill: func(_ *rand.Rand, a *ndarray.Array) { copy(ndarray.Slice[int32](a), v) }}
	}
	total := func(n float64) arg { return scalarOf(ndarray.Int32, n) }
	q, k, v := f32s(2, 9, 64), f32s(2, 9, 32), f32s(2, 9, 32)
	past := []arg{f32s(2, 2, 5, 16), f32s(2, 2, 5, 16)}
	room := []arg{f32s(2, 2, 40, 16), f32s(2, 2, 40, 16)}
	angles := []arg{f32s(40, 8), f32s(40, 8)}
	rotary, ids := ssa.IntAttr("do_rotary", 1), arg{dt: ndarray.Int64, shape: []int{2, 9}}.between(0, 40)
	join := func(lists ...[]arg) (all []arg) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	one := func(x arg) []arg { return []arg{x} }
	long := join([]arg{f32s(1, 3, 64), f32s(1, 3, 32), f32s(1, 3, 32), f32s(1, 2, 1500, 16), f32s(1, 2, 1500, 16)})
	next := join([]arg{f32s(1, 1, 128), absent, absent, f32s(1, 2, 2500, 16), f32s(1, 2, 2500, 16)})
	cases := []opCase{
		{in: []arg{q, k, v, absent, absent, lens(8, 8), total(9)}},
		{in: []arg{q, k, v, absent, absent, lens(8, 3), total(9)}, name: "padded"},
		{in: []arg{q, k, v, absent, absent, lens(8, -1), total(9)}, name: "no key"},
		{in: []arg{f32s(2, 9, 128), absent, absent, absent, absent, lens(8, 5), total(9)}},
		{in: join([]arg{q, k, v}, past, []arg{lens(13, 13), total(14)})},
		{in: join([]arg{q, k, v}, past, []arg{lens(13, 10), total(14)}), name: "another length"},
		{in: join([]arg{q, k, v}, room, []arg{lens(20, 8), total(21)})},
		{in: join([]arg{q, k, v}, room, []arg{lens(20, 8), total(21)}, angles), attrs: []ssa.Attr{rotary}},
		{in: join([]arg{q, k, v}, room, []arg{lens(20, 8), total(21)}, angles, one(ids)), attrs: []ssa.Attr{rotary, ssa.IntAttr("rotary_interleaved", 1)}},
		{in: join([]arg{q, k, v}, room, []arg{lens(30, 8), total(31), f32s(20, 4), f32s(20, 4)}), attrs: []ssa.Attr{rotary}, name: "positions beyond the angles"},
		{in: join([]arg{f32s(2, 9, 128), absent, absent}, room, []arg{lens(20, 8), total(21)}, angles), attrs: []ssa.Attr{rotary}},
		{in: join([]arg{q, k, v}, room, []arg{lens(30, 20), total(31)}), attrs: []ssa.Attr{ssa.IntAttr("local_window_size", 4), ssa.FloatAttr("softcap", 2), ssa.FloatAttr("scale", 0.4)}},
		{in: join([]arg{q, k, v}, room, []arg{lens(30, 20), total(31)}), attrs: []ssa.Attr{ssa.IntAttr("causal", 0)}},
		{in: join([]arg{q, k, v}, room, []arg{lens(30, 20), total(31)}), attrs: []ssa.Attr{ssa.IntAttr("smooth_softmax", 1)}},
		{in: join([]arg{q, k, v}, room, []arg{lens(30, 20), total(31), absent, absent, absent, absent, f32s(4)})},
		{in: join(long, []arg{lens(1200), total(1201)})},
		{in: join(long, []arg{lens(1200), total(1201)}), attrs: []ssa.Attr{ssa.IntAttr("local_window_size", 300)}},
		{in: join(long, []arg{lens(1499), total(1500), absent, absent, absent, absent, f32s(4)})},
		{in: join(long, []arg{lens(1499), total(1500)}), attrs: []ssa.Attr{ssa.IntAttr("causal", 0)}},
		{in: join(next, []arg{lens(2100), total(2101)})},
		{in: join(next, []arg{lens(2100), total(2101)}), attrs: []ssa.Attr{ssa.IntAttr("local_window_size", 128)}},
		{in: join([]arg{q, k, v}, past, []arg{lens(13, 14), total(14)}), fails: true},
		{in: join([]arg{q, k, v}, past, []arg{lens(13, 7), total(14)}), fails: true},
		{in: join([]arg{q, k, v}, room, []arg{lens(20, 8), total(21)}, angles, one(ids.between(40, 50))), attrs: []ssa.Attr{rotary}, fails: true},
		{in: join([]arg{q, k, v}, past, []arg{lens(13, 13), total(14), absent, absent, absent, f32s(1, 1, 9, 14)}), left: true},
	}
	for i := range cases {
		c := &cases[i]
		c.domain, c.op, c.outs, c.tol, c.attrs = microsoft, "GroupQueryAttention", 3, 1e-5, attrs(c.attrs...)
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

// set is an operand with a number at some elements, counted from the end where that is negative.
func (a arg) set(v float64, at ...int) arg {
	fill := a.fill
	a.fill = func(r *rand.Rand, x *ndarray.Array) {
		fill(r, x)
		for _, i := range at {
			x.SetFloat((i+x.Len())%x.Len(), v)
		}
	}
	return a
}

// TestAttentionNonFinite: scores, values and masks that are not finite, in all ways to hide a key, give what the reference kernels give, at
// every level, for rows that are complete and for such as are made chunk by chunk.
func TestAttentionNonFinite(t *testing.T) {
	inf := math.Inf(1)
	flag := func(name string) []ssa.Attr { return []ssa.Attr{ssa.IntAttr(name, 1)} }
	for _, keys := range []int{11, 700, 2100} {
		const size, queries = 4, 9
		q, k, v := f32s(1, 2, queries, size), f32s(1, 2, keys, size), f32s(1, 2, keys, size)
		last := -1 - size*(keys/2) // an element of a key in the middle, which masks hide or do not
		mask := func(hidden float64) arg {
			return tensor(ndarray.Float32, queries, keys).between(0, 0).set(hidden, keys/2-1, keys+keys/2-1, -1)
		}
		bools := boolean(queries, keys).between(1, 1).set(0, keys/2-1, keys+keys/2-1, -1)
		merged := [3]arg{f32s(1, queries, 2*size), f32s(1, keys, 2*size), f32s(1, keys, 2*size)}
		for _, x := range []float64{nan, inf, -inf, 3e38} {
			for what, at := range map[string]int{"key": 1, "value": 2} {
				with := func(in ...arg) []arg { in[at] = in[at].set(x, last); return in }
				name := fmt.Sprintf("%d keys, a %s of %g", keys, what, x)
				heads := func(more ...ssa.Attr) []ssa.Attr { return append(more, ssa.IntAttr("num_heads", 2)) }
				for i, c := range []opCase{
					{op: "Attention", in: with(q, k, v)},
					{op: "Attention", in: with(q, k, v), attrs: flag("is_causal")},
					{op: "Attention", in: with(q, k, v), attrs: []ssa.Attr{ssa.IntAttr("left_window_size", 2)}},
					{op: "Attention", in: with(q, k, v, bools)},
					{op: "Attention", in: with(q, k, v, mask(-inf))},
					{op: "Attention", in: with(q, k, v, mask(nan))},
					{op: "Attention", in: with(q, k, v, mask(inf))},
					{op: "Attention", in: with(q, k, v, tensor(ndarray.Float32, queries, keys).between(0, 0).set(-inf, span(2*keys, 3*keys)...))},
					{op: "Attention", in: with(q, k, v, boolean(queries, keys).between(1, 1).set(0, span(2*keys, 3*keys)...))},
					{op: "MultiHeadAttention", in: with(merged[0], merged[1], merged[2]), attrs: heads()},
					{op: "MultiHeadAttention", in: with(merged[0], merged[1], merged[2]), attrs: heads(flag("unidirectional")...)},
					{op: "MultiHeadAttention", in: with(merged[0], merged[1], merged[2], absent, tensor(ndarray.Int32, 1).between(float64(keys/2), float64(keys/2))), attrs: heads()},
					{op: "MultiHeadAttention", in: with(merged[0], merged[1], merged[2], absent, absent, f32s(1, 2, queries, keys).set(-inf, keys/2-1)), attrs: heads()},
					{op: "GroupQueryAttention", in: []arg{f32s(1, queries, 4*size), f32s(1, queries, 2*size).set(x, map[bool]int{true: -1 - 4*size, false: 0}[at == 1]), f32s(1, queries, 2*size).set(x, map[bool]int{true: -1 - 4*size, false: 0}[at == 2]),
						f32s(1, 2, keys, size), f32s(1, 2, keys, size), tensor(ndarray.Int32, 1).between(float64(keys-1), float64(keys-1)), scalarOf(ndarray.Int32, float64(keys))},
						attrs: []ssa.Attr{ssa.IntAttr("num_heads", 4), ssa.IntAttr("kv_num_heads", 2)}, outs: 3},
				} {
					if c.op != "Attention" {
						c.domain = microsoft
					}
					t.Run(fmt.Sprintf("%s, %s %d", name, c.op, i), func(t *testing.T) {
						b := c.build(t, 1)
						b.eachLevel(t, func(level string, i int, want, got *ndarray.Array) { b.comparePlaces(t, level, want, got) })
					})
				}
			}
		}
	}
}

// span are the numbers from one up to another.
func span(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// TestAttentionPastEnds: caches are not copied for a run whose context has ended.
func TestAttentionPastEnds(t *testing.T) {
	g := ssa.NewGraph("attention")
	c := &ops.Call{Threads: 1}
	for i, length := range []int{1, 1, 1, 0, 3, 3} {
		if length == 0 {
			c.In = append(c.In, nil)
			continue
		}
		c.In = append(c.In, ndarray.Must(ndarray.Float32, 1, 2, length, 4))
		g.AddParam(fmt.Sprint("x", i), ssa.StaticTensor(ndarray.Float32, 1, 2, length, 4))
	}
	c.Node = g.NewNode("Attention", slices.Insert(slices.Clone(g.Params), 3, nil), 3)
	require.NoError(t, ops.Infer(c.Node))
	for _, v := range c.Node.Out {
		shape, _ := v.Type.Static()
		y := ndarray.Must(ndarray.Float32, shape...)
		y.SetFloat(0, 7)
		c.Out = append(c.Out, y)
	}
	p, err := cpu.New().Prepare(t.Context(), c.Node, 1)
	require.NoError(t, err)
	c.Scratch = make([]byte, p.Scratch+64)
	for _, ended := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		if c.Ctx = ctx; ended {
			cancel()
		}
		require.NoError(t, p.Kernel.Run(c))
		for _, y := range c.Out[1:] {
			require.Equal(t, ended, y.(*ndarray.Array).Float(0) == 7)
		}
		cancel()
	}
}
