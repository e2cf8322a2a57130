package train

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Sequences have no derivatives. Exporters write lists of a program as sequences, which mostly stand for a tensor; such ones become it:
//
//	SequenceAt(SplitToSequence(x), i)                         ─▶  Gather(x, i), a Slice where parts are longer than 1; also in bodies that capture the sequence
//	SequenceLength(SplitToSequence(x))                        ─▶  Shape(x)
//	s = Loop(SequenceEmpty) { SequenceInsert(s, y) }          ─▶  y is stacked by the Loop: a result [iterations, …]
//	ConcatFromSequence(s)                                     ─▶  the stack, transposed to the axis
//	ConcatFromSequence(SequenceConstruct(a, b))               ─▶  Concat(a, b)
//	SequenceAt(SequenceConstruct(a, b), 1)                    ─▶  b
//
// Members of a stack have a shape that is known. Other sequences stay, and the derivative names the first node in the way.

// listed rewrites sequences of a graph and its bodies; the first error of inference ends it.
type listed struct {
	count   int // of new values
	changed bool
	err     error
}

// sequences rewrites a graph whose types are inferred.
func sequences(g *ssa.Graph) error {
	l := &listed{}
	l.graph(g)
	if l.err == nil && l.changed {
		l.err = ops.InferGraph(g)
	}
	return l.err
}

// holdsSequences reports a graph that has some.
func holdsSequences(g *ssa.Graph) (has bool) {
	g.Walk(func(b *ssa.Graph) {
		has = has || slices.ContainsFunc(b.Nodes, func(n *ssa.Node) bool { return slices.ContainsFunc(n.Out, isSequence) })
	})
	return has
}

func isSequence(v *ssa.Value) bool { return v != nil && v.Type.Kind == ssa.KindSequence }

func (l *listed) graph(g *ssa.Graph) {
	for _, n := range slices.Clone(g.Nodes) {
		for _, body := range n.Bodies {
			l.graph(body)
		}
		if n.Domain != "" || l.err != nil {
			continue
		}
		switch n.Op {
		case "SplitToSequence":
			l.split(g, n)
		case "SequenceConstruct":
			l.construct(g, n)
		case "Loop":
			l.appended(g, n)
		}
	}
	for _, n := range g.Nodes {
		trim(n)
	}
	g.RemoveNodes(func(n *ssa.Node) bool {
		isList := n.Domain == "" && (n.Op == "SplitToSequence" || n.Op == "SequenceConstruct" || n.Op == "SequenceEmpty")
		return isList && len(n.Out[0].Uses()) == 0 && !g.IsResult(n.Out[0])
	})
}

// trim drops sequences that the body of a node captures and does not read.
func trim(n *ssa.Node) {
	if len(n.Bodies) != 1 {
		return
	}
	body := n.Bodies[0]
	for i := len(n.In) - 1; i >= len(n.In)-n.Captures; i-- {
		at := len(body.Params) - len(n.In) + i
		if p := body.Params[at]; isSequence(p) && len(p.Uses()) == 0 && !body.IsResult(p) {
			body.Params = slices.Delete(body.Params, at, at+1)
			n.SetInputs(slices.Delete(slices.Clone(n.In), i, i+1))
			n.Captures--
		}
	}
}

// op adds a node ahead of another one.
func (l *listed) op(g *ssa.Graph, mark *ssa.Node, op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	n := g.InsertBefore(mark, op, in, 1, attrs...)
	n.Out[0].Name = l.name(mark.Out[0].Name)
	if err := ops.Infer(n); l.err == nil {
		l.err = err
	}
	return n.Out[0]
}

func (l *listed) ints(g *ssa.Graph, v ...int64) *ssa.Value {
	return g.AddConst(l.name("constant"), ssa.NewConstant(ndarray.Of(v, len(v))))
}

// name is one that no other value has.
func (l *listed) name(of string) string {
	l.count++
	return fmt.Sprintf("%s, in place of a list, %d", of, l.count)
}

// instead lets a value stand for the result of a node, which goes.
func (l *listed) instead(g *ssa.Graph, n *ssa.Node, v *ssa.Value) {
	l.changed = true
	g.ReplaceUses(n.Out[0], v)
	g.ReplaceResult(n.Out[0], v)
	g.RemoveNodes(func(m *ssa.Node) bool { return m == n })
}

// parts is a tensor that is cut along an axis.
type parts struct {
	axis  int64
	drops bool    // the axis, which the parts of length 1 do not have
	sizes []int64 // nil: every part has length 1
}

