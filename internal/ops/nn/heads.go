package nn

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
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

// Heads is a tensor seen as [batch, n, seq, size], whatever its layout.
type Heads[T kit.RealNum] struct {
	V                     []T
	Batch, N, Seq, Size   int
	PerBatch, PerHead, Ss int // strides, Ss of positions
}

// Bnsh is the view of a contiguous [batch, n, seq, size] buffer.
func Bnsh[T kit.RealNum](v []T, batch, n, seq, size int) Heads[T] {
	return Heads[T]{v, batch, n, seq, size, n * seq * size, seq * size, size}
}

// Bsnh is the view of a contiguous [batch, seq, n*size] buffer.
func Bsnh[T kit.RealNum](v []T, batch, seq, n, size int) Heads[T] {
	return Heads[T]{v, batch, n, seq, size, seq * n * size, size, n * size}
}

// HeadsOf views an operand of rank 4, or of rank 3 with n heads packed in the
// last dimension.
func HeadsOf[T kit.RealNum](c *ops.Call, what string, a *ndarray.Array, n int) Heads[T] {
	if a == nil {
		kit.Failf("%s is not a tensor", what)
	}
	s := a.Shape
	switch {
	case len(s) == 4:
		return Bnsh(kit.Elements[T](c, a), s[0], s[1], s[2], s[3])
	case len(s) == 3 && n > 0 && s[2]%n == 0:
		return Bsnh(kit.Elements[T](c, a), s[0], s[1], n, s[2]/n)
	case len(s) == 3:
		kit.Failf("%s has shape %v, which does not split into %d heads", what, s, n)
	}
	panic(kit.Failure{Err: fmt.Errorf("%s has shape %v, expected rank 3 or 4", what, s)})
}

// Row is batch, head and position of row r of scores [batch, n, seq, keys].
func (x Heads[T]) Row(r int) (b, h, s int) { return r / x.Seq / x.N, r / x.Seq % x.N, r % x.Seq }

// from is the memory of head h of batch b from its first position on.
func (x Heads[T]) from(b, h int) []T {
	if x.Seq == 0 || x.Size == 0 {
		return nil
	}
	return x.V[b*x.PerBatch+h*x.PerHead:]
}

// At is the vector of position s of head h of batch b.
func (x Heads[T]) At(b, h, s int) []T {
	return x.V[b*x.PerBatch+h*x.PerHead+s*x.Ss:][:x.Size]
}

// Contiguous copies x, after an optional past of the same heads, into a buffer
// [batch, n, past+seq, size].
func (x Heads[T]) Contiguous(c *ops.Call, past Heads[T]) Heads[T] {
	out := Bnsh(kit.Make[T](c, x.Batch*x.N*(past.Seq+x.Seq)*x.Size), x.Batch, x.N, past.Seq+x.Seq, x.Size)
	w := kit.Watching(c)
	for b := range x.Batch {
		for h := range x.N {
			for s := range past.Seq {
				w.Did(x.Size)
				copy(out.At(b, h, s), past.At(b, h, s))
			}
			for s := range x.Seq {
				w.Did(x.Size)
				copy(out.At(b, h, past.Seq+s), x.At(b, h, s))
			}
		}
	}
	return out
}

// HeadCounts reads how many query and key heads a node has; equally many query heads
// share a key head.
func HeadCounts(n *ssa.Node, queryHeads string) (hq, hk int64) {
	hq, hk = ops.Int(n, queryHeads), ops.Int(n, "kv_num_heads")
	if hq%hk != 0 {
		kit.Failf("%d query heads can not share %d key heads", hq, hk)
	}
	return hq, hk
}

// PastHeads views past keys or values [batch, n, positions, size] of the heads of x;
// without an operand there are no positions.
func PastHeads[T kit.RealNum](c *ops.Call, a *ndarray.Array, x Heads[T]) (past Heads[T]) {
	if a == nil {
		return past
	}
	if a.Rank() != 4 || a.Shape[0] != x.Batch || a.Shape[1] != x.N || a.Shape[3] != x.Size {
		kit.Failf("a past of shape %v does not fit %d batches of %d heads of size %d", a.Shape, x.Batch, x.N, x.Size)
	}
	return HeadsOf[T](c, "past", a, 0)
}

