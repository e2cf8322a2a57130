package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ssa"
)

// Bodies that did not run. A comparison of outputs says nothing about a branch that no input took, or the body of a loop
// without iterations. A hook notes the nodes that ran; a body counts as run if one of its own nodes did.

// coverage notes which nodes of a model have run.
type coverage struct {
	watch *berth.Hook
	mu    sync.Mutex
	ran   map[string]bool // by operator and name
}

func newCoverage() *coverage {
	c := &coverage{ran: map[string]bool{}}
	c.watch = &berth.Hook{Before: func(_ context.Context, e berth.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ran[e.Op+" "+e.Node] = true
	}}
	return c
}

// hidden lists the bodies with nodes that have not run, by the attribute and the name of their node. What lies inside of
// such a body, and branches that a condition chooses which is the same for all inputs, are left out. inputs are those that decide about the bodies.
func (c *coverage) hidden(m *berth.Model) (bodies, inputs []string) {
	g := m.Graph()
	sources := trial.SourcesOf(g)
	seen := map[string]int{} // bodies with a node of that operator and name
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			seen[eventName(n)]++
		}
	})
	var visit func(b *ssa.Graph)
	visit = func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			for i, body := range n.Bodies {
				switch {
				case n.Op == "If" && sources.Fixed(n.In[0]) || len(body.Nodes) == 0 || n.Opaque:
				case !c.entered(body, seen):
					for _, v := range n.In[:len(n.In)-n.Captures] {
						inputs = append(inputs, sources.Names(v)...)
					}
					bodies = append(bodies, fmt.Sprintf("%s of %s %q", n.BodyAttr[i], n.Op, strings.TrimPrefix(eventName(n), n.Op+" ")))
				default:
					visit(body)
				}
			}
		}
	}
	visit(g)
	slices.Sort(inputs)
	return bodies, slices.Compact(inputs)
}

// entered reports that a node of a body has run: one whose name no other node has, if there is such a node.
func (c *coverage) entered(body *ssa.Graph, seen map[string]int) bool {
	own := slices.DeleteFunc(slices.Clone(body.Nodes), func(n *ssa.Node) bool { return seen[eventName(n)] > 1 })
	if len(own) == 0 {
		own = body.Nodes
	}
	return slices.ContainsFunc(own, func(n *ssa.Node) bool { return c.ran[eventName(n)] })
}

// eventName is the operator and the name of a node in a [berth.Event].
func eventName(n *ssa.Node) string {
	name := n.Name
	for _, v := range n.Out {
		if name == "" && v != nil {
			name = v.Name
		}
	}
	return n.Op + " " + name
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
