package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Inputs besides the ordinary ones. Random inputs around 1 show neither numbers that leave the range of a type nor what a
// model makes of an empty tensor, so two models are also compared with
//
//	inputs x 1000, x 0.001     the floats of the first case, those given aside
//	an open dimension of 0     each in turn, where the original runs with it
//	1 - x for integers, flags  where branches or loops have not run
//
// With scaled inputs the original may overflow where the result does not, because an intermediate result is gone; so only
// elements that are finite in the original count. The original may depend on rounding more than the tolerance allows; what
// the order of sums makes is measured, as in [verification.withinRounding].

// most open dimensions that are tried as 0.
const mostEmpty = 4

// variants compares the models for inputs made of those of a case that ran.
func (v *verification) variants(ctx context.Context, c sizeCase) error {
	v.variant = true
	for _, factor := range []float64{1e3, 1e-3} {
		in, any := v.scaledInputs(c.in, factor)
		if !any || !v.res.Verified || v.tooMuch(ctx, c) {
			break
		}
		v.scaled = true
		err := v.again(ctx, fmt.Sprintf("floats x %g", factor), in)
		v.scaled = false
		if err != nil {
			return err
		}
	}
	for _, shapes := range v.emptyShapes(c.shapes) {
		in, err := v.a.randomInputs(v.m, shapes, v.have)
		if err != nil || !v.res.Verified {
			continue
		}
		if err := v.again(ctx, allShapesText(shapes), in); err != nil {
			return err
		}
	}
	if in, any := v.exchanged(c.in); any && v.res.Verified && len(v.ran.hidden(v.m)) > 0 {
		return v.again(ctx, "integers and flags 1 - x", in)
	}
	return nil
}

// exchanged makes 0 of 1 and 1 of 0 in integers and flags that were not given, which are random ones.
func (v *verification) exchanged(in map[string]ndarray.Value) (map[string]ndarray.Value, bool) {
	return v.changed(in, func(a *ndarray.Array) bool { return a.DType.IsInteger() || a.DType == ndarray.Bool }, func(a *ndarray.Array, i int) {
		a.SetInt(i, 1-a.Int(i))
	})
}

// changed changes the elements of inputs that were not given and of which ok holds; any says whether there are some.
func (v *verification) changed(in map[string]ndarray.Value, ok func(a *ndarray.Array) bool, change func(a *ndarray.Array, i int)) (out map[string]ndarray.Value, any bool) {
	out = maps.Clone(in)
	for name, x := range in {
		a, isArray := x.(*ndarray.Array)
		if !isArray || !ok(a) || v.have[name] != nil {
			continue
		}
		clone, err := ndarray.CloneIn(v.a.memory, a)
		if err != nil {
			return in, false // what there is no memory for is not tried
		}
		a = clone.(*ndarray.Array)
		for i := range elements(v.a.ctx, a.Len()) {
			change(a, i)
		}
		out[name], any = a, true
	}
	return out, any
}

// again compares the models for some inputs, if the original runs with them. Its only error is a cancellation.
func (v *verification) again(ctx context.Context, what string, in map[string]ndarray.Value) error {
	want, err := v.original(ctx, in)
	if err != nil {
		return ctx.Err()
	}
	v.res.Variants = append(v.res.Variants, what)
	if err := v.compare(ctx, in, want); err != nil || v.res.Verified {
		return err
	}
	v.a.note("berth: these are the outputs for %s", what)
	return nil
}

// scaledInputs multiplies floats that were not given.
func (v *verification) scaledInputs(in map[string]ndarray.Value, factor float64) (map[string]ndarray.Value, bool) {
	return v.changed(in, func(a *ndarray.Array) bool { return a.DType.IsFloat() }, func(a *ndarray.Array, i int) { a.SetFloat(i, a.Float(i)*factor) })
}

// emptyShapes are the shapes of a case with one open dimension of 0, wherever its symbol stands.
func (v *verification) emptyShapes(of map[string][]int) (all []map[string][]int) {
	dims, done := v.a.boundDims(v.m, v.have), map[string]bool{}
	for _, in := range v.m.Inputs() {
		if v.have[in.Name] != nil || v.a.shapes[in.Name] != nil || in.Type.Rank() != len(of[in.Name]) {
			continue
		}
		for i, d := range in.Type.Bind(dims).Shape {
			key := d.String()
			if _, known := d.Const(); known || d.Known() && done[key] || len(all) == mostEmpty {
				continue
			}
			done[key] = true
			all = append(all, v.emptied(of, in.Name, i, d))
		}
	}
	return all
}

// emptied sets dimension i of an input, and all dimensions equal to d, to 0.
func (v *verification) emptied(of map[string][]int, name string, i int, d ssa.Dim) map[string][]int {
	shapes := map[string][]int{}
	for n, s := range of {
		shapes[n] = slices.Clone(s)
	}
	shapes[name][i] = 0
	for _, in := range v.m.Inputs() {
		for k, e := range in.Type.Shape {
			if s := shapes[in.Name]; v.have[in.Name] == nil && k < len(s) && e.Equal(d) {
				s[k] = 0
			}
		}
	}
	return shapes
}

// tolerance is what two outputs may differ by. The absolute one is that of outputs around 1: for smaller ones, and with
// scaled inputs for larger ones, it is relative to their largest magnitude, yet never less than what rounding in the
// model's least precise type makes.
func (v *verification) tolerance(want ndarray.Value) conformance.Tolerance {
	tol, s := v.f.tolerance, scaleOf(want)
	if s == 0 || tol.Atol == 0 || s >= 1 && !v.scaled {
		return tol
	}
	own := max(tol.Atol*s, 8*v.precision.unit*s+4*v.precision.step)
	if !v.scaled {
		own = min(own, tol.Atol)
	}
	tol.Atol = own
	return tol
}

// mask clears what does not count in outputs for scaled inputs.
func (v *verification) mask(got, want map[string]ndarray.Value) {
	for name := range want {
		if v.scaled {
			got[name], want[name] = onlyFinite(got[name], want[name])
		}
	}
}

// onlyFinite returns both outputs with 0 for the elements that are not finite in want.
func onlyFinite(got, want ndarray.Value) (ndarray.Value, ndarray.Value) {
	w, ok1 := want.(*ndarray.Array)
	g, ok2 := got.(*ndarray.Array)
	if !ok1 || !ok2 || !w.DType.IsFloat() || g.DType != w.DType || g.Len() != w.Len() {
		return got, want
	}
	g, w = g.Clone(), w.Clone()
	for i := range w.Len() {
		if x := w.Float(i); math.IsNaN(x) || math.IsInf(x, 0) {
			g.SetFloat(i, 0)
			w.SetFloat(i, 0)
		}
	}
	return g, w
}
