package batch

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The nodes in parts are written level by level, and of a level part by part. A node is in the level behind that of the last sum that it reads, since
// a sum is complete behind the last part of its level:
//
//	level 0   part 0: f g Σ    part 1: f g Σ +
//	level 1   part 0: h Σ'     part 1: h Σ' +
//
// What a later level reads of an earlier one is kept for all parts, or computed again where that is cheap and saves bytes (repeat.go).
//
// Whole nodes come where they were, beside the last part of their level, or, if they read no part, ahead of their first reader.

// writer writes the graph anew.
type writer struct {
	*analysis
	levels map[*ssa.Value]int
	nodes  map[*ssa.Node]int
	scopes []*scope
	sums   map[*ssa.Value]*ssa.Value // so far
	joined map[*ssa.Value]*ssa.Value
	placed map[*ssa.Node]bool
	repeat map[*ssa.Node]bool // in each level that reads a result
	old    []*ssa.Node
}

// scope holds the values of a part, in a graph.
type scope struct {
	*analysis
	into   *ssa.Graph
	part   int
	values map[*ssa.Value]*ssa.Value
	cuts   map[cutOf]*ssa.Value
	count  int
	again  func(v *ssa.Value) error // computes what a level computes again; nil: nothing
}

// cutOf is a whole value and the form in which a part reads it.
type cutOf struct {
	v *ssa.Value
	f form
}

func newScope(a *analysis, into *ssa.Graph, part int) *scope {
	return &scope{analysis: a, into: into, part: part, values: map[*ssa.Value]*ssa.Value{}, cuts: map[cutOf]*ssa.Value{}}
}

func newWriter(a *analysis) *writer {
	w := &writer{analysis: a, levels: map[*ssa.Value]int{}, nodes: map[*ssa.Node]int{}, sums: map[*ssa.Value]*ssa.Value{},
		joined: map[*ssa.Value]*ssa.Value{}, placed: map[*ssa.Node]bool{}, old: a.graph.Nodes}
	for part := range a.parts {
		w.scopes = append(w.scopes, newScope(a, a.graph, part))
	}
	w.setLevels()
	w.setRepeats()
	return w
}

// setLevels finds the level of each node; -1 for whole nodes that read no part.
func (w *writer) setLevels() {
	for _, n := range w.old {
		level, inParts := -1, w.recipes[n] != nil
		if inParts {
			level = 0
		}
		for _, v := range n.In {
			if v == nil {
				continue
			}
			of, ok := w.levels[v]
			switch {
			case !ok: // constants, parameters
			case inParts && w.forms[v].kind == whole:
				level = max(level, of+1)
			default:
				level = max(level, of)
			}
		}
		w.nodes[n] = level
		for _, v := range n.Out {
			if v != nil {
				w.levels[v] = level
			}
		}
	}
}

