package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Bodies that did not run. A comparison of outputs says nothing about a branch that no input took, or the body of a loop
// without iterations. Nodes of several bodies may have one name, and a body may have no nodes, so the original runs with a node more in
// every body: its first result passes through an Identity with a name of its own, and a hook notes those that ran.

// coverage notes which bodies of a model have run.
type coverage struct {
	marked *berth.Model // the original with the nodes that mark bodies; nil where it has no bodies, or none could be marked
	bodies []markedBody // outer ones first
	hook   *berth.Hook
	mu     sync.Mutex
	ran    map[string]bool // markers
}

// markedBody is a branch or the body of a loop.
type markedBody struct {
	marker string
	text   string   // the attribute and the name of its node
	inputs []string // that decide about it
	fixed  bool     // a condition chooses it that is the same for all inputs
	inside int      // the body it lies in, -1 for none
}

func hasBodies(g *ssa.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *ssa.Node) bool { return len(n.Bodies) > 0 })
}

// newCoverage marks the bodies of a model. The only error is a cancellation; a model that can not be marked is one of whose bodies none is known to run.
func newCoverage(ctx context.Context, m *berth.Model, opts ...berth.Option) (*coverage, error) {
	c := &coverage{ran: map[string]bool{}}
	c.hook = &berth.Hook{Before: func(_ context.Context, e berth.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ran[e.Node] = true
	}}
	if !read(m, hasBodies) {
		return c, nil
	}
	g := m.Graph()
	if c.list(g, -1, trial.SourcesOf(g), freePrefix(g)); len(c.bodies) == 0 {
		return c, nil
	}
	var err error
	c.marked, err = m.Extend(ctx, func(_ context.Context, g *ssa.Graph) error {
		c.bodies = nil
		return c.list(g, -1, trial.SourcesOf(g), freePrefix(g))
	}, opts...)
	if err != nil {
		c.marked = nil
	}
	return c, ctx.Err()
}

// freePrefix begins no name of a node.
func freePrefix(g *ssa.Graph) string {
	prefix := "body "
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			for strings.HasPrefix(nodeName(n), prefix) {
				prefix += "_"
			}
		}
	})
	return prefix
}

