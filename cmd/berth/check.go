package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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

// mostCompared bounds the arithmetic of one comparison after the first, in FLOPs of one run.
const mostCompared = 20e9

// run compares the models for the shapes given, or for several sizes of what is open, and records shapes and outcome, or why
// there was none. The only error is a cancellation.
func (v *verification) run(ctx context.Context) error {
	v.res.Verified = !v.f.noVerify
	cases := v.a.realisticSizes(v.m, v.have)
	for i, c := range cases {
		if i > 0 && (v.f.noVerify || !v.res.Verified || v.tooMuch(ctx, c)) {
			break
		}
		if err := v.one(ctx, c.shapes, c.in); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if v.res.Shapes != nil {
		return nil
	}
	err := v.a.withOpenSizes(ctx, v.m, v.have, func(shapes map[string][]int, in map[string]ndarray.Value) error { return v.one(ctx, shapes, in) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		v.res.Verified = false
		remedy := "give inputs with --data or shapes with --shape"
		if len(v.have) > 0 {
			remedy = "check --data"
		}
		if memory := (*ops.MemoryError)(nil); errors.As(err, &memory) {
			remedy = "allow more with --max-memory"
		}
		v.res.Note = fmt.Sprintf("the model itself does not run on these inputs (%v); %s", err, remedy)
	}
	return nil
}

// tooMuch reports that one run with these sizes takes more arithmetic than another comparison is worth.
func (v *verification) tooMuch(ctx context.Context, c sizeCase) bool {
	g, err := v.opt.Folded(ctx, shapeOptions(c.shapes)...)
	return err != nil || berth.StatsOf(g).FLOPs > mostCompared
}

// one runs the original and compares the optimized model with it. Its error is that of the original, which says nothing of
// the optimized one, or a cancellation.
func (v *verification) one(ctx context.Context, shapes map[string][]int, in map[string]ndarray.Value) error {
	want, err := v.m.RunValues(ctx, in, berth.WithoutPasses(), berth.WithThreads(v.a.threads), berth.WithMaxMemory(v.a.memoryLimit))
	if err != nil {
		return err
	}
	if v.res.Shapes == nil {
		v.res.Shapes = shapes
	}
	if v.f.noVerify {
		return nil
	}
	v.res.Tried = append(v.res.Tried, shapes)
	return v.compare(ctx, in, want)
}

// exact leaves out the pass that computes dequantized arithmetic in integers: its results may differ by one quantization step,
// which does not mean that the file is wrong.
var exact = berth.WithoutPass("quantized")

// compare runs the optimized model and compares its outputs with those wanted.
func (v *verification) compare(ctx context.Context, in, want map[string]ndarray.Value) error {
	v.count(want)
	got, err := v.opt.RunValues(ctx, in, exact, berth.WithThreads(v.a.threads), berth.WithMaxMemory(v.a.memoryLimit))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.res.Verified, v.res.failure = false, err
		return nil
	}
	differences := v.differences(got, want)
	v.res.MaxDiff = max(v.res.MaxDiff, v.largest(got, want))
	if len(differences) == 0 {
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

// count adds the elements of the original's outputs, and those that are no finite numbers.
func (v *verification) count(want map[string]ndarray.Value) {
	for _, o := range want {
		if a, ok := o.(*ndarray.Array); ok {
			nan, inf := nonFinite(a)
			v.res.NaN, v.res.Inf, v.res.Elements = v.res.NaN+nan, v.res.Inf+inf, v.res.Elements+a.Len()
		}
	}
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

// withinRounding decides whether rounding explains the differences of a model that quantizes while it runs. Where a value is
// half way between two quantization steps, the rounding error of a sum selects one of them, and later nodes amplify that: the
// results of such a model vary by more than the tolerance. To measure by how much, the original model is run with other
// kernels, which add in another order. The optimized model may differ a few times as much, since each run is one sample.
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
	if !(v.res.MaxDiff <= samples*scatter) || math.IsInf(scatter, 0) {
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
