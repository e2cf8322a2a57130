package cpu

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/attend"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Attention by package attend: ONNX's operator, and the one that the pass for products written out makes
// (package fuse). Past keys and values are joined with the new ones first, where the operator asks for that.
// With fewer key heads than query heads, query head h reads key head h / (Hq/Hk). Source:
// https://arxiv.org/abs/2305.13245 (shared key heads).

var attentionOps = []entry{
	{op: "Attention", prepare: prepareAttention, empties: true},
	{domain: ops.Private, op: "Attention", prepare: prepareFusedAttention},
}

// heads is how the vectors of an operand lie in memory.
type heads struct {
	n, seq, size   int
	batch, head, s int // strides between batches, heads, positions
	first          int // element
}

// denseHeads are n heads of seq vectors, head by head.
func denseHeads(n, seq, size int) heads {
	return heads{n, seq, size, n * seq * size, seq * size, size, 0}
}

// mergedHeads are n heads of seq vectors, position by position.
func mergedHeads(n, seq, size int) heads {
	return heads{n, seq, size, seq * n * size, size, n * size, 0}
}

// headsOf reads an operand of rank 4 [B, n, S, size], or 3 [B, S, n·size]; or operand i of three that are
// the last ones of those which are packed into one [B, S, n, 3, size] or [B, S, n, 2, size].
func headsOf(shape []int, n, i int) (h heads, ok bool) {
	switch {
	case len(shape) == 5 && i+shape[3] >= 3:
		h = mergedHeads(shape[2]*shape[3], shape[1], shape[4])
		h.n, h.head, h.first = shape[2], shape[3]*h.size, (i+shape[3]-3)*h.size
		return h, shape[3] <= 3
	case len(shape) == 4:
		return denseHeads(shape[1], shape[2], shape[3]), true
	case len(shape) == 3 && n > 0 && shape[2]%n == 0:
		return mergedHeads(n, shape[1], shape[2]/n), true
	}
	return h, false
}

// at is the first element of a head at a position.
func (h *heads) at(b, head, s int) int { return h.first + b*h.batch + head*h.head + s*h.s }

// attention is an attention with what is done to its operands before.
type attention struct {
	spec    attend.Spec
	plan    *attend.Plan
	batch   int
	q, k, v heads
	past    int    // positions of past_key and past_value
	joinK   [2]int // where past and new keys are concatenated: result, workspace
	joinV   [2]int // (-1: neither, operands 1 and 2 are read in place)
	masks   []int  // the operand of every step, -1 for none
	ws      int
	threads int
}

func prepareAttention(p *prep) (ops.Kernel, error) {
	if !p.attentionTypes() {
		return nil, nil
	}
	a := &attention{}
	a.spec.Causal, a.spec.Left, a.spec.Right = ops.Int(p.node, "is_causal") != 0, p.window("left_window_size"), p.window("right_window_size")
	if limit := ops.Float(p.node, "softcap"); limit != 0 {
		a.step(attend.Step{Kind: attend.Cap, Number: limit}, -1)
	}
	return a.prepare(p, int(ops.Int(p.node, "q_num_heads")), int(ops.Int(p.node, "kv_num_heads")), func(standard float32) float32 {
		return ops.FloatOr(p.node, "scale", standard)
	})
}

// step adds a step with the operand of its mask.
func (a *attention) step(s attend.Step, operand int) {
	a.spec.Steps, a.masks = append(a.spec.Steps, s), append(a.masks, operand)
}

