package nn

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Attention is scaled dot-product attention with caches, masks and windows:
// https://onnx.ai/onnx/operators/onnx__Attention.html
//
//	Y = softmax(cap(scale * Q·[past_key K]ᵀ) + bias) · [past_value V]
//
// bias is -Inf where attn_mask is false, behind nonpad_kv_seqlen, in the future
// (is_causal) and outside the window; a float attn_mask is added. Query i stands
// at position i + offset: offset is the length of the past, or
// nonpad_kv_seqlen - S without one, or 0. Result 3
// is a stage of the scores, picked by qk_matmul_output_mode.
//
// What is not finite, here and in the attention operators of com.microsoft, on every backend:
//
//	a key hidden by position, length or a boolean mask    has no part in the result, whatever its score and value
//	a number of a mask or bias                            is added: -Inf + NaN and -Inf + Inf are NaN
//	scores that are all -Inf                              give 0
//	a key whose weight is 0                               has no part in the result, whatever its value
//	NaN or +Inf among the other scores of a query         give a row of NaN
//
// An attention that is written out in products and a Softmax, or fused from these, has no such exceptions: 0·Inf of a weight and a value is
// NaN there, and so is the Softmax of scores that are all -Inf.
var Attention = ops.Op{
	Name: "Attention", Since: 25, Form: attentionForm, Doc: "Y = softmax(scale * Q·Kᵀ + bias) · V",
	MinIn: 3, MaxIn: 7, MinOut: 1, MaxOut: 4,
	Attrs: []*ops.AttrSpec{ops.IntAttr("is_causal", 0), ops.IntAttr("kv_num_heads"), ops.IntAttr("left_window_size", -1).From(25),
		ops.IntAttr("q_num_heads"), ops.IntAttr("qk_matmul_output_mode", 0).Between(0, 3), ops.IntAttr("right_window_size", -1).From(25),
		ops.FloatAttr("scale"), ops.FloatAttr("softcap", 0), ops.IntAttr("softmax_precision")},
	Infer: kit.Rule(inferAttention),
	Eval:  kit.FloatKernel(evalAttention[float32], evalAttention[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.AttentionCost},
}

func attentionForm(n *ssa.Node) int {
	if n.Input(6) != nil {
		return 24
	}
	return 23
}

func inferAttention(n *ssa.Node) []ops.Inferred {
	qt, kt, vt := ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 2)
	for _, t := range []ssa.Type{qt, kt, vt} {
		if t.Ranked && t.Rank() != 3 && t.Rank() != 4 {
			kit.Failf("operand %s, expected rank 3 or 4", t)
		}
	}
	kit.MatchShapes(n, "*", "*", "*", "*", "_ _ _ _", "_ _ _ _")
	hq, hk := ops.Int(n, "q_num_heads"), ops.Int(n, "kv_num_heads")
	q, okQ := kit.AttentionDims(qt, hq)
	k, _ := kit.AttentionDims(kt, hk)
	v, _ := kit.AttentionDims(vt, hk)
	if qt.Rank() == 3 && (hq < 1 || hk < 1) {
		kit.Failf("operands of rank 3 need q_num_heads and kv_num_heads")
	}
	for i, t := range []ssa.Type{qt, kt, vt} {
		heads := []int64{hq, hk, hk}[i]
		if size, known := kit.DimOf(t, 2).Const(); t.Rank() == 3 && heads > 0 && known && size%heads != 0 {
			kit.Failf("operand %s does not split into %d heads", t, heads)
		}
	}
	total := k[2]
	if n.Input(4) != nil {
		total = kit.DimOf(ops.InType(n, 4), 2).Add(k[2])
	}
	y := ssa.UnrankedTensor(qt.DType)
	switch {
	case okQ && qt.Rank() == 4:
		y = ssa.TensorOf(qt.DType, q[0], q[1], q[2], v[3])
	case okQ:
		y = ssa.TensorOf(qt.DType, q[0], q[2], q[1].Mul(v[3]))
	}
	return []ops.Inferred{{Type: y}, {Type: ssa.TensorOf(kt.DType, k[0], k[1], total, k[3])},
		{Type: ssa.TensorOf(vt.DType, v[0], v[1], total, v[3])}, {Type: ssa.TensorOf(qt.DType, q[0], q[1], q[2], total)}}
}

