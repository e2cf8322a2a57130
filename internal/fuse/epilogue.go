package fuse

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ssa"
)

// Epilogues joins convolutions, matrix products and batch normalizations with the elementwise nodes behind them, so that
// these are computed while a tile of the result is in registers or in the cache:
//
//	before   y = Conv(x, w, b)    z = Add(y, r)    u = Relu(z)
//	after    u = berth.internal.Conv(x, w, b, r) with Relu(Add(%0, %1))
//
// A chain ends at a value that anything else reads, at a graph's result, and where the backend
// has no kernel for more. The node stands where the last of the chain stood; the products
// themselves keep nothing alive that was not, because their result may lie over r. Of two
// products whose sum is taken, the later one computes the sum: then the other's result is there.
//
// A body's results are left alone: an activation may write over what a product has read for the
// last time, the product may not, so a carried value would need one more place.
//
// The pass runs before layouts and orders are chosen, on graphs that are compiled, never on what
// is saved.

// EpiloguePass is the name by which it is switched off.
const EpiloguePass = "epilogues"

// Fuser says what a backend computes.
type Fuser interface {
	// Fuses reports whether the kernel of a product, a node in no graph, computes its epilogue.
	Fuses(n *ssa.Node) bool
}

// Epilogues rewrites a graph and its bodies, whose types are inferred, and returns how many
// products have got an epilogue.
func Epilogues(ctx context.Context, g *ssa.Graph, b Fuser) (made int, err error) {
	g.Walk(func(body *ssa.Graph) {
		if err != nil {
			return
		}
		c := newChains(body)
		c.b, c.isBody = b, body != g
		var found []*epilogue
		if found, err = c.all(ctx); err != nil {
			return
		}
		for i := len(body.Nodes) - 1; i >= 0 && err == nil; i-- {
			c.take(body.Nodes[i], found[i])
			found[i], err = nil, ctx.Err()
		}
		if err == nil {
			err = c.rewrite(ctx)
			made += c.made
		}
	})
	return made, err
}

// chains are the products of a graph with what follows them. What stands in the place of the last node of a chain, and which
// nodes go, is kept by the number of the node.
type chains struct {
	g       *ssa.Graph
	b       Fuser
	isBody  bool
	instead []*ssa.Node
	gone    []bool
	made    int
}

func newChains(g *ssa.Graph) *chains {
	return &chains{g: g, instead: make([]*ssa.Node, g.NumNodeIDs()), gone: make([]bool, g.NumNodeIDs())}
}

// epilogue is the chain behind a product and the node that computes both.
type epilogue struct {
	*group
	node *ssa.Node
}

// all finds the chains behind the products of a graph while none is taken: by place of the product, nil for none. Of many nodes
// several goroutines take a piece at a time.
func (c *chains) all(ctx context.Context) ([]*epilogue, error) {
	const piece = 512
	out := make([]*epilogue, len(c.g.Nodes))
	var next atomic.Int64
	err := rescue.Share(min(runtime.GOMAXPROCS(0), 1+len(out)/(4*piece)), func() error {
		for lo := int(next.Add(piece)) - piece; lo < len(out); lo = int(next.Add(piece)) - piece {
			for i := lo; i < min(lo+piece, len(out)); i++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				out[i] = c.behind(c.g.Nodes[i])
			}
		}
		return nil
	})
	return out, err
}

// behind finds the chain behind a product.
func (c *chains) behind(n *ssa.Node) *epilogue {
	if n.Opaque || !fused.TakesEpilogue(n) || len(n.Out) != 1 || !tensor(n.Out[0]) {
		return nil
	}
	x := &group{shape: n.Out[0].Type.Shape}
	var best *ssa.Node
	for at := n.Out[0]; ; at = at.Uses()[0].Node.Out[0] {
		m := c.next(at)
		if m == nil || !sameDims(m.shape, x.shape) {
			break
		}
		x.members = append(x.members, m)
		made := x.epilogue(n)
		if !c.b.Fuses(made) {
			x.members = x.members[:len(x.members)-1]
			break
		}
		best = made
	}
	if best == nil {
		return nil
	}
	return &epilogue{x, best}
}

// take joins a product with the chain that was found behind it, or with what other chains have left of that.
func (c *chains) take(n *ssa.Node, x *epilogue) {
	if x != nil && slices.ContainsFunc(x.members, func(m *member) bool { return c.gone[m.node.ID] }) {
		x = c.behind(n)
	}
	if x == nil {
		return
	}
	x.node.Sources = x.names(slices.Clip(n.Names()))
	c.gone[n.ID] = true
	for _, m := range x.members {
		c.gone[m.node.ID] = true
	}
	c.join(x.members[len(x.members)-1].node, x.node)
}

// join puts a node in the place of the last one of a chain.
func (c *chains) join(last, m *ssa.Node) {
	c.instead[last.ID] = m
	c.made++
}

// next is the only reader of a value, if it is elementwise; nil if it is not.
func (c *chains) next(v *ssa.Value) *member {
	uses := v.Uses()
	if len(uses) != 1 || c.g.IsResult(v) || c.gone[uses[0].Node.ID] {
		return nil
	}
	m := memberOf(uses[0].Node)
	if m == nil || m.inner > 0 || c.isBody && c.g.IsResult(m.node.Out[0]) {
		return nil
	}
	return m
}

// epilogue is product n with the members behind it.
func (x *group) epilogue(n *ssa.Node) *ssa.Node {
	y := n.Out[0]
	operands := []*ssa.Value{y}
	for _, v := range x.operandsOf(x.members) {
		if v != y {
			operands = append(operands, v)
		}
	}
	last := x.members[len(x.members)-1].node.Out[0]
	p := x.program(operands, []*ssa.Value{last})
	return fused.WithEpilogue(n, p, operands[1:], last)
}

// rewrite puts the new nodes in their places. The graph is of no use if the context ends before.
func (c *chains) rewrite(ctx context.Context) error {
	if c.made == 0 {
		return nil
	}
	nodes := c.g.Nodes
	order := make([]*ssa.Node, 0, len(nodes))
	now := make([]*ssa.Value, c.g.NumValues())
	for _, n := range nodes {
		if m := c.instead[n.ID]; m != nil {
			order, c.instead[n.ID] = append(order, c.replace(n, m, now)), nil
		} else if !c.gone[n.ID] {
			order = append(order, n)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if c.gone[n.ID] {
			n.TruncateInputs(0)
		}
	}
	c.g.Nodes = order
	return ctx.Err()
}

// replace makes a node like m in place of n, whose result it takes over: now says what values
// became that were replaced before, by their numbers.
func (c *chains) replace(n, m *ssa.Node, now []*ssa.Value) *ssa.Node {
	for i, v := range m.In {
		if v != nil && v.ID < len(now) && now[v.ID] != nil && c.g.Value(v.ID) == v { // a program may read numbers that are in no graph
			m.In[i] = now[v.ID]
		}
	}
	made := c.g.NewNode(m.Op, m.In, 1, m.Attrs...)
	made.Domain, made.Name, made.Doc, made.Sources = m.Domain, m.Name, m.Doc, m.Sources
	v, y := n.Out[0], made.Out[0]
	y.Name, y.Type, y.Doc = v.Name, v.Type, v.Doc
	v.Name = ""
	c.g.ReplaceUses(v, y)
	now[v.ID] = y
	return made
}
