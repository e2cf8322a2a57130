package fuse

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// group is a region of nodes that becomes one node.
type group struct {
	members []*member
	shape   []ssa.Dim
	inner   int
	reads   []*ssa.Value // what operandsOf says of its members in the graph that it was found in
}

// Limits of a group: what it reads and computes at a time should stay in the first caches.
const (
	maxMembers  = 32
	maxOperands = 12
	maxResults  = 4
)

// finder looks for the groups of one graph.
type finder struct {
	g   *ssa.Graph
	pos []int    // by number of a node
	of  []*group // by number of a node; nil for none
}

// groupsOf returns the groups of a graph that are worth it, in the order of their last members. Its error is the context's.
func groupsOf(ctx context.Context, g *ssa.Graph, o *Options) ([]*group, error) {
	f := &finder{g: g, pos: make([]int, g.NumNodeIDs()), of: make([]*group, g.NumNodeIDs())}
	for i, n := range g.Nodes {
		f.pos[n.ID] = i
	}
	for _, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if m := memberOf(n); m != nil && (o.Takes == nil || o.Takes(n)) {
			f.place(m)
		}
	}
	var out []*group
	for _, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := f.of[n.ID]
		if x != nil && x.members[len(x.members)-1].node == n && x.isLarge(o) && x.isWhole() && x.gain(g, o) > 0 {
			out = append(out, x)
		}
	}
	return out, nil
}

// place lets a node join the groups of its operands, or begin one.
func (f *finder) place(m *member) {
	for _, v := range m.node.In {
		if v == nil || v.Def == nil || f.of[v.Def.ID] == nil {
			continue
		}
		x := f.of[v.Def.ID]
		if f.of[m.node.ID] == x {
			continue
		}
		if f.of[m.node.ID] == nil {
			f.join(x, m)
		} else {
			f.merge(f.of[m.node.ID], x, m)
		}
	}
	if f.of[m.node.ID] == nil {
		m.row = false
		x := &group{members: []*member{m}, shape: m.shape, inner: m.inner}
		x.reads = x.operandsOf(x.members)
		f.of[m.node.ID] = x
	}
}

// join adds a node to a group, if it may.
func (f *finder) join(x *group, m *member) {
	isRow, ok := x.takes(m, f)
	if !ok || !f.mayMove(x, m.node) {
		return
	}
	m.row = isRow
	reads := x.withOperandsOf(m, x.reads[:len(x.reads):len(x.reads)])
	if len(x.members) == maxMembers || len(reads) > maxOperands {
		return
	}
	x.members, x.reads, x.inner = append(x.members, m), reads, max(x.inner, m.inner)
	f.of[m.node.ID] = x
}

// merge adds the members of another group to the group that a node has joined.
func (f *finder) merge(x, other *group, m *member) {
	if !sameDims(x.shape, other.shape) || x.inner > 0 && other.inner > 0 && x.inner != other.inner || !f.mayMove(other, m.node) {
		return
	}
	all := append(slices.Clone(x.members), other.members...)
	slices.SortFunc(all, func(a, b *member) int { return f.pos[a.node.ID] - f.pos[b.node.ID] })
	y := &group{members: all, shape: x.shape, inner: max(x.inner, other.inner)}
	y.reads = y.operandsOf(all)
	if m.row || len(all) > maxMembers || len(y.reads) > maxOperands || other.readsDropped(m) || !other.areOutside(m.rowArguments()) {
		return
	}
	*x = *y
	for _, k := range other.members {
		f.of[k.node.ID] = x
	}
}

// takes reports whether the group's shape and rows admit a node, and whether as a row value.
func (x *group) takes(m *member, f *finder) (isRow, ok bool) {
	if m.inner > 0 { // a reduction or normalization: it reads full values of the group
		if !sameDims(m.shape, x.shape) || x.inner > 0 && x.inner != m.inner || x.readsDropped(m) || !x.areOutside(m.in[1:]) {
			return false, false
		}
		return m.op.Reduces(), !x.isRowValue(m.in[0])
	}
	if x.readsDropped(m) {
		return false, false
	}
	if x.inner > 0 && sameDims(m.shape, x.rowShape()) {
		for _, v := range m.in {
			if v != nil && !x.isRowValue(v) && !(x.isOutside(v) && x.isRowOperand(v)) {
				return false, false
			}
		}
		return true, true
	}
	return false, sameDims(m.shape, x.shape)
}