// attentionRun is one evaluation of Attention.
type attentionRun[T kit.RealNum] struct {
	c       *ops.Call
	q, k, v Heads[T] // k and v with their past
	past    int
	valid   *ndarray.Array // nonpad_kv_seqlen
	mask    *MaskView
}

func evalAttention[T float32 | float64](c *ops.Call) {
	a := newAttentionRun[T](c)
	scores := AttentionScores(c, a.q, a.k, ScaleOf(c.Node, a.q.Size))
	a.keep(0, scores)
	SoftCap(c, scores, float64(ops.Float(c.Node, "softcap")))
	a.keep(1, scores)
	a.addBias(scores)
	a.keep(2, scores)
	a.normalize(scores)
	a.keep(3, scores)
	StoreAttended(c, c.Array(0).DType, scores, a.q, a.v, c.Array(0).Rank() == 3)
}

func newAttentionRun[T float32 | float64](c *ops.Call) *attentionRun[T] {
	a := &attentionRun[T]{c: c, valid: c.Array(6)}
	hq, hk := int(ops.Int(c.Node, "q_num_heads")), int(ops.Int(c.Node, "kv_num_heads"))
	a.q = HeadsOf[T](c, "Q", c.Array(0), hq)
	a.k = HeadsOf[T](c, "K", c.Array(1), hk)
	a.v = HeadsOf[T](c, "V", c.Array(2), hk)
	CheckHeads(a.q, a.k, a.v)
	if c.Has(4) && a.valid != nil {
		kit.Failf("nonpad_kv_seqlen does not go with past_key and past_value")
	}
	a.past = JoinPast(c, 4, &a.k, &a.v)
	kit.WantShape("nonpad_kv_seqlen", a.valid, a.q.Batch)
	a.mask = NewMaskView(c.Array(3), [4]int{a.q.Batch, a.q.N, a.q.Seq, a.k.Seq})
	return a
}

// addBias hides keys and adds the numbers of a mask.
func (a *attentionRun[T]) addBias(scores []T) {
	hidden, total := kit.Make[float64](a.c, a.k.Seq), a.k.Seq
	w := kit.Watching(a.c)
	for r := range a.q.Batch * a.q.N * a.q.Seq {
		b, h, s := a.q.Row(r)
		clear(hidden)
		a.addWindow(b, s, hidden)
		for t := range hidden {
			w.Did(1)
			if hidden[t] != 0 || a.mask.hides(b, h, s, t) {
				scores[r*total+t] = T(math.Inf(-1)) // whatever the score
			} else {
				scores[r*total+t] += T(a.mask.number(b, h, s, t))
			}
		}
	}
}

// addWindow masks the keys that query s of batch b must not see by position.
func (a *attentionRun[T]) addWindow(b, s int, bias []float64) {
	offset, last := a.past, len(bias)-1
	if a.valid != nil {
		n := int(a.valid.Int(b))
		offset, last = n-a.q.Seq, min(last, n-1)
	}
	first := 0
	if ops.Int(a.c.Node, "is_causal") != 0 {
		last = min(last, s+offset)
	}
	if w := ops.Int(a.c.Node, "left_window_size"); w >= 0 {
		first = s + offset - int(min(w, math.MaxInt32))
	}
	if w := ops.Int(a.c.Node, "right_window_size"); w >= 0 {
		last = min(last, s+offset+int(min(w, math.MaxInt32)))
	}
	maskOutside(bias, first, last)
}

// normalize is the softmax, in the precision the node asks for.
func (a *attentionRun[T]) normalize(scores []T) {
	precision := kit.Try(kit.DtypeAttr(a.c.Node, "softmax_precision", ndarray.Undefined))
	if precision != ndarray.Undefined {
		kit.RoundTo(a.c, scores, precision)
	}
	kit.SoftmaxRows(a.c, scores, a.k.Seq)
}

// keep stores the scores as result 3 if they are at the stage the node asks for.
func (a *attentionRun[T]) keep(stage int64, scores []T) {
	if !a.c.Wants(3) || ops.Int(a.c.Node, "qk_matmul_output_mode") != stage {
		return
	}
	out := kit.NewResult[T](a.c, 3, a.c.Array(0).DType, a.q.Batch, a.q.N, a.q.Seq, a.k.Seq)
	kit.CopySlice(a.c, out.V, scores)
	out.Store()
}
