package main

import (
	"context"
	"fmt"

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

// run notes the shapes that ran, and the outcome or why there is none. Its error
// is a cancellation.
func (v *verification) run(ctx context.Context) error {
	var ran map[string]ndarray.Value // inputs with which the model ran, and its outputs
	var want map[string]ndarray.Value
	err := v.a.withOpenSizes(ctx, v.m, given(v.set), func(shapes map[string][]int, in map[string]ndarray.Value) error {
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