// rowShape is the shape of row values.
func (x *group) rowShape() []ssa.Dim {
	out := slices.Clone(x.shape)
	for i := len(out) - x.inner; i < len(out); i++ {
		out[i] = ssa.D(1)
	}
	return out
}

// member is the member that makes a value, nil if it comes from outside.
func (x *group) member(v *ssa.Value) *member {
	for _, m := range x.members {
		if m.node == v.Def && v.Def != nil {
			return m
		}
	}
	return nil
}

func (x *group) isOutside(v *ssa.Value) bool { return x.member(v) == nil }

// areOutside reports that the group makes none of some values.
func (x *group) areOutside(list []*ssa.Value) bool {
	return !slices.ContainsFunc(list, func(v *ssa.Value) bool { return v != nil && !x.isOutside(v) })
}

// isWhole reports that the operands tell the shape of the group: they broadcast to it, and each has
// one element in a row, or all.
func (x *group) isWhole() bool {
	var types []ssa.Type
	for _, v := range x.reads {
		if !x.isRowOperand(v) && !x.coversRow(v) {
			return false
		}
		types = append(types, v.Type)
	}
	t, err := ops.BroadcastTypes(ndarray.Float32, types...)
	return err == nil && len(types) > 0 && sameDims(t.Shape, x.shape)
}

// isRowValue reports a value of the group that is computed once for each row.
func (x *group) isRowValue(v *ssa.Value) bool {
	m := x.member(v)
	return m != nil && (m.row || m.op.Reduces())
}

// isRowOperand reports an operand that is the same in all of a row.
func (x *group) isRowOperand(v *ssa.Value) bool {
	s := v.Type.Shape
	for i := max(0, len(s)-x.inner); i < len(s); i++ {
		if !s[i].Is(1) {
			return false
		}
	}
	return true
}

// coversRow reports an operand with an element for each of a row.
func (x *group) coversRow(v *ssa.Value) bool {
	row := x.shape[len(x.shape)-x.inner:]
	return len(v.Type.Shape) >= len(row) && sameDims(v.Type.Shape[len(v.Type.Shape)-len(row):], row)
}

// readsDropped reports a reader of a row value whose shape has no dimensions for the row.
func (x *group) readsDropped(m *member) bool {
	for _, v := range m.in {
		if v == nil {
			continue
		}
		if k := x.member(v); k != nil && k.dropsRow() {
			return true
		}
	}
	return false
}

// mayMove reports whether the group may run where a node stands: what else reads its values
// comes later.
func (f *finder) mayMove(x *group, to *ssa.Node) bool {
	for _, m := range x.members {
		for _, u := range m.node.Out[0].Uses() {
			if f.pos[u.Node.ID] < f.pos[to.ID] && f.of[u.Node.ID] != x {
				return false
			}
		}
	}
	return true
}

// stored lists the values that are read outside of the group.
func (x *group) stored(g *ssa.Graph) (out []*ssa.Value) {
	for _, m := range x.members {
		v := m.node.Out[0]
		isRead := slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool {
			return !slices.ContainsFunc(x.members, func(k *member) bool { return k.node == u.Node })
		})
		if isRead || g.IsResult(v) {
			out = append(out, v)
		}
	}
	return out
}

// operandsOf lists the values that members of the group read and that it does not write into the program, each once.
func (x *group) operandsOf(members []*member) (out []*ssa.Value) {
	for _, m := range members {
		out = x.withOperandsOf(m, out)
	}
	return out
}

