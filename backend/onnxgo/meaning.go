package onnxgo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What recorded nodes mean depends on the operator sets that the file imports, which a backend is not told. They are found
// out, for the shapes of the inputs at hand:
//
//	versions in which anything changes      1 ────── 7 ── 9 ─── 11 ── 13 ──────▶
//	those that have all the operators                     9 ─── 11 ── 13        introduced, removed
//	with the operands                                           11 ── 13        Op.Oldest
//	in which the import accepts all nodes                       11              attributes, types
//	and the imported graphs are equal, or the meaning is open: a LossError
//
// Graphs are compared after the import, where nodes are in the newest form of their operators: versions that differ in what
// the model does not use give the same graph. If they differ there, they are compared once more when they are optimized.
// Versions below 7, of 2017, only count where no later one fits: their forms have attributes that say so. An operator that
// several domains have is the default one's where that fits: com.microsoft has earlier forms of what became standard.

// reading is what recorded nodes mean, for inputs of given element types and ranks.
type reading struct {
	key        string
	message    *onnxwire.Model
	candidates []candidate
	chosen     map[string]candidate       // by the shapes of inputs
	open       map[candidate]*berth.Model // for all shapes
	fixed      *berth.Model               // for the shapes of fixedKey
	fixedKey   string
}

// keptChoices is how many sets of shapes are remembered.
const keptChoices = 1024

func (g *Graph) newReading(values map[string]*ndarray.Array, wanted []*Node) (*reading, error) {
	m, err := g.message(values, wanted)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range g.made {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	r := &reading{message: m, chosen: map[string]candidate{}, open: map[candidate]*berth.Model{}}
	least := r.oldest()
	for _, c := range candidatesFor(slices.Compact(names)) {
		r.candidates = append(r.candidates, candidate{max(c.opset, least), c.ml, c.foreign})
	}
	r.candidates = slices.Compact(r.candidates)
	return r, nil
}

// modelFor returns the model to run for inputs of given shapes.
func (r *reading) modelFor(values map[string]*ndarray.Array) (*berth.Model, error) {
	key := signature(values, nil, func(a *ndarray.Array) any { return a.Shape })
	c, known := r.chosen[key]
	if !known {
		fixed, err := r.choose(values)
		if err != nil {
			return nil, err
		}
		if len(r.chosen) >= keptChoices {
			clear(r.chosen)
		}
		c = fixed.candidate
		r.chosen[key] = c
	}
	if m := r.open[c]; m != nil {
		return m, nil
	}
	if g, err := r.module(c, nil); err == nil {
		r.open[c] = berth.FromModule(g)
		return r.open[c], nil
	}
	if r.fixedKey != key { // a rule of the import needs to know the shapes
		g, err := r.module(c, values)
		if err != nil {
			return nil, err
		}
		r.fixed, r.fixedKey = berth.FromModule(g), key
	}
	return r.fixed, nil
}

// widespread is the first operator set that files without signs of an older one are taken for.
const widespread = 7

// understood is what the nodes mean to a candidate.
type understood struct {
	candidate
	module *ssa.Module
}

// choose returns the newest candidate that the nodes are valid for. All others that they are valid for mean the same.
func (r *reading) choose(values map[string]*ndarray.Array) (best understood, err error) {
	for i := len(r.candidates) - 1; i >= 0; i-- {
		c := r.candidates[i]
		if best.module != nil && (c.foreign != best.foreign || c.opset < widespread) {
			return best, nil
		}
		m, e := r.module(c, values)
		switch {
		case e != nil && err == nil:
			err = e
		case e != nil:
		case best.module == nil:
			best = understood{c, m}
		default:
			if e := differs(best, understood{c, m}); e != nil {
				return best, e
			}
		}
	}
	if best.module != nil {
		return best, nil
	}
	return best, err
}

// errNoSuch says that the operator sets of a candidate do not have one of the operators, or not with the operands given.
var errNoSuch = errors.New("an operator is in no operator set, or not with these operands")

// module imports the nodes as a candidate has them, with the shapes of values, or for all shapes.
func (r *reading) module(c candidate, values map[string]*ndarray.Array) (*ssa.Module, error) {
	w := *r.message
	graph := *w.Graph
	w.Graph = &graph
	w.OpsetImports = []*onnxwire.OperatorSetID{{Version: int64(c.opset)}, {Domain: "ai.onnx.ml", Version: int64(c.ml)}}
	graph.Nodes = make([]*onnxwire.Node, len(graph.Nodes))
	for i, n := range r.message.Graph.Nodes {
		domain, ok := c.domainOf(n.OpType)
		if !ok || !c.takes(n) {
			return nil, fmt.Errorf("%w: %s", errNoSuch, n.OpType)
		}
		in := *n
		in.Domain = domain
		graph.Nodes[i] = &in
	}
	if values != nil {
		graph.Inputs = fixedInputs(graph.Inputs, values)
	}
	m, err := onnximport.FromModel(&w, "", onnximport.Options{})
	if err != nil {
		return nil, err
	}
	for _, n := range m.Graph.Nodes {
		if n.Opaque {
			return nil, &LossError{Operator: n.Op, Value: nameOf(n), Lost: "the domain of an operator, or the function that defines it, and no domain of the program's operators has this one"}
		}
	}
	return m, nil
}

// fixedInputs declares inputs of the shapes of values.
func fixedInputs(in []*onnxwire.ValueInfo, values map[string]*ndarray.Array) []*onnxwire.ValueInfo {
	out := make([]*onnxwire.ValueInfo, len(in))
	for i, v := range in {
		s := &onnxwire.Shape{}
		for _, d := range values[v.Name].Shape {
			s.Dims = append(s.Dims, &onnxwire.Dim{Kind: onnxwire.DimValue, Value: int64(d)})
		}
		out[i] = &onnxwire.ValueInfo{Name: v.Name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: v.Type.Tensor.ElemType, Shape: s}}}
	}
	return out
}

