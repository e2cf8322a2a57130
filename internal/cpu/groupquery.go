package cpu

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/attend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// GroupQueryAttention of the com.microsoft domain. What the cache holds of a sequence is known only in a run:
//
//	query ── rotated ──▶ workspace ──▶ Q ┐
//	past key ──┐                         │
//	key ── rotated ──▶ present key ──────┼─ attention over so many keys as the sequence has
//	past value, value ─▶ present value ──┘
//
//	present  [0 … past | past … past+S | zeros]
//
// The sequences of a batch follow each other, each with all threads.

var groupQueryOps = []entry{{domain: microsoft, op: "GroupQueryAttention", prepare: prepareGroupQuery, empties: true}}

// groupQuery is an attention over caches.
type groupQuery struct {
	attention         // of one sequence; q, k, v are the new vectors
	cache      heads  // of keys or values
	from       [3]int // the operands that hold q, k and v
	capacity   int    // positions of the past operands
	half       int    // pairs that are rotated, 0 for none
	angles     int    // rows of the tables of cosines and sines
	ids        bool   // operand 9 says which row belongs to a position
	interleave bool
	rotatedAt  int // workspace of the rotated queries
	sink       int // operand, -1 for none
}

func prepareGroupQuery(p *prep) (ops.Kernel, error) {
	if !p.groupQueryFits() {
		return nil, nil
	}
	k := &groupQuery{attention: attention{batch: p.in[0].shape[0]}, sink: present(p, 11)}
	if !k.readHeads(p) || !k.readRotation(p) {
		return nil, nil
	}
	k.cache = denseHeads(k.k.n, p.out[1].shape[2], k.k.size)
	if p.has(3) {
		k.capacity = p.in[3].shape[2]
	}
	if limit := ops.Float(p.node, "softcap"); limit != 0 {
		k.step(attend.Step{Kind: attend.Cap, Number: limit}, -1)
	}
	s, group := &k.spec, k.q.n/k.k.n
	s.Batch, s.S, s.T, s.D, s.E = []int{k.k.n, group}, k.q.seq, k.cache.seq, k.q.size, k.q.size
	y := mergedHeads(k.q.n, k.q.seq, k.q.size)
	s.Q, s.Y, s.K, s.V = k.queries().view(group, true), y.view(group, true), k.cache.view(group, false), k.cache.view(group, false)
	for _, v := range []*attend.View{&s.Q, &s.K, &s.V, &s.Y} {
		v.At, v.Batch = 0, v.Batch[1:]
	}
	s.Seen, s.Causal, s.Left, s.Right = true, ops.Int(p.node, "causal") != 0, -1, -1
	if w := ops.Int(p.node, "local_window_size"); w > 0 {
		s.Left = int(min(w-1, math.MaxInt32))
	}
	if s.Scale = ops.Float(p.node, "scale"); s.Scale == 0 {
		s.Scale = float32(1 / math.Sqrt(float64(k.q.size)))
	}
	s.Sunk, s.Sink = k.sink >= 0 || ops.Int(p.node, "smooth_softmax") == 1, []int{group, 1}
	_, err := k.plans(p)
	return k, err
}

// groupQueryFits reports that there is code for the variant: float32, no quantized cache, no norm of queries and keys, no
// bias, no result with the scores.
func (p *prep) groupQueryFits() bool {
	for i, x := range p.in {
		if x.present && x.dt != ndarray.Float32 && (i != 5 && i != 6 || x.dt != ndarray.Int32) && (i != 9 || x.dt != ndarray.Int64) {
			return false
		}
	}
	n := p.node
	return p.has(5) && p.has(6) && p.has(1) == p.has(2) && p.has(3) == p.has(4) && !p.has(10) && !p.has(14) && !p.has(15) && p.wants(0) && p.wants(1) && p.wants(2) && !p.wants(3) &&
		ops.Str(n, "k_quant_type") == "NONE" && ops.Str(n, "v_quant_type") == "NONE" && ops.Int(n, "kv_cache_bit_width") == 0 &&
		ops.Int(n, "sliding_window_cache") == 0 && (ops.Int(n, "causal") != 0 || ops.Int(n, "local_window_size") <= 0) &&
		len(p.in[0].shape) == 3 && p.in[0].n > 0 && p.in[5].n == p.in[0].shape[0] && p.in[6].n == 1
}

