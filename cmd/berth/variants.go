package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Inputs besides the ordinary ones. Random inputs around 1 show neither numbers that leave the range of a type nor what a
// model makes of an empty tensor, so two models are also compared with
//
//	inputs x 1000, x 0.001     the floats of the first case, those given aside
//	an open dimension of 0     each in turn, where the original runs with it
//	1 - x for integers, flags  where branches or loops have not run, or an output is empty
//	other seeds, shifts        while an output is empty
//	constants                  for integers that the model compares with them ([trial.Compared]), beside them either flag where there are bodies
//	other counts and indices   for integers whose use is known ([trial.Role])
//	3, 1 and 0 members         for sequences; absent for optional inputs
//	recorded inputs            of the folders test_data_set_* beside the model
//
// With scaled inputs the original may overflow where the result does not, because an intermediate result is gone; so only
// elements that are finite in the original count. The original may depend on rounding more than the tolerance allows; what
// the order of sums makes is measured, as in [verification.withinRounding]. Where rounding makes as much as the outputs are large, a comparison with scaled
// inputs says nothing and is not told as one.

// most open dimensions that are tried as 0.
const mostEmpty = 4

// variants compares the models for inputs made of those of a case that ran.
func (v *verification) variants(ctx context.Context) error {
	c := v.first
	v.variant = true
	for _, factor := range []float64{1e3, 1e-3} {
		in, any := v.scaledInputs(c.in, factor)
		if !any || !v.res.Verified || v.tooMuch(ctx, c.shapes) {
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
	bodies, _ := v.ran.hidden()
	if in, any := v.exchanged(c.in); any && v.res.Verified && len(bodies)+len(v.unseen()) > 0 {
		return v.again(ctx, "integers and flags 1 - x", in)
	}
	return nil
}

// mostTexts bounds the comparisons for further strings.
const mostTexts = 8

// texts compares the models for the strings worth trying that the first case had no elements for.
func (v *verification) texts(ctx context.Context) error {
	fewest, words := math.MaxInt, len(read(v.m, trial.Words))
	for name, x := range v.first.in {
		if a, ok := x.(*ndarray.Array); ok && v.have[name] == nil && a.DType == ndarray.String && a.Len() > 0 {
			fewest = min(fewest, a.Len())
		}
	}
	for k := 1; k <= min(mostTexts, (words-1)/fewest) && !v.settled() && !v.tooMuch(ctx, v.first.shapes); k++ {
		other := *v.a
		other.seed += int64(k * fewest)
		in, err := other.randomInputs(v.m, v.first.shapes, v.have)
		if err != nil {
			return ctx.Err()
		}
		if err := v.again(ctx, fmt.Sprintf("--seed %d", other.seed), in); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// hits compares the models for further inputs while an output has had no element, as that of a search without hits.
func (v *verification) hits(ctx context.Context) error {
	const seeds = 3
	for k := range int64(seeds) {
		other := *v.a
		other.seed += k + 1
		in, err := other.randomInputs(v.m, v.first.shapes, v.have)
		if err != nil {
			return ctx.Err()
		}
		if err := v.hit(ctx, fmt.Sprintf("--seed %d", other.seed), in, true); err != nil {
			return err
		}
	}
	for _, shift := range []float64{10, -10} {
		in, any := v.changed(v.first.in, func(a *ndarray.Array) bool { return a.DType.IsFloat() || a.DType.IsInteger() && shift > 0 }, func(a *ndarray.Array, i int) { a.SetFloat(i, a.Float(i)+shift) })
		if err := v.hit(ctx, fmt.Sprintf("numbers %+g", shift), in, any); err != nil {
			return err
		}
	}
	for _, factor := range []float64{1e12, -1e12} {
		in, any := v.scaledInputs(v.first.in, factor)
		if err := v.hit(ctx, fmt.Sprintf("floats x %g", factor), in, any); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// hit compares the models for inputs if there are any and an output has had no element.
func (v *verification) hit(ctx context.Context, what string, in map[string]ndarray.Value, any bool) error {
	if !any || v.settled() || len(v.unseen()) == 0 || v.tooMuch(ctx, v.first.shapes) {
		return ctx.Err()
	}
	v.scaled = true
	defer func() { v.scaled = false }()
	return v.again(ctx, what, in)
}

// exchanged makes 0 of 1 and 1 of 0 in integers and flags that were not given and of whose use nothing is known, which are random ones.
func (v *verification) exchanged(in map[string]ndarray.Value) (map[string]ndarray.Value, bool) {
	plain := maps.Clone(in)
	if !v.a.drawing.plain {
		maps.DeleteFunc(plain, func(name string, _ ndarray.Value) bool { return v.a.rolesOf(v.m)[name].Kind != trial.Plain })
	}
	out, any := v.changed(plain, func(a *ndarray.Array) bool { return a.DType.IsInteger() || a.DType == ndarray.Bool }, func(a *ndarray.Array, i int) {
		a.SetInt(i, 1-a.Int(i))
	})
	all := maps.Clone(in)
	maps.Copy(all, out)
	return all, any
}

// changed changes the elements of inputs that were not given and of which ok holds, also in sequences and optional values; any says whether there are some.
func (v *verification) changed(in map[string]ndarray.Value, ok func(a *ndarray.Array) bool, change func(a *ndarray.Array, i int)) (out map[string]ndarray.Value, any bool) {
	out = maps.Clone(in)
	for name, x := range in {
		if v.have[name] != nil {
			continue
		}
		y, err := mapped(x, func(a *ndarray.Array) (*ndarray.Array, error) {
			if !ok(a) {
				return a, nil
			}
			ctx := v.a.within()
			clone, err := ndarray.CloneIn(ctx, v.a.memory, a)
			if err != nil {
				return nil, err
			}
			any, a = true, clone.(*ndarray.Array)
			for i := range elements(ctx, a.Len()) {
				change(a, i)
			}
			return a, ctx.Err()
		})
		if err != nil {
			return in, false // what there is no memory for is not tried
		}
		out[name] = y
	}
	return out, any
}

// mapped is a value with other tensors in the place of its own.
func mapped(x ndarray.Value, f func(*ndarray.Array) (*ndarray.Array, error)) (ndarray.Value, error) {
	switch x := x.(type) {
	case *ndarray.Array:
		return arrayOrNil(f(x))
	case *ndarray.Sequence:
		s := &ndarray.Sequence{Elem: x.Elem}
		for _, item := range x.Items {
			y, err := mapped(item, f)
			if err != nil {
				return nil, err
			}
			if a, ok := y.(*ndarray.Array); ok {
				s.Elem = a.DType
			}
			s.Items = append(s.Items, y)
		}
		return s, nil
	case *ndarray.Optional:
		if x == nil || x.Value == nil {
			return x, nil
		}
		y, err := mapped(x.Value, f)
		return &ndarray.Optional{Value: y}, err
	}
	return x, nil
}

// again compares the models for some inputs, if the original runs with them. Its only error is a cancellation.
func (v *verification) again(ctx context.Context, what string, in map[string]ndarray.Value) error {
	want, err := v.original(ctx, in)
	if err != nil {
		v.refuse(what, err)
		return ctx.Err()
	}
	return v.agree(ctx, what, in, want)
}

// agree compares the models for inputs for which the original gave want.
func (v *verification) agree(ctx context.Context, what string, in, want map[string]ndarray.Value) error {
	v.variant, v.vague = true, false
	some := slices.Max(append(slices.Collect(maps.Values(v.comparable(want))), 0)) > 0
	if err := v.compare(ctx, in, want); err != nil {
		return err
	}
	if !v.scaled || some && !v.vague || !v.res.Verified {
		v.res.Variants = append(v.res.Variants, what)
	}
	if v.res.Verified {
		return nil
	}
	v.a.note("berth: these are the outputs for %s", what)
	return nil
}

// scaledInputs multiplies floats that were not given.
func (v *verification) scaledInputs(in map[string]ndarray.Value, factor float64) (map[string]ndarray.Value, bool) {
	return v.changed(in, func(a *ndarray.Array) bool { return a.DType.IsFloat() }, func(a *ndarray.Array, i int) { a.SetFloat(i, a.Float(i)*factor) })
}

// emptyShapes are the shapes of a case with one open dimension of 0.
func (v *verification) emptyShapes(of map[string][]int) (all []map[string][]int) {
	for _, p := range v.a.openPlaces(v.m, v.have, of) {
		if len(all) < mostEmpty {
			all = append(all, v.a.withSize(v.m, v.have, of, p, 0))
		}
	}
	return all
}

// mostSingles bounds the cases in which one dimension differs from the first case.
const mostSingles = 24

// singles compares the models for sizes of each open dimension by itself.
func (v *verification) singles(ctx context.Context) error {
	c := v.first
	v.res.together = len(v.res.Tried)
	places, left := v.a.openPlaces(v.m, v.have, c.shapes), mostSingles
	of := read(v.m, spanOf)
	taken := make([][]string, len(places))
	for k := range 5 {
		for i, p := range places {
			n := v.single(p, c.shapes[p.input][p.axis], k, of)
			if left == 0 || n == 0 || v.settled() {
				continue
			}
			left--
			shapes := v.a.withSize(v.m, v.have, c.shapes, p, n)
			if v.tooMuch(ctx, shapes) {
				continue
			}
			ran, err := v.try(ctx, shapes)
			if err != nil {
				return err
			}
			if ran {
				taken[i] = append(taken[i], fmt.Sprint(n))
			}
		}
	}
	for i, p := range places {
		if len(taken[i]) > 0 {
			v.res.single = append(v.res.single, p.name+"="+strings.Join(taken[i], ", "))
		}
	}
	return nil
}

// single is size k of a dimension by itself, 0 if it is the one of the first case or an earlier one.
func (v *verification) single(p openPlace, base, k int, of span) int {
	sizes := []int{1, 3, base + base/2 | 1}
	port, _ := inputPort(v.m, p.input)
	symbol, _ := p.dim.SymbolName()
	for k := 1; k < 3; k++ {
		sizes = append(sizes, realisticSize(port, symbol, p.axis, k, of))
	}
	if n := sizes[k]; n != base && slices.Index(sizes, n) == k {
		return n
	}
	return 0
}

// forms compares the models for sequences of other lengths, and for optional inputs that are absent.
func (v *verification) forms(ctx context.Context) error {
	tried := map[string]bool{}
	for _, p := range v.m.Inputs() {
		tried[p.Name+": "+formText(p.Type, v.a.drawing.form)] = true
	}
	for form := range forms {
		other := *v.a
		other.drawing.form = form
		in, err := other.randomInputs(v.m, v.first.shapes, v.have)
		if v.settled() || err != nil {
			return ctx.Err()
		}
		for _, p := range v.m.Inputs() { // each by itself
			one := maps.Clone(v.first.in)
			one[p.Name] = in[p.Name]
			what := p.Name + ": " + formText(p.Type, form)
			if v.have[p.Name] != nil || p.Type.Kind == ssa.KindTensor || tried[what] || v.settled() {
				continue
			}
			tried[what] = true
			if err := v.again(ctx, what, one); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// choices compares the models for integers that the original compares its inputs with, which random ones hardly meet, and for others of what it uses them for.
func (v *verification) choices(ctx context.Context) error {
	values := read(v.m, trial.Compared)
	if v.first != nil && !v.tooMuch(ctx, v.first.shapes) {
		for name, role := range v.a.rolesOf(v.m) {
			by := trial.Drawing{Role: role, Len: ndarray.Product(v.first.shapes[name]), Sizes: v.a.sizesIn(v.m, v.first.shapes)}
			for _, x := range by.Others() {
				if !slices.Contains(values[name], x) {
					values[name] = append(values[name], x)
				}
			}
		}
	}
	for _, p := range v.m.Inputs() {
		if p.Type.DType == ndarray.Bool && p.Type.Kind == ssa.KindTensor && p.Type.Ranked && p.Type.Rank() <= 1 && len(v.ran.bodies) > 0 {
			values[p.Name] = []int64{1, 0}
		}
	}
	maps.DeleteFunc(values, func(name string, _ []int64) bool { return v.have[name] != nil })
	for _, choice := range trial.Choices(values) {
		if v.settled() {
			break
		}
		have, names := map[string]ndarray.Value{}, []string(nil)
		maps.Copy(have, v.have)
		for _, name := range slices.Sorted(maps.Keys(choice)) {
			if x, err := v.chosen(name, choice[name]); err == nil {
				have[name], names = x, append(names, fmt.Sprintf("%s = %d", name, choice[name]))
			}
		}
		if err := v.with(ctx, strings.Join(names, ", "), have); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// chosen is an input whose elements are one integer, of the shape of the first case or of one element.
func (v *verification) chosen(name string, x int64) (ndarray.Value, error) {
	port, err := inputPort(v.m, name)
	if err != nil {
		return nil, err
	}
	one, ok := numberOf(port.Type.DType, fmt.Sprint(x))
	if !ok {
		return nil, usagef("input %q is %s", name, port.Type)
	}
	shape := slices.Repeat([]int{1}, port.Type.Rank())
	if v.first != nil && len(v.first.shapes[name]) == len(shape) {
		shape = v.first.shapes[name]
	}
	return arrayOrNil(ssa.NewSplat(one, shape...).ArrayIn(v.a.memory))
}

// with compares the models for some inputs given, with the shapes of the first case if the original takes them, else with others.
func (v *verification) with(ctx context.Context, what string, have map[string]ndarray.Value) error {
	use := func(shapes map[string][]int, in map[string]ndarray.Value) error {
		if v.first == nil {
			return v.one(ctx, sizeCase{shapes, in})
		}
		want, err := v.original(ctx, in)
		if err != nil {
			return err
		}
		if text := allShapesText(shapes); text != allShapesText(v.first.shapes) {
			what += " with " + text
		}
		return v.agree(ctx, what, in, want)
	}
	var err error
	if v.first != nil {
		err = v.a.attempt(v.m, v.first.shapes, have, use)
	}
	if v.first == nil || err != nil {
		quiet := *v.a
		quiet.errOut = io.Discard
		err = quiet.withRealisticSizes(ctx, v.m, have, use)
	}
	if err != nil {
		v.refuse(what, err)
	}
	return ctx.Err()
}

// tolerance is what two outputs may differ by. The absolute one is that of outputs around 1: for smaller ones, and with
// scaled inputs for larger ones, it is relative to their largest magnitude, yet never less than what rounding in the
// model's least precise type makes.
func (v *verification) tolerance(want ndarray.Value) conformance.Tolerance {
	tol, s := v.f.tolerance, v.scaleOf(want)
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

// scaleOf is the largest magnitude of a tensor. With the selections of the original it is that of the elements up to commonTimes the median: one
// element that masks others, as -1e9, says nothing of how much the others may differ before one is selected in the place of another.
func (v *verification) scaleOf(x ndarray.Value) (most float64) {
	if most = scaleOf(x); !v.given || most == 0 {
		return most
	}
	var all []float64
	a := x.(*ndarray.Array)
	for i := range a.Len() {
		if m := math.Abs(a.Float(i)); m > 0 && isFinite(m) {
			all = append(all, m)
		}
	}
	slices.Sort(all)
	past, _ := slices.BinarySearch(all, math.Nextafter(commonTimes*all[len(all)/2], math.Inf(1)))
	return all[past-1]
}

// commonTimes is how many times the median magnitude the scale of a tensor with outliers may be.
const commonTimes = 1e4

// mask clears what does not count in outputs for scaled inputs. With the selections of the original all counts: an element that is not finite may hide what is selected.
func (v *verification) mask(got, want map[string]ndarray.Value) {
	for name := range want {
		if v.scaled && !v.given {
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
