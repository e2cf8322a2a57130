package berth

import (
	"context"
	"time"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ssa"
)

// Rule is how another tool plans, as far as its published rules go: which
// results may lie over operands, whether views own memory, its alignment, and
// the placing. The figures are this rule run by berth on the same graph and
// order; they are not measurements of the tool.
type Rule struct {
	Name string
	Doc  string

	planner string
	align   int64
	inPlace bool // results over operands of elementwise operators
	views   bool // reshapes and the like own no memory
}

// Rules lists the rules of other tools.
func Rules() []Rule {
	return []Rule{
		{"rule:onnxruntime", "ONNX Runtime: in place and views, best fit among freed blocks in execution order, 256-byte blocks", "best-fit", 256, true, true},
		{"rule:tflite", "TensorFlow Lite: greedy by size, nothing in place, 64-byte alignment", "greedy-size", 64, false, false},
		{"rule:tvm", "TVM USMP: hill climbing over allocation orders, nothing in place", "hill-climb", 64, false, false},
		{"rule:onnxsim", "onnxsim: greedy by size with best fit, unary and binary in place, views, no alignment", "greedy-size", 1, true, true},
	}
}

// ruleRow plans a graph by another tool's rule.
func ruleRow(ctx context.Context, g *ssa.Graph, r Rule, base PlanRow, budget time.Duration) PlanRow {
	row := base
	row.Planner = r.Name
	t, err := liveness.Build(g, liveness.Options{CopyViews: !r.views})
	if err != nil {
		row.Err = err
		return row
	}
	f := inplace.Fold(t, inplace.Options{NoInPlace: !r.inPlace, NoConcat: true, NoMerge: true, NoSmaller: true})
	row = planRow(ctx, r.planner, orderedProblem(t, f, r.align), base, budget)
	row.Planner, row.LowerBound, row.Proven = r.Name, 0, false
	return row
}

// variantRow plans with the default planner and part of berth's folding switched
// off: what that part saves.
func variantRow(ctx context.Context, g *ssa.Graph, name string, c config, base PlanRow, budget time.Duration) PlanRow {
	prob, own, err := planProblem(g, &c)
	if err != nil {
		base.Err = err
		return base
	}
	own.Schedule = base.Schedule
	row := planRow(ctx, DefaultPlanner(), prob, own, budget)
	row.Planner = name
	return row
}
