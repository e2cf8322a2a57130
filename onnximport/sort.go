package onnximport

import (
	"context"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// sorted returns the nodes of a graph in an order in which every value is
// defined before it is read, bodies included. Files must list them so, but not
// all do. The listed order is kept where it is legal: among the nodes that are
// ready, the one listed first comes next.
func sorted(ctx context.Context, nodes []*onnxwire.Node, defined map[string]*ssa.Value) ([]*onnxwire.Node, error) {
	maker, err := makers(ctx, nodes, defined)
	if err != nil {
		return nil, err
	}
	legal := true
	for i, n := range nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		freeNames(ctx, n, func(name string) {
			if m, ok := maker[name]; ok && m >= i {
				legal = false
			}
		})
	}
	if legal {
		return nodes, nil
	}
	pending := make([]int, len(nodes))
	readers := make([][]int, len(nodes))
	last := make([]int, len(nodes)) // 1 + the last node that was found to read of a node
	for i, n := range nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		freeNames(ctx, n, func(name string) {
			if m, ok := maker[name]; ok && last[m] != i+1 {
				last[m] = i + 1
				pending[i]++
				readers[m] = append(readers[m], i)
			}
		})
	}
	if err := ctx.Err(); err != nil {
		return nil, err // what was listed of the last node may be short
	}
	out := make([]*onnxwire.Node, 0, len(nodes))
	for _, i := range ssa.StableOrder(pending, func(i int, f func(int)) {
		for _, r := range readers[i] {
			f(r)
		}
	}) {
		out = append(out, nodes[i])
	}
	if len(out) < len(nodes) {
		return nil, cycleError(nodes, pending)
	}
	return out, nil
}

// makers maps each value name to the node that defines it.
func makers(ctx context.Context, nodes []*onnxwire.Node, defined map[string]*ssa.Value) (map[string]int, error) {
	maker := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, o := range n.Outputs {
			if o == "" {
				continue
			}
			if _, twice := maker[o]; twice || defined[o] != nil {
				e := fail("every value must be given its name once", "the value %q is defined twice", o)
				e.Node, e.Op = label(n), n.OpType
				return nil, e
			}
			maker[o] = i
		}
	}
	return maker, nil
}

func cycleError(nodes []*onnxwire.Node, pending []int) error {
	e := fail("", "the nodes depend on each other in a circle")
	for i, p := range pending {
		if p > 0 {
			e.Node, e.Op = label(nodes[i]), nodes[i].OpType
			break
		}
	}
	return e
}

// freeNames calls f with every name that a node reads from around it: its inputs
// and what its bodies do not define themselves; with fewer once the context has ended.
func freeNames(ctx context.Context, n *onnxwire.Node, f func(string)) {
	for i, name := range n.Inputs {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			return
		}
		if name != "" {
			f(name)
		}
	}
	for _, a := range n.Attributes {
		if a.G != nil {
			freeOfGraph(ctx, a.G, f)
		}
		for _, g := range a.Graphs {
			freeOfGraph(ctx, g, f)
		}
	}
}

func freeOfGraph(ctx context.Context, g *onnxwire.Graph, f func(string)) {
	local := g.InitializerNames()
	for _, in := range g.Inputs {
		local[in.Name] = true
	}
	for i, n := range g.Nodes {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			return
		}
		for _, o := range n.Outputs {
			local[o] = true
		}
	}
	outer := func(name string) {
		if !local[name] {
			f(name)
		}
	}
	for i, n := range g.Nodes {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			return
		}
		freeNames(ctx, n, outer)
	}
	for i, o := range g.Outputs {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			return
		}
		outer(o.Name)
	}
}
