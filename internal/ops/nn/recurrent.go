package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What RNN, GRU and LSTM share: one layer over a padded batch of sequences, in
// one or two directions.
//
//	X [T,B,I] ──· Wᵀ──▶ gates of all steps at once          [T,B,G*H]
//	H [B,H]   ──· Rᵀ──▶ gates of one step  ┐
//	                                       ├─ cell ──▶ H, C of the next step
//	gates of the step ─────────────────────┘
//
// Sequence b takes part in its first lens[b] steps; the reverse direction walks
// them from lens[b]-1 down. Y is 0 beyond a sequence's end, and Y_h is 0 for an
// empty sequence.

// recurrentAttrs are the attributes that the recurrent operators of the default
// domain have.
var recurrentAttrs = []*ops.AttrSpec{ops.FloatsAttr("activation_alpha"), ops.FloatsAttr("activation_beta"),
	ops.StringsAttr("activations"), ops.FloatAttr("clip"), ops.StrAttr("direction", "forward", "reverse", "bidirectional"),
	ops.IntAttr("hidden_size"), ops.IntAttr("layout", 0).From(14),
	ops.IntAttr("output_sequence", 0).WithoutEffect().Before(7)}

// Recurrence is the geometry of a recurrent node.
type Recurrence struct {
	seq, batch, Input, Hidden, Dirs, gates int
	batchFirst                             bool // layout=1
	reverse                                []bool
	lens                                   []int
}

// RecurrentParts are the functions in which the recurrent operators differ.
type RecurrentParts[T kit.RealNum] struct {
	// Input adds X·Wᵀ of direction d to out [rows, gates*hidden], rows in X's order.
	Input func(d int, out []T)
	// Hidden adds h·R[from:to]ᵀ of direction d to out [batch, (to-from)*hidden].
	Hidden func(d, from, to int, h, out []T)
	// bias starts a row of gates.
	bias func(d int, row []T)
	// step computes the next h and c of every sequence b with active[b], from the
	// rows of gates gate(b), into h and c themselves.
	step func(d int, active []bool, gate func(b int) []T, h, c []T)
}

// directionsOf reads attribute direction: whether each direction is reversed.
func directionsOf(n *ssa.Node) []bool {
	switch ops.Str(n, "direction") {
	case "reverse":
		return []bool{true}
	case "bidirectional":
		return []bool{false, true}
	}
	return []bool{false}
}

// RecurrenceOf reads the geometry from X and the hidden size.
func RecurrenceOf(c *ops.Call, gates, hidden int) *Recurrence {
	x := kit.Tensor(c, 0)
	kit.WantRank("X", x, 3)
	r := &Recurrence{gates: gates, Hidden: hidden, batchFirst: ops.Int(c.Node, "layout") != 0, reverse: directionsOf(c.Node)}
	r.Dirs = len(r.reverse)
	r.seq, r.batch, r.Input = x.Shape[0], x.Shape[1], x.Shape[2]
	if r.batchFirst {
		r.seq, r.batch = r.batch, r.seq
	}
	if h := ops.IntOr(c.Node, "hidden_size", int64(hidden)); h != int64(hidden) {
		kit.Failf("hidden_size=%d, but the weights are for %d", h, hidden)
	}
	r.readLens(c)
	return r
}

func (r *Recurrence) readLens(c *ops.Call) {
	a := c.Array(4)
	kit.WantShape("sequence_lens", a, r.batch)
	r.lens = kit.Make[int](c, r.batch)
	for i := range r.lens {
		r.lens[i] = r.seq
		if a != nil {
			if r.lens[i] = int(a.Int(i)); r.lens[i] < 0 || r.lens[i] > r.seq {
				kit.Failf("sequence %d has length %d of %d", i, r.lens[i], r.seq)
			}
		}
	}
}

// row is the position of step t of sequence b among the rows of X.
func (r *Recurrence) row(t, b int) int {
	if r.batchFirst {
		return b*r.seq + t
	}
	return t*r.batch + b
}

// stateRow is the position of sequence b of direction d among states.
func (r *Recurrence) stateRow(d, b int) int {
	if r.batchFirst {
		return b*r.Dirs + d
	}
	return d*r.batch + b
}

