package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// paddedAttention is what the attention operators of the com.microsoft domain
// share: masked keys get a finite number added (mask_filter_value), not -Inf, so
// a query without any key still averages over all of them.
type paddedAttention[T realNum] struct {
	q, k, v heads[T] // k and v with their past
	past    int
	scale   float64
	causal  bool
	filter  float64
	mask    *ndarray.Array // int32, see masked
	bias    *maskView      // attention_bias
}

// paddedAttrs reads the attributes of attention over heads of a size.
func (a *paddedAttention[T]) paddedAttrs(n *ssa.Node) {
	a.scale = float64(Float(n, "scale"))
	if a.scale == 0 {
		a.scale = 1 / math.Sqrt(float64(a.q.size))
	}
	a.causal, a.filter = Int(n, "unidirectional") != 0, float64(Float(n, "mask_filter_value"))
}

// masked returns whether query s of batch b must not see key t. The mask is
//
//	[B]          ends: keys from mask[b] on are padding
//	[2B]         ends, then starts: keys before mask[B+b] are padding too
//	[B,T]        0 masks a key
//	[B,S,T]      0 masks a key of a query
//	[B,1,M,M]    the same, query s in row past+s
func (a *paddedAttention[T]) masked() func(b, s, t int) bool {
	m := a.mask
	if m == nil {
		return func(_, _, _ int) bool { return false }
	}
	B, S, K := a.q.batch, a.q.seq, a.k.seq
	if m.DType != ndarray.Int32 {
		failf("the mask has element type %s, expected int32", m.DType)
	}
	v := ndarray.Slice[int32](m)
	dims := m.Shape
	switch {
	case len(dims) == 1 && dims[0] == B:
		return func(b, _, t int) bool { return t >= int(v[b]) }
	case len(dims) == 1 && dims[0] == 2*B:
		return func(b, _, t int) bool { return t >= int(v[b]) || t < int(v[B+b]) }
	case len(dims) == 2 && dims[0] == B && dims[1] == K:
		return func(b, _, t int) bool { return v[b*K+t] <= 0 }
	case len(dims) == 3 && dims[0] == B && dims[1] == S && dims[2] == K:
		return func(b, s, t int) bool { return v[(b*S+s)*K+t] <= 0 }
	case len(dims) == 4 && dims[0] == B && dims[1] == 1 && dims[2] == dims[3] && dims[3] >= K && dims[2] >= a.past+S:
		w := dims[3]
		return func(b, s, t int) bool { return v[(b*w+a.past+s)*w+t] <= 0 }
	}
	panic(failure{fmt.Errorf("the mask has shape %v, which does not fit %d batches of %d queries and %d keys", dims, B, S, K)})
}

// probabilities returns the softmax of the masked scores, and hands the scores
// before it to seen if that is not nil.
func (a *paddedAttention[T]) probabilities(seen func([]T)) []T {
	masked := a.masked()
	scores := attentionScores(a.q, a.k, a.scale)
	extra := make([]float64, a.k.seq)
	for r := range a.q.batch * a.q.n * a.q.seq {
		b, h, s := r/a.q.seq/a.q.n, r/a.q.seq%a.q.n, r%a.q.seq
		clear(extra)
		a.bias.add(b, h, s, extra)
		for t := range extra {
			if masked(b, s, t) {
				extra[t] += a.filter
			}
			if a.causal && t > a.past+s {
				extra[t] = math.Inf(-1)
			}
			scores[r*a.k.seq+t] += T(extra[t])
		}
	}
	if seen != nil {
		seen(scores)
	}
	softmaxRows(scores, a.k.seq)
	return scores
}

// storeOutput writes probs·V to result 0 as [batch, seq, heads*size].
func (a *paddedAttention[T]) storeOutput(c *Call, dt ndarray.DType, probs []T) {
	y := newResult[T](c, 0, dt, a.q.batch, a.q.seq, a.q.n*a.v.size)
	attentionApply(probs, a.v, bsnh(y.V, a.q.batch, a.q.seq, a.q.n, a.v.size))
	y.store()
}

// packedHeads views columns [from, from+n*size) of rows [batch, seq, width].
func packedHeads[T realNum](v []T, batch, seq, n, size, width, from int) heads[T] {
	if len(v) > 0 {
		v = v[from:]
	}
	return heads[T]{v, batch, n, seq, size, seq * width, size, width}
}

// stackedPast views past [2, batch, heads, positions, size] as keys and values.
func stackedPast[T realNum](p *ndarray.Array, batch, n, size int) (k, v heads[T]) {
	if p == nil {
		return k, v
	}
	if p.Rank() != 5 || p.Shape[0] != 2 || p.Shape[1] != batch || p.Shape[2] != n || p.Shape[4] != size {
		failf("past has shape %v, expected [2,%d,%d,positions,%d]", p.Shape, batch, n, size)
	}
	data := elements[T](p)
	half := len(data) / 2
	return bnsh(data[:half], batch, n, p.Shape[3], size), bnsh(data[half:], batch, n, p.Shape[3], size)
}

// joinStacked puts the past before keys and values and stores both as result 1,
// present [2, batch, heads, positions, size].
func (a *paddedAttention[T]) joinStacked(c *Call, dt ndarray.DType, past *ndarray.Array) {
	if past == nil && !c.Wants(1) {
		return
	}
	if a.k.size != a.v.size {
		failf("a past needs keys and values of one size, they have %d and %d", a.k.size, a.v.size)
	}
	pk, pv := stackedPast[T](past, a.k.batch, a.k.n, a.k.size)
	a.k, a.v, a.past = a.k.contiguous(pk), a.v.contiguous(pv), pk.seq
	if !c.Wants(1) {
		return
	}
	out := newResult[T](c, 1, dt, 2, a.k.batch, a.k.n, a.k.seq, a.k.size)
	copy(out.V[copy(out.V, a.k.v):], a.v.v)
	out.store()
}
