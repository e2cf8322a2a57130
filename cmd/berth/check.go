package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/testmodels/conformance"
)

// verification runs a model and its optimized form on the same inputs.
type verification struct {
	a      *app
	m, opt *berth.Model
	set    *conformance.Set
	f      optimizeFlags
	res    *optimizeJSON
}

// tried are the sizes given to open dimensions, in turn, until the model runs.
var tried = []int{1, 2, 16, 32, 64, 160, 224}

// run notes the shapes that ran, and the outcome or why there is none. Its error
// is a cancellation.
func (v *verification) run(ctx context.Context) error {
	var last error
	for try := range 2 * len(tried) {
		size, lastOnly := tried[try/2], try%2 == 1
		shapes, err := v.a.bindShapes(v.m, v.set)
		if err != nil {
			last = err
			break
		}
		if open := growOpen(v.m, shapes, v.set, size, lastOnly); !open && try > 0 {
			break
		}
		in, err := v.a.randomInputs(v.m, shapes, given(v.set))
		if err != nil {
			last = err
			break
		}
		want, err := v.m.RunValues(ctx, in, berth.WithoutPasses(), berth.WithThreads(v.a.threads))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			last = err
			continue
		}
		v.res.Shapes = shapes
		if v.f.noVerify {
			return nil
		}
		return v.compare(ctx, in, want)
	}
	v.res.Note = "the model itself does not run on random inputs"
	if last != nil {
		v.res.Note += " (" + last.Error() + ")"
	}
	v.res.Note += "; give inputs with --data or shapes with --shape"
	return nil
}

// growOpen sets open dimensions to size; it reports whether there are any. Batch
// dimensions stay 1: those that come first, and their symbol wherever it stands.
// With lastOnly, only the last dimension of each input grows.
func growOpen(m *berth.Model, shapes map[string][]int, set *conformance.Set, size int, lastOnly bool) bool {
	open := false
	have := given(set)
	batch := map[string]bool{}
	for _, in := range m.Inputs() {
		if len(in.Type.Shape) > 1 {
			if s, ok := in.Type.Shape[0].SymbolName(); ok {
				batch[s] = true
			}
		}
	}
	for _, in := range m.Inputs() {
		if have[in.Name] != nil || in.Type.Rank() != len(shapes[in.Name]) {
			continue
		}
		for i, d := range in.Type.Shape {
			if _, ok := d.Const(); ok || shapes[in.Name][i] != 1 {
				continue
			}
			open = true
			s, _ := d.SymbolName()
			if i > 0 && !batch[s] && (!lastOnly || i == len(in.Type.Shape)-1) {
				shapes[in.Name][i] = size
			}
		}
	}
	return open
}

// compare runs the optimized model and compares its outputs with those wanted.
func (v *verification) compare(ctx context.Context, in, want map[string]ndarray.Value) error {
	got, err := v.opt.RunValues(ctx, in, berth.WithThreads(v.a.threads))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.a.note("berth: the optimized model fails: %v", err)
		return nil
	}
	v.res.Verified = true
	tol := conformance.Tolerance{Rtol: v.f.rtol, Atol: v.f.atol}
	for _, o := range v.m.Outputs() {
		if d := conformance.Compare(got[o.Name], want[o.Name], tol); d != nil {
			v.res.Verified = false
			v.a.note("berth: output %q: %v", o.Name, d)
		}
		x, ok1 := got[o.Name].(*ndarray.Array)
		y, ok2 := want[o.Name].(*ndarray.Array)
		if ok1 && ok2 {
			v.res.MaxDiff = max(v.res.MaxDiff, maxAbsDiff(x, y))
		}
	}
	return nil
}

// shapesText prints shapes as --shape takes them, in the order of the names.
func shapesText(shapes map[string][]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		parts = append(parts, name+"="+strings.ReplaceAll(strings.Trim(fmt.Sprint(shapes[name]), "[]"), " ", "x"))
	}
	return strings.Join(parts, " ")
}