// list lists the bodies in a graph and marks them.
func (c *coverage) list(b *ssa.Graph, inside int, sources *trial.Sources, prefix string) error {
	for _, n := range slices.Clone(b.Nodes) {
		for i, body := range n.Bodies {
			if n.Opaque || len(body.Results) == 0 {
				continue
			}
			at := markedBody{marker: prefix + fmt.Sprint(len(c.bodies)), inside: inside, fixed: n.Op == "If" && sources.Fixed(n.In[0]),
				text: fmt.Sprintf("%s of %s %q", n.BodyAttr[i], n.Op, nodeName(n))}
			for _, v := range n.In[:len(n.In)-n.Captures] {
				at.inputs = append(at.inputs, sources.Names(v)...)
			}
			c.bodies = append(c.bodies, at)
			if err := c.list(body, len(c.bodies)-1, sources, prefix); err != nil {
				return err
			}
			if err := at.mark(b, n, body, sources); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark puts the marker behind a result that is computed in each run. Constants, integers and flags may be folded, so such a result depends on a condition: Where
// selects it either way, of two axes more than it has, so that its elements are not known beforehand.
// Of a branch it is one that is read: what nobody reads is not computed.
func (at markedBody) mark(g *ssa.Graph, n *ssa.Node, body *ssa.Graph, sources *trial.Sources) (err error) {
	changes := func(v *ssa.Value) bool { return !sources.Fixed(v) }
	k := max(slices.IndexFunc(body.Results, changes), 0)
	if n.Op == "If" && !hasReader(g, n.Output(k)) {
		k = firstRead(g, n, k, func(i int) bool { return changes(body.Results[i]) })
	}
	if later := slices.IndexFunc(body.Results[1:], changes); k == 0 && later >= 0 && isEndless(n) {
		k = 1 + later // behind a marker, the condition would not be seen to stay true
	}
	add := func(op string, in ...*ssa.Value) *ssa.Value {
		node := body.NewNode(op, in, 1)
		err = cmp.Or(err, ops.Infer(node))
		return node.Out[0]
	}
	r := body.Results[k]
	if foldable := sources.Fixed(r) || !r.Type.DType.IsFloat(); foldable && r.Type.Kind == ssa.KindTensor && !at.fixed && (n.Op == "If" || n.Op == "Loop") {
		axes := body.AddConst(at.marker+" axes", ssa.NewConstant(ndarray.Of([]int64{0, 1}, 2)))
		r = add("Unsqueeze", r, axes)
		r = add("Squeeze", add("Where", add("Squeeze", at.conditionIn(n, body)), r, r), axes)
	}
	body.Results[k] = add("Identity", r)
	body.Results[k].Def.Name = at.marker
	return err
}

// hasReader reports that a value of a graph, if there is one, is read or a result.
func hasReader(g *ssa.Graph, v *ssa.Value) bool {
	return v != nil && (len(v.Uses()) > 0 || g.IsResult(v))
}

// firstRead is the first result of a node that is read and preferred, else the first that is read, else k.
func firstRead(g *ssa.Graph, n *ssa.Node, k int, preferred func(i int) bool) int {
	found := false
	for i, v := range n.Out {
		switch {
		case !hasReader(g, v):
		case preferred(i):
			return i
		case !found:
			k, found = i, true
		}
	}
	return k
}

// isEndless reports a loop that never ends once its condition is true.
func isEndless(n *ssa.Node) bool {
	if n.Op != "Loop" {
		return false
	}
	s, err := ops.LoopOf(n)
	if err != nil {
		return false
	}
	endless, _ := s.Endless(n)
	return endless
}

// conditionIn is a flag in a body that no constant decides: the condition of an If, captured, or what a Loop hands its body.
func (at markedBody) conditionIn(n *ssa.Node, body *ssa.Graph) (c *ssa.Value) {
	if n.Op == "Loop" {
		return body.Params[1]
	}
	n.AddInput(n.In[0])
	n.Captures++
	for _, b := range n.Bodies {
		if p := b.AddParam(at.marker, n.In[0].Type); b == body {
			c = p
		}
	}
	return c
}

// hidden lists the bodies that have not run, by the attribute and the name of their node. What lies inside of
// such a body, and branches that a condition chooses which is the same for all inputs, are left out. inputs are those that decide about the bodies.
func (c *coverage) hidden() (bodies, inputs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bodies {
		if c.ran[b.marker] || b.fixed || b.inside >= 0 && !c.ran[c.bodies[b.inside].marker] {
			continue
		}
		bodies, inputs = append(bodies, b.text), append(inputs, b.inputs...)
	}
	slices.Sort(inputs)
	return bodies, slices.Compact(inputs)
}

// entered is how many of the bodies have run.
func (c *coverage) entered() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bodies {
		if c.ran[b.marker] {
			n++
		}
	}
	return n
}

// of is the model to run in the place of the original.
func (c *coverage) of(m *berth.Model) *berth.Model {
	if c.marked != nil {
		return c.marked
	}
	return m
}

// nodeName is the name of a node in a [berth.Event].
func nodeName(n *ssa.Node) string {
	name := n.Name
	for _, v := range n.Out {
		if name == "" && v != nil {
			name = v.Name
		}
	}
	return name
}

// hiddenText names some of the bodies that did not run, and the inputs that decide about them.
func (res *optimizeJSON) hiddenText() string {
	const most = 4
	text := strings.Join(res.NotRun[:min(len(res.NotRun), most)], ", ")
	if more := len(res.NotRun) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(res.decide) > 0 {
		text += fmt.Sprintf("; they depend on %s: other values can be given with --input or --data", someOf(res.decide))
	}
	return text
}