// prepare completes an attention over the operands of p, which are those of Attention, with so
// many heads of queries and of keys where the operands do not tell, and the scale that is chosen
// given 1/√size; nil if the operands do not fit.
func (a *attention) prepare(p *prep, hq, hk int, scale func(standard float32) float32) (ops.Kernel, error) {
	a.batch = p.in[0].shape[0]
	var ok [4]bool
	var y heads
	a.q, ok[0] = headsOf(p.in[0].shape, hq, 0)
	a.k, ok[1] = headsOf(p.in[1].shape, hk, 1)
	a.v, ok[2] = headsOf(p.in[2].shape, hk, 2)
	y, ok[3] = headsOf(p.out[0].shape, hq, 0)
	if ok != [4]bool{true, true, true, true} || a.k.n == 0 || a.q.n%a.k.n != 0 || a.k.n != a.v.n || a.k.seq != a.v.seq ||
		a.q.size != a.k.size || p.in[1].shape[0] != a.batch || p.in[2].shape[0] != a.batch || y.size != a.v.size || y.seq != a.q.seq {
		return nil, nil
	}
	if !a.joinPast(p) || !a.readMask(p) {
		return nil, nil
	}
	s, group := &a.spec, a.q.n/a.k.n
	s.Batch, s.S, s.T, s.D, s.E = []int{a.batch, a.k.n, group}, a.q.seq, a.k.seq, a.q.size, a.v.size
	s.Q, s.Y, s.K, s.V = a.q.view(group, true), y.view(group, true), a.k.view(group, false), a.v.view(group, false)
	s.Scale, s.Seen = scale(float32(1/math.Sqrt(float64(a.q.size)))), true
	return a.plans(p)
}

// view is how the matrices of heads lie, of groups that share a head of keys; queries have a head each.
func (h *heads) view(group int, queries bool) attend.View {
	v := attend.View{At: h.first, Batch: []int{h.batch, h.head, 0}, Row: h.s, Col: 1}
	if queries {
		v.Batch[1], v.Batch[2] = h.head*group, h.head
	}
	return v
}

// plans prepares the plan.
func (a *attention) plans(p *prep) (_ ops.Kernel, err error) {
	a.threads = p.threads
	if a.plan, err = attend.New(a.spec); err != nil {
		return nil, err
	}
	a.ws = p.workspace(a.plan.Workspace(p.threads))
	return a, nil
}

// prepareFusedAttention serves the operator of package fused.
func prepareFusedAttention(p *prep) (ops.Kernel, error) {
	f := fused.FormOf(p.node)
	if f == nil {
		return nil, nil
	}
	a := &attention{joinK: [2]int{-1, -1}, joinV: [2]int{-1, -1}}
	a.spec = attend.Spec{Batch: f.Batch, S: f.S, T: f.T, D: f.D, E: f.E, Q: attend.View(f.Q), K: attend.View(f.K), V: attend.View(f.V), Y: attend.View(f.Y),
		Scale: f.Scale, NaNToZero: f.NaNToZero, Left: -1, Right: -1}
	kinds := [...]attend.StepKind{fused.AddMask: attend.Add, fused.KeepMask: attend.Keep, fused.DropMask: attend.Drop}
	for i, m := range f.Masks {
		a.step(attend.Step{Kind: kinds[m.Kind], Number: m.Number, Mask: attend.View(m.Lies)}, 3+i)
	}
	return a.plans(p)
}

// window reads the size of a window, -1 for none.
func (p *prep) window(name string) int {
	return int(min(max(ops.Int(p.node, name), -1), math.MaxInt32))
}

// attentionTypes reports that there is code for the variant: float32, no lengths, no
// result with the scores.
func (p *prep) attentionTypes() bool {
	for i, x := range p.in {
		if x.present && x.dt != ndarray.Float32 && !(i == 3 && x.dt == ndarray.Bool) {
			return false
		}
	}
	precision := ops.Int(p.node, "softmax_precision")
	return p.wants(0) && p.in[0].n > 0 && p.in[1].n > 0 && p.in[2].n > 0 && !p.has(6) && !p.wants(3) && p.has(4) == p.has(5) && (precision == 0 || precision == int64(ndarray.Float32))
}

