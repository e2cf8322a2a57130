package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// What a step adds to the forward pass: the loss, derivatives by the weights, and what these change.

// complete adds loss, derivatives and update. The results are the loss, then what states become.
func (t *Trainer) complete(ctx context.Context, g *ssa.Graph) error {
	b := &Builder{Graph: g, ctx: ctx}
	var loss *ssa.Value
	rescue.Call("Options.Loss", func() { loss = t.options.Loss(b, g.Results[0]) })
	if b.err != nil {
		return b.err
	}
	if loss == nil {
		return errors.New("the loss gave no value")
	}
	if size, ok := loss.Type.Static(); !ok || ndarray.Product(size) != 1 {
		return &shapeError{"loss", loss.Type, "it must be one number of known shape, as a mean"}
	}
	g.Results[0] = loss
	all := labelsOf(b)
	weights, slopes, err := t.slopes(ctx, g, loss)
	if err == nil {
		err = sameType(weights)
	}
	if err == nil {
		err = t.options.fit(weights[0].Type.DType)
	}
	if err != nil {
		return err
	}
	for _, p := range g.Params {
		if t.constants[p.Name] == nil && p.Name != stepNumber {
			t.inputs = append(t.inputs, p)
		}
	}
	for _, l := range all {
		if l.at = slices.Index(t.inputs, l.input); l.at >= 0 {
			t.labels = append(t.labels, l)
		}
	}
	from := len(g.Nodes)
	sums := t.accumulate(b, weights, slopes)
	t.clip(b, slopes)
	t.update(b, weights, slopes)
	t.holdUntilDue(b, weights, sums)
	updateEarly(g, from)
	return b.err
}

// sameType reports weights of several element types: rate and lengths of derivatives have one.
func sameType(weights []*ssa.Value) error {
	for _, w := range weights {
		if first := weights[0]; w.Type.DType != first.Type.DType {
			return fmt.Errorf("weight %q is of %s and %q of %s; Learn must name weights of one element type", first.Name, first.Type.DType, w.Name, w.Type.DType)
		}
	}
	return nil
}

// updateEarly moves the nodes from a position on, which change weights, to where what they read has been made: a derivative then dies
// there, and so does what it is a product of, once the update is a part of that product. Nodes that read inputs of the step alone come
// ahead of their first reader.
func updateEarly(g *ssa.Graph, from int) {
	behind, at := make([][]*ssa.Node, from), map[*ssa.Node]int{}
	for i, n := range g.Nodes[:from] {
		at[n] = i
	}
	var place func(n *ssa.Node, slot int)
	place = func(n *ssa.Node, slot int) {
		if _, placed := at[n]; placed {
			return
		}
		for _, v := range n.In {
			if v != nil && v.Def != nil {
				place(v.Def, slot)
			}
		}
		at[n] = slot
		behind[slot] = append(behind[slot], n)
	}
	var rest []*ssa.Node
	for _, n := range g.Nodes[from:] {
		slot := -1
		for _, v := range n.In {
			if v != nil && v.Def != nil {
				if i, placed := at[v.Def]; placed {
					slot = max(slot, i)
				}
			}
		}
		if slot >= 0 {
			place(n, slot)
		} else {
			rest = append(rest, n)
		}
	}
	var all []*ssa.Node
	for i, n := range g.Nodes[:from] {
		all = append(append(all, n), behind[i]...)
	}
	for _, n := range rest {
		if _, placed := at[n]; !placed {
			all = append(all, n)
		}
	}
	g.Nodes = all
}

// slopes are the weights that the loss depends on and its derivatives by them. Weights that were asked for by name must be
// among them.
func (t *Trainer) slopes(ctx context.Context, g *ssa.Graph, loss *ssa.Value) (weights, slopes []*ssa.Value, err error) {
	chosen := setOf(t.learned)
	for _, p := range g.Params {
		if chosen[p.Name] {
			weights = append(weights, p)
		}
	}
	r := gradient.Reversal{Graph: g, Y: loss, By: weights, Last: true}
	all, err := r.Append(ctx)
	if err != nil {
		return nil, nil, err
	}
	if t.options.Learn != nil && slices.Contains(all, nil) {
		_, err = gradient.Of(ctx, g, loss, weights...) // which says what is in the way
		return nil, nil, err
	}
	if t.options.Learn != nil {
		return weights, all, nil
	}
	var learned []*ssa.Value
	t.learned = nil
	for i, d := range all {
		if d != nil {
			learned, slopes = append(learned, weights[i]), append(slopes, d)
			t.learned = append(t.learned, weights[i].Name)
		}
	}
	switch {
	case learned != nil:
	case len(weights) == 0:
		return nil, nil, errors.New("the model has no weights: no tensors of floats of rank 1 or more")
	default:
		_, err = gradient.Of(ctx, g, loss, weights[0]) // which says what is in the way
		return nil, nil, fmt.Errorf("the loss depends on no weight: %w", err)
	}
	return learned, slopes, nil
}

