package onnximport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A Lowering replaces the nodes of one domain, which berth has no operators of, by
// nodes of others. It may change the graph, which is a copy; with an error, but for a lack of memory, the
// import goes on with the graph as it was, and the module has a warning. It looks at the context often, and returns its error.
type Lowering func(ctx context.Context, g *ssa.Graph, opts Options) error

var lowerings = map[string]Lowering{}

// lowerable names the packages that lower a domain when a program links them.
var lowerable = map[string]string{
	"com.microsoft.nchwc": "github.com/berth-onnx/berth/onnximport/nchwc",
}

// RegisterLowering makes imports lower nodes of a domain. It is for functions init
// of packages that hold lowerings, and panics if the domain has one.
func RegisterLowering(domain string, f Lowering) {
	if lowerings[domain] != nil {
		panic(fmt.Sprintf("onnximport: domain %q is registered twice", domain))
	}
	lowerings[domain] = f
}

// lower lowers the domains of the finished module that can be, in order. Its error is a lack of memory.
func (imp *importer) lower() error {
	found := map[string]bool{}
	imp.module.Graph.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			if imp.ctx.Err() != nil { // the error of the import
				return
			}
			if lowerings[n.Domain] != nil || lowerable[n.Domain] != "" {
				found[n.Domain] = true
			}
		}
	})
	for _, domain := range slices.Sorted(maps.Keys(found)) {
		err := imp.lowerDomain(domain)
		if full := (*ops.MemoryError)(nil); errors.As(err, &full) {
			return err
		}
		if err != nil {
			imp.warn("operators of domain %s are kept as they are and can not be run: %v", domain, err)
		}
	}
	return nil
}

func (imp *importer) lowerDomain(domain string) error {
	f := lowerings[domain]
	if f == nil {
		return fmt.Errorf("the program does not import _ %q", lowerable[domain])
	}
	g, _, err := imp.module.Graph.CloneContext(imp.ctx)
	if err == nil {
		err = f(imp.ctx, g, imp.opts)
	}
	if err != nil {
		return err
	}
	if err := ops.InferGraphContext(imp.ctx, g); err != nil {
		return err
	}
	imp.module.Graph = g
	return nil
}
