package gradient

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// RNN, GRU and LSTM are written as Scans, one for each direction, and differentiated as these:
//
//	X [T,B,I] ──· Wᵀ + b──▶ gates of all steps [T,B,G·H] ──▶ Scan(h, c │ gates │ R, P) ──▶ Y, Y_h, Y_c
//
// The derivative keeps h and c of every step; gates are computed again. Where h is all that is carried, Y of the node has it, and no step
// is run a second time to keep it. With sequence_lens a step passes on the states of sequences that have ended, or not begun in reverse,
// and gives zeros for them; Y then lacks what entered the steps of a reverse direction.

func init() {
	rules["RNN"] = byFormula(recurrentFormula(1, 1, rnnCell))
	rules["GRU"] = byFormula(recurrentFormula(3, 1, gruCell))
	rules["LSTM"] = byFormula(recurrentFormula(4, 2, lstmCell))
}

// recurrence is one direction of a recurrent node under construction.
type recurrence struct {
	*builder           // of the body
	n        *ssa.Node // the node
	acts     []kit.Gate
	h, c     *ssa.Value   // states that enter a step
	x        *ssa.Value   // gates [B, G·H] of the input
	live     *ssa.Value   // which sequences have the step, [B, 1]; nil: all
	r        []*ssa.Value // Rᵀ [H, G·H], of a GRU that resets ahead of the product in two parts: z and r, then h
	bias     []*ssa.Value // Rb [1, G·H], where it is not part of x, in as many parts
	peep     *ssa.Value   // P [1, 3·H]
}

// cell writes a step: the next h and c.
type cell func(r *recurrence) (h, c *ssa.Value)

// recurrentFormula writes a node with a number of gates and states. Y, Y_h and Y_c are its results.
func recurrentFormula(gates, states int, step cell) formula {
	return func(g *builder, n *ssa.Node) []*ssa.Value {
		batchFirst := ops.Int(n, "layout") != 0
		x := n.In[0]
		if batchFirst {
			x = g.transpose(x, 1, 0, 2)
		}
		backward := map[string][]bool{"forward": {false}, "reverse": {true}, "bidirectional": {false, true}}[ops.Str(n, "direction")]
		var y, h, c []*ssa.Value
		for d, back := range backward {
			out := g.direction(n, x, d, len(backward), back, gates, states, step)
			if g.err != nil {
				return nil
			}
			y, h = append(y, g.op("Unsqueeze", out[states], g.ints(1))), append(h, g.op("Unsqueeze", out[0], g.ints(0)))
			if states == 2 {
				c = append(c, g.op("Unsqueeze", out[1], g.ints(0)))
			}
		}
		return g.sequenceResults(batchFirst, y, h, c)
	}
}

// sequenceResults joins the directions.
func (g *builder) sequenceResults(batchFirst bool, y, h, c []*ssa.Value) []*ssa.Value {
	out := []*ssa.Value{g.joined(1, y...), g.joined(0, h...)}
	if c != nil {
		out = append(out, g.joined(0, c...))
	}
	if batchFirst {
		out[0] = g.transpose(out[0], 2, 0, 1, 3)
		for i := range out[1:] {
			out[1+i] = g.transpose(out[1+i], 1, 0, 2)
		}
	}
	return out
}

// direction writes the Scan of one direction: final states, then the outputs of all steps.
func (g *builder) direction(n *ssa.Node, x *ssa.Value, d, directions int, back bool, gates, states int, step cell) []*ssa.Value {
	acts, err := kit.Gates(n, standardActivations[n.Op], directions)
	if err != nil {
		g.fail(n, err)
		return nil
	}
	of := func(v *ssa.Value) *ssa.Value { // what belongs to the direction
		if directions > 1 {
			v = g.part(v, 0, int64(d), int64(d+1))
		}
		return g.op("Squeeze", v, g.ints(0))
	}
	w, r := of(n.In[1]), of(n.In[2])
	shape, ok := g.static(n, r)
	xs, okX := g.static(n, x)
	if !ok || !okX {
		return nil
	}
	hidden, batch := shape[1], xs[1]
	wide := int64(gates) * hidden
	input := g.op("MatMul", x, g.transpose(w, 1, 0))
	rec := &recurrence{n: n, r: g.cellParts(n, g.transpose(r, 1, 0), hidden), acts: acts[d]}
	if b := n.Input(3); b != nil {
		halves := g.parts(g.reshape(of(b), 1, 2*wide), 1, 2)
		input = g.op("Add", input, halves[0])
		rec.bias = g.cellParts(n, halves[1], hidden)
	}
	if n.Op == "LSTM" && n.Input(7) != nil {
		rec.peep = g.reshape(of(n.In[7]), 1, 3*hidden)
	}
	in := g.initialStates(n, x, states, batch, hidden, of)
	scanned := []*ssa.Value{input}
	if lens := n.Input(4); lens != nil {
		scanned = append(scanned, g.liveSteps(lens, xs[0], batch))
	}
	body, captured := rec.enter(g.ctx, in, scanned)
	body.Results = rec.results(step(rec))
	g.failIn(n, rec.builder)
	order := opposite(!back)
	m := g.add("Scan", slices.Concat(in, scanned, captured), states+1, ssa.IntAttr("num_scan_inputs", int64(len(scanned))),
		ssa.IntsAttr("scan_input_directions", slices.Repeat([]int64{order}, len(scanned))...), ssa.IntsAttr("scan_output_directions", order))
	m.Captures = len(captured)
	m.AddBody("body", body)
	g.infer(m)
	if states == 1 && n.Input(4) == nil {
		g.entered[m] = func(g *builder) []*ssa.Value { return one(g.entering(n, in[0], int64(d), back)) }
	}
	return m.Out
}