// JoinPast puts operands at and at+1, the past keys and values, before K and V and
// stores both as results 1 and 2. It returns the length of the past.
func JoinPast[T kit.RealNum](c *ops.Call, at int, k, v *Heads[T]) (length int) {
	if c.Has(at) != c.Has(at+1) {
		kit.Failf("past_key and past_value come together")
	}
	for i, x := range []*Heads[T]{k, v} {
		past := PastHeads(c, c.Array(at+i), *x)
		if length = past.Seq; !c.Has(at) && !c.Wants(1+i) {
			continue
		}
		*x = x.Contiguous(c, past)
		dt := c.Array(0).DType
		if a := c.Array(1 + i); a != nil {
			dt = a.DType
		}
		kit.SetResult(c, 1+i, dt, []int{x.Batch, x.N, x.Seq, x.Size}, x.V)
	}
	if k.Seq != v.Seq {
		kit.Failf("keys have %d positions, values %d", k.Seq, v.Seq)
	}
	return length
}

// CheckHeads compares the operands of attention with each other.
func CheckHeads[T kit.RealNum](q, k, v Heads[T]) {
	switch {
	case q.Batch != k.Batch || k.Batch != v.Batch:
		kit.Failf("Q, K and V have batches of %d, %d and %d", q.Batch, k.Batch, v.Batch)
	case q.Size != k.Size:
		kit.Failf("Q has head size %d, K %d", q.Size, k.Size)
	case k.N != v.N || k.Seq != v.Seq:
		kit.Failf("K has %d heads of %d positions, V %d of %d", k.N, k.Seq, v.N, v.Seq)
	case k.N < 1 || q.N%k.N != 0:
		kit.Failf("%d query heads can not share %d key heads", q.N, k.N)
	}
}

// ScaleOf is attribute scale, 1/√size where the node has none.
func ScaleOf(n *ssa.Node, size int) float64 {
	return float64(ops.FloatOr(n, "scale", float32(1/math.Sqrt(float64(size)))))
}

// AttentionScores returns scale * Q·Kᵀ as [B,Hq,S,T].
func AttentionScores[T kit.RealNum](c *ops.Call, q, k Heads[T], scale float64) []T {
	out := kit.Make[T](c, q.Batch*q.N*q.Seq*k.Seq)
	w := kit.Watching(c)
	for i := range q.Batch * q.N {
		b, h := i/q.N, i%q.N
		part := out[i*q.Seq*k.Seq:][:q.Seq*k.Seq]
		kit.MatMulAddT(c, q.Seq, k.Seq, q.Size, q.from(b, h), q.Ss, k.from(b, h/(q.N/k.N)), k.Ss, part, k.Seq)
		for j := range part {
			w.Did(1)
			part[j] *= T(scale)
		}
	}
	return out
}

// SoftCap limits scores smoothly: cap * tanh(x / cap); 0 is no limit.
func SoftCap[T kit.RealNum](c *ops.Call, scores []T, limit float64) {
	if limit == 0 {
		return
	}
	w := kit.Watching(c)
	for i, v := range scores {
		w.Did(1)
		scores[i] = T(limit * math.Tanh(float64(v)/limit))
	}
}

// AttentionApply writes probs·V to out, which has as many heads as Q. Keys of
// probability 0 are left out, so that what lies in masked positions (even NaN)
// does not matter.
func AttentionApply[T kit.RealNum](c *ops.Call, probs []T, v, out Heads[T]) {
	w := kit.Watching(c)
	for b := range out.Batch {
		for h := range out.N {
			for s := range out.Seq {
				row := out.At(b, h, s)
				clear(row)
				p := probs[((b*out.N+h)*out.Seq+s)*v.Seq:][:v.Seq]
				for t, f := range p {
					w.Did(1)
					if f != 0 {
						w.Did(v.Size)
						kit.AddScaled(row, f, v.At(b, h/(out.N/v.N), t))
					}
				}
			}
		}
	}
}