// differs returns a *LossError that names the first operator that means different things to two candidates.
func differs(a, b understood) error {
	for _, m := range []understood{a, b} {
		for _, n := range m.module.Graph.Nodes {
			plainAxis(n)
		}
	}
	diff := ssa.Compare{}.Diff(a.module.Graph, b.module.Graph)
	if diff == "" || sameOptimized(a.module, b.module) {
		return nil
	}
	e := &LossError{Err: errors.New(diff), Lost: fmt.Sprintf("the version of the operator set: %d and %d are possible and mean different things here", b.opset, a.opset)}
	i := 0
	for i < min(len(a.module.Graph.Nodes), len(b.module.Graph.Nodes))-1 && a.module.Graph.Nodes[i].String() == b.module.Graph.Nodes[i].String() {
		i++
	}
	n := a.module.Graph.Nodes[i]
	e.Operator, e.Value = n.Op, nameOf(n)
	return e
}

// sameOptimized reports that two modules are the same when they are optimized.
func sameOptimized(a, b *ssa.Module) bool {
	x, _, errX := berth.FromModule(a).Optimize(context.Background())
	y, _, errY := berth.FromModule(b).Optimize(context.Background())
	return errX == nil && errY == nil && ssa.Compare{}.Equal(x.Graph(), y.Graph())
}

// plainAxis counts an axis from the front.
func plainAxis(n *ssa.Node) {
	o, t := ops.Of(n), ops.InType(n, 0)
	if o == nil || !t.Ranked {
		return
	}
	if s := o.Attr("axis", 0); s != nil && s.Kind == ssa.AttrInt && (n.Has("axis") || s.Default.Kind == ssa.AttrInt) {
		if axis := ops.Int(n, "axis"); axis < 0 {
			n.SetAttr(ssa.IntAttr("axis", axis+int64(len(t.Shape))))
		} else {
			n.SetAttr(ssa.IntAttr("axis", axis))
		}
	}
}

// oldest returns the oldest operator set that has all operands that operators are given: axes as an operand of Squeeze came
// with version 13, for instance.
func (r *reading) oldest() int {
	w := *r.message
	w.OpsetImports = []*onnxwire.OperatorSetID{{Version: newestOpset}}
	m, err := onnximport.FromModel(&w, "", onnximport.Options{Lenient: true})
	if err != nil {
		return 1
	}
	least := 1
	for _, n := range m.Graph.Nodes {
		if v, err := operandsSince(n); err == nil {
			least = max(least, v)
		}
	}
	return least
}

// operandsSince returns the operator set from which on a valid node may have operands beyond those that it needs; 1 if it
// has none.
func operandsSince(n *ssa.Node) (v int, err error) {
	defer rescue.Into(&err)
	o := ops.Of(n)
	if o == nil || n.Domain != "" || len(n.In) <= o.MinIn || o.MaxIn < 0 || o.CheckAttrs(n) != nil {
		return 1, nil
	}
	if err := ops.Infer(n); err != nil {
		return 1, nil
	}
	plain := &ssa.Node{Op: n.Op, Attrs: n.Attrs, In: n.In[:o.MinIn], Out: n.Out}
	if all := o.Oldest(n); all > o.Oldest(plain) {
		return all, nil
	}
	return 1, nil
}

// nameOf is the name of a node's first result.
func nameOf(n *ssa.Node) string {
	for _, v := range n.Out {
		if v != nil {
			return v.Name
		}
	}
	return ""
}
