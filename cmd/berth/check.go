package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// verification runs a model and its optimized form on the same inputs.
type verification struct {
	a      *app
	m, opt *berth.Model
	have   map[string]ndarray.Value
	f      optimizeFlags
	res    *optimizeJSON
}

// run notes the shapes that ran, and the outcome or why there is none. Its error
// is a cancellation.
func (v *verification) run(ctx context.Context) error {
	var ran map[string]ndarray.Value // inputs with which the model ran, and its outputs
	var want map[string]ndarray.Value
	err := v.a.withOpenSizes(ctx, v.m, v.have, func(shapes map[string][]int, in map[string]ndarray.Value) error {
		got, err := v.m.RunValues(ctx, in, berth.WithoutPasses(), berth.WithThreads(v.a.threads))
		if err == nil {
			ran, want, v.res.Shapes = in, got, shapes
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		v.res.Note = fmt.Sprintf("the model itself does not run on random inputs (%v); give inputs with --data or shapes with --shape", err)
		return nil
	case v.f.noVerify:
		return nil
	}
	return v.compare(ctx, ran, want)
}

// exact leaves out the pass that computes in integers what a file says in real
// numbers: it may be a step of a scale away, which says nothing about the file.
var exact = berth.WithoutPass("quantized")

// compare runs the optimized model and compares its outputs with those wanted.
func (v *verification) compare(ctx context.Context, in, want map[string]ndarray.Value) error {
	got, err := v.opt.RunValues(ctx, in, exact, berth.WithThreads(v.a.threads))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.a.note("berth: the optimized model fails: %v", err)
		return nil
	}
	differences := v.differences(got, want)
	v.res.Verified = len(differences) == 0
	v.res.MaxDiff = v.largest(got, want)
	if v.res.Verified {
		return nil
	}
	if v.res.Verified, err = v.withinRounding(ctx, in, want); err != nil || v.res.Verified {
		return err
	}
	for _, d := range differences {
		v.a.note("berth: %s", d)
	}
	return nil
}

// differences lists the outputs that differ beyond the tolerance.
func (v *verification) differences(got, want map[string]ndarray.Value) (all []string) {
	for _, o := range v.m.Outputs() {
		if d := conformance.Compare(got[o.Name], want[o.Name], v.f.tolerance); d != nil {
			all = append(all, fmt.Sprintf("output %q: %v", o.Name, d))
		}
	}
	return all
}

// largest is the largest difference in any output.
func (v *verification) largest(got, want map[string]ndarray.Value) (d float64) {
	for _, o := range v.m.Outputs() {
		x, ok1 := got[o.Name].(*ndarray.Array)
		y, ok2 := want[o.Name].(*ndarray.Array)
		if ok1 && ok2 {
			d = max(d, maxAbsDiff(x, y))
		}
	}
	return d
}

// withinRounding settles differences of models that quantize while they run. Where
// a value lies half way between two steps, the rounding of a sum decides for one of
// them, and what follows multiplies that: such a model has no answer to within the
// tolerance. How far its answers scatter is seen by running the file as it is with
// other kernels, which sum in another order; the optimized one may be a few times
// as far away, for it is one sample against another.
func (v *verification) withinRounding(ctx context.Context, in, want map[string]ndarray.Value) (bool, error) {
	const samples = 4
	if !quantizesWhileRunning(v.m) {
		return false, nil
	}
	v.a.note("berth: outputs differ by up to %.3g; running the model once more, as it is with other kernels, to see how much of that is rounding", v.res.MaxDiff)
	other, err := v.m.RunValues(ctx, in, berth.WithoutPasses(), berth.WithBackend("reference"), berth.WithThreads(v.a.threads))
	if err != nil {
		return false, ctx.Err()
	}
	scatter := v.largest(other, want)
	if !(v.res.MaxDiff <= samples*scatter) {
		return false, nil
	}
	v.res.Note = fmt.Sprintf("outputs differ by up to %.3g; the model quantizes while it runs, and the order of sums alone makes up to %.3g", v.res.MaxDiff, scatter)
	return true, nil
}

// quantizesWhileRunning reports a node that rounds computed values to few steps.
func quantizesWhileRunning(m *berth.Model) (found bool) {
	m.Graph().Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			found = found || strings.HasPrefix(n.Op, "QuantizeLinear") || strings.HasPrefix(n.Op, "DynamicQuantize")
		}
	})
	return found
}