// StoreAttended stores probs·V as result 0, of element type dt: as [B,S,Hq*E] if
// packed, else as [B,Hq,S,E].
func StoreAttended[T kit.RealNum](c *ops.Call, dt ndarray.DType, probs []T, q, v Heads[T], packed bool) {
	shape := []int{q.Batch, q.N, q.Seq, v.Size}
	if packed {
		shape = []int{q.Batch, q.Seq, q.N * v.Size}
	}
	y := kit.NewResult[T](c, 0, dt, shape...)
	out := Bnsh(y.V, q.Batch, q.N, q.Seq, v.Size)
	if packed {
		out = Bsnh(y.V, q.Batch, q.Seq, q.N, v.Size)
	}
	AttentionApply(c, probs, v, out)
	y.Store()
}

// MaskView reads an attention mask of any rank that broadcasts to [B,Hq,S,T]; a
// shorter last dimension masks what lies behind it.
type MaskView struct {
	a       *ndarray.Array
	strides []int // over [B,Hq,S,T]
	width   int
}

// NewMaskView reads an attention mask that broadcasts to the shape full.
func NewMaskView(a *ndarray.Array, full [4]int) *MaskView {
	if a == nil {
		return nil
	}
	if a.Rank() < 1 || a.Rank() > 4 {
		kit.Failf("the mask has shape %v, expected rank 1 to 4", a.Shape)
	}
	width := a.Shape[a.Rank()-1]
	if width > full[3] {
		kit.Failf("the mask has shape %v, wider than %d keys", a.Shape, full[3])
	}
	if width == 1 && full[3] > 1 {
		width = full[3]
	}
	target := []int{full[0], full[1], full[2], width}
	for i := range a.Shape {
		if d := target[4-a.Rank()+i]; a.Shape[i] != d && a.Shape[i] != 1 {
			kit.Failf("the mask has shape %v, which does not broadcast to %v", a.Shape, full)
		}
	}
	return &MaskView{a, ops.BroadcastStrides(a.Shape, target), width}
}

// hides reports that a key has no part in the result: the mask is false, or shorter.
func (m *MaskView) hides(b, h, s, t int) bool {
	return m != nil && (t >= m.width || m.a.DType == ndarray.Bool && m.a.Data[m.at(b, h, s, t)] == 0)
}

// number is what a mask of floats adds to a score.
func (m *MaskView) number(b, h, s, t int) float64 {
	if m == nil || m.a.DType == ndarray.Bool {
		return 0
	}
	return m.a.Float(m.at(b, h, s, t))
}

// at is the element of a mask for a score.
func (m *MaskView) at(b, h, s, t int) int {
	return b*m.strides[0] + h*m.strides[1] + s*m.strides[2] + t*m.strides[3]
}

// Add adds the mask's row to bias: -Inf where a boolean mask is false, the number
// of a float mask.
func (m *MaskView) Add(b, h, s int, bias []float64) {
	if m == nil {
		return
	}
	base := m.at(b, h, s, 0)
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

// FlexPrecision is the element type in which a FlexAttention gives scores to the
// softmax and to its bodies.
func FlexPrecision(n *ssa.Node) (ndarray.DType, error) {
	def := ndarray.Float32
	if ops.InType(n, 0).DType == ndarray.Float64 {
		def = ndarray.Float64
	}
	dt, err := kit.DtypeAttr(n, "softmax_precision", def)
	if err == nil && !(kit.FullPrecisions | kit.TypesOf(ndarray.Float64)).Has(dt) {
		err = fmt.Errorf("softmax_precision %s: %w", dt, ops.ErrUnsupported)
	}
	return dt, err
}
