// Package schedule chooses the order in which a graph's nodes run.
//
// The order decides how many tensors are alive at once, and so how small any
// memory plan can be. [Apply] brings a graph into one of the named orders;
// [MinPeak] searches for the order that needs the least memory at once and says
// how much any order needs.
//
// # What is counted
//
// For every step, the bytes of all tensors that are alive at it, as the folding
// of package inplace would share them: views and windows cost nothing and keep
// their source alive, a result written over an operand at its last use is counted
// once, an operand of a concatenation may be made inside the result, blocks are
// rounded up to 64 bytes. Graph inputs, constants and tensors whose size is known
// only while running cost nothing; results live to the end. Workspace of kernels
// is not known here and not counted. The answers of [MinPeak] are in these bytes:
// no plan of that order can be smaller, and a planner that packs well needs no
// more.
package schedule

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-onnx/berth/ssa"
)

// order puts a graph's nodes into another legal order.
type order struct {
	name string
	doc  string
	run  func(ctx context.Context, g *ssa.Graph) (*Result, error)
}

// orders lists the schedules; the first is the default.
var orders = []order{
	{"min-peak", "the least memory at once: searched, and proven where the search ends; the file's order where that is as good", MinPeak},
	{"file", "the order of the model file", func(context.Context, *ssa.Graph) (*Result, error) { return nil, nil }},
	{"bfs", "the symbolic compiler's order: breadth first from the inputs", eachGraph(sorted(breadthFirst))},
	{"dfs", "every tensor right before its first reader, depth first from the results", eachGraph(sorted(depthFirst))},
	{"greedy", "always the node that leaves the least memory in use", eachGraph(greedy)},
}

// eachGraph makes an order of one that looks at one graph without its bodies:
// bodies first, so that the weight of control flow is that of ordered bodies.
func eachGraph(f func(context.Context, *ssa.Graph) error) func(context.Context, *ssa.Graph) (*Result, error) {
	var run func(ctx context.Context, g *ssa.Graph) error
	run = func(ctx context.Context, g *ssa.Graph) error {
		for _, n := range g.Nodes {
			for _, b := range n.Bodies {
				if err := run(ctx, b); err != nil {
					return err
				}
			}
		}
		return f(ctx, g)
	}
	return func(ctx context.Context, g *ssa.Graph) (*Result, error) { return nil, run(ctx, g) }
}

// sorted brings a graph into an order, which is nil if there is a cycle or the context has ended.
func sorted(order func(context.Context, *ssa.Graph) []*ssa.Node) func(context.Context, *ssa.Graph) error {
	return func(ctx context.Context, g *ssa.Graph) error {
		nodes := order(ctx, g)
		if err := ctx.Err(); err != nil {
			return err
		}
		if nodes == nil {
			return g.Sort() // reports the cycle
		}
		g.Nodes = nodes
		return nil
	}
}

// Names lists the schedules, the default first.
func Names() []string {
	var out []string
	for _, o := range orders {
		out = append(out, o.name)
	}
	return out
}

// Apply reorders a graph and its bodies, whose types must be inferred; an empty
// name is the default. A graph with a cycle is an error, as is a name that does
// not exist, and the cause of a context that ends before. The order is the same on every
// machine and in every run. The result is what that search says,
// nil for the other orders.
func Apply(ctx context.Context, g *ssa.Graph, name string) (*Result, error) {
	if name == "" {
		name = orders[0].name
	}
	for _, o := range orders {
		if o.name == name {
			return o.run(ctx, g)
		}
	}
	return nil, fmt.Errorf("there is no schedule %q; there are %s", name, strings.Join(Names(), ", "))
}

// Order is [Apply] for who does not need to know what the order needs: a graph that has one order
// only is not measured, and the result is nil.
func Order(ctx context.Context, g *ssa.Graph, name string) (*Result, error) {
	if (name == "" || name == orders[0].name) && onlyOrderInAll(g) {
		return nil, ctx.Err()
	}
	return Apply(ctx, g, name)
}
