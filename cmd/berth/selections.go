package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ssa"
)

// Selections. A network that detects finds nothing in inputs unlike its own, so its outputs are empty and tell nothing of what computes them. Then the values
// that the selections read are compared, as further outputs of both models:
//
//	convolutions ──▶ scores ──▶ Greater, TopK, NonMaxSuppression ──▶ boxes [0,4]
//	                   └─ compared                                     └─ empty
//
// Rewriting keeps the names of values that it does not replace; of the others, and of what follows the last selection, nothing is known, so the result is
// verified in part.

// selecting are the operators whose results depend on which numbers are larger.
var selecting = []string{"ArgMax", "ArgMin", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "NonMaxSuppression", "TopK"}

// selected compares what selections read while an output has had no element, with the first inputs. Its only error is a cancellation.
func (v *verification) selected(ctx context.Context) error {
	if v.f.noVerify || v.first == nil || !v.res.Verified || len(v.unseen()) == 0 {
		return nil
	}
	names := selectedFrom(v.m.Graph(), v.opt.Graph())
	m, err := v.withOutputs(ctx, v.m, names)
	if err != nil || len(names) == 0 {
		return ctx.Err()
	}
	defer m.Close()
	opt, err := v.withOutputs(ctx, v.opt, names)
	if err != nil {
		return ctx.Err()
	}
	defer opt.Close()
	res := optimizeJSON{Verified: true, Folding: foldingJSON{Why: "the outputs themselves were compared"}}
	w := v.a.newVerification(m, opt, v.have, v.f, &res)
	w.ran = &coverage{}
	defer func() { w.wide.Close() }()
	want, err := m.RunValues(ctx, v.first.in, append(v.a.limits(), berth.WithoutPasses())...)
	if err != nil {
		return ctx.Err()
	}
	if err = w.compare(ctx, v.first.in, want); err == nil {
		err = w.judge(ctx)
	}
	v.res.Verified, v.res.differed, v.res.failure, v.res.MaxDiff = res.Verified, res.differed, res.failure, max(v.res.MaxDiff, res.MaxDiff)
	for _, name := range names {
		if res.Verified && w.seen[name] > 0 {
			v.res.Selected = append(v.res.Selected, name)
		}
	}
	return err
}

// selectedFrom names the computed values that selections of the original read and that the result has, too.
func selectedFrom(m, opt *ssa.Graph) (names []string) {
	has := map[string]bool{}
	for _, n := range opt.Nodes {
		for _, o := range n.Out {
			if o != nil && !slices.Contains(opt.Results, o) {
				has[o.Name] = true
			}
		}
	}
	for _, n := range m.Nodes {
		if n.Domain != "" || !slices.Contains(selecting, n.Op) {
			continue
		}
		for _, x := range n.In {
			if x != nil && x.Def != nil && has[x.Name] && !slices.Contains(m.Results, x) {
				names = append(names, x.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withOutputs is a model with further outputs, of the shapes of the first case.
func (v *verification) withOutputs(ctx context.Context, m *berth.Model, names []string) (*berth.Model, error) {
	return m.Extend(ctx, func(_ context.Context, g *ssa.Graph) error {
		for _, name := range names {
			i := slices.IndexFunc(g.Nodes, func(n *ssa.Node) bool { return outputNamed(n, name) != nil })
			if i < 0 {
				return fmt.Errorf("no node computes %q", name)
			}
			g.Results = append(g.Results, outputNamed(g.Nodes[i], name))
		}
		return nil
	}, append(v.a.limits(), shapesIn(v.first.in)...)...)
}

func outputNamed(n *ssa.Node, name string) *ssa.Value {
	for _, o := range n.Out {
		if o != nil && o.Name == name {
			return o
		}
	}
	return nil
}
