package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

	ran       *coverage // of the original
	precision precision
	wide      *wideModels // made when first needed
	noted     float64     // the difference that res.Note tells of, for 16-bit floats
	variant   bool        // the inputs compared are no ordinary ones, but scaled or empty; see variants.go
	scaled    bool
}

func (a *app) newVerification(m, opt *berth.Model, have map[string]ndarray.Value, f optimizeFlags, res *optimizeJSON) *verification {
	return &verification{a: a, m: m, opt: opt, have: have, f: f, res: res, ran: newCoverage(), precision: leastPrecise(m.Graph())}
}

// mostCompared bounds the arithmetic of one comparison after the first, in FLOPs of one run.
const mostCompared = 20e9

// run compares the models for the shapes given, or for several sizes of what is open, and records shapes and outcome, or why
// there was none. The only error is a cancellation.
func (v *verification) run(ctx context.Context) error {
	defer func() { v.wide.Close() }()
	v.res.Verified = !v.f.noVerify
	if err := v.cases(ctx); err != nil || v.res.Shapes != nil {
		v.res.NotRun = v.ran.hidden(v.m)
		return err
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
	v.res.NotRun = v.ran.hidden(v.m)
	return nil
}

// cases compares the models for several sizes of what is open, and for variants of the first one that ran.
func (v *verification) cases(ctx context.Context) error {
	var first *sizeCase
	for i, c := range v.a.realisticSizes(v.m, v.have) {
		if i > 0 && (v.f.noVerify || !v.res.Verified || v.tooMuch(ctx, c)) {
			break
		}
		err := v.one(ctx, c.shapes, c.in)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && first == nil {
			first = &c
		}
	}
	if first == nil || !v.res.Verified {
		return nil
	}
	return v.variants(ctx, *first)
}

// tooMuch reports that one run with these sizes takes more arithmetic than another comparison is worth.
func (v *verification) tooMuch(ctx context.Context, c sizeCase) bool {
	g, err := v.opt.Folded(ctx, append(v.a.limits(), shapeOptions(c.shapes)...)...)
	return err != nil || berth.StatsOf(g).FLOPs > mostCompared
}

// one runs the original and compares the optimized model with it. Its error is that of the original, which says nothing of
// the optimized one, or a cancellation.
func (v *verification) one(ctx context.Context, shapes map[string][]int, in map[string]ndarray.Value) error {
	want, err := v.original(ctx, in)
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

// original runs the model as it is.
func (v *verification) original(ctx context.Context, in map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	return v.m.RunValues(ctx, in, append(v.a.limits(), berth.WithoutPasses(), berth.WithHook(v.ran.watch))...)
}

// exact leaves out the pass that computes dequantized arithmetic in integers: its results may differ by one quantization step,
// which does not mean that the file is wrong.
var exact = berth.WithoutPass("quantized")

// compare runs the optimized model and compares its outputs with those wanted.
func (v *verification) compare(ctx context.Context, in, want map[string]ndarray.Value) error {
	if !v.variant {
		v.count(want)
	}
	got, err := v.opt.RunValues(ctx, in, append(v.a.limits(), exact)...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.res.Verified, v.res.failure = false, err
		return nil
	}
	made, written := maps.Clone(got), maps.Clone(want)
	v.mask(got, want)
	differences, largest := v.differences(got, want), v.largest(got, want)
	if !v.scaled {
		v.res.MaxDiff = max(v.res.MaxDiff, largest)
	}
	if len(differences) == 0 {
		return nil
	}
	if v.res.Verified, err = v.withinRounding(ctx, in, written, largest); err != nil || v.res.Verified {
		return err
	}
	if v.res.Verified, err = v.asAccurate(ctx, in, made, written, largest); err != nil || v.res.Verified {
		return err
	}
	v.res.differed = true
	v.res.MaxDiff = max(v.res.MaxDiff, largest)
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
		if d := conformance.Compare(got[o.Name], want[o.Name], v.tolerance(want[o.Name])); d != nil {
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

// withinRounding decides whether rounding explains differences of up to largest, of a model that quantizes while it runs or of scaled inputs. Where a value is
// half way between two quantization steps, the rounding error of a sum selects one of them, and later nodes amplify that: the
// results of such a model vary by more than the tolerance. To measure by how much, the original model is run with other
// kernels, which add in another order. The optimized model may differ a few times as much, since each run is one sample.
func (v *verification) withinRounding(ctx context.Context, in, want map[string]ndarray.Value, largest float64) (bool, error) {
	const samples = 4
	if !quantizesWhileRunning(v.m) && !v.scaled {
		return false, nil
	}
	v.a.note("berth: outputs differ by up to %.3g; running the model once more, as it is with other kernels, to see how much of that is rounding", largest)
	other, err := v.m.RunValues(ctx, in, append(v.a.limits(), berth.WithoutPasses(), berth.WithBackend("reference"))...)
	if err != nil {
		return false, ctx.Err()
	}
	v.mask(other, want)
	scatter := v.largest(other, want)
	if !(largest <= samples*scatter) || math.IsInf(scatter, 0) {
		return false, nil
	}
	if !v.scaled {
		v.res.Note = fmt.Sprintf("outputs differ by up to %.3g; the model quantizes while it runs, and the order of sums alone makes up to %.3g", largest, scatter)
	}
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
