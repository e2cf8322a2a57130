package berth

import (
	"context"
	"maps"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Stats are the counts of a before/after table.
type Stats struct {
	Nodes       int            // bodies included
	WeightBytes int64          // constants as stored; a splat is one element
	FLOPs       int64          // of nodes with static types, loop bodies once
	Operators   map[string]int // nodes by operator, "domain.Name" outside the default domain
	OpenShapes  int            // values whose shape is not fully known
}

// Contents counts what is in the model. Nodes are those of its file as other tools count them, Constant nodes left out; in
// memory there may be more, where older operators are written with newer ones, or fewer.
func (m *Model) Contents() Stats {
	source := m.source()
	if m != nil && m.ofCaller && ssa.Check(source.Graph) != nil {
		return Stats{}
	}
	return contents(context.Background(), source)
}

// contents is what [Model.Contents] says of a sound module; it is of no use once the context has ended.
func contents(ctx context.Context, m *ssa.Module) Stats {
	s := statsOf(ctx, m.Graph)
	if m.Operators == nil {
		return s
	}
	s.Nodes, s.Operators = 0, maps.Clone(m.Operators)
	for _, n := range s.Operators {
		s.Nodes += n
	}
	return s
}

// StatsOf counts what is in a graph and its bodies; nothing if the graph is not sound ([ssa.Check]).
func StatsOf(g *ssa.Graph) Stats {
	if ssa.Check(g) != nil {
		return Stats{}
	}
	return statsOf(context.Background(), g)
}

// statsOf counts what is in a sound graph; it is of no use once the context has ended.
func statsOf(ctx context.Context, g *ssa.Graph) Stats {
	c := rewrite.Count(g)
	s := Stats{Nodes: c.Nodes, WeightBytes: c.ConstBytes, Operators: map[string]int{}}
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			if ctx.Err() != nil {
				return
			}
			name := n.Op
			if n.Domain != "" {
				name = n.Domain + "." + name
			}
			s.Operators[name]++
			static := true
			for _, v := range n.Out {
				if v != nil && !v.Type.IsStatic() {
					s.OpenShapes++
					static = false
				}
			}
			for _, v := range n.In {
				static = static && (v == nil || v.Type.IsStatic())
			}
			if static && len(n.Bodies) == 0 {
				s.FLOPs += ops.CostOf(n).FLOPs
			}
		}
	})
	return s
}

// PlanInfo describes a memory plan.
type PlanInfo struct {
	Planner       string
	ArenaBytes    int64            // one run's arena, workspaces included
	LowerBound    int64            // no plan of this order is smaller; of all orders, if ParallelSafe
	Proven        bool             // ArenaBytes equals LowerBound, and no value of unknown size is left out
	NaiveBytes    int64            // every tensor its own memory
	ScratchBytes  int64            // the largest kernel workspace
	PackedBytes   int64            // weights in kernels' own layouts, of nodes with known shapes: runs pack for others, see [ProgramStats]
	Packed        map[string]int64 // those of them that kernels share, by layout
	Kernels       int              // distinct kernels of nodes with known shapes
	KernelNodes   int              // nodes that run them
	WeightBytes   int64            // weights as stored
	CopiesPerTrip int64            // bytes copied per iteration of a loop
	Blocks        int              // pieces of memory placed
	Folds         int              // results written over operands
	DynamicValues int              // values whose size is known only while running
	ReferenceOps  int              // nodes that run the reference kernel
	ParallelSafe  bool             // planned and verified for every order and for nodes that run at once
	PlanNanos     int64
}

func planInfo(p *program.Program) PlanInfo {
	r := p.Report
	return PlanInfo{Planner: r.Planner, ArenaBytes: p.ArenaBytes, LowerBound: r.LowerBound, Proven: r.Proven && r.Dynamic == 0, ParallelSafe: r.ParallelSafe, NaiveBytes: r.NaiveBytes,
		ScratchBytes: r.ScratchBytes, PackedBytes: r.PackedBytes, Packed: maps.Clone(r.Packed), Kernels: r.Kernels, KernelNodes: r.KernelNodes, WeightBytes: rewrite.Count(p.Graph).ConstBytes,
		CopiesPerTrip: r.CopiesPerTrip, Blocks: r.Blocks, Folds: r.Folds, DynamicValues: r.Dynamic, ReferenceOps: r.ReferenceKernel, PlanNanos: r.PlanNanos}
}

// PackedBytes is the memory of the weights in kernels' own layouts, by layout: one copy
// for all programs of the model and of those that were made from it.
func (m *Model) PackedBytes() map[string]int64 {
	if m == nil || m.weights == nil {
		return nil
	}
	return m.weights().Bytes()
}
