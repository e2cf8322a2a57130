package berth

import (
	"context"
	"time"

	"github.com/berth-onnx/berth/internal/rules"
	"github.com/berth-onnx/berth/ssa"
)

// Rule is how another tool plans, as far as its published rules go: which results
// may lie over operands, whether views own memory, its alignment, the placing, and
// what bodies of control flow get. The figures are this rule carried out by berth on
// the same graph and order; they are not measurements of the tool.
type Rule struct {
	Name   string `json:"name"`
	Doc    string `json:"rule"`
	Source string `json:"source"` // where the rule is published

	tool rules.Tool
}

// Rules lists the rules of other tools.
func Rules() []Rule {
	var out []Rule
	for _, t := range rules.Tools() {
		out = append(out, Rule{Name: t.Name, Doc: t.Doc, Source: t.Source, tool: t})
	}
	return out
}

// plan plans a graph by the rule. Rules say nothing of lower bounds, of other orders, or of what iterations copy.
func (r Rule) plan(ctx context.Context, g *ssa.Graph, row *PlanRow) error {
	start := time.Now()
	p, err := r.tool.Plan(ctx, g)
	row.PlanNanos, row.Cut = time.Since(start).Nanoseconds(), ctx.Err() != nil
	if err != nil {
		return err
	}
	row.ArenaBytes, row.Buffers, row.Unsound = p.Arena, p.Buffers, p.Unsound()
	return nil
}