// outRow is the position of step t, direction d, sequence b among the rows of Y.
func (r *Recurrence) outRow(t, d, b int) int {
	if r.batchFirst {
		return (b*r.seq+t)*r.Dirs + d
	}
	return (t*r.Dirs+d)*r.batch + b
}

func (r *Recurrence) stateShape() []int {
	if r.batchFirst {
		return []int{r.batch, r.Dirs, r.Hidden}
	}
	return []int{r.Dirs, r.batch, r.Hidden}
}

func (r *Recurrence) yShape() []int {
	if r.batchFirst {
		return []int{r.batch, r.seq, r.Dirs, r.Hidden}
	}
	return []int{r.seq, r.Dirs, r.batch, r.Hidden}
}

// recurrentOut is Y and the final states under computation; a nil V is not wanted.
type recurrentOut[T kit.RealNum] struct{ y, h, c kit.ResultOf[T] }

// runRecurrence computes all directions. initial holds the states (nil for 0);
// states is 1 (h) or 2 (h and c).
func runRecurrence[T kit.RealNum](c *ops.Call, r *Recurrence, p *RecurrentParts[T], initial [2]*ndarray.Array, states int) {
	dt := c.Array(0).DType
	var out recurrentOut[T]
	for i, o := range []*kit.ResultOf[T]{&out.y, &out.h, &out.c} {
		if !c.Wants(i) {
			continue
		}
		shape := r.stateShape()
		if i == 0 {
			shape = r.yShape()
		}
		*o = kit.NewResult[T](c, i, dt, shape...)
	}
	for i, a := range initial {
		kit.WantShape([]string{"initial_h", "initial_c"}[i], a, r.stateShape()...)
	}
	init := [2][]T{kit.Elements[T](c, initial[0]), kit.Elements[T](c, initial[1])}
	kit.ClearSlice(c, out.y.V)
	for d := range r.Dirs {
		runDirection(c, r, p, d, init, states, &out)
	}
	for _, o := range []kit.ResultOf[T]{out.y, out.h, out.c} {
		if o.A != nil {
			o.Store()
		}
	}
}

func runDirection[T kit.RealNum](c *ops.Call, r *Recurrence, p *RecurrentParts[T], d int, init [2][]T, states int, out *recurrentOut[T]) {
	width := r.gates * r.Hidden
	gates := kit.Make[T](c, r.seq*r.batch*width)
	w := kit.Watching(c)
	for i := range r.seq * r.batch {
		w.Did(width)
		p.bias(d, gates[i*width:(i+1)*width])
	}
	p.Input(d, gates)
	var state [2][]T
	for k := range states {
		state[k] = kit.Make[T](c, r.batch*r.Hidden)
		for b := range r.batch {
			if init[k] != nil {
				copy(state[k][b*r.Hidden:(b+1)*r.Hidden], init[k][r.stateRow(d, b)*r.Hidden:])
			}
		}
	}
	at, active := kit.Make[int](c, r.batch), kit.Make[bool](c, r.batch)
	for s := range r.seq {
		kit.CheckEnded(c)
		for b, n := range r.lens {
			active[b], at[b] = s < n, s
			if r.reverse[d] {
				at[b] = n - 1 - s
			}
		}
		p.step(d, active, func(b int) []T { return gates[r.row(at[b], b)*width:][:width] }, state[0], state[1])
		for b := range r.batch {
			if active[b] && out.y.A != nil {
				copy(out.y.V[r.outRow(at[b], d, b)*r.Hidden:][:r.Hidden], state[0][b*r.Hidden:])
			}
		}
	}
	for k, o := range []kit.ResultOf[T]{out.h, out.c} {
		for b := range r.batch {
			if o.A == nil {
				continue
			}
			dst := o.V[r.stateRow(d, b)*r.Hidden:][:r.Hidden]
			copy(dst, state[k][b*r.Hidden:])
			if r.lens[b] == 0 {
				clear(dst)
			}
		}
	}
}

