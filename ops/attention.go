package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
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
// nonpad_kv_seqlen - S without one, or 0. A row without any key gives 0. Result 3
// is a stage of the scores, picked by qk_matmul_output_mode.
var Attention = Op{
	Name: "Attention", Since: 25, Form: attentionForm, Doc: "Y = softmax(scale * Q·Kᵀ + bias) · V",
	MinIn: 3, MaxIn: 7, MinOut: 1, MaxOut: 4,
	Attrs: []AttrSpec{intAttr("is_causal", 0), intAttr("kv_num_heads"), intAttr("left_window_size", -1).since(25),
		intAttr("q_num_heads"), intAttr("qk_matmul_output_mode", 0), intAttr("right_window_size", -1).since(25),
		floatAttr("scale"), floatAttr("softcap", 0), intAttr("softmax_precision")},
	Infer: rule(inferAttention),
	Eval:  floatKernel(evalAttention[float32], evalAttention[float64]),
	Facts: Facts{Traits: general, Cost: attentionCost},
}

func attentionForm(n *ssa.Node) int {
	if n.Input(6) != nil {
		return 24
	}
	return 23
}

func inferAttention(n *ssa.Node) []Inferred {
	qt, kt, vt := InType(n, 0), InType(n, 1), InType(n, 2)
	for _, t := range []ssa.Type{qt, kt, vt} {
		if t.Ranked && t.Rank() != 3 && t.Rank() != 4 {
			failf("operand %s, expected rank 3 or 4", t)
		}
	}
	hq, hk := Int(n, "q_num_heads"), Int(n, "kv_num_heads")
	q, okQ := attentionDims(qt, hq)
	k, _ := attentionDims(kt, hk)
	v, _ := attentionDims(vt, hk)
	if qt.Rank() == 3 && (hq < 1 || hk < 1) {
		failf("operands of rank 3 need q_num_heads and kv_num_heads")
	}
	total := k[2]
	if n.Input(4) != nil {
		total = dimOf(InType(n, 4), 2).Add(k[2])
	}
	y := ssa.UnrankedTensor(qt.DType)
	switch {
	case okQ && qt.Rank() == 4:
		y = ssa.TensorOf(qt.DType, q[0], q[1], q[2], v[3])
	case okQ:
		y = ssa.TensorOf(qt.DType, q[0], q[2], q[1].Mul(v[3]))
	}
	return []Inferred{{Type: y}, {Type: ssa.TensorOf(kt.DType, k[0], k[1], total, k[3])},
		{Type: ssa.TensorOf(vt.DType, v[0], v[1], total, v[3])}, {Type: ssa.TensorOf(qt.DType, q[0], q[1], q[2], total)}}
}

// attentionRun is one evaluation of Attention.
type attentionRun[T realNum] struct {
	c       *Call
	q, k, v heads[T] // k and v with their past
	past    int
	valid   *ndarray.Array // nonpad_kv_seqlen
	mask    *maskView
}

func evalAttention[T float32 | float64](c *Call) {
	a := newAttentionRun[T](c)
	mode := Int(c.Node, "qk_matmul_output_mode")
	if mode < 0 || mode > 3 {
		failf("qk_matmul_output_mode=%d is not 0 to 3", mode)
	}
	scale := float64(FloatOr(c.Node, "scale", float32(1/math.Sqrt(float64(a.q.size)))))
	scores := attentionScores(a.q, a.k, scale)
	a.keep(0, scores)
	softCap(scores, float64(Float(c.Node, "softcap")))
	a.keep(1, scores)
	empty := a.addBias(scores)
	a.keep(2, scores)
	a.normalize(scores, empty)
	a.keep(3, scores)
	a.storeY(scores)
}

func newAttentionRun[T float32 | float64](c *Call) *attentionRun[T] {
	a := &attentionRun[T]{c: c, valid: c.Array(6)}
	hq, hk := int(Int(c.Node, "q_num_heads")), int(Int(c.Node, "kv_num_heads"))
	a.q = headsOf[T]("Q", c.Array(0), hq)
	a.k = headsOf[T]("K", c.Array(1), hk)
	a.v = headsOf[T]("V", c.Array(2), hk)
	checkHeads(a.q, a.k, a.v)
	a.joinPast()
	wantShape("nonpad_kv_seqlen", a.valid, a.q.batch)
	a.mask = newMaskView(c.Array(3), [4]int{a.q.batch, a.q.n, a.q.seq, a.k.seq})
	return a
}