// main writes all nodes.
func (w *writer) main(ctx context.Context) error {
	g, last := w.graph, -1
	g.Nodes = nil
	for _, level := range w.nodes {
		last = max(last, level)
	}
	for level := range last + 1 {
		for part := range w.parts {
			w.scopes[part].again = w.repeating(level, part)
			for _, n := range w.old {
				if w.nodes[n] != level {
					continue
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				var err error
				switch {
				case w.recipes[n] != nil:
					err = w.inPart(n, part)
				case part == w.parts-1:
					err = w.place(n)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	for _, n := range w.old {
		if w.recipes[n] == nil {
			if err := w.place(n); err != nil {
				return err
			}
		}
	}
	for i, v := range g.Results {
		if f := w.forms[v]; f.kind != whole {
			g.Results[i] = w.join(v)
			g.ReplaceResult(v, g.Results[i])
		}
	}
	g.Nodes = append(g.Nodes, slices.DeleteFunc(slices.Clone(w.old), func(n *ssa.Node) bool { return w.recipes[n] == nil })...)
	g.RemoveNodes(func(n *ssa.Node) bool { return w.recipes[n] != nil })
	return nil
}

// place puts a whole node behind what it reads.
func (w *writer) place(n *ssa.Node) error {
	if w.placed[n] {
		return nil
	}
	w.placed[n] = true
	for i, v := range n.In {
		if v == nil {
			continue
		}
		if w.forms[v].kind != whole {
			n.SetInput(i, w.join(v))
		} else if err := w.ready(v); err != nil {
			return err
		}
	}
	w.graph.Nodes = append(w.graph.Nodes, n)
	return nil
}

// ready places the node that makes a whole value, if it is of the graph as it was.
func (w *writer) ready(v *ssa.Value) error {
	if v.Def == nil {
		return nil
	}
	if _, was := w.nodes[v.Def]; was && w.recipes[v.Def] == nil {
		return w.place(v.Def)
	}
	return nil
}

// join makes a value of its parts.
func (w *writer) join(v *ssa.Value) *ssa.Value {
	f := w.forms[v]
	if f.kind == same {
		return w.scopes[0].values[v]
	}
	if v.Def == nil {
		return v // a parameter is whole as it is
	}
	if w.joined[v] == nil {
		in := make([]*ssa.Value, w.parts)
		for part, s := range w.scopes {
			in[part] = s.values[v]
		}
		n := w.graph.NewNode("Concat", in, 1, ssa.IntAttr("axis", int64(f.axis)))
		n.Out[0].Name, n.Out[0].Type = v.Name+" joined", v.Type
		w.joined[v] = n.Out[0]
	}
	return w.joined[v]
}

// inPart writes a node for a part, and adds up sums.
func (w *writer) inPart(n *ssa.Node, part int) error {
	r, s := w.recipes[n], w.scopes[part]
	for _, v := range n.In {
		if v != nil && w.forms[v].kind == whole {
			if err := w.ready(v); err != nil {
				return err
			}
		}
	}
	onto := map[int]*ssa.Value{}
	for i, at := range r.onto {
		if part > 0 && n.Output(i) != nil {
			onto[at] = w.sums[n.Out[i]]
		}
	}
	m, err := s.copy(n, r, onto)
	if err != nil {
		return err
	}
	for i, v := range n.Out {
		if v == nil || r.out[i].kind != sum {
			continue
		}
		total, wide := m.Out[i], r.mean && v.Type.DType.IsHalf() // which the sum of the parts' means may be beyond
		if wide {
			if total, err = s.cast(v, total, ndarray.Float32); err != nil {
				return err
			}
		}
		if _, goesOn := r.onto[i]; part > 0 && !goesOn {
			if total, err = s.op("Add", v, w.sums[v], total); err != nil {
				return err
			}
		}
		if w.sums[v] = total; part < w.parts-1 {
			continue
		}
		if r.mean {
			share := ndarray.Must(total.Type.DType)
			share.SetFloat(0, 1/float64(w.parts))
			if total, err = s.op("Mul", v, total, s.constant(v.Name+" share", ssa.NewConstant(share))); err != nil {
				return err
			}
		}
		if wide {
			if total, err = s.cast(v, total, v.Type.DType); err != nil {
				return err
			}
		}
		w.graph.ReplaceUses(v, total)
		w.graph.ReplaceResult(v, total)
	}
	return nil
}

// cast adds a conversion.
func (s *scope) cast(like, v *ssa.Value, to ndarray.DType) (*ssa.Value, error) {
	n := s.into.NewNode("Cast", []*ssa.Value{v}, 1, ssa.IntAttr("to", int64(to)))
	n.Out[0].Name = s.name(like.Name + " Cast")
	return n.Out[0], ops.Infer(n)
}

// op adds an elementwise node.
func (s *scope) op(op string, like *ssa.Value, in ...*ssa.Value) (*ssa.Value, error) {
	n := s.into.NewNode(op, in, 1)
	n.Out[0].Name = s.name(like.Name + " " + op)
	return n.Out[0], ops.Infer(n)
}

// name makes a name that is no other value's.
func (s *scope) name(of string) string {
	s.count++
	return fmt.Sprintf("%s, part %d.%d", of, s.part, s.count)
}

func (s *scope) constant(name string, c *ssa.Constant) *ssa.Value {
	return s.into.AddConst(s.name(name), c)
}

// copy writes a node for the part. Operands in onto are sums that go on.
func (s *scope) copy(n *ssa.Node, r *recipe, onto map[int]*ssa.Value) (*ssa.Node, error) {
	in := make([]*ssa.Value, len(n.In))
	for i, v := range n.In {
		if onto[i] != nil {
			continue
		}
		var err error
		if in[i], err = s.operand(v, r, i); err != nil {
			return nil, err
		}
	}
	attrs := slices.Clone(n.Attrs)
	for i, v := range onto {
		for len(in) <= i {
			in = append(in, nil)
		}
		in[i] = v
	}
	if len(onto) > 0 && (n.Op == "Gemm" || n.Op == "Accumulate") {
		attrs = append(slices.DeleteFunc(attrs, func(a ssa.Attr) bool { return a.Name == "beta" }), ssa.FloatAttr("beta", 1))
	}
	if r != nil && r.first != nil {
		attrs = append(attrs, r.first(s.part))
	}
	m := s.into.NewNode(n.Op, in, 0, attrs...)
	m.Domain, m.Captures, m.Version, m.Sources = n.Domain, n.Captures, n.Version, n.Sources
	for i, b := range n.Bodies {
		body, _ := b.Clone()
		if r != nil && r.body != nil {
			var err error
			if body, err = s.body(b, r.body); err != nil {
				return nil, err
			}
		}
		m.AddBody(n.BodyAttr[i], body)
	}
	for _, v := range n.Out {
		if v == nil {
			s.into.AddOutput(m, "")
			continue
		}
		s.values[v] = s.into.AddOutput(m, s.name(v.Name))
	}
	if err := ops.Infer(m); err != nil {
		return nil, err
	}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		want := ssa.StaticTensor(v.Type.DType, s.analysis.part(v, r.form(i))...)
		if isUnknown(v) {
			want = v.Type
		}
		if !m.Out[i].Type.Equal(want) {
			return nil, fmt.Errorf("%w: %s gives %s for a part of %s, not %s", ErrWhole, n, m.Out[i].Type, v.Type, want)
		}
	}
	return m, nil
}

// form is that of result i; a node without a recipe has whole ones.
func (r *recipe) form(i int) form {
	if r == nil {
		return form{}
	}
	return r.out[i]
}

// operand is what a part reads.
func (s *scope) operand(v *ssa.Value, r *recipe, i int) (*ssa.Value, error) {
	if v == nil {
		return nil, nil
	}
	if r != nil {
		if list, ok := r.ints[i]; ok {
			return s.constant(v.Name, ints(list...)), nil
		}
		if f, ok := r.cut[i]; ok {
			return s.cut(v, f)
		}
	}
	return s.read(v)
}

// read is a value as it is in the part.
func (s *scope) read(v *ssa.Value) (*ssa.Value, error) {
	if s.again != nil {
		if err := s.again(v); err != nil {
			return nil, err
		}
	}
	if w := s.values[v]; w != nil {
		return w, nil
	}
	switch f := s.forms[v]; {
	case f.isSplit():
		return s.cut(v, f)
	case v.Const != nil && s.inBody:
		s.values[v] = s.into.AddConst(v.Name, v.Const)
		return s.values[v], nil
	}
	return v, nil
}

// cut is the part of a whole value.
func (s *scope) cut(v *ssa.Value, f form) (*ssa.Value, error) {
	key := cutOf{v, f}
	if s.cuts[key] != nil {
		return s.cuts[key], nil
	}
	shape, _ := v.Type.Static()
	size := shape[f.axis] / f.outer / s.parts
	switch {
	case v.Const != nil:
		c, err := s.cutConstant(v.Const, f)
		if err != nil {
			return nil, err
		}
		s.cuts[key] = s.constant(v.Name, c)
	case f.outer != 1:
		return nil, ErrWhole
	default:
		of := v
		if s.values[v] != nil {
			of = s.values[v]
		}
		from := int64(s.part * size)
		n := s.into.NewNode("Slice", []*ssa.Value{of, s.constant("from", ints(from)), s.constant("to", ints(from+int64(size))), s.constant("axis", ints(int64(f.axis)))}, 1)
		n.Out[0].Name = s.name(v.Name)
		if err := ops.Infer(n); err != nil {
			return nil, err
		}
		s.cuts[key] = n.Out[0]
	}
	return s.cuts[key], nil
}

// cutConstant takes the elements of a part.
func (s *scope) cutConstant(c *ssa.Constant, f form) (*ssa.Constant, error) {
	shape := slices.Clone(c.Shape())
	before, size := ndarray.Product(shape[:f.axis])*f.outer, ndarray.Product(shape[f.axis:])/f.outer/s.parts
	shape[f.axis] /= s.parts
	if e, ok := c.Splat(); ok {
		return ssa.NewSplat(e, shape...), nil
	}
	a, err := c.Array()
	if err != nil {
		return nil, err
	}
	out, err := ndarray.New(a.DType, shape...)
	if err != nil || a.DType == ndarray.String {
		return nil, ErrWhole
	}
	size *= a.DType.Size()
	for i := range before {
		copy(out.Data[i*size:][:size], a.Data[(i*s.parts+s.part)*size:])
	}
	return ssa.NewConstant(out), nil
}

// body writes the body of a loop for the part.
func (s *scope) body(b *ssa.Graph, r *bodyRecipe) (*ssa.Graph, error) {
	g := ssa.NewGraph(b.Name)
	in := newScope(r.analysis, g, s.part)
	for i, p := range b.Params {
		t := p.Type
		if f := r.params[i]; f.isSplit() {
			t = ssa.StaticTensor(t.DType, r.analysis.part(p, f)...)
		}
		in.values[p] = g.AddParam(p.Name, t)
	}
	for _, n := range b.Nodes {
		if _, err := in.copy(n, r.analysis.recipes[n], nil); err != nil {
			return nil, err
		}
	}
	for i, v := range b.Results {
		var w *ssa.Value
		var err error
		if f := r.results[i]; f.isSplit() && r.analysis.forms[v].kind == whole {
			w, err = in.cut(v, f)
		} else {
			w, err = in.read(v)
		}
		if err != nil {
			return nil, err
		}
		g.Results = append(g.Results, w)
	}
	return g, nil
}
