package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// Scaled dot-product attention, the core of all attention operators:
//
//	Q [B,Hq,S,D]   K [B,Hk,T,D]   V [B,Hk,T,E]
//
//	scores = scale * Q·Kᵀ           [B,Hq,S,T]
//	probs  = softmax(cap(scores) + bias)
//	out    = probs·V                [B,Hq,S,E]
//
// With fewer key heads than query heads, query head h reads key head
// h / (Hq/Hk). Sources: https://arxiv.org/abs/1706.03762 (attention),
// https://arxiv.org/abs/2305.13245 (grouped queries).

// heads is a tensor seen as [batch, n, seq, size], whatever its layout.
type heads[T realNum] struct {
	v                     []T
	batch, n, seq, size   int
	perBatch, perHead, ss int // strides; ss between positions of a sequence
}

// bnsh is the view of a contiguous [batch, n, seq, size] buffer.
func bnsh[T realNum](v []T, batch, n, seq, size int) heads[T] {
	return heads[T]{v, batch, n, seq, size, n * seq * size, seq * size, size}
}

// bsnh is the view of a contiguous [batch, seq, n*size] buffer.
func bsnh[T realNum](v []T, batch, seq, n, size int) heads[T] {
	return heads[T]{v, batch, n, seq, size, seq * n * size, size, n * size}
}

// headsOf views an operand of rank 4, or of rank 3 with n heads packed in the
// last dimension.
func headsOf[T realNum](what string, a *ndarray.Array, n int) heads[T] {
	if a == nil {
		failf("%s is not a tensor", what)
	}
	s := a.Shape
	switch {
	case len(s) == 4:
		return bnsh(elements[T](a), s[0], s[1], s[2], s[3])
	case len(s) == 3 && n > 0 && s[2]%n == 0:
		return bsnh(elements[T](a), s[0], s[1], n, s[2]/n)
	case len(s) == 3:
		failf("%s has shape %v, which does not split into %d heads", what, s, n)
	}
	panic(failure{fmt.Errorf("%s has shape %v, expected rank 3 or 4", what, s)})
}

// from is the memory of head h of batch b from its first position on.
func (x heads[T]) from(b, h int) []T {
	if x.seq == 0 || x.size == 0 {
		return nil
	}
	return x.v[b*x.perBatch+h*x.perHead:]
}

// at is the vector of position s of head h of batch b.
func (x heads[T]) at(b, h, s int) []T {
	return x.v[b*x.perBatch+h*x.perHead+s*x.ss:][:x.size]
}

// contiguous copies x, after an optional past of the same heads, into a buffer
// [batch, n, past+seq, size].
func (x heads[T]) contiguous(past heads[T]) heads[T] {
	out := bnsh(make([]T, x.batch*x.n*(past.seq+x.seq)*x.size), x.batch, x.n, past.seq+x.seq, x.size)
	for b := range x.batch {
		for h := range x.n {
			for s := range past.seq {
				copy(out.at(b, h, s), past.at(b, h, s))
			}
			for s := range x.seq {
				copy(out.at(b, h, past.seq+s), x.at(b, h, s))
			}
		}
	}
	return out
}

// checkHeads compares the operands of attention with each other.
func checkHeads[T realNum](q, k, v heads[T]) {
	switch {
	case q.batch != k.batch || k.batch != v.batch:
		failf("Q, K and V have batches of %d, %d and %d", q.batch, k.batch, v.batch)
	case q.size != k.size:
		failf("Q has head size %d, K %d", q.size, k.size)
	case k.n != v.n || k.seq != v.seq:
		failf("K has %d heads of %d positions, V %d of %d", k.n, k.seq, v.n, v.seq)
	case k.n < 1 || q.n%k.n != 0:
		failf("%d query heads can not share %d key heads", q.n, k.n)
	}
}

// attentionScores returns scale * Q·Kᵀ as [B,Hq,S,T].
func attentionScores[T realNum](q, k heads[T], scale float64) []T {
	out := make([]T, q.batch*q.n*q.seq*k.seq)
	for i := range q.batch * q.n {
		b, h := i/q.n, i%q.n
		part := out[i*q.seq*k.seq:][:q.seq*k.seq]
		matMulAddT(q.seq, k.seq, q.size, q.from(b, h), q.ss, k.from(b, h/(q.n/k.n)), k.ss, part, k.seq)
		for j := range part {
			part[j] *= T(scale)
		}
	}
	return out
}

// softCap limits scores smoothly: cap * tanh(x / cap); 0 is no limit.
func softCap[T realNum](scores []T, limit float64) {
	if limit == 0 {
		return
	}
	for i, v := range scores {
		scores[i] = T(limit * math.Tanh(float64(v)/limit))
	}
}

// attentionApply writes probs·V to out, which has as many heads as Q. Keys of
// probability 0 are left out, so that what lies in masked positions (even NaN)
// does not matter.
func attentionApply[T realNum](probs []T, v, out heads[T]) {
	for b := range out.batch {
		for h := range out.n {
			for s := range out.seq {
				row := out.at(b, h, s)
				clear(row)
				p := probs[((b*out.n+h)*out.seq+s)*v.seq:][:v.seq]
				for t, f := range p {
					if f != 0 {
						addScaled(row, f, v.at(b, h/(out.n/v.n), t))
					}
				}
			}
		}
	}
}

// maskView reads an attention mask of any rank that broadcasts to [B,Hq,S,T]; a
// shorter last dimension masks what lies behind it.
type maskView struct {
	a       *ndarray.Array
	strides []int // over [B,Hq,S,T]
	width   int
}

func newMaskView(a *ndarray.Array, full [4]int) *maskView {
	if a == nil {
		return nil
	}
	if a.Rank() < 1 || a.Rank() > 4 {
		failf("the mask has shape %v, expected rank 1 to 4", a.Shape)
	}
	width := a.Shape[a.Rank()-1]
	if width > full[3] {
		failf("the mask has shape %v, wider than %d keys", a.Shape, full[3])
	}
	if width == 1 && full[3] > 1 {
		width = full[3]
	}
	target := []int{full[0], full[1], full[2], width}
	for i := range a.Shape {
		if d := target[4-a.Rank()+i]; a.Shape[i] != d && a.Shape[i] != 1 {
			failf("the mask has shape %v, which does not broadcast to %v", a.Shape, full)
		}
	}
	return &maskView{a, BroadcastStrides(a.Shape, target), width}
}

// add adds the mask's row to bias: -Inf where a boolean mask is false, the number
// of a float mask.
func (m *maskView) add(b, h, s int, bias []float64) {
	if m == nil {
		return
	}
	base := b*m.strides[0] + h*m.strides[1] + s*m.strides[2]
	for t := range bias {
		switch {
		case t >= m.width:
			bias[t] = math.Inf(-1)
		case m.a.DType == ndarray.Bool:
			if m.a.Data[base+t*m.strides[3]] == 0 {
				bias[t] = math.Inf(-1)
			}
		default:
			bias[t] += m.a.Float(base + t*m.strides[3])
		}
	}
}

// maskOutside masks keys outside [first, last] of a row.
func maskOutside(bias []float64, first, last int) {
	for t := range bias {
		if t < first || t > last {
			bias[t] = math.Inf(-1)
		}
	}
}