// joinPast puts past_key and past_value before K and V and stores the present ones.
func (a *attentionRun[T]) joinPast() {
	if a.c.Has(4) != a.c.Has(5) {
		failf("past_key and past_value come together")
	}
	if a.c.Has(4) && a.valid != nil {
		failf("nonpad_kv_seqlen does not go with past_key and past_value")
	}
	for i, x := range []*heads[T]{&a.k, &a.v} {
		var past heads[T]
		if p := a.c.Array(4 + i); p != nil {
			if p.Rank() != 4 || p.Shape[0] != x.batch || p.Shape[1] != x.n || p.Shape[3] != x.size {
				failf("past of shape %v does not fit %d batches of %d heads of size %d", p.Shape, x.batch, x.n, x.size)
			}
			past = headsOf[T]("past", p, 0)
			a.past = past.seq
		} else if !a.c.Wants(1 + i) {
			continue
		}
		*x = x.contiguous(past)
		if a.c.Wants(1 + i) {
			out := newResult[T](a.c, 1+i, a.c.Array(1+i).DType, x.batch, x.n, x.seq, x.size)
			copy(out.V, x.v)
			out.store()
		}
	}
	if a.k.seq != a.v.seq {
		failf("keys have %d positions, values %d", a.k.seq, a.v.seq)
	}
}

// addBias adds the masks to the scores and reports the rows that have no key left.
func (a *attentionRun[T]) addBias(scores []T) []bool {
	bias, total := make([]float64, a.k.seq), a.k.seq
	empty := make([]bool, a.q.batch*a.q.n*a.q.seq)
	for r := range empty {
		b, h, s := r/a.q.seq/a.q.n, r/a.q.seq%a.q.n, r%a.q.seq
		clear(bias)
		a.mask.add(b, h, s, bias)
		a.addWindow(b, s, bias)
		empty[r] = true
		for t, v := range bias {
			if math.IsInf(v, -1) {
				scores[r*total+t] = T(v) // whatever the score was, even NaN
				continue
			}
			empty[r] = false
			scores[r*total+t] += T(v)
		}
	}
	return empty
}

// addWindow masks the keys that query s of batch b must not see by position.
func (a *attentionRun[T]) addWindow(b, s int, bias []float64) {
	offset, last := a.past, len(bias)-1
	if a.valid != nil {
		n := int(a.valid.Int(b))
		offset, last = n-a.q.seq, min(last, n-1)
	}
	first := 0
	if Int(a.c.Node, "is_causal") != 0 {
		last = min(last, s+offset)
	}
	if w := Int(a.c.Node, "left_window_size"); w >= 0 {
		first = s + offset - int(min(w, math.MaxInt32))
	}
	if w := Int(a.c.Node, "right_window_size"); w >= 0 {
		last = min(last, s+offset+int(min(w, math.MaxInt32)))
	}
	maskOutside(bias, first, last)
}

// normalize is the softmax, in the precision the node asks for; empty rows
// become 0.
func (a *attentionRun[T]) normalize(scores []T, empty []bool) {
	precision := try(dtypeAttr(a.c.Node, "softmax_precision", ndarray.Undefined))
	if precision != ndarray.Undefined {
		roundTo(scores, precision)
	}
	softmaxRows(scores, a.k.seq)
	for r, e := range empty {
		if e {
			clear(scores[r*a.k.seq : (r+1)*a.k.seq])
		}
	}
}

// keep stores the scores as result 3 if they are at the stage the node asks for.
func (a *attentionRun[T]) keep(stage int64, scores []T) {
	if !a.c.Wants(3) || Int(a.c.Node, "qk_matmul_output_mode") != stage {
		return
	}
	out := newResult[T](a.c, 3, a.c.Array(0).DType, a.q.batch, a.q.n, a.q.seq, a.k.seq)
	copy(out.V, scores)
	out.store()
}

func (a *attentionRun[T]) storeY(probs []T) {
	dt := a.c.Array(0).DType
	shape := []int{a.q.batch, a.q.n, a.q.seq, a.v.size}
	if a.c.Array(0).Rank() == 3 {
		shape = []int{a.q.batch, a.q.seq, a.q.n * a.v.size}
	}
	y := newResult[T](a.c, 0, dt, shape...)
	out := bnsh(y.V, a.q.batch, a.q.n, a.q.seq, a.v.size)
	if len(shape) == 3 {
		out = bsnh(y.V, a.q.batch, a.q.seq, a.q.n, a.v.size)
	}
	attentionApply(probs, a.v, out)
	y.store()
}