// floatRecurrence reads operands X, W [dirs, gates*H, I], R [dirs, gates*H, H] and B
// of a node with plain float weights. Rb is part of the first summed gates' bias.
func floatRecurrence[T kit.RealNum](c *ops.Call, gates, summed int) (*Recurrence, *RecurrentParts[T]) {
	kit.WantRank("R", kit.Tensor(c, 2), 3)
	r := RecurrenceOf(c, gates, c.Array(2).Shape[2])
	width, hid := gates*r.Hidden, r.Hidden
	kit.WantShape("W", kit.Tensor(c, 1), r.Dirs, width, r.Input)
	kit.WantShape("R", c.Array(2), r.Dirs, width, hid)
	kit.WantShape("B", c.Array(3), r.Dirs, 2*width)
	x, w, rec := kit.Elements[T](c, c.Array(0)), kit.Elements[T](c, c.Array(1)), kit.Elements[T](c, c.Array(2))
	return r, &RecurrentParts[T]{
		bias: sumBias(r, kit.Elements[T](c, c.Array(3)), summed),
		Input: func(d int, out []T) {
			kit.MatMulAddT(c, r.seq*r.batch, width, r.Input, x, r.Input, w[d*width*r.Input:], r.Input, out, width)
		},
		Hidden: func(d, from, to int, h, out []T) {
			n := (to - from) * hid
			kit.MatMulAddT(c, r.batch, n, hid, h, hid, rec[(d*gates+from)*hid*hid:], hid, out, n)
		},
	}
}

// sumBias starts gates with Wb + Rb, bias [dirs, 2*gates*H]. Rb is added to the first
// summed gates only: GRU multiplies that of its last gate before it adds it.
func sumBias[T kit.RealNum](r *Recurrence, bias []T, summed int) func(d int, row []T) {
	width := r.gates * r.Hidden
	return func(d int, row []T) {
		if bias == nil {
			return
		}
		copy(row, bias[2*d*width:])
		for i, v := range bias[(2*d+1)*width:][:summed*r.Hidden] {
			row[i] += v
		}
	}
}

// clipper limits activations' inputs to [-clip, clip].
func clipper(n *ssa.Node) func(float64) float64 {
	limit := float64(ops.Float(n, "clip"))
	if !n.Has("clip") || limit <= 0 {
		return func(x float64) float64 { return x }
	}
	return func(x float64) float64 { return max(-limit, min(limit, x)) }
}

// InferRecurrent is the type rule: Y, then states final states.
//
//go:noinline
func InferRecurrent(states int) func(*ssa.Node) []ops.Inferred {
	return func(n *ssa.Node) []ops.Inferred {
		x, rec := ops.InType(n, 0), ops.InType(n, 2)
		dirs := directionsOf(n)
		if x.Ranked && x.Rank() != 3 || rec.Ranked && rec.Rank() != 3 {
			kit.Failf("X is %s and R is %s; both must have rank 3", x, rec)
		}
		seq, batch, hidden := kit.DimOf(x, 0), kit.DimOf(x, 1), kit.DimOf(rec, 2)
		if h := ops.Int(n, "hidden_size"); h > 0 {
			hidden = ssa.D(h)
		}
		d := ssa.D(int64(len(dirs)))
		y, h := []ssa.Dim{seq, d, batch, hidden}, []ssa.Dim{d, batch, hidden}
		if ops.Int(n, "layout") != 0 {
			seq, batch = batch, seq
			y, h = []ssa.Dim{batch, seq, d, hidden}, []ssa.Dim{batch, d, hidden}
		}
		out := ops.One(ssa.TensorOf(x.DType, y...))
		for range states {
			out = append(out, ops.Inferred{Type: ssa.TensorOf(x.DType, h...)})
		}
		return out
	}
}

// RecurrentCost counts the products of all steps: in each, every weight of W and of R is multiplied once for every sequence.
func RecurrentCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	x, ok := ops.InType(n, 0).Static()
	w, ok1 := ops.InType(n, 1).NumElems().Const()
	r, ok2 := ops.InType(n, 2).NumElems().Const()
	if ok && ok1 && ok2 && len(x) == 3 {
		c.FLOPs = 2 * int64(x[0]) * int64(x[1]) * (w + r)
	}
	return c
}
