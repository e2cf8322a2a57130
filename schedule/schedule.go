// Package schedule chooses the order in which a graph's nodes run.
//
// The order decides how many tensors are alive at once, and so how small any
// memory plan can be.
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
	run  func(ctx context.Context, g *ssa.Graph) error
}

// orders lists the schedules; the first is the default.
var orders = []order{
	{"file", "the order of the model file", func(context.Context, *ssa.Graph) error { return nil }},
	{"bfs", "the symbolic compiler's order: breadth first from the inputs", bfs},
}

// Names lists the schedules, the default first.
func Names() []string {
	var out []string
	for _, o := range orders {
		out = append(out, o.name)
	}
	return out
}

// Apply reorders a graph and its bodies; an empty name is the default.
func Apply(ctx context.Context, g *ssa.Graph, name string) error {
	if name == "" {
		name = orders[0].name
	}
	for _, o := range orders {
		if o.name != name {
			continue
		}
		var err error
		g.Walk(func(b *ssa.Graph) {
			if err == nil {
				err = o.run(ctx, b)
			}
		})
		return err
	}
	return fmt.Errorf("there is no schedule %q; there are %s", name, strings.Join(Names(), ", "))
}