// readHeads finds queries and the new keys and values; false if operands and results do not fit.
func (k *groupQuery) readHeads(p *prep) bool {
	hq, hk := int(ops.Int(p.node, "num_heads")), int(ops.Int(p.node, "kv_num_heads"))
	x := p.in[0].shape
	if hq%hk != 0 {
		return false
	}
	if p.has(1) {
		var ok [3]bool
		k.from = [3]int{0, 1, 2}
		k.q, ok[0] = headsOf(x, hq, 0)
		k.k, ok[1] = headsOf(p.in[1].shape, hk, 1)
		k.v, ok[2] = headsOf(p.in[2].shape, hk, 2)
		if ok != [3]bool{true, true, true} || p.in[1].shape[0] != x[0] || p.in[2].shape[0] != x[0] {
			return false
		}
	} else {
		all := hq + 2*hk
		if x[2]%all != 0 {
			return false
		}
		k.q = mergedHeads(all, x[1], x[2]/all)
		k.k, k.v = k.q, k.q
		k.q.n, k.k.n, k.v.n, k.k.first, k.v.first = hq, hk, hk, hq*k.q.size, (hq+hk)*k.q.size
	}
	size := k.q.size
	if k.k.n != hk || k.v.n != hk || k.k.seq != k.q.seq || k.v.seq != k.q.seq || k.k.size != size || k.v.size != size || p.out[0].n != k.batch*k.q.seq*hq*size {
		return false
	}
	for i := range 2 {
		s := p.out[1+i].shape
		if len(s) != 4 || s[0] != k.batch || s[1] != hk || s[3] != size || s[2] != p.out[1].shape[2] {
			return false
		}
		if p.has(3 + i) {
			past := p.in[3+i].shape
			if len(past) != 4 || past[0] != k.batch || past[1] != hk || past[3] != size || past[2] > s[2] || past[2] != p.in[3].shape[2] {
				return false
			}
		}
	}
	return k.sink < 0 || p.in[k.sink].n == hq
}

// readRotation reads whether queries and keys are rotated, which then lie in the workspace and in the cache; false if
// the tables do not fit.
func (k *groupQuery) readRotation(p *prep) bool {
	if ops.Int(p.node, "do_rotary") == 0 {
		return true
	}
	if !p.has(7) || !p.has(8) || len(p.in[7].shape) != 2 || p.in[7].n != p.in[8].n || p.in[7].n == 0 {
		return false
	}
	k.angles, k.half = p.in[7].shape[0], p.in[7].shape[1]
	k.interleave = ops.Int(p.node, "rotary_interleaved") != 0
	if k.ids = p.has(9) && p.in[9].n != 1; k.ids && p.in[9].n != k.batch*k.q.seq || 2*k.half > k.q.size {
		return false
	}
	k.rotatedAt = p.workspace(4 * k.batch * k.q.n * k.q.seq * k.q.size)
	return true
}

// queries is how the queries of the attention lie.
func (k *groupQuery) queries() *heads {
	if k.half == 0 {
		return &k.q
	}
	h := denseHeads(k.q.n, k.q.seq, k.q.size)
	return &h
}