// joinPast decides where past and new keys and values are concatenated: in results 1
// and 2 if they are used, else in the workspace.
func (a *attention) joinPast(p *prep) bool {
	a.joinK, a.joinV = [2]int{-1, -1}, [2]int{-1, -1}
	for i, x := range []struct {
		h    *heads
		join *[2]int
	}{{&a.k, &a.joinK}, {&a.v, &a.joinV}} {
		past := 0
		if p.has(4 + i) {
			s := p.in[4+i].shape
			if len(s) != 4 || s[0] != a.batch || s[1] != x.h.n || s[3] != x.h.size {
				return false
			}
			past = s[2]
		} else if !p.wants(1 + i) {
			continue
		}
		a.past = past
		h := denseHeads(x.h.n, x.h.seq+past, x.h.size)
		*x.h = h
		if p.wants(1 + i) {
			if p.out[1+i].n != a.batch*h.batch {
				return false
			}
			x.join[0] = 1 + i
		} else {
			x.join[1] = p.workspace(4 * a.batch * h.batch)
		}
	}
	return a.k.seq == a.v.seq
}

// readMask makes the mask a step; one that is narrower than the keys is not served.
func (a *attention) readMask(p *prep) bool {
	if !p.has(3) {
		return true
	}
	m := p.in[3]
	full := []int{a.batch, a.q.n, a.q.seq, a.k.seq}
	shape, err := ops.BroadcastShapes(m.shape, full)
	if err != nil || len(shape) != 4 || sizeOf(shape) != sizeOf(full) {
		return false
	}
	at := ops.BroadcastStrides(m.shape, full)
	s := attend.Step{Kind: attend.Add, Mask: attend.View{Batch: []int{at[0], at[1] * (a.q.n / a.k.n), at[1]}, Row: at[2], Col: at[3]}}
	if m.dt == ndarray.Bool {
		s.Kind, s.Number = attend.Keep, float32(math.Inf(-1))
	}
	a.step(s, 3)
	return true
}

// Run joins what is past, and computes all blocks.
func (a *attention) Run(c *ops.Call) error {
	a.join(c, a.joinK, &a.k, 1, 4)
	a.join(c, a.joinV, &a.v, 2, 5)
	args := attend.Args{Done: c.Done(), Q: f32(c.In[0]), K: a.memory(c, a.joinK, &a.k, 1), V: a.memory(c, a.joinV, &a.v, 2), Y: f32(c.Out[0]), Past: a.past}
	for i, operand := range a.masks {
		if operand < 0 {
			continue
		}
		if m := arrayOf(c.In[operand]); m.DType == ndarray.Bool {
			args.Masks[i].Bytes = m.Data
		} else {
			args.Masks[i].Floats = ndarray.Slice[float32](m)
		}
	}
	a.plan.Run(&args, c.Scratch[a.ws:], min(a.threads, c.Threads))
	return nil
}

// Choice says how it is computed.
func (a *attention) Choice() backend.Choice {
	rows, keys := a.plan.Block()
	return backend.Choice{Algorithm: "attention by blocks of queries", Reason: fmt.Sprintf("%d×%d scores of a head stay in the cache", rows, keys)}
}

// memory is where keys or values lie: operand in, or where they were joined.
func (a *attention) memory(c *ops.Call, join [2]int, h *heads, in int) []float32 {
	switch {
	case join[0] >= 0:
		return f32(c.Out[join[0]])
	case join[1] >= 0:
		return scratchOf[float32](c, join[1], a.batch*h.batch)
	}
	return f32(c.In[in])
}

// join copies past and new vectors one behind the other. It looks at the context before every head.
func (a *attention) join(c *ops.Call, join [2]int, h *heads, in, past int) {
	if join[0] < 0 && join[1] < 0 {
		return
	}
	dst, src := a.memory(c, join, h, in), f32(c.In[in])
	old := optF32(c.In, past)
	fresh, _ := headsOf(arrayOf(c.In[in]).Shape, h.n, in)
	for b := range a.batch {
		for i := range h.n {
			if c.Ended() {
				return
			}
			to := dst[h.at(b, i, 0):][:h.head]
			if old != nil {
				n := a.past * h.size
				copy(to[:n], old[(b*h.n+i)*n:])
				to = to[n:]
			}
			for s := range fresh.seq {
				copy(to[s*h.size:(s+1)*h.size], src[fresh.at(b, i, s):])
			}
		}
	}
}
