package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
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

// recurrence is the geometry of a recurrent node.
type recurrence struct {
	seq, batch, input, hidden, dirs, gates int
	batchFirst                             bool // layout=1
	reverse                                []bool
	lens                                   []int
}

// recurrentParts is what one variant brings in: products and a cell.
type recurrentParts[T realNum] struct {
	// input adds X·Wᵀ of direction d to out [rows, gates*hidden], rows in X's order.
	input func(d int, out []T)
	// hidden adds h·R[from:to]ᵀ of direction d to out [batch, (to-from)*hidden].
	hidden func(d, from, to int, h, out []T)
	// bias starts a row of gates.
	bias func(d int, row []T)
	// step computes the next h and c of every sequence b with active[b], from the
	// rows of gates gate(b), into h and c themselves.
	step func(d int, active []bool, gate func(b int) []T, h, c []T)
}

// directionsOf reads attribute direction: whether each direction is reversed.
func directionsOf(n *ssa.Node) []bool {
	switch d := Str(n, "direction"); d {
	case "forward":
		return []bool{false}
	case "reverse":
		return []bool{true}
	case "bidirectional":
		return []bool{false, true}
	default:
		panic(failure{fmt.Errorf("direction=%q is not forward, reverse or bidirectional", d)})
	}
}

// recurrenceOf reads the geometry from X and the hidden size.
func recurrenceOf(c *Call, gates, hidden int) recurrence {
	x := c.Array(0)
	r := recurrence{gates: gates, hidden: hidden, batchFirst: Int(c.Node, "layout") != 0}
	r.reverse = directionsOf(c.Node)
	r.dirs = len(r.reverse)
	if x == nil || x.Rank() != 3 {
		failf("X is not a tensor of rank 3")
	}
	r.seq, r.batch, r.input = x.Shape[0], x.Shape[1], x.Shape[2]
	if r.batchFirst {
		r.seq, r.batch = r.batch, r.seq
	}
	if h := IntOr(c.Node, "hidden_size", int64(hidden)); h != int64(hidden) {
		failf("hidden_size=%d, but the weights are for %d", h, hidden)
	}
	r.readLens(c.Array(4))
	return r
}

func (r *recurrence) readLens(a *ndarray.Array) {
	wantShape("sequence_lens", a, r.batch)
	r.lens = make([]int, r.batch)
	for i := range r.lens {
		r.lens[i] = r.seq
		if a != nil {
			v := a.Int(i)
			if v < 0 || v > int64(r.seq) {
				failf("sequence %d has length %d of %d", i, v, r.seq)
			}
			r.lens[i] = int(v)
		}
	}
}

// row is the position of step t of sequence b among the rows of X.
func (r *recurrence) row(t, b int) int {
	if r.batchFirst {
		return b*r.seq + t
	}
	return t*r.batch + b
}

// stateRow is the position of sequence b of direction d among states.
func (r *recurrence) stateRow(d, b int) int {
	if r.batchFirst {
		return b*r.dirs + d
	}
	return d*r.batch + b
}

// outRow is the position of step t, direction d, sequence b among the rows of Y.
func (r *recurrence) outRow(t, d, b int) int {
	if r.batchFirst {
		return (b*r.seq+t)*r.dirs + d
	}
	return (t*r.dirs+d)*r.batch + b
}

func (r *recurrence) stateShape() []int {
	if r.batchFirst {
		return []int{r.batch, r.dirs, r.hidden}
	}
	return []int{r.dirs, r.batch, r.hidden}
}

func (r *recurrence) yShape() []int {
	if r.batchFirst {
		return []int{r.batch, r.seq, r.dirs, r.hidden}
	}
	return []int{r.seq, r.dirs, r.batch, r.hidden}
}

// recurrentOut is Y and the final states under computation; a nil V is not wanted.
type recurrentOut[T realNum] struct{ y, h, c resultOf[T] }

// runRecurrence computes all directions. initial holds the states (nil for 0);
// states is 1 (h) or 2 (h and c).
func runRecurrence[T realNum](c *Call, r *recurrence, p recurrentParts[T], initial [2]*ndarray.Array, states int) {
	dt := c.Array(0).DType
	var out recurrentOut[T]
	for i, o := range []*resultOf[T]{&out.y, &out.h, &out.c} {
		if !c.Wants(i) {
			continue
		}
		shape := r.stateShape()
		if i == 0 {
			shape = r.yShape()
		}
		*o = newResult[T](c, i, dt, shape...)
	}
	for i, a := range initial {
		wantShape([]string{"initial_h", "initial_c"}[i], a, r.stateShape()...)
	}
	init := [2][]T{elements[T](initial[0]), elements[T](initial[1])}
	clear(out.y.V)
	for d := range r.dirs {
		if c.Ctx != nil && c.Ctx.Err() != nil {
			check(c.Ctx.Err())
		}
		runDirection(r, p, d, init, states, &out)
	}
	for _, o := range []resultOf[T]{out.y, out.h, out.c} {
		if o.a != nil {
			o.store()
		}
	}
}