// accumulate replaces derivatives by their sums over the steps since the last change, divided by the number of steps between
// changes. The sums are states.
func (t *Trainer) accumulate(b *Builder, weights, slopes []*ssa.Value) (sums []*ssa.Value) {
	if t.options.Accumulate < 2 {
		return nil
	}
	for i, w := range weights {
		if b.hasEnded() {
			return nil
		}
		sum := b.Input("sum of "+w.Name, w.Type)
		slopes[i] = b.add(sum, b.times(slopes[i], 1/float64(t.options.Accumulate)))
		sums = append(sums, slopes[i])
	}
	return sums
}

// holdUntilDue lets weights and moments be as they were, and sums go on, in steps that are not the last before a change.
func (t *Trainer) holdUntilDue(b *Builder, weights, sums []*ssa.Value) {
	if sums == nil {
		return
	}
	g := b.Graph
	due := b.Input("whether weights change", ssa.StaticTensor(sums[0].Type.DType))
	t.scalars = append(t.scalars, ndarray.Must(due.Type.DType))
	now := b.Op("Greater", []*ssa.Value{due, b.Number(due, 0)})
	statistics, params := setOf(t.statistics), paramsByName(g)
	for i, s := range t.states {
		if b.hasEnded() {
			return
		}
		if !statistics[s.name] { // every step is one of theirs
			g.Results[1+i] = b.Op("Where", []*ssa.Value{now, g.Results[1+i], params[s.name]})
		}
	}
	for i, sum := range sums {
		t.states = append(t.states, state{"sum of " + weights[i].Name, sum.Type, nil})
		g.Results = append(g.Results, b.Op("Where", []*ssa.Value{now, b.Number(sum, 0), sum}))
	}
}

// clip shortens the derivatives to a common length.
func (t *Trainer) clip(b *Builder, slopes []*ssa.Value) {
	if t.options.ClipNorm <= 0 {
		return
	}
	var sum *ssa.Value
	for _, d := range slopes {
		if b.hasEnded() {
			return
		}
		part := b.Op("ReduceSumSquare", []*ssa.Value{d}, ssa.IntAttr("keepdims", 0))
		if sum == nil {
			sum = part
		} else {
			sum = b.add(sum, part)
		}
	}
	norm := b.add(b.sqrt(sum), b.Number(sum, 1e-6))
	factor := b.Op("Min", []*ssa.Value{b.div(b.Number(sum, t.options.ClipNorm), norm), b.Number(sum, 1)})
	for i, d := range slopes {
		slopes[i] = b.mul(d, factor)
	}
}

// update adds the rate, the optimizer's scalars and the new weights and moments.
func (t *Trainer) update(b *Builder, weights, slopes []*ssa.Value) {
	o, g := t.options.Optimizer, b.Graph
	scalar := ssa.StaticTensor(weights[0].Type.DType)
	rate := b.Input("rate of the step", scalar)
	scalars := []*ssa.Value{rate}
	for i := range o.scalars {
		scalars = append(scalars, b.Input(fmt.Sprintf("scalar %d of the step", i), scalar))
	}
	for range scalars {
		t.scalars = append(t.scalars, ndarray.Must(scalar.DType))
	}
	for i, w := range weights {
		if b.hasEnded() {
			return
		}
		moments := make([]*ssa.Value, o.moments)
		for k := range moments {
			moments[k] = b.Input(fmt.Sprintf("moment %d of %s", k, w.Name), w.Type)
		}
		next, kept := o.update(b, w, slopes[i], moments, rate, scalars[1:])
		t.states = append(t.states, state{w.Name, w.Type, t.constants[w.Name]})
		g.Results = append(g.Results, next)
		for k, v := range kept {
			t.states = append(t.states, state{moments[k].Name, w.Type, nil})
			g.Results = append(g.Results, v)
		}
	}
}