// initialStates are those of a direction, [B, H]: zeros where the node has none, and for sequences without a step, whose final states are 0.
func (g *builder) initialStates(n *ssa.Node, x *ssa.Value, states int, batch, hidden int64, of func(*ssa.Value) *ssa.Value) []*ssa.Value {
	in := make([]*ssa.Value, states)
	for i := range in {
		v := n.Input(5 + i)
		if v == nil {
			in[i] = g.op("Expand", g.number(x, 0), g.ints(batch, hidden))
			continue
		}
		if ops.Int(n, "layout") != 0 {
			v = g.transpose(v, 1, 0, 2)
		}
		in[i] = of(v)
		if lens := n.Input(4); lens != nil {
			some := g.op("Greater", g.reshape(g.cast(lens, ndarray.Int64), batch, 1), g.ints(0))
			in[i] = g.op("Where", some, in[i], g.number(x, 0))
		}
	}
	return in
}

// liveSteps tells the sequences that have a step, [T, B, 1].
func (g *builder) liveSteps(lens *ssa.Value, steps, batch int64) *ssa.Value {
	numbers := make([]int64, steps)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	return g.op("Less", g.reshape(g.ints(numbers...), steps, 1, 1), g.reshape(g.cast(lens, ndarray.Int64), 1, batch, 1))
}

// results are those of the body: the states that leave a step, then the step's h as an output.
func (r *recurrence) results(h, c *ssa.Value) []*ssa.Value {
	y := h
	if r.live != nil {
		y = r.op("Where", r.live, h, r.number(h, 0))
		h = r.op("Where", r.live, h, r.h)
	} else {
		y = r.op("Identity", h)
	}
	if c == nil {
		return []*ssa.Value{h, y}
	}
	if r.live != nil {
		c = r.op("Where", r.live, c, r.c)
	}
	return []*ssa.Value{h, c, y}
}

// entering is the h that enters each step of direction d, in the order of the steps: the first one, then Y but for its last. The node gets a
// result Y if it has none.
func (g *builder) entering(n *ssa.Node, first *ssa.Value, d int64, back bool) *ssa.Value {
	if n.Out[0] == nil {
		y := g.graph.AddOutput(n, fmt.Sprintf("%s_%d every step", n.Op, n.ID))
		n.Out, n.Out[0], y.DefIndex = n.Out[:len(n.Out)-1], y, 0
		g.infer(n)
	}
	y := n.Out[0]
	if ops.Int(n, "layout") != 0 {
		y = g.transpose(y, 1, 2, 0, 3)
	}
	shape, ok := g.static(n, y) // [T, D, B, H]
	if !ok {
		return nil
	}
	steps := shape[0]
	if first = g.reshape(first, 1, shape[2], shape[3]); steps < 2 {
		return g.part(first, 0, 0, steps)
	}
	from, to, step := int64(0), steps-1, int64(1)
	if back {
		from, to, step = steps-1, 0, -1
	}
	y = g.op("Slice", y, g.ints(from, d), g.ints(to, d+1), g.ints(0, 1), g.ints(step, 1))
	return g.joined(0, first, g.reshape(y, steps-1, shape[2], shape[3]))
}

// cellParts cuts what belongs to gates as the products of a step take them.
func (g *builder) cellParts(n *ssa.Node, v *ssa.Value, hidden int64) []*ssa.Value {
	if n.Op != "GRU" || ops.Int(n, "linear_before_reset") != 0 {
		return []*ssa.Value{v}
	}
	return g.node("Split", []*ssa.Value{v, g.ints(2*hidden, hidden)}, 2, ssa.IntAttr("axis", 1)).Out
}

// enter makes the body and exchanges what a step reads for parameters of it; it gives the values that the body captures.
func (r *recurrence) enter(ctx context.Context, states, scanned []*ssa.Value) (body *ssa.Graph, captured []*ssa.Value) {
	body = ssa.NewGraph(r.n.Op + " step")
	r.builder = newBuilder(ctx, body, nil)
	r.h = body.AddParam("h", states[0].Type)
	if len(states) == 2 {
		r.c = body.AddParam("c", states[1].Type)
	}
	row := func(v *ssa.Value) ssa.Type {
		t := v.Type
		t.Shape = t.Shape[1:]
		return t
	}
	r.x = body.AddParam("x", row(scanned[0]))
	if len(scanned) == 2 {
		r.live = body.AddParam("live", row(scanned[1]))
	}
	capture := func(name string, list []*ssa.Value) (params []*ssa.Value) {
		for i, v := range list {
			captured, params = append(captured, v), append(params, body.AddParam(fmt.Sprintf("%s%d", name, i), v.Type))
		}
		return params
	}
	r.r, r.bias = capture("r", r.r), capture("b", r.bias)
	if r.peep != nil {
		r.peep = capture("p", []*ssa.Value{r.peep})[0]
	}
	return body, captured
}