func runDirection[T realNum](r *recurrence, p recurrentParts[T], d int, init [2][]T, states int, out *recurrentOut[T]) {
	width := r.gates * r.hidden
	gates := make([]T, r.seq*r.batch*width)
	for i := range r.seq * r.batch {
		p.bias(d, gates[i*width:(i+1)*width])
	}
	p.input(d, gates)
	var state [2][]T
	for k := range states {
		state[k] = make([]T, r.batch*r.hidden)
		for b := range r.batch {
			if init[k] != nil {
				copy(state[k][b*r.hidden:(b+1)*r.hidden], init[k][r.stateRow(d, b)*r.hidden:])
			}
		}
	}
	at, active := make([]int, r.batch), make([]bool, r.batch)
	for s := range r.seq {
		for b, n := range r.lens {
			active[b], at[b] = s < n, s
			if r.reverse[d] {
				at[b] = n - 1 - s
			}
		}
		p.step(d, active, func(b int) []T { return gates[r.row(at[b], b)*width:][:width] }, state[0], state[1])
		for b := range r.batch {
			if active[b] && out.y.a != nil {
				copy(out.y.V[r.outRow(at[b], d, b)*r.hidden:][:r.hidden], state[0][b*r.hidden:])
			}
		}
	}
	for k, o := range []resultOf[T]{out.h, out.c} {
		for b := range r.batch {
			if o.a == nil {
				continue
			}
			dst := o.V[r.stateRow(d, b)*r.hidden:][:r.hidden]
			copy(dst, state[k][b*r.hidden:])
			if r.lens[b] == 0 {
				clear(dst)
			}
		}
	}
}

// floatProducts are the products of plain float weights W [dirs, gates*H, I] and
// R [dirs, gates*H, H].
func floatProducts[T realNum](r *recurrence, x, w, rec []T) (input func(int, []T), hidden func(int, int, int, []T, []T)) {
	width := r.gates * r.hidden
	input = func(d int, out []T) {
		matMulAddT(r.seq*r.batch, width, r.input, x, r.input, w[d*width*r.input:], r.input, out, width)
	}
	hidden = func(d, from, to int, h, out []T) {
		n := (to - from) * r.hidden
		matMulAddT(r.batch, n, r.hidden, h, r.hidden, rec[(d*r.gates+from)*r.hidden*r.hidden:], r.hidden, out, n)
	}
	return input, hidden
}

// sumBias starts gates with Wb + Rb, bias [dirs, 2*gates*H]; Rb is left out for
// gates from apart on (GRU adds it elsewhere).
func sumBias[T realNum](r *recurrence, bias []T, apart int) func(d int, row []T) {
	width := r.gates * r.hidden
	return func(d int, row []T) {
		if bias == nil {
			return
		}
		copy(row, bias[2*d*width:])
		for i, v := range bias[(2*d+1)*width:][:apart*r.hidden] {
			row[i] += v
		}
	}
}

// checkWeights compares W, R and B with the geometry.
func (r *recurrence) checkWeights(w, rec, bias *ndarray.Array) {
	width := r.gates * r.hidden
	wantShape("W", w, r.dirs, width, r.input)
	wantShape("R", rec, r.dirs, width, r.hidden)
	wantShape("B", bias, r.dirs, 2*width)
}

// hiddenOf finds the hidden size in R [dirs, gates*H, H].
func hiddenOf(c *Call) int {
	rec := tensor(c, 2)
	if rec.Rank() != 3 {
		failf("R has shape %v, expected rank 3", rec.Shape)
	}
	return rec.Shape[2]
}

// clipper limits activations' inputs to [-clip, clip].
func clipper(n *ssa.Node) func(float64) float64 {
	limit := float64(Float(n, "clip"))
	if !n.Has("clip") || limit <= 0 {
		return func(x float64) float64 { return x }
	}
	return func(x float64) float64 { return max(-limit, min(limit, x)) }
}