// split replaces what is read of a tensor that is cut.
func (l *listed) split(g *ssa.Graph, n *ssa.Node) {
	x, p := n.In[0], parts{drops: ops.Int(n, "keepdims") == 0}
	axis, err := ops.NormAxis(ops.Int(n, "axis"), x.Type.Rank())
	if !x.Type.Ranked || err != nil {
		return
	}
	p.axis = int64(axis)
	if cut := n.Input(1); cut != nil {
		sizes, known := ops.ConstInts(n, 1)
		size, static := x.Type.Shape[axis].Const()
		switch {
		case !known:
			return
		case cut.Type.Rank() != 0:
			p.sizes, p.drops = sizes, false
		case sizes[0] != 1:
			if !static || sizes[0] < 1 {
				return
			}
			for left := size; left > 0; left -= sizes[0] {
				p.sizes = append(p.sizes, min(sizes[0], left))
			}
			p.drops = false
		}
	}
	l.read(g, n.Out[0], x, p)
}

// read replaces the readers of a sequence by readers of the tensor whose parts it has, in bodies that capture it as well. Others stay.
func (l *listed) read(g *ssa.Graph, s, x *ssa.Value, p parts) {
	for _, u := range slices.Clone(s.Uses()) {
		n := u.Node
		switch {
		case n.Op == "SequenceLength" && n.Domain == "" && p.sizes == nil:
			length := l.op(g, n, "Shape", []*ssa.Value{x}, ssa.IntAttr("start", p.axis), ssa.IntAttr("end", p.axis+1))
			l.instead(g, n, l.op(g, n, "Squeeze", []*ssa.Value{length, l.ints(g, 0)}))
		case n.Op == "SequenceAt" && n.Domain == "" && u.Index == 0:
			if v := l.part(g, n, x, p); v != nil {
				l.instead(g, n, v)
			}
		case u.Index >= len(n.In)-n.Captures && len(n.Bodies) == 1:
			body := n.Bodies[0]
			inner := body.Params[len(body.Params)-len(n.In)+u.Index]
			t := body.AddParam(l.name(x.Name), x.Type)
			n.AddInput(x)
			n.Captures++
			l.read(body, inner, t, p)
		}
	}
}

// part is the value of a SequenceAt; nil if it is not known which it reads.
func (l *listed) part(g *ssa.Graph, n *ssa.Node, x *ssa.Value, p parts) *ssa.Value {
	if p.sizes == nil {
		v := l.op(g, n, "Gather", []*ssa.Value{x, n.In[1]}, ssa.IntAttr("axis", p.axis))
		if !p.drops {
			v = l.op(g, n, "Unsqueeze", []*ssa.Value{v, l.ints(g, p.axis)})
		}
		return v
	}
	at, ok := member(n, len(p.sizes))
	if !ok {
		return nil
	}
	var from int64
	for _, size := range p.sizes[:at] {
		from += size
	}
	return l.op(g, n, "Slice", []*ssa.Value{x, l.ints(g, from), l.ints(g, from+p.sizes[at]), l.ints(g, p.axis)})
}

// member is the constant position of a SequenceAt among a number of members.
func member(n *ssa.Node, of int) (at int, ok bool) {
	list, known := ops.ConstInts(n, 1)
	if !known || len(list) != 1 {
		return 0, false
	}
	if list[0] < 0 {
		list = []int64{list[0] + int64(of)}
	}
	return int(list[0]), list[0] >= 0 && list[0] < int64(of)
}

// construct replaces what is read of a list of values.
func (l *listed) construct(g *ssa.Graph, n *ssa.Node) {
	for _, u := range slices.Clone(n.Out[0].Uses()) {
		m := u.Node
		switch {
		case m.Domain != "":
		case m.Op == "SequenceAt":
			if at, ok := member(m, len(n.In)); ok {
				l.instead(g, m, n.In[at])
			}
		case m.Op == "ConcatFromSequence":
			members, axis := slices.Clone(n.In), ops.Int(m, "axis")
			if ops.Int(m, "new_axis") != 0 {
				for i, v := range members {
					members[i] = l.op(g, m, "Unsqueeze", []*ssa.Value{v, l.ints(g, axis)})
				}
			}
			l.instead(g, m, l.op(g, m, "Concat", members, ssa.IntAttr("axis", axis)))
		}
	}
}

