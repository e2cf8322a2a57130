package contrib

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// paddedAttention is what the attention operators of the com.microsoft domain
// share: masked keys get a finite number added (mask_filter_value), not -Inf, so
// a query without any key still averages over all of them.
type paddedAttention[T kit.RealNum] struct {
	q, k, v nn.Heads[T] // k and v with their past
	past    int
	scale   float64
	causal  bool
	filter  float64
	mask    *ndarray.Array // int32, see masked
	bias    *nn.MaskView   // attention_bias
}

// paddedAttrs reads the attributes of attention over heads of a size.
func (a *paddedAttention[T]) paddedAttrs(n *ssa.Node) {
	a.scale = scaleOf(n, a.q.Size)
	a.filter = float64(ops.Float(n, "mask_filter_value"))
	a.causal = ops.Int(n, "unidirectional") != 0 && a.q.Seq > 1 // a single query is the last one: it reads all keys
}

// scaleOf is attribute scale, 1/√size where the node has none or 0.
func scaleOf(n *ssa.Node, size int) float64 {
	if scale := ops.Float(n, "scale"); scale != 0 {
		return float64(scale)
	}
	return 1 / math.Sqrt(float64(size))
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
	B, S, K := a.q.Batch, a.q.Seq, a.k.Seq
	if m.DType != ndarray.Int32 {
		kit.Failf("the mask has element type %s, expected int32", m.DType)
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
	panic(kit.Failure{Err: fmt.Errorf("the mask has shape %v, which does not fit %d batches of %d queries and %d keys", dims, B, S, K)})
}

// probabilities returns the softmax of the masked scores, and calls seen, unless it
// is nil, with the scores.
func (a *paddedAttention[T]) probabilities(c *ops.Call, seen func([]T)) []T {
	watch := kit.Watching(c)
	masked := a.masked()
	scores := nn.AttentionScores(c, a.q, a.k, a.scale)
	extra := kit.Make[float64](c, a.k.Seq)
	for r := range a.q.Batch * a.q.N * a.q.Seq {
		b, h, s := a.q.Row(r)
		clear(extra)
		a.bias.Add(b, h, s, extra)
		for t := range extra {
			watch.Did(1)
			if masked(b, s, t) {
				extra[t] += a.filter
			}
			if a.causal && t > a.past+s {
				scores[r*a.k.Seq+t] = T(math.Inf(-1)) // replaces any score, even NaN
				continue
			}
			scores[r*a.k.Seq+t] += T(extra[t])
		}
	}
	if seen != nil {
		seen(scores)
	}
	kit.SoftmaxRows(c, scores, a.k.Seq)
	return scores
}

// packedHeads views columns [from, from+n*size) of rows [batch, seq, width].
func packedHeads[T kit.RealNum](v []T, batch, seq, n, size, width, from int) nn.Heads[T] {
	if len(v) > 0 {
		v = v[from:]
	}
	return nn.Heads[T]{V: v, Batch: batch, N: n, Seq: seq, Size: size, PerBatch: seq * width, PerHead: size, Ss: width}
}

// stackedPast views past [2, batch, heads, positions, size] as keys and values.
func stackedPast[T kit.RealNum](c *ops.Call, p *ndarray.Array, batch, n, size int) (k, v nn.Heads[T]) {
	if p == nil {
		return k, v
	}
	if p.Rank() != 5 || p.Shape[0] != 2 || p.Shape[1] != batch || p.Shape[2] != n || p.Shape[4] != size {
		kit.Failf("past has shape %v, expected [2,%d,%d,positions,%d]", p.Shape, batch, n, size)
	}
	data := kit.Elements[T](c, p)
	half := len(data) / 2
	return nn.Bnsh(data[:half], batch, n, p.Shape[3], size), nn.Bnsh(data[half:], batch, n, p.Shape[3], size)
}

// joinStacked puts the past before keys and values and stores both as result 1,
// present [2, batch, heads, positions, size].
func (a *paddedAttention[T]) joinStacked(c *ops.Call, dt ndarray.DType, past *ndarray.Array) {
	if past == nil && !c.Wants(1) {
		return
	}
	if a.k.Size != a.v.Size {
		kit.Failf("a past needs keys and values of one size, they have %d and %d", a.k.Size, a.v.Size)
	}
	pk, pv := stackedPast[T](c, past, a.k.Batch, a.k.N, a.k.Size)
	a.k, a.v, a.past = a.k.Contiguous(c, pk), a.v.Contiguous(c, pv), pk.Seq
	both := kit.Make[T](c, len(a.k.V)+len(a.v.V))
	kit.CopySlice(c, both, a.k.V)
	kit.CopySlice(c, both[len(a.k.V):], a.v.V)
	kit.SetResult(c, 1, dt, []int{2, a.k.Batch, a.k.N, a.k.Seq, a.k.Size}, both)
}