// Run fills the caches, and attends sequence by sequence.
func (k *groupQuery) Run(c *ops.Call) error {
	if err := k.check(c); err != nil {
		return err
	}
	runTasks(c, 0, k.batch*(k.q.n+2*k.k.n), smallTasks(k.q.seq*k.q.size), k.threads, k)
	args := attend.Args{Done: c.Done(), Sinks: optF32(c.In, k.sink)}
	q, y, caches := f32(c.In[0]), f32(c.Out[0]), [2][]float32{f32(c.Out[1]), f32(c.Out[2])}
	from := k.queries()
	if k.half > 0 {
		q = scratchOf[float32](c, k.rotatedAt, k.batch*from.batch)
	}
	for b, n := range elems[int32](c.In[5]) {
		args.Q, args.Y = q[from.at(b, 0, 0):], y[b*k.q.n*k.q.seq*k.q.size:][:k.q.n*k.q.seq*k.q.size]
		if n < 0 {
			clear(args.Y)
			continue
		}
		args.K, args.V = caches[0][k.cache.at(b, 0, 0):], caches[1][k.cache.at(b, 0, 0):]
		args.Past, args.Keys = k.pastOf(c, b), int(n)+1
		k.plan.Run(&args, c.Scratch[k.ws:], min(k.threads, c.Threads))
	}
	return nil
}

// pastOf is how many positions sequence b has before the new ones: none where the total is the number of those.
func (k *groupQuery) pastOf(c *ops.Call, b int) int {
	if int(elems[int32](c.In[6])[0]) == k.q.seq {
		return 0
	}
	return int(elems[int32](c.In[5])[b]) + 1 - k.q.seq
}

// check checks lengths and positions.
func (k *groupQuery) check(c *ops.Call) error {
	total := int(elems[int32](c.In[6])[0])
	if total < k.q.seq || total > k.cache.seq {
		return fmt.Errorf("total_sequence_length=%d with %d new positions and caches of %d", total, k.q.seq, k.cache.seq)
	}
	for b, n := range elems[int32](c.In[5]) {
		if past := k.pastOf(c, b); n < -1 || int(n) >= total || past < 0 || past > k.capacity {
			return fmt.Errorf("sequence %d has %d of %d positions, %d of them new, and a past of %d", b, int(n)+1, total, k.q.seq, k.capacity)
		}
	}
	if k.ids {
		return checkPositions(elems[int64](c.In[9]), k.angles)
	}
	return nil
}

// tile rotates the queries of a head, or fills the cache of one.
func (k *groupQuery) tile(c *ops.Call, i, _ int) {
	all := k.q.n + 2*k.k.n
	b, h, past := i/all, i%all, k.pastOf(c, i/all)
	if h < k.q.n {
		if k.half > 0 {
			q := k.queries()
			k.rows(c, &k.q, 0, b, h, past, scratchOf[float32](c, k.rotatedAt, k.batch*q.batch)[q.at(b, h, 0):])
		}
		return
	}
	which, from := 1+(h-k.q.n)/k.k.n, &k.k
	if h = (h - k.q.n) % k.k.n; which == 2 {
		from = &k.v
	}
	dst := f32(c.Out[which])[k.cache.at(b, h, 0):][:k.cache.head]
	if past > 0 {
		copy(dst[:past*from.size], f32(c.In[2+which])[(b*k.k.n+h)*k.capacity*from.size:])
	}
	k.rows(c, from, which, b, h, past, dst[past*from.size:])
	clear(dst[(past+from.seq)*from.size:])
}

// rows copies the new vectors of a head, of operand which of queries, keys and values, and rotates all but values.
func (k *groupQuery) rows(c *ops.Call, from *heads, which, b, h, past int, dst []float32) {
	src, size := f32(c.In[k.from[which]]), from.size
	for s := range from.seq {
		x, y := src[from.at(b, h, s):][:size], dst[s*size:][:size]
		if which == 2 || k.half == 0 {
			copy(y, x)
			continue
		}
		row := min(past+s, k.angles-1)
		if k.ids {
			row = int(elems[int64](c.In[9])[b*from.seq+s])
		}
		rotate(y, x, f32(c.In[7])[row*k.half:][:k.half], f32(c.In[8])[row*k.half:][:k.half], k.interleave)
	}
}