// appended lets a Loop stack what it appends to lists that begin empty and are joined behind it.
func (l *listed) appended(g *ssa.Graph, n *ssa.Node) {
	s, err := ops.LoopOf(n)
	if err != nil {
		return
	}
	for k := s.Carried - 1; k >= 0; k-- {
		insert := appends(n, s, k)
		if insert == nil || !isJoined(g, n.Output(k)) {
			continue
		}
		l.stack(g, n, s, k, insert)
		return
	}
}

// appends is the node that appends to carried value k in each iteration, if nothing else reads it and members are of one shape.
func appends(n *ssa.Node, s ops.LoopShape, k int) *ssa.Node {
	first, inside, next := n.In[2+k], s.Body.Params[2+k], s.Body.Results[1+k]
	if first == nil || first.Def == nil || first.Def.Op != "SequenceEmpty" || next.Def == nil || next.Def.Op != "SequenceInsert" || next.Def.Domain != "" {
		return nil
	}
	insert, results := next.Def, 0
	for _, r := range s.Body.Results {
		if r == next || r == inside {
			results++
		}
	}
	if len(inside.Uses()) != 1 || insert.In[0] != inside || insert.Input(2) != nil || len(next.Uses()) != 0 || results != 1 {
		return nil
	}
	if shape, ok := insert.In[1].Type.Static(); !ok || ndarray.Product(shape) == 0 {
		return nil
	}
	return insert
}

// isJoined reports a list of which nothing but the length and the joined members is read.
func isJoined(g *ssa.Graph, v *ssa.Value) bool {
	other := func(u ssa.Use) bool {
		return u.Node.Domain != "" || u.Node.Op != "ConcatFromSequence" && u.Node.Op != "SequenceLength"
	}
	return v != nil && !g.IsResult(v) && !slices.ContainsFunc(v.Uses(), other)
}

// stack makes a Loop without carried value k, and with one more stacked result; other lists of it come next.
func (l *listed) stack(g *ssa.Graph, n *ssa.Node, s ops.LoopShape, k int, insert *ssa.Node) {
	member, body := insert.In[1], s.Body
	body.Params = slices.Delete(body.Params, 2+k, 3+k)
	body.Results = append(slices.Delete(slices.Clone(body.Results), 1+k, 2+k), member)
	body.RemoveNodes(func(m *ssa.Node) bool { return m == insert })
	m := g.InsertBefore(n, "Loop", slices.Delete(slices.Clone(n.In), 2+k, 3+k), 0, n.Attrs...)
	m.Captures, m.Version, m.Sources, m.Name = n.Captures, n.Version, n.Sources, n.Name
	m.AddBody("body", body)
	for i, v := range n.Out {
		switch {
		case i == k:
		case v == nil:
			g.AddOutput(m, "")
		default:
			w := g.AddOutput(m, v.Name)
			w.Type = v.Type
			g.ReplaceUses(v, w)
			g.ReplaceResult(v, w)
		}
	}
	stack := g.AddOutput(m, n.Out[k].Name)
	if err := ops.Infer(m); err != nil {
		l.err = err
		return
	}
	for _, u := range slices.Clone(n.Out[k].Uses()) {
		if u.Node.Op == "SequenceLength" {
			length := l.op(g, u.Node, "Shape", []*ssa.Value{stack}, ssa.IntAttr("start", 0), ssa.IntAttr("end", 1))
			l.instead(g, u.Node, l.op(g, u.Node, "Squeeze", []*ssa.Value{length, l.ints(g, 0)}))
			continue
		}
		l.instead(g, u.Node, l.join(g, u.Node, stack, member.Type))
	}
	g.RemoveNodes(func(x *ssa.Node) bool { return x == n })
	l.changed = true
	l.appended(g, m)
}

// join is what a ConcatFromSequence makes of stacked members: iterations come to the axis, and are one dimension with the members' own there.
func (l *listed) join(g *ssa.Graph, n *ssa.Node, stack *ssa.Value, member ssa.Type) *ssa.Value {
	shape, _ := member.Static()
	isNew := ops.Int(n, "new_axis") != 0
	rank := len(shape)
	if isNew {
		rank++
	}
	axis, err := ops.NormAxis(ops.Int(n, "axis"), rank)
	if err != nil {
		l.err = err
		return stack
	}
	var perm, dims []int64
	for i := range len(shape) {
		perm = append(perm, int64(i+1))
		dims = append(dims, int64(shape[i]))
	}
	v := stack
	if axis > 0 {
		v = l.op(g, n, "Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", slices.Insert(perm, axis, 0)...))
	}
	if isNew {
		return v
	}
	dims[axis] = -1
	return l.op(g, n, "Reshape", []*ssa.Value{v, l.ints(g, dims...)})
}
