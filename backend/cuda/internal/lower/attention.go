package lower

import (
	"math"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

func init() { add("", attention, "Attention") }

// heads is how an operand of an attention holds heads: [batch, heads, rows, size], or [batch, rows, heads·size].
type heads struct {
	batch, heads, rows, size int
	strides                  kernels.Strides
}

func headsOf(shape []int, attr int64) heads {
	var h heads
	if len(shape) == 4 {
		h = heads{shape[0], shape[1], shape[2], shape[3], kernels.Strides{}}
		h.strides = kernels.Strides{Batch: int32(h.heads * h.rows * h.size), Head: int32(h.rows * h.size), Row: int32(h.size)}
		return h
	}
	h = heads{shape[0], int(attr), shape[1], shape[2] / max(int(attr), 1), kernels.Strides{}}
	h.strides = kernels.Strides{Batch: int32(h.rows * shape[2]), Head: int32(h.size), Row: int32(shape[2])}
	return h
}

// place is where rows of heads go in a tensor [batch, heads, all, size], from a row on.
func (h *heads) place(all, from int) (kernels.View, bool) {
	strides := []int{h.heads * all * h.size, all * h.size, h.size, 1}
	dims := []int{h.batch, h.heads, h.rows, h.size}
	if int(h.strides.Head) == h.size && h.heads > 1 || int(h.strides.Row) != h.size { // rows before heads
		strides[1], strides[2], dims[1], dims[2] = strides[2], strides[1], dims[2], dims[1]
	}
	return viewOf(from*h.size, dims, strides)
}

func attention(p *prep) (bool, error) {
	n := p.node
	f, ok := floatTypes[p.in[0].dt]
	for i, o := range p.in {
		if !ok || o.present && o.dt != p.in[0].dt && !(i == 3 && o.dt == ndarray.Bool) && i != 6 {
			return false, nil
		}
	}
	if precision := ops.Int(n, "softmax_precision"); n.Has("softmax_precision") && precision != int64(ndarray.Float32) || p.in[0].n == 0 || p.in[1].n == 0 {
		return false, nil
	}
	q, k, v := headsOf(p.in[0].shape, ops.Int(n, "q_num_heads")), headsOf(p.in[1].shape, ops.Int(n, "kv_num_heads")), headsOf(p.in[2].shape, ops.Int(n, "kv_num_heads"))
	y := headsOf(p.out[0].shape, int64(q.heads))
	past := 0
	if p.has(4) {
		past = p.in[4].shape[2]
	}
	total := past + k.rows
	if k.heads < 1 || q.heads%k.heads != 0 {
		return false, nil
	}
	g := kernels.Attention{Heads: int32(q.heads), KVHeads: int32(k.heads), Queries: int32(q.rows), Keys: int32(total), Size: int32(q.size),
		ValueSize: int32(v.size), Q: q.strides, Y: y.strides, Past: int32(past), IsCausal: int32(ops.Int(n, "is_causal")),
		Left: window(ops.Int(n, "left_window_size")), Right: window(ops.Int(n, "right_window_size")), Stage: -1, Cap: ops.Float(n, "softcap"),
		Scale: ops.FloatOr(n, "scale", float32(1/math.Sqrt(float64(q.size))))}
	if p.wants(3) {
		g.Stage = int32(ops.Int(n, "qk_matmul_output_mode"))
	}
	if !p.mask(&g, []int{q.batch, q.heads, q.rows, total}) {
		return false, nil
	}
	keys, ok1 := p.joinPast(f, 1, 4, k, total, past)
	values, ok2 := p.joinPast(f, 2, 5, v, total, past)
	if !ok1 || !ok2 {
		return false, nil
	}
	g.K, g.V = keys.strides, values.strides
	scores := p.temporary(int64(q.batch) * int64(q.heads) * int64(q.rows) * int64(total) * 4)
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Of(f).Attention(int64(q.batch), g, c.In[0], keys.of(c), values.of(c), at(c.In, 3), at(c.In, 6), c.Out[0], at(c.Out, 3),
			scores(c))
	}, 0, 1, 2, 3, 6)
	return true, nil
}

func window(size int64) int32 { return int32(min(size, math.MaxInt32/2)) }

// mask reads the mask's strides.
func (p *prep) mask(g *kernels.Attention, full []int) bool {
	if !p.has(3) {
		return true
	}
	m := p.in[3]
	if shape, err := ops.BroadcastShapes(m.shape, full); err != nil || ndarray.Product(shape) != ndarray.Product(full) || len(m.shape) > 4 {
		return false
	}
	s := ops.BroadcastStrides(m.shape, full)
	g.HasMask, g.MaskBatch, g.MaskHead, g.MaskRow, g.MaskColumn = 1, int32(s[0]), int32(s[1]), int32(s[2]), int32(s[3])
	if m.dt == ndarray.Bool {
		g.IsBool = 1
	}
	return true
}

// joinedRows are keys or values with their past.
type joinedRows struct {
	strides kernels.Strides
	of      func(c *Call) Operand
}

// joinPast writes the past and what is new behind each other, into the result that has the same number as the operand, or into workspace;
// where neither is needed, what is new stays where it is.
func (p *prep) joinPast(f kernels.Floats, operand, before int, h heads, total, past int) (joinedRows, bool) {
	if past == 0 && !p.wants(operand) {
		return joinedRows{h.strides, func(c *Call) Operand { return c.In[operand] }}, true
	}
	joined := joinedRows{kernels.Strides{Batch: int32(h.heads * total * h.size), Head: int32(total * h.size), Row: int32(h.size)},
		func(c *Call) Operand { return c.Out[operand] }}
	if !p.wants(operand) {
		joined.of = p.temporary(int64(h.batch) * int64(h.heads) * int64(total) * int64(h.size) * f.Size())
	}
	put := func(in int, h heads, from int) bool {
		v, ok := h.place(total, from)
		p.launch(func(c *Call) (*device.Launch, error) {
			return p.host.Kernels().Place(int(f.Size()), v, c.In[in], joined.of(c))
		}, in)
		return ok
	}
	ok := put(operand, h, past)
	if past > 0 {
		ok = put(before, headsOf(p.in[before].shape, 0), 0) && ok
	}
	return joined, ok
}
