package ssa

import (
	"context"
	"unsafe"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
)

// Clone copies a graph and its bodies. Constants and attribute payloads are
// shared. mapping[id] is the copy of the value with that id. It panics where [Graph.Walk] does.
func (g *Graph) Clone() (copied *Graph, mapping []*Value) {
	return (&cloner{ctx: context.Background()}).graph(g)
}

// CloneContext is Clone of a graph that may be large: its memory is asked of the context's budget, and it ends early, with the
// error of the context, when that ends.
func (g *Graph) CloneContext(ctx context.Context) (copied *Graph, mapping []*Value, err error) {
	defer rescue.Into(&err)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := sysmem.BudgetOf(ctx).AskContext(ctx, "a copy of the graph", g.bytes()); err != nil {
		return nil, nil, err
	}
	copied, mapping = (&cloner{ctx: ctx}).graph(g)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return copied, mapping, nil
}

// bytes is how many bytes the nodes and values of a graph and of its bodies take, with shapes, without names and constants.
func (g *Graph) bytes() (sum int64) {
	const value, node = unsafe.Sizeof(Value{}) + 2*unsafe.Sizeof(g), unsafe.Sizeof(Node{}) + unsafe.Sizeof(g)
	const operand, result = unsafe.Sizeof(g) + unsafe.Sizeof(Use{}) + unsafe.Sizeof(int32(0)), unsafe.Sizeof(g)
	g.Walk(func(b *Graph) {
		for _, v := range b.values {
			sum += int64(value) + int64(len(v.Type.Shape))*int64(unsafe.Sizeof(Dim{}))
		}
		for _, n := range b.Nodes {
			sum += int64(node) + int64(len(n.In))*int64(operand) + int64(len(n.Out))*int64(result) + int64(len(n.Attrs))*int64(unsafe.Sizeof(Attr{}))
		}
	})
	return sum
}

// cloner holds the memory that copies are cut from.
type cloner struct {
	ctx   context.Context
	depth int
	memory
}

func (c *cloner) graph(g *Graph) (copied *Graph, mapping []*Value) {
	m := &Graph{Name: g.Name, Doc: g.Doc, nextN: g.nextN, made: len(g.Nodes) + len(g.values)}
	m.values = make([]*Value, len(g.values))
	for i, v := range g.values {
		if c.ctx.Err() != nil {
			return m, nil // nobody gets the copy
		}
		w := c.values.New()
		*w = Value{ID: i, Name: v.Name, Type: v.Type, Const: v.Const, Content: v.Content, DefIndex: v.DefIndex, Doc: v.Doc, uses: c.uses.Make(len(v.uses))[:0]}
		m.values[i] = w
	}
	m.Params, m.Results = c.all(m, g.Params), c.all(m, g.Results)
	m.Nodes = make([]*Node, len(g.Nodes))
	for i, n := range g.Nodes {
		if c.ctx.Err() != nil {
			return m, nil
		}
		m.Nodes[i] = c.node(m, n)
	}
	mapping = make([]*Value, len(m.values))
	copy(mapping, m.values)
	return m, mapping
}

// all maps values to their copies in g.
func (c *cloner) all(g *Graph, vs []*Value) []*Value {
	out := c.lists.Make(len(vs))
	for i, v := range vs {
		if v != nil {
			out[i] = g.values[v.ID]
		}
	}
	return out
}

// node copies a node and its bodies into g, which has the copies of its values.
func (c *cloner) node(g *Graph, n *Node) *Node {
	m := c.nodes.New()
	n.copyTo(m, c.attrs.Copy(n.Attrs))
	m.In, m.at = c.all(g, n.In), c.at.Make(len(n.In))
	for i, v := range m.In {
		v.addUse(m, i)
	}
	m.Out = c.all(g, n.Out)
	for _, v := range m.Out {
		if v != nil {
			v.Def = m
		}
	}
	c.depth++
	for _, b := range n.Bodies {
		limitDepth(b, c.depth)
		body, _ := c.graph(b)
		m.Bodies = append(m.Bodies, body)
	}
	c.depth--
	return m
}