// biased adds part i of the bias of the recurrence, if there is one.
func (r *recurrence) biased(v *ssa.Value, i int) *ssa.Value {
	if r.bias == nil {
		return v
	}
	return r.add2(v, r.bias[i])
}

// standardActivations are those of nodes that name none.
var standardActivations = map[string][]string{"RNN": {"Tanh"}, "GRU": {"Sigmoid", "Tanh"}, "LSTM": {"Sigmoid", "Tanh", "Tanh"}}

// gateOperators are the operators that activations stand for, by their names in lower case.
var gateOperators = map[string]string{"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softsign": "Softsign", "softplus": "Softplus",
	"hardsigmoid": "HardSigmoid", "leakyrelu": "LeakyRelu", "elu": "Elu"}

// act is activation i of v.
func (r *recurrence) act(i int, v *ssa.Value) *ssa.Value {
	a := r.acts[i]
	var attrs []ssa.Attr
	switch a.Name {
	case "affine":
		return r.plusNumber(r.scaled(v, a.Alpha), a.Beta)
	case "scaledtanh":
		return r.scaled(r.op("Tanh", r.scaled(v, a.Beta)), a.Alpha)
	case "thresholdedrelu": // the limit itself passes, where the operator of that name gives 0
		return r.op("Where", r.op("Less", v, r.number(v, a.Alpha)), r.number(v, 0), v)
	case "hardsigmoid":
		attrs = []ssa.Attr{ssa.FloatAttr("alpha", float32(a.Alpha)), ssa.FloatAttr("beta", float32(a.Beta))}
	case "leakyrelu", "elu":
		attrs = []ssa.Attr{ssa.FloatAttr("alpha", float32(a.Alpha))}
	}
	return r.with(gateOperators[a.Name], []*ssa.Value{v}, attrs...)
}

// gate is activation i of a sum that clip bounds.
func (r *recurrence) gate(i int, v *ssa.Value) *ssa.Value {
	if limit := float64(ops.Float(r.n, "clip")); r.n.Has("clip") && limit > 0 {
		v = r.op("Clip", v, r.number(v, -limit), r.number(v, limit))
	}
	return r.act(i, v)
}

// product is v·Rᵀ + Rb, of one part of both.
func (r *recurrence) product(v *ssa.Value, i int) *ssa.Value {
	return r.biased(r.op("MatMul", v, r.r[i]), i)
}

// rnnCell: h' = f(x + h·Rᵀ + b).
func rnnCell(r *recurrence) (h, c *ssa.Value) {
	return r.gate(0, r.add2(r.x, r.product(r.h, 0))), nil
}

// gruCell: h' = (1 - z)∘n + z∘h, as operator GRU says.
func gruCell(r *recurrence) (h, c *ssa.Value) {
	x, linear := r.parts(r.x, 1, 3), len(r.r) == 1
	of := r.parts(r.product(r.h, 0), 1, 2+kit.Btoi(linear))
	z, reset := r.gate(0, r.add2(x[0], of[0])), r.gate(0, r.add2(x[1], of[1]))
	var hidden *ssa.Value
	if linear {
		hidden = r.mul(reset, of[2])
	} else {
		hidden = r.product(r.mul(reset, r.h), 1)
	}
	now := r.gate(1, r.add2(x[2], hidden))
	return r.add2(r.mul(r.oneMinus(z), now), r.mul(z, r.h)), nil
}

// lstmCell: c' = f∘c + i∘n, h' = o∘g(c'), as operator LSTM says.
func lstmCell(r *recurrence) (h, c *ssa.Value) {
	gates := r.parts(r.add2(r.x, r.product(r.h, 0)), 1, 4)
	var peepholes []*ssa.Value
	if r.peep != nil {
		peepholes = r.parts(r.peep, 1, 3)
	}
	peeped := func(gate, peephole int, c *ssa.Value) *ssa.Value {
		if peepholes == nil {
			return gates[gate]
		}
		return r.add2(gates[gate], r.mul(peepholes[peephole], c))
	}
	in := r.gate(0, peeped(0, 0, r.c))
	forget := r.oneMinus(in)
	if ops.Int(r.n, "input_forget") == 0 {
		forget = r.gate(0, peeped(2, 2, r.c))
	}
	c = r.add2(r.mul(forget, r.c), r.mul(in, r.gate(1, gates[3])))
	out := r.gate(0, peeped(1, 1, c))
	return r.mul(out, r.act(2, c)), c
}
