package selection

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Selections in bodies. A node in a branch selects once or never, one in a loop any number of times, each time values of another shape perhaps. So the values are kept in a
// sequence, which goes through every node around the selection: a Loop carries it, a branch that does not select hands it on.
//
//	SequenceEmpty ──▶ Loop ─────────────────────────────────▶ output: all values, in the order in which they were made
//	                   └─ body: seq ──▶ If ──────────▶ seq'
//	                                    ├─ then: seq ──▶ SequenceInsert(seq, value)
//	                                    └─ else: seq
//
// Given selections are read in the same order: the input is the sequence, and a number goes the same way that says which value is next. A graph that selects more often
// than the other one reads past the end, and its run fails.

// link is a node and the place of one of its bodies.
type link struct {
	node *ssa.Node
	body int
}

// places are the selections of a graph and its bodies.
type places struct {
	inOrder []namedValue
	twice   map[string]bool // names that several values have
}

func placesIn(g *ssa.Graph) *places {
	p := &places{twice: map[string]bool{}}
	p.graph(g, nil, map[string]bool{})
	return p
}

func (p *places) graph(g *ssa.Graph, chain []link, seen map[string]bool) {
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				p.twice[v.Name] = seen[v.Name]
				seen[v.Name] = true
			}
		}
		if v := selected(n); v != nil {
			p.inOrder = append(p.inOrder, namedValue{v.Name, v, chain})
		}
		if n.Domain != "" || n.Op != "If" && n.Op != "Loop" {
			continue
		}
		for i, b := range n.Bodies {
			p.graph(b, append(slices.Clone(chain), link{n, i}), seen)
		}
	}
}

// of is the only selection of a name, nil if there is none.
func (p *places) of(name string) *namedValue {
	i := slices.IndexFunc(p.inOrder, func(v namedValue) bool { return v.name == name })
	if i < 0 || p.twice[name] {
		return nil
	}
	return &p.inOrder[i]
}

// Taped reports a selection in a body: what it selects, and its operands, are sequences.
func (p *Plan) Taped(name string) bool { return p.taped[name] }

// LeaveBodies leaves selections in bodies as they are.
func (p *Plan) LeaveBodies() {
	p.All = slices.DeleteFunc(p.All, p.Taped)
	p.Both = slices.DeleteFunc(p.Both, p.Taped)
}

// giveTape replaces what a node in a body selects by the values of an input, one after the other.
func (p *Plan) giveTape(g *ssa.Graph, s namedValue) error {
	values := g.AddParam(p.Given(s.name), ssa.SequenceOf(s.value.Type))
	for _, l := range s.chain {
		values = captured(l, values)
	}
	first := g.AddConst(p.Given(s.name)+", first", ssa.NewConstant(ndarray.Of([]int64{0})))
	_, err := carry(g, s.chain, first, func(b *ssa.Graph, next *ssa.Value) (*ssa.Value, error) {
		at := b.NewNode("SequenceAt", []*ssa.Value{values, next}, 1)
		at.Out[0].Type = s.value.Type
		b.ReplaceUses(s.value, at.Out[0])
		one := b.AddConst(p.Given(s.name)+", one", ssa.NewConstant(ndarray.Of([]int64{1})))
		sum := b.NewNode("Add", []*ssa.Value{next, one}, 1)
		return sum.Out[0], ops.Infer(sum)
	})
	return err
}

// tape is the sequence of all values that v of the innermost body has in a run.
func tape(g *ssa.Graph, chain []link, v *ssa.Value, name string) (*ssa.Value, error) {
	if v.Type.Kind != ssa.KindTensor {
		return nil, fmt.Errorf("%q is no tensor", v.Name)
	}
	empty := g.NewNode("SequenceEmpty", nil, 1, ssa.IntAttr("dtype", int64(v.Type.DType)))
	if err := ops.Infer(empty); err != nil {
		return nil, err
	}
	all, err := carry(g, chain, empty.Out[0], func(b *ssa.Graph, values *ssa.Value) (*ssa.Value, error) {
		insert := b.NewNode("SequenceInsert", []*ssa.Value{values, v}, 1)
		return insert.Out[0], ops.Infer(insert)
	})
	if err != nil {
		return nil, err
	}
	return identity(g, all, name)
}

