package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Folding computes what is the same in every run, with reference kernels. The file has what rewriting folded, and the original is
// folded, too, before it runs, so a fold that is wrong would be wrong in both. So the original also runs with nothing folded: every node of
// the file is computed while it runs, by the kernels of the CPU where there are such for it.
//
//	original ─┬─ folded, run ────▶ outputs ◀──▶ outputs of the result
//	          └─ run as it is ───▶ outputs ◀──▶ those of the folded original, by the same rules
//
// That is done for the first inputs, and for those that enter a branch or a body that no such run has entered: what is folded depends on shapes at most. An
// operator that only the reference kernel computes is named: its constants have been computed twice, but not in two ways. What both runs
// have in common beside: the importer, and types and shapes, which are inferred once.

// foldingJSON says how far the constants of the result were computed in a second way.
type foldingJSON struct {
	Nodes   int      `json:"nodes"`                  // of the original that folding computes before the first run; 0: there was nothing to check
	Checked bool     `json:"checked"`                // with nothing folded the outputs of the original are the same
	Same    []string `json:"same_kernels,omitempty"` // operators folded that the original ran with the kernel that folding uses, too: there is no other
	Why     string   `json:"not_checked,omitempty"`  // why the original did not run with nothing folded

	wrong   bool // the outputs differ
	entered int  // bodies that such runs have entered
	done    bool
}

// unfolded leaves out what computes nodes ahead of time. The program runs once, so neither order nor plan is searched for long.
var unfolded = []berth.Option{berth.WithoutPasses(), berth.WithoutPass("fold"), berth.WithoutPass("shape-fold"), berth.WithSchedule("file"), berth.WithPlanner("greedy-size")}

// checkFolding runs the original with nothing folded, unless that has shown all it can, and compares its outputs with those wanted, of the
// folded one. Its only error is a cancellation.
func (v *verification) checkFolding(ctx context.Context, in, want map[string]ndarray.Value) error {
	f, entered, largest := &v.res.Folding, v.ran.entered(), v.res.MaxDiff
	if f.done && entered == f.entered || f.Why != "" {
		return nil
	}
	f.entered, f.done = entered, true
	n, err := v.foldedNodes(ctx, in)
	if err == nil && n == 0 {
		return ctx.Err()
	}
	f.Nodes = max(f.Nodes, n)
	p, err := v.ran.of(v.m).Compile(ctx, slices.Concat(v.a.limits(), shapesIn(in), unfolded)...)
	var got map[string]ndarray.Value
	if err == nil {
		got, err = p.RunValues(ctx, in)
	}
	if err != nil {
		f.Checked, f.Why = false, err.Error()
		return ctx.Err()
	}
	v.nameSameKernels(p)
	v.unfolded = 1
	err = v.hold(ctx, in, got, want)
	if v.unfolded = 0; err != nil {
		return err
	}
	if f.Checked, f.wrong = v.res.Verified, v.res.differed; f.Checked {
		v.res.MaxDiff = largest // of the result alone
	}
	return nil
}

// foldedNodes is how many nodes folding computes for the shapes of some inputs, or makes superfluous.
func (v *verification) foldedNodes(ctx context.Context, in map[string]ndarray.Value) (n int, err error) {
	g, err := v.m.Folded(ctx, append(v.a.limits(), append(shapesIn(in), berth.WithSchedule("file"))...)...)
	if err != nil {
		return 0, err
	}
	return read(v.m, countNodes) - countNodes(g), nil
}

func countNodes(g *ssa.Graph) (n int) {
	g.Walk(func(b *ssa.Graph) { n += len(b.Nodes) })
	return n
}

// fixedOps are the operators, "domain.Name" outside the default domain, of nodes that are the same in every run, by the names of their results.
func fixedOps(g *ssa.Graph) map[string]string {
	sources, fixed := trial.SourcesOf(g), map[string]string{}
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			for _, r := range n.Out {
				if r != nil && sources.Fixed(r) {
					fixed[r.Name] = strings.TrimPrefix(n.Domain+"."+n.Op, ".")
				}
			}
		}
	})
	return fixed
}

// nameSameKernels lists the operators, "domain.Name" outside the default domain, of nodes that are the same in every run and that a program computes with reference kernels. Of kernels that are
// chosen while it runs nothing is known, so they count as such.
func (v *verification) nameSameKernels(p *berth.Program) {
	fixed := read(v.m, fixedOps)
	f := &v.res.Folding
	p.Steps(func(s berth.Step) {
		if !s.Kernel() || !s.IsOpen() && s.Choice().Algorithm != "reference" {
			return
		}
		for _, name := range s.Results() {
			if op := fixed[name]; op != "" {
				f.Same = append(f.Same, op)
			}
		}
	})
	slices.Sort(f.Same)
	f.Same = slices.Compact(f.Same)
}

// text says what was checked, "" where there was nothing to check.
func (f *foldingJSON) text() string {
	switch {
	case f.Nodes == 0 || !f.done:
		return ""
	case f.Why != "":
		return fmt.Sprintf("nodes folded: %d, which was not checked: with nothing folded the model does not run (%s)", f.Nodes, f.Why)
	case len(f.Same) > 0:
		return fmt.Sprintf("nodes folded: %d; the same outputs with nothing folded; only one kernel computes %s", f.Nodes, strings.Join(f.Same, ", "))
	}
	return fmt.Sprintf("nodes folded: %d; the same outputs with nothing folded and other kernels", f.Nodes)
}