// inferRecurrent is the type rule: Y, then states final states.
func inferRecurrent(states int) func(*ssa.Node) []Inferred {
	return func(n *ssa.Node) []Inferred {
		x, rec := InType(n, 0), InType(n, 2)
		dirs := directionsOf(n)
		if x.Ranked && x.Rank() != 3 || rec.Ranked && rec.Rank() != 3 {
			failf("X is %s and R is %s; both must have rank 3", x, rec)
		}
		var seq, batch, hidden ssa.Dim
		if x.Ranked {
			seq, batch = x.Shape[0], x.Shape[1]
		}
		if rec.Ranked {
			hidden = rec.Shape[2]
		}
		if h := Int(n, "hidden_size"); h > 0 {
			hidden = ssa.D(h)
		}
		d := ssa.D(int64(len(dirs)))
		y, h := []ssa.Dim{seq, d, batch, hidden}, []ssa.Dim{d, batch, hidden}
		if Int(n, "layout") != 0 {
			seq, batch = batch, seq
			y, h = []ssa.Dim{batch, seq, d, hidden}, []ssa.Dim{batch, d, hidden}
		}
		out := One(ssa.TensorOf(x.DType, y...))
		for range states {
			out = append(out, Inferred{Type: ssa.TensorOf(x.DType, h...)})
		}
		return out
	}
}

// recurrentAttrs are the attributes that the recurrent operators of the default
// domain have.
var recurrentAttrs = []AttrSpec{floatsAttr("activation_alpha"), floatsAttr("activation_beta"),
	stringsAttr("activations"), floatAttr("clip"), strAttr("direction", "forward", "reverse", "bidirectional"),
	intAttr("hidden_size"), intAttr("layout", 0).since(14),
	intAttr("output_sequence", 0).ignored().until(7)}

// recurrentCost counts the products of all steps.
func recurrentCost(gates int64) func(*ssa.Node) Cost {
	return func(n *ssa.Node) Cost {
		c := trafficOf(n)
		x, ok := InType(n, 0).Static()
		r, ok2 := InType(n, 2).Static()
		if ok && ok2 && len(x) == 3 && len(r) == 3 {
			c.FLOPs = 2 * int64(r[0]) * int64(x[0]) * int64(x[1]) * gates * int64(r[2]) * int64(x[2]+r[2])
		}
		return c
	}
}

// runLSTM completes the parts of an LSTM whose products are given and runs it.
func runLSTM[T realNum](c *Call, r *recurrence, p recurrentParts[T]) {
	acts := gateFunctions(c.Node, []string{"Sigmoid", "Tanh", "Tanh"}, r.dirs)
	wantShape("P", c.Array(7), r.dirs, 3*r.hidden)
	p.bias = sumBias(r, elements[T](c.Array(3)), 4)
	cell := lstmCell[T]{r: r, p: &p, acts: acts, clip: clipper(c.Node), coupled: Int(c.Node, "input_forget") != 0,
		peep: elements[T](c.Array(7)), rec: make([]T, 4*r.batch*r.hidden)}
	p.step = cell.step
	runRecurrence(c, r, p, [2]*ndarray.Array{c.Array(5), c.Array(6)}, 2)
}

// lstmCell computes one step for a batch.
type lstmCell[T realNum] struct {
	r       *recurrence
	p       *recurrentParts[T]
	acts    [][]realFunc
	clip    func(float64) float64
	coupled bool // input_forget
	peep    []T
	rec     []T // H·Rᵀ
}

func (l *lstmCell[T]) step(d int, active []bool, gate func(int) []T, h, c []T) {
	hid := l.r.hidden
	clear(l.rec)
	l.p.hidden(d, 0, 4, h, l.rec)
	for b, on := range active {
		if on {
			l.cell(d, gate(b), l.rec[4*b*hid:4*(b+1)*hid], h[b*hid:(b+1)*hid], c[b*hid:(b+1)*hid])
		}
	}
}

// cell is one step of one sequence; x and rec hold the gates i, o, f, c.
func (l *lstmCell[T]) cell(d int, x, rec, h, c []T) {
	hid, f, g, out := l.r.hidden, l.acts[d][0], l.acts[d][1], l.acts[d][2]
	peep := func(gate, i int) T { return 0 }
	if l.peep != nil {
		peep = func(gate, i int) T { return l.peep[(3*d+gate)*hid+i] }
	}
	for k := range h {
		pre := func(gate int) T { return x[gate*hid+k] + rec[gate*hid+k] }
		i := f(l.clip(float64(pre(0) + peep(0, k)*c[k])))
		forget := 1 - i
		if !l.coupled {
			forget = f(l.clip(float64(pre(2) + peep(2, k)*c[k])))
		}
		now := g(l.clip(float64(pre(3))))
		c[k] = T(forget*float64(c[k]) + i*now)
		o := f(l.clip(float64(pre(1) + peep(1, k)*c[k])))
		h[k] = T(o * out(float64(c[k])))
	}
}
