package onnxgo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// snapshot is what a run read.
type snapshot struct {
	values map[string]*ndarray.Array
}

// Run computes the results of the model from its inputs. The first run, and the first for new shapes, compiles. Errors are
// a [*LossError], a [*GraphError], a [*berth.ImportError] where the nodes are no valid model, or those of
// [berth.Model.RunValues], [berth.ErrClosed] after Close: a [*berth.InputError] for an input that is missing or does not fit, a [*berth.NodeError] for an
// operator that fails. There are no results after an error: [Node.GetTensor], and with it onnx-go's GetOutputTensors, which has
// no error for that, gives nil for them.
func (g *Graph) Run() error { return g.RunContext(context.Background()) }

// RunContext is Run, which ends early if the context does.
func (g *Graph) RunContext(ctx context.Context) (err error) {
	defer rescue.Into(&err)
	if g == nil {
		return errUnmade
	}
	defer g.lock()()
	g.failed, g.latest = true, nil
	for n := range g.added() {
		n.result = nil
	}
	if g.err != nil {
		return g.err
	}
	switch {
	case len(g.nodes) == 0:
		return &GraphError{Reason: "the graph has no model; decode one by UnmarshalBinary of an onnx.Model over it, or by its Parse or Open"}
	case len(g.made) == 0 || g.pending != nil:
		return &GraphError{Reason: "onnx-go's UnmarshalBinary has not decoded the model to its end: it failed or panicked, or the model has no operator; decode the file with Parse or Open of a new graph"}
	}
	g.roles()
	values, err := g.values()
	if err != nil {
		return err
	}
	if err := g.compute(ctx, values, g.wanted()); err != nil {
		if ctx == nil || ctx.Err() == nil {
			err = g.explained(err, values)
		}
		return err
	}
	g.keep(values)
	g.failed = false
	return nil
}

// explained returns the error of a run: where an input has another type than the model declares, that is the reason. Such
// inputs are not refused before, since cases of onnx-go's own suite have them, and pass.
func (g *Graph) explained(err error, values map[string]*ndarray.Array) error {
	names := g.portNames()
	for n := range g.added() {
		a, given := values[names[n]]
		if o := n.declared(); given && g.whole == nil && n.role == input && o != nil && !o.has(a.DType) {
			return &berth.InputError{Name: n.name, Want: fmt.Sprintf("a tensor of %s", o.dtype), Got: fmt.Sprintf("%s: %v", a, err)}
		}
	}
	return err
}

// values views the inputs by the names that they have in the model.
func (g *Graph) values() (map[string]*ndarray.Array, error) {
	names := g.portNames()
	out := map[string]*ndarray.Array{}
	for n := range g.added() {
		if n.same != n || n.role != input || !n.used || n.isAbsent() || g.whole != nil && !g.whole.has(n.name) {
			continue
		}
		t := g.valueOf(n)
		if t == nil {
			if g.isInput(n) && !g.isOptional(n) {
				return nil, &berth.InputError{Name: n.name, Want: "a tensor", Got: "none: SetInput, or SetTensor of its node, sets one"}
			}
			continue
		}
		a, err := arrayOf(t)
		if err != nil {
			if wrong := (*gorgonia.DenseError)(nil); errors.As(err, &wrong) {
				return nil, &berth.InputError{Name: n.name, Want: "a tensor", Got: err.Error()}
			}
			return nil, fmt.Errorf("input %q: %w", n.name, err)
		}
		out[names[n]] = a
	}
	return out, nil
}

// portNames gives inputs and results the names that they have in the model that runs.
func (g *Graph) portNames() map[*Node]string {
	if g.whole == nil {
		return g.wireNames()
	}
	names := map[*Node]string{}
	for n := range g.added() {
		names[n] = n.name
	}
	return names
}