// captured makes a value of the graph around a node readable in one of its bodies.
func captured(l link, v *ssa.Value) (inside *ssa.Value) {
	l.node.AddInput(v)
	l.node.Captures++
	for i, b := range l.node.Bodies {
		if p := b.AddParam(fmt.Sprintf("%s in %d", v.Name, i), v.Type); i == l.body {
			inside = p
		}
	}
	return inside
}

// carry takes a value into the body of the last of a chain of nodes, where step makes another of it each time the body runs, and returns the last one.
func carry(g *ssa.Graph, chain []link, v *ssa.Value, step func(b *ssa.Graph, v *ssa.Value) (*ssa.Value, error)) (*ssa.Value, error) {
	if len(chain) == 0 {
		next, err := step(g, v)
		if err != nil {
			return nil, err
		}
		return next, g.Sort()
	}
	n := chain[0].node
	through := carryBranches
	if n.Op == "Loop" {
		through = carryLoop
	}
	out, err := through(g, n, v, func(i int, b *ssa.Graph, v *ssa.Value) (*ssa.Value, error) {
		if i != chain[0].body {
			return v, nil
		}
		return carry(b, chain[1:], v, step)
	})
	if err != nil {
		return nil, err
	}
	return out, cmp.Or(ops.Infer(n), g.Sort())
}

// carryBranches makes a value a result of an If.
func carryBranches(g *ssa.Graph, n *ssa.Node, v *ssa.Value, inside func(i int, b *ssa.Graph, v *ssa.Value) (*ssa.Value, error)) (*ssa.Value, error) {
	n.AddInput(v)
	n.Captures++
	for i, b := range n.Bodies {
		r, err := inside(i, b, b.AddParam(fmt.Sprintf("%s in %d", v.Name, i), v.Type))
		if err != nil {
			return nil, err
		}
		b.Results = append(b.Results, r)
	}
	return g.AddOutput(n, v.Name+" behind"), nil
}

// carryLoop makes a value the last one that a Loop carries.
func carryLoop(g *ssa.Graph, n *ssa.Node, v *ssa.Value, inside func(i int, b *ssa.Graph, v *ssa.Value) (*ssa.Value, error)) (*ssa.Value, error) {
	s, err := ops.LoopOf(n)
	if err != nil {
		return nil, err
	}
	b := s.Body
	n.SetInputs(slices.Insert(slices.Clone(n.In), 2+s.Carried, v))
	p := b.AddParam(v.Name+" in", v.Type)
	b.Params = slices.Insert(b.Params[:len(b.Params)-1], 2+s.Carried, p)
	r, err := inside(0, b, p)
	if err != nil {
		return nil, err
	}
	b.Results = slices.Insert(b.Results, 1+s.Carried, r)
	for len(n.Out) < s.Carried {
		g.AddOutput(n, "")
	}
	out := g.AddOutput(n, v.Name+" behind")
	n.Out = slices.Insert(n.Out[:len(n.Out)-1], s.Carried, out)
	for i, o := range n.Out {
		if o != nil {
			o.DefIndex = i
		}
	}
	return out, nil
}

// AloneIn leaves of the original nothing but the node of a selection in a body, as Alone does.
func (p *Plan) AloneIn(g *ssa.Graph, name string) error {
	all, err := values(g, []string{name})
	if err != nil {
		return err
	}
	old := all[0].value.Def
	var in []*ssa.Value
	for i, x := range old.In {
		switch {
		case x == nil:
			in = append(in, nil)
		case x.Const != nil:
			in = append(in, g.AddConst(p.Operand(name, i), x.Const))
		default:
			in = append(in, g.AddParam(p.Operand(name, i), x.Type))
		}
	}
	n := g.NewNode(old.Op, in, len(old.Out), old.Attrs...)
	if err := ops.Infer(n); err != nil {
		return err
	}
	out, err := identity(g, n.Out[all[0].value.DefIndex], p.Own(name))
	if err != nil {
		return err
	}
	g.Results = []*ssa.Value{out}
	g.RemoveNodes(func(m *ssa.Node) bool { return m != n && m != out.Def })
	g.Params = slices.DeleteFunc(g.Params, func(v *ssa.Value) bool { return !slices.Contains(in, v) })
	return nil
}