// withOperandsOf appends what a node reads and a list does not have.
func (x *group) withOperandsOf(m *member, list []*ssa.Value) []*ssa.Value {
	for _, v := range m.in {
		if v != nil && x.isOutside(v) && !x.isImmediate(v) && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// isImmediate reports a number that is written into the program: one whose dimensions do not
// matter for the shape of the group.
func (x *group) isImmediate(v *ssa.Value) bool {
	return numberOf(v) != nil && len(v.Const.Shape()) <= len(x.shape)
}

// isLarge reports as many members as a group must have.
func (x *group) isLarge(o *Options) bool {
	m := x.members[0]
	return len(x.members) > 1 || o.Singles && m.inner == 0 || o.Takes == nil && m.conversions() > 0
}

// program writes the group as a tile program over its operands that stores some values.
func (x *group) program(operands, stored []*ssa.Value) *tile.Program {
	p := &tile.Program{}
	at := map[*ssa.Value]tile.Ref{}
	for _, v := range operands {
		at[v] = tile.Ref(len(p.Operands))
		p.Operands = append(p.Operands, v.Type.DType)
	}
	for _, m := range x.members {
		if m.inner > 0 {
			p.Inner = m.inner
		}
	}
	for _, m := range x.members {
		m.write(p, at)
	}
	for _, v := range stored {
		p.Results = append(p.Results, tile.Result{Value: at[v], Dropped: x.member(v).dropsRow()})
	}
	return p
}

// write appends the instructions of a node.
func (m *member) write(p *tile.Program, at map[*ssa.Value]tile.Ref) {
	out := m.node.Out[0]
	i := tile.Instr{Op: m.op, DType: out.Type.DType, Row: m.row || m.op.Reduces(), Params: m.params}
	if m.op == tile.Call {
		i.Func = fused.FuncOf(m.node)
	}
	for _, v := range m.in {
		if v == nil {
			i.Args = append(i.Args, tile.None)
			continue
		}
		a, ok := at[v]
		if !ok {
			n := numberOf(v)
			a = p.Add(tile.Instr{Op: tile.Constant, DType: n.DType, Value: &ndarray.Array{DType: n.DType, Data: n.Data}})
			at[v] = a
		}
		i.Args = append(i.Args, a)
	}
	if !m.repeat {
		at[out] = p.Add(i)
		return
	}
	acc := i.Args[0]
	for _, a := range i.Args[1:] {
		acc = p.Add(tile.Instr{Op: m.op, DType: i.DType, Row: i.Row, Args: []tile.Ref{acc, a}})
	}
	if m.mean {
		n := p.Number(i.DType, float64(len(i.Args)))
		acc = p.Add(tile.Instr{Op: "Div", DType: i.DType, Row: i.Row, Args: []tile.Ref{acc, n}})
	}
	at[out] = acc
}

// replace puts one node in the place of the last member of each of some groups, all at once: each by itself would move
// all nodes behind it. The error is the context's.
func replace(ctx context.Context, g *ssa.Graph, groups []*group) error {
	if len(groups) == 0 {
		return ctx.Err()
	}
	order := make([]*ssa.Node, 0, len(g.Nodes))
	given := len(g.Nodes)
	isMember, at := make([]bool, g.NumNodeIDs()), make([]*ssa.Node, g.NumNodeIDs()) // by number; new nodes by the last members
	for _, x := range groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, m := range x.members {
			isMember[m.node.ID] = true
		}
		at[x.last().ID] = x.node(g)
	}
	for _, n := range g.Nodes[:given] {
		switch {
		case !isMember[n.ID]:
			order = append(order, n)
		case at[n.ID] != nil:
			order = append(order, at[n.ID])
		}
	}
	g.RemoveNodes(func(n *ssa.Node) bool { return n.ID < len(isMember) && isMember[n.ID] })
	g.Nodes = order
	return nil
}

// last is the member that the group's node replaces.
func (x *group) last() *ssa.Node { return x.members[len(x.members)-1].node }

// names appends the model's nodes that the members compute.
func (x *group) names(to []ssa.NodeName) []ssa.NodeName {
	for _, m := range x.members {
		to = append(to, m.node.Names()...)
	}
	return to
}

// node makes the node of the group, at the end of a graph, and lets all readers of its values read that.
func (x *group) node(g *ssa.Graph) *ssa.Node {
	operands, stored := x.operandsOf(x.members), x.stored(g) // those of now: groups before it have their values read elsewhere
	names := x.names(nil)
	n := g.NewNode(fused.Name, operands, len(stored), fused.Attr(x.program(operands, stored)))
	n.Domain, n.Name, n.Doc, n.Sources = fused.Domain, x.last().Name, x.last().Doc, names
	for k, v := range stored {
		n.Out[k].Name, n.Out[k].Type, n.Out[k].Doc = v.Name, v.Type, v.Doc
		g.ReplaceUses(v, n.Out[k])
	}
	return n
}