// compute runs the model and keeps the results that are wanted.
func (g *Graph) compute(ctx context.Context, values map[string]*ndarray.Array, wanted []*Node) error {
	m, err := g.modelFor(values, wanted)
	if err != nil {
		return err
	}
	in := make(map[string]ndarray.Value, len(values))
	for name, a := range values {
		in[name] = a
	}
	out, err := m.RunValues(ctx, in, g.opts...)
	if err != nil {
		return err
	}
	names, results := g.portNames(), make([]tensor.Tensor, len(wanted))
	for i, n := range wanted {
		if results[i], err = denseOf(out[names[n]]); err != nil {
			return &GraphError{n.name, fmt.Sprintf("the result can not be fetched: %v", err)}
		}
	}
	for i, n := range wanted {
		n.result = results[i]
	}
	g.running = m
	return nil
}

// modelFor returns the model to run.
func (g *Graph) modelFor(values map[string]*ndarray.Array, wanted []*Node) (*berth.Model, error) {
	if g.whole != nil {
		return g.whole.model, nil
	}
	if key := signature(values, wanted, func(a *ndarray.Array) any { return len(a.Shape) }); g.read == nil || g.read.key != key {
		r, err := g.newReading(values, wanted)
		if err != nil {
			return nil, err
		}
		r.key = key
		g.read = r
	}
	return g.read.modelFor(values)
}

// signature tells inputs and results from others: names, element types, and what of says of shapes.
func signature(values map[string]*ndarray.Array, wanted []*Node, of func(*ndarray.Array) any) string {
	var parts []string
	for name, a := range values {
		parts = append(parts, fmt.Sprintf("%q %v %v", name, a.DType, of(a)))
	}
	slices.Sort(parts)
	for _, n := range wanted {
		parts = append(parts, fmt.Sprint(n.id))
	}
	return strings.Join(parts, ", ")
}

// wanted lists what a run computes, by number. onnx-go does not say which declared values are the model's results: those that
// no operator reads are, and others that were asked for in an earlier run.
func (g *Graph) wanted() []*Node {
	if g.whole != nil {
		return slices.DeleteFunc(slices.Clone(g.made[0].out), (*Node).isAbsent)
	}
	var out []*Node
	for n := range g.added() {
		if n.maker != nil && !n.isAbsent() && (!n.used && n.id <= g.lastOutput || g.asked[n]) {
			out = append(out, n)
		}
	}
	return out
}

// isCandidate reports that a value may be a result of the model though an operator reads it: it is declared.
func (n *Node) isCandidate() bool {
	return n.maker != nil && n.used && n.id <= n.g.lastOutput && !n.isAbsent()
}

// keep keeps the inputs of a run for results that are asked for later; copies, until it is known which these are.
func (g *Graph) keep(values map[string]*ndarray.Array) {
	g.latest = &snapshot{values}
	if g.whole != nil || len(g.asked) > 0 {
		return
	}
	for n := range g.added() {
		if n.isCandidate() {
			g.latest.values = map[string]*ndarray.Array{}
			for name, a := range values {
				g.latest.values[name] = a.Clone()
			}
			return
		}
	}
}

// fetch returns a result of the last run. The first time that a program asks for a result that an operator reads, it is
// computed by another run with the same inputs, together with those declared after it: onnx-go declares results last and
// fetches them in order. From then on runs compute them with the others.
func (g *Graph) fetch(n *Node) tensor.Tensor {
	if n.result != nil || g.latest == nil || g.whole != nil || !n.isCandidate() || g.asked[n] {
		return n.result
	}
	if g.asked == nil {
		g.asked = map[*Node]bool{}
	}
	for m := range g.added() {
		if m.id >= n.id && m.isCandidate() {
			g.asked[m] = true
		}
	}
	if err := g.compute(context.Background(), g.latest.values, g.wanted()); err != nil {
		g.failed = true
		g.fail(err)
	}
	return n.result
}

// Model returns the model of the last run, for its counts ([berth.Model.Stats]) and plans; nil before.
func (g *Graph) Model() *berth.Model {
	if g == nil {
		return nil
	}
	defer g.guard()()
	return g.running
}
