package gradient

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// RNN, GRU and LSTM are written as Scans, one for each direction, and differentiated as these:
//
//	X [T,B,I] ──· Wᵀ + b──▶ gates of all steps [T,B,G·H] ──▶ Scan(h, c │ gates │ R, P) ──▶ Y, Y_h, Y_c
//
// The derivative keeps h and c of every step; gates are computed again.

func init() {
	rules["RNN"] = byFormula(recurrentFormula(1, 1, rnnCell))
	rules["GRU"] = byFormula(recurrentFormula(3, 1, gruCell))
	rules["LSTM"] = byFormula(recurrentFormula(4, 2, lstmCell))
}

// recurrence is one direction of a recurrent node under construction.
type recurrence struct {
	*builder           // of the body
	n        *ssa.Node // the node
	hidden   int64
	acts     []string
	h, c     *ssa.Value // states that enter a step
	x        *ssa.Value // gates [B, G·H] of the input
	r        *ssa.Value // R [G·H, H]
	bias     *ssa.Value // Rb [1, G·H], where it is not part of x
	peep     *ssa.Value // P [1, 3·H]
}

// cell writes a step: the next h and c.
type cell func(r *recurrence) (h, c *ssa.Value)

// recurrentFormula writes a node with a number of gates and states. Y, Y_h and Y_c are its results.
func recurrentFormula(gates, states int, step cell) formula {
	return func(g *builder, n *ssa.Node) []*ssa.Value {
		if isRefused(n) {
			g.refuse(n, "sequence_lens, clip and parameters of activations have no derivative here", "write the cell as a Loop or Scan")
			return nil
		}
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

// activationNames are the functions of direction d.
func (g *builder) activationNames(n *ssa.Node, d, directions int, standard ...string) []string {
	list := ops.Strings(n, "activations")
	if len(list) == 0 {
		return standard
	}
	each := len(list) / directions
	if each != len(standard) {
		g.fail(n, fmt.Errorf("%d activations for %d directions", len(list), directions))
		return standard
	}
	return list[d*each : (d+1)*each]
}

// direction writes the Scan of one direction: final states, then the outputs of all steps.
func (g *builder) direction(n *ssa.Node, x *ssa.Value, d, directions int, back bool, gates, states int, step cell) []*ssa.Value {
	of := func(v *ssa.Value) *ssa.Value { // what belongs to the direction
		return g.op("Squeeze", g.part(v, 0, int64(d), int64(d+1)), g.ints(0))
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
	var inner *ssa.Value
	if b := n.Input(3); b != nil {
		halves := g.parts(g.reshape(of(b), 1, 2*wide), 1, 2)
		input = g.op("Add", input, halves[0])
		inner = halves[1]
	}
	captured := []*ssa.Value{r}
	if inner != nil {
		captured = append(captured, inner)
	}
	if n.Op == "LSTM" && n.Input(7) != nil {
		captured = append(captured, g.reshape(of(n.In[7]), 1, 3*hidden))
	}
	in := make([]*ssa.Value, states)
	for i := range in {
		if v := n.Input(5 + i); v != nil && ops.Int(n, "layout") != 0 {
			in[i] = of(g.transpose(v, 1, 0, 2))
		} else if v != nil {
			in[i] = of(v)
		} else {
			in[i] = g.op("Expand", g.number(x, 0), g.ints(batch, hidden))
		}
	}
	body, rec := recurrentBody(g.ctx, n, in, input, captured, inner != nil)
	rec.hidden = hidden
	rec.acts = g.activationNames(n, d, directions, standardActivations[n.Op]...)
	h, c := step(rec)
	y := rec.op("Identity", h)
	body.Results = []*ssa.Value{h, y}
	if states == 2 {
		body.Results = []*ssa.Value{h, c, y}
	}
	g.failIn(n, rec.builder)
	direction := []int64{0}
	if back {
		direction[0] = 1
	}
	m := g.add("Scan", append(append(in, input), captured...), states+1, ssa.IntAttr("num_scan_inputs", 1),
		ssa.IntsAttr("scan_input_directions", direction...), ssa.IntsAttr("scan_output_directions", direction...))
	m.Captures = len(captured)
	m.AddBody("body", body)
	g.infer(m)
	return m.Out
}

// recurrentBody makes the body with its parameters.
func recurrentBody(ctx context.Context, n *ssa.Node, states []*ssa.Value, input *ssa.Value, captured []*ssa.Value, biased bool) (*ssa.Graph, *recurrence) {
	body := ssa.NewGraph(n.Op + " step")
	rec := &recurrence{builder: newBuilder(ctx, body, nil), n: n}
	rec.h = body.AddParam("h", states[0].Type)
	if len(states) == 2 {
		rec.c = body.AddParam("c", states[1].Type)
	}
	row := input.Type
	row.Shape = row.Shape[1:]
	rec.x = body.AddParam("x", row)
	rec.r = body.AddParam("r", captured[0].Type)
	rest := captured[1:]
	if biased {
		rec.bias = body.AddParam("b", rest[0].Type)
		rest = rest[1:]
	}
	if len(rest) > 0 {
		rec.peep = body.AddParam("p", rest[0].Type)
	}
	return body, rec
}

// isRefused reports that a recurrent node has a form without a derivative.
func isRefused(n *ssa.Node) bool {
	return n.Input(4) != nil || n.Has("clip") || n.Has("activation_alpha") || n.Has("activation_beta")
}

// standardActivations are those of nodes that name none.
var standardActivations = map[string][]string{"RNN": {"Tanh"}, "GRU": {"Sigmoid", "Tanh"}, "LSTM": {"Sigmoid", "Tanh", "Tanh"}}

// rows are rows from·H up to to·H of R, transposed.
func (r *recurrence) rows(from, to int64) *ssa.Value {
	return r.transpose(r.part(r.r, 0, from*r.hidden, to*r.hidden), 1, 0)
}

// gate is columns of a gate in a row of gates.
func (r *recurrence) gate(v *ssa.Value, i int64) *ssa.Value {
	return r.part(v, 1, i*r.hidden, (i+1)*r.hidden)
}

func (r *recurrence) act(i int, v *ssa.Value) *ssa.Value { return r.op(r.acts[i], v) }

// rnnCell: h' = f(x + h·Rᵀ + b).
func rnnCell(r *recurrence) (h, c *ssa.Value) {
	return r.act(0, r.plus(r.x, r.op("MatMul", r.h, r.rows(0, 1)), r.bias)), nil
}

// gruCell: h' = (1 - z)∘n + z∘h, as operator GRU says.
func gruCell(r *recurrence) (h, c *ssa.Value) {
	biasOf := func(i int64) *ssa.Value {
		if r.bias == nil {
			return nil
		}
		return r.gate(r.bias, i)
	}
	z := r.act(0, r.plus(r.gate(r.x, 0), r.op("MatMul", r.h, r.rows(0, 1)), biasOf(0)))
	reset := r.act(0, r.plus(r.gate(r.x, 1), r.op("MatMul", r.h, r.rows(1, 2)), biasOf(1)))
	var hidden *ssa.Value
	if ops.Int(r.n, "linear_before_reset") != 0 {
		hidden = r.mul(reset, r.plus(r.op("MatMul", r.h, r.rows(2, 3)), biasOf(2)))
	} else {
		hidden = r.plus(r.op("MatMul", r.mul(reset, r.h), r.rows(2, 3)), biasOf(2))
	}
	now := r.act(1, r.add2(r.gate(r.x, 2), hidden))
	return r.add2(r.mul(r.oneMinus(z), now), r.mul(z, r.h)), nil
}

// lstmCell: c' = f∘c + i∘n, h' = o∘g(c'), as operator LSTM says.
func lstmCell(r *recurrence) (h, c *ssa.Value) {
	sum := r.plus(r.x, r.op("MatMul", r.h, r.rows(0, 4)), r.bias)
	peeped := func(gate int64, peephole int64, c *ssa.Value) *ssa.Value {
		v := r.gate(sum, gate)
		if r.peep != nil {
			v = r.add2(v, r.mul(r.gate(r.peep, peephole), c))
		}
		return v
	}
	in := r.act(0, peeped(0, 0, r.c))
	forget := r.oneMinus(in)
	if ops.Int(r.n, "input_forget") == 0 {
		forget = r.act(0, peeped(2, 2, r.c))
	}
	c = r.add2(r.mul(forget, r.c), r.mul(in, r.act(1, r.gate(sum, 3))))
	out := r.act(0, peeped(1, 1, c))
	return r.mul(out, r.act(2, c)), c
}
