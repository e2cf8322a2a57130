package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Models that compute in 16-bit floats, scaled inputs, which may drive a model of any type to where it amplifies rounding, and small differences.
//
// A float16 keeps 11 bits and a bfloat16 8, so every result is rounded by up to u = 2^-11 or 2^-8 of itself, and two correct ways
// to compute the same differ by many u: how many depends on what the model does to small errors, not only on how deep it
// is. So the yardstick is the original model in float32: the same graph, with every 16-bit type and constant made float32.
// For each output, e(x) is the distance of x from the yardstick, s the largest magnitude in it, and
//
//	r = max(e(original), e(yardstick with every 16-bit constant times 1 + u or 1 - u))
//
// what rounding makes in this model: that of intermediate results, and that of constants, which folding rounds once more. The result passes if
//
//	e(result)             ≤ 4 r + 8 u s    it is about as accurate as the original
//	e(result in float32)  ≤ 2 r + 4 u s    without rounding of intermediate results it computes the same
//
// both with the largest and with the mean square difference for e. The first finds lost range and digits, the second, which has
// little to round, wrong arithmetic. Of integers and flags e is how many differ, and there is no u.
//
// With scaled inputs a model without 16-bit floats is held to the same: the yardstick is the original in float64, u is 2^-24. So is one that quantizes while
// it runs, where the order of sums alone does not explain a difference: of values half way between two steps, rounding moves others than that order does.
//
// A tolerance relative to each element says little of large outputs: 1e-3 of 1e4 is 10. So differences of float32 within it are judged, too, those of
// the comparison in which they are the most units: if they exceed 8 u s, which is rounding whatever the model does, the result passes if
//
//	e(result) ≤ 4 e(original) + 8 u s
//
// or else if it is about as accurate as above. Of an output of few elements each run is one sample, which may be small by chance; further runs with other
// constants rounded up are taken into r where that decides. A run in float64 is slow, so that models of more than mostJudged operations are left to the tolerance, which is told.
//
// The tolerance refuses correct results, too: outputs of 1e4 have elements around 1, of which 1e-3 is less than what rounding makes. So the same decides
// about differences of float32 beyond it, in models of up to mostRescued operations. Where rounding makes as much as the outputs are large, it would accept anything, and they are refused.
const (
	halfTimes, halfUnits = 4, 8
	wideTimes, wideUnits = 2, 4

	mostJudged, mostRescued = 3e9, 500e9

	fewElements, mostNudges = 64, 8
)

// precision is the largest relative error of rounding to a type, and the distance of its smallest numbers.
type precision struct{ unit, step float64 }

// unitOf is the largest relative error of rounding to a type that is widened.
func unitOf(dt ndarray.DType) float64 {
	switch dt {
	case ndarray.BFloat16:
		return 0x1p-8
	case ndarray.Float32:
		return 0x1p-24
	}
	return 0x1p-11
}

// leastPrecise is the precision of the 16-bit floats in a graph, 0 where there are none: float32 is covered by any
// tolerance that makes sense.
func leastPrecise(g *ssa.Graph) (p precision) {
	g.Walk(func(b *ssa.Graph) {
		for _, v := range b.Values() {
			if !v.Type.DType.IsHalf() {
				continue
			}
			p.unit = max(p.unit, unitOf(v.Type.DType))
			if v.Type.DType == ndarray.Float16 {
				p.step = 0x1p-24
			}
		}
	})
	return p
}

// wideModels are models with a wider type: the original, with its constants as they are and rounded otherwise, and the
// result.
type wideModels struct{ original, nudged, result *berth.Model }

func (w *wideModels) Close() {
	if w != nil {
		w.original.Close()
		w.nudged.Close()
		w.result.Close()
	}
}

// wideOutputs are what they give.
type wideOutputs struct {
	original, result map[string]ndarray.Value
	nudged           []map[string]ndarray.Value
}

// asAccurate decides by the bounds above whether the outputs got of the result pass, where the original gave want. It is false where a tolerance is given, and
// where the models do not run in the wider type. Its only error is a cancellation.
func (v *verification) asAccurate(ctx context.Context, in, got, want map[string]ndarray.Value, largest float64) (bool, error) {
	switch {
	case v.f.given:
		return false, nil
	case v.precision.unit == 0 && !v.scaled && !read(v.m, quantizesWhileRunning):
		return v.rescued(ctx, &doubtful{in, got, want, largest, false})
	}
	most, pass, err := v.accurate(ctx, in, got, want, 1)
	if pass && !v.scaled && largest >= v.noted {
		v.noted = largest
		made, against := "rounding to 16 bits makes", "float32"
		if v.precision.unit == 0 {
			made, against = "the model quantizes while it runs, and rounding makes", "float64"
		}
		v.res.Note = fmt.Sprintf("outputs differ by up to %.3g; %s up to %.3g in the original, measured against %s, and the result is as accurate", largest, made, most, against)
	}
	return pass, err
}

// accurate is asAccurate for models and inputs of any kind, measured with so many runs with nudged constants; rounding is the most that it makes in an
// output of the original.
func (v *verification) accurate(ctx context.Context, in, got, want map[string]ndarray.Value, nudges int) (rounding float64, pass bool, err error) {
	if v.wide == nil {
		v.wide = &wideModels{v.widened(v.m, 0), v.widened(v.m, 1), v.widened(v.opt, 0)}
	}
	wide, err := v.runWide(ctx, in)
	if err != nil {
		return 0, false, ctx.Err()
	}
	g, w := tensors(got), tensors(want)
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if !v.vague {
			v.vagueOf = name
		}
		r, pass := v.outputAsAccurate(g[name], w[name], wide.of(name))
		for nudge := 2; !pass && nudge <= nudges && w[name].Len() <= fewElements; nudge++ {
			if wide.nudged, err = v.runNudged(ctx, in, nudge, wide.nudged); err != nil {
				return 0, false, ctx.Err()
			}
			r, pass = v.outputAsAccurate(g[name], w[name], wide.of(name))
		}
		if !pass {
			return 0, false, nil
		}
		rounding = max(rounding, r)
	}
	return rounding, true, nil
}

// doubtful is a comparison whose differences are within the tolerance, and more than rounding makes whatever the model does.
type doubtful struct {
	in, got, want map[string]ndarray.Value
	units         float64
	scaled        bool
}

// inRounding is the largest difference in any output of float32, in units of rounding of its scale.
func (v *verification) inRounding(got, want map[string]ndarray.Value) (units float64) {
	g := tensors(got)
	for name, y := range tensors(want) {
		if s := v.scaleOf(y); s > 0 && y.DType == ndarray.Float32 {
			units = max(units, maxAbsDiff(g[name], y)/(s*unitOf(ndarray.Float32)))
		}
	}
	return units
}

// consider keeps the comparison with the largest difference.
func (v *verification) consider(in, got, want map[string]ndarray.Value, units float64) {
	far := &v.far[v.unfolded]
	if v.f.given || v.precision.unit > 0 || units <= halfUnits || *far != nil && (*far).units >= units || read(v.m, quantizesWhileRunning) {
		return
	}
	*far = &doubtful{in, got, want, units, v.scaled}
}

// judge decides whether the comparisons that were kept pass. Its only error is a cancellation.
func (v *verification) judge(ctx context.Context) error {
	for i, d := range v.far {
		if d == nil || !v.res.Verified {
			continue
		}
		if err := v.judgeOne(ctx, d); err != nil {
			return err
		}
		if i == 1 && !v.res.Verified {
			v.res.Folding.Checked, v.res.Folding.wrong = false, true
		}
	}
	return nil
}

// operations is how many floating-point operations a run of the original takes, infinite where that is not known.
func (v *verification) operations(ctx context.Context, in map[string]ndarray.Value) float64 {
	g, err := v.m.Folded(ctx, append(v.a.limits(), shapesIn(in)...)...)
	if err != nil {
		return math.Inf(1)
	}
	return executed(g)
}

// executed is how many floating-point operations a run of a graph takes. Of nodes of unknown sizes none are counted; of an If the
// branch that takes more; the body of a loop as often as it runs, once where that is not known.
func executed(g *ssa.Graph) (sum float64) {
	known := func(v *ssa.Value) bool { return v == nil || v.Type.IsStatic() }
	for _, n := range g.Nodes {
		if len(n.Bodies) > 0 {
			var most float64
			for _, b := range n.Bodies {
				most = max(most, executed(b))
			}
			sum += most * trips(n)
		} else if !slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return !known(v) }) && !slices.ContainsFunc(n.Out, func(v *ssa.Value) bool { return !known(v) }) {
			sum += float64(ops.CostOf(n).FLOPs)
		}
	}
	return sum
}

// trips is how often the bodies of a node run, 1 where that is not known.
func trips(n *ssa.Node) float64 {
	times := ssa.Dim{}
	switch n.Op {
	case "Loop":
		if s, err := ops.LoopOf(n); err == nil {
			times = s.Trips(n)
		}
	case "Scan":
		if s, err := ops.ScanOf(n); err == nil && s.Ins > 0 {
			of := n.In[s.States].Type
			if axis, err := ops.NormAxis(s.InAxes[0], max(of.Rank(), 1)); err == nil && of.Ranked && axis < len(of.Shape) {
				times = of.Shape[axis]
			}
		}
	}
	if k, ok := times.Const(); ok {
		return float64(k)
	}
	return 1
}

// rescued decides whether differences of float32 beyond the tolerance, the largest in units, are what rounding makes. Its only error is a cancellation.
func (v *verification) rescued(ctx context.Context, d *doubtful) (pass bool, err error) {
	n := v.operations(ctx, d.in)
	if v.tied && n > mostJudged { // with the same selections there are differences, which other selections do not make fewer
		return false, ctx.Err()
	}
	if n > mostRescued {
		v.a.note("berth: how much of the differences is rounding is not measured: a run in float64 of %.3g operations takes too long", n)
		return false, ctx.Err()
	}
	v.a.note("berth: outputs differ by up to %.3g; running the model in float64 to see how much of that is rounding, a second for 4·10⁹ operations of %.3g", d.units, n)
	vague := v.vague
	v.vague = false
	pass, ran, err := v.near(ctx, d)
	if err == nil && ran && !pass && n <= mostJudged {
		_, pass, err = v.accurate(ctx, d.in, d.got, d.want, mostNudges)
	}
	if pass && v.vague {
		v.a.note("berth: rounding makes as much in output %q of the original as it is large, so that it tells nothing", v.vagueOf)
		pass = false
	}
	if v.vague = vague; pass && d.units >= v.noted {
		v.noted = d.units
		v.res.Note = fmt.Sprintf("outputs differ by up to %.3g; that is rounding: the result is as near to the original in float64 as the original itself", d.units)
	}
	return pass, err
}

func (v *verification) judgeOne(ctx context.Context, d *doubtful) error {
	if n := v.operations(ctx, d.in); n > mostRescued || n > mostJudged && !v.given {
		v.res.untested = true
		return ctx.Err()
	} else if n > mostJudged {
		v.a.note("berth: running the model in float64 with the same selections, a second for 4·10⁹ operations of %.3g", n)
	}
	v.scaled = d.scaled
	defer func() { v.scaled = false }()
	near, ran, err := v.near(ctx, d)
	if err != nil || near || !ran {
		v.res.untested = !near
		return err
	}
	if _, v.res.Verified, err = v.accurate(ctx, d.in, d.got, d.want, mostNudges); err != nil || v.res.Verified {
		return err
	}
	v.res.differed = true
	v.a.note("berth: differences of %.3g units of rounding (2^-24 of an output's scale) are within the tolerance, but the result is further from the original in float64 than %d times the original itself",
		d.units, halfTimes)
	return nil
}

// near reports that the result is about as near to the original in float64 as the original itself; ran is false where that does not run.
func (v *verification) near(ctx context.Context, d *doubtful) (near, ran bool, err error) {
	wide := v.widened(v.m, 0)
	defer wide.Close()
	in, err := v.widenAll(d.in)
	if err != nil {
		return false, false, ctx.Err()
	}
	exact, err := v.runFloat64(ctx, wide, in, berth.WithoutPasses())
	if err != nil {
		return false, false, ctx.Err()
	}
	g, w, e := tensors(d.got), tensors(d.want), tensors(exact)
	for _, name := range slices.Sorted(maps.Keys(w)) {
		want, y := w[name], e[name]
		own, ok1 := distanceOf(want, y, want)
		made, ok2 := distanceOf(g[name], y, want)
		if !v.vague {
			v.vagueOf = name
		}
		v.vague = v.vague || tellsNothing(own, y) || !ok1 && isNumeric(want.DType)
		if ok1 != ok2 || ok1 && !(v.unmeasured(g[name], want, y) && made.within(own, halfTimes, halfUnits*unitOf(ndarray.Float32)*v.scaleOf(y))) {
			return false, true, nil
		}
	}
	return true, true, nil
}

// wideTensors are those of one output in the wider type, nil where a model did not give it.
type wideTensors struct {
	original, result *ndarray.Array
	nudged           []*ndarray.Array
}

func (w wideOutputs) of(name string) wideTensors {
	t := wideTensors{original: tensors(w.original)[name], result: tensors(w.result)[name]}
	for _, n := range w.nudged {
		t.nudged = append(t.nudged, tensors(n)[name])
	}
	return t
}

// outputAsAccurate decides about one output, and says what rounding makes in it. Where the original in the wider type is not finite it tells nothing, and the
// result is to be within the tolerance.
func (v *verification) outputAsAccurate(got, want *ndarray.Array, wide wideTensors) (rounding float64, pass bool) {
	var d [3]distance
	for i, x := range []*ndarray.Array{want, got, wide.result} {
		if d[i], pass = distanceOf(x, wide.original, want); !pass {
			return 0, false
		}
	}
	r := d[0]
	for _, nudged := range wide.nudged {
		if n, ok := distanceOf(nudged, wide.original, want); ok && isFinite(n.largest) {
			r = distance{max(r.largest, n.largest), max(r.mean, n.mean)}
		}
	}
	unit := v.precision.unit
	if unit == 0 {
		unit = unitOf(ndarray.Float32)
	}
	unit *= v.scaleOf(wide.original)
	v.vague = v.vague || (v.scaled || v.precision.unit == 0 && !read(v.m, quantizesWhileRunning)) && tellsNothing(r, wide.original)
	return r.largest, v.unmeasured(got, want, wide.original) && d[1].within(r, halfTimes, halfUnits*unit) && d[2].within(r, wideTimes, wideUnits*unit)
}

// runWide runs the models in float32.
func (v *verification) runWide(ctx context.Context, in map[string]ndarray.Value) (out wideOutputs, err error) {
	if in, err = v.widenAll(in); err != nil {
		return out, err
	}
	if out.original, err = v.runFloat64(ctx, v.wide.original, in, berth.WithoutPasses()); err != nil {
		return out, err
	}
	if out.result, err = v.runFloat64(ctx, v.wide.result, in, exact); err != nil {
		return out, err
	}
	// Where a constant decides about sizes, the nudged model may not run. Then it shows nothing.
	nudged, _ := v.runFloat64(ctx, v.wide.nudged, in, berth.WithoutPasses())
	out.nudged = append(out.nudged, nudged)
	return out, ctx.Err()
}

// runNudged adds the outputs of the original in the wider type with its constants rounded in another way.
func (v *verification) runNudged(ctx context.Context, in map[string]ndarray.Value, nudge int, runs []map[string]ndarray.Value) ([]map[string]ndarray.Value, error) {
	m := v.widened(v.m, nudge)
	defer m.Close()
	in, err := v.widenAll(in)
	if err != nil {
		return runs, err
	}
	out, err := v.runFloat64(ctx, m, in, berth.WithoutPasses())
	return append(runs, out), err
}

// runFloat64 runs a model with a wider type, which may take long.
func (v *verification) runFloat64(ctx context.Context, m *berth.Model, in map[string]ndarray.Value, how berth.Option) (map[string]ndarray.Value, error) {
	hook, end := v.a.counting("running with a wider type")
	defer end()
	opts := append(v.a.limits(), how)
	if hook != nil {
		opts = append(opts, berth.WithHook(hook))
	}
	return m.RunValues(ctx, in, opts...)
}

// distance is how far an output is from another: the largest difference, and the root of the mean square.
type distance struct{ largest, mean float64 }

// within reports that a distance is at most so many times another one and the rounding given.
func (d distance) within(of distance, times, rounding float64) bool {
	return d.largest <= times*of.largest+rounding && d.mean <= times*of.mean+rounding
}

// tellsNothing reports that rounding makes as much in an output as it is large.
func tellsNothing(rounding distance, exact *ndarray.Array) bool {
	return rounding.largest > 0 && halfTimes*rounding.largest >= scaleOf(exact)
}

// distanceOf measures how far x is from y where the original's output and y are finite. It is false for values that can not be
// compared.
func distanceOf(x, y, original *ndarray.Array) (d distance, ok bool) {
	if x == nil || y == nil || !slices.Equal(x.Shape, y.Shape) || !slices.Equal(x.Shape, original.Shape) || !isNumeric(x.DType) || !isNumeric(y.DType) {
		return d, false
	}
	squares, n := 0.0, 0
	for i := range x.Len() {
		if !isFinite(original.Float(i)) || !isFinite(y.Float(i)) {
			continue
		}
		e := math.Abs(x.Float(i) - y.Float(i))
		if e != e {
			e = math.Inf(1)
		}
		if !y.DType.IsFloat() {
			e = min(e, 1) // how large an index or a flag is says nothing
		}
		squares, n = squares+e*e, n+1
		d.largest = max(d.largest, e)
	}
	if n > 0 {
		d.mean = math.Sqrt(squares / float64(n))
	}
	return d, true
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// unmeasured reports that a result passes where the original or the yardstick is not finite: the original's NaN and infinities are the result's, unless inputs
// are scaled and each selects for itself, and where the yardstick alone is not finite the result is within the tolerance.
func (v *verification) unmeasured(got, want, yardstick *ndarray.Array) bool {
	tol := v.tolerance(want)
	for i := range want.Len() {
		x, y := got.Float(i), want.Float(i)
		switch {
		case isFinite(y) && !isFinite(x):
			return false
		case isFinite(y) && !isFinite(yardstick.Float(i)) && math.Abs(x-y) > tol.Atol+tol.Rtol*math.Abs(y):
			return false
		case (!v.scaled || v.given) && !isFinite(y) && x != y && !(x != x && y != y):
			return false
		}
	}
	return true
}

// widened is a model with the wider type in the place of its least precise one, its constants nudged in one of several ways, or not at all (0).
func (v *verification) widened(m *berth.Model, nudge int) *berth.Model {
	return v.widening(nudge).model(m)
}

// widening makes float32 of what is 16-bit floats, or float64 of float32.
type widening struct {
	memory ndarray.Budget
	to     ndarray.DType
	nudge  int // constants are off by one rounding, upwards or downwards as the number says; not whole numbers, such as exponents
}

// widening is that of the model's least precise type.
func (v *verification) widening(nudge int) widening {
	if v.precision.unit == 0 {
		return widening{v.a.memory, ndarray.Float64, nudge}
	}
	return widening{v.a.memory, ndarray.Float32, nudge}
}

// model is a model with the wider type.
func (w widening) model(m *berth.Model) *berth.Model {
	g := m.Graph()
	g.Walk(func(b *ssa.Graph) {
		for _, x := range b.Values() {
			x.Type = w.typ(x.Type)
			x.Const = w.constant(x.Const)
		}
		for _, n := range b.Nodes {
			for i := range n.Attrs {
				w.attr(&n.Attrs[i])
			}
		}
		for _, n := range slices.Clone(b.Nodes) {
			if w.to == ndarray.Float64 && onlyInFloat32(n) {
				inFloat32(b, n)
			}
		}
		_ = b.Sort() // casts make no cycle
	})
	return berth.FromModule(&ssa.Module{Graph: g, OutputNames: outputNames(m)})
}

// onlyInFloat32 reports operators of quantized tensors whose scales, and what they quantize, are of no wider type.
func onlyInFloat32(n *ssa.Node) bool {
	return strings.HasPrefix(n.Op, "DynamicQuantize") || strings.HasPrefix(n.Op, "QLinear") || n.Domain == "com.microsoft" && (n.Op == "MatMulIntegerToFloat" || n.Op == "QAttention")
}

// inFloat32 lets a node read and write float32 in a graph of float64.
func inFloat32(g *ssa.Graph, n *ssa.Node) {
	cast := func(v *ssa.Value, to ndarray.DType) *ssa.Value {
		c := g.NewNode("Cast", []*ssa.Value{v}, 1, ssa.IntAttr("to", int64(to)))
		c.Out[0].Type = v.Type
		c.Out[0].Type.DType = to
		return c.Out[0]
	}
	for i, v := range n.In {
		if v != nil && v.Type.DType == ndarray.Float64 {
			n.SetInput(i, cast(v, ndarray.Float32))
		}
	}
	for _, v := range n.Out {
		if v != nil && v.Type.DType == ndarray.Float64 {
			v.Type.DType = ndarray.Float32
			readers := slices.Clone(v.Uses())
			wide := cast(v, ndarray.Float64)
			for _, u := range readers {
				u.Node.SetInput(u.Index, wide)
			}
			g.ReplaceResult(v, wide)
		}
	}
}

// widens reports a type that is replaced.
func (w widening) widens(dt ndarray.DType) bool {
	return dt.IsHalf() || w.to == ndarray.Float64 && dt == ndarray.Float32
}

func outputNames(m *berth.Model) (names []string) {
	for _, o := range m.Outputs() {
		names = append(names, o.Name)
	}
	return names
}

func (w widening) typ(t ssa.Type) ssa.Type {
	if w.widens(t.DType) {
		t.DType = w.to
	}
	if t.Elem != nil {
		elem := w.typ(*t.Elem)
		t.Elem = &elem
	}
	return t
}

// attr widens attributes that hold tensors or name element types.
func (w widening) attr(a *ssa.Attr) {
	switch a.Name {
	case "to", "dtype", "output_dtype", "precision", "softmax_precision", "stash_type":
		if a.Kind == ssa.AttrInt && a.I >= 0 && a.I < int64(ndarray.NumDTypes) && w.widens(ndarray.DType(a.I)) {
			a.I = int64(w.to)
		}
	}
	a.Tensor, a.Type = w.constant(a.Tensor), w.typ(a.Type)
}

func (w widening) constant(c *ssa.Constant) *ssa.Constant {
	if c == nil || !w.widens(c.DType()) {
		return c
	}
	if one, ok := c.Splat(); ok {
		wide := ndarray.Must(w.to)
		wide.SetFloat(0, w.element(one, 0))
		return ssa.NewSplat(wide, c.Shape()...)
	}
	return ssa.NewLazy(w.to, c.Shape(), func() (*ndarray.Array, error) {
		a, err := c.ArrayIn(w.memory)
		if err != nil {
			return nil, err
		}
		defer c.Release()
		return w.array(a)
	})
}

// array is an array in the wider type.
func (w widening) array(a *ndarray.Array) (*ndarray.Array, error) {
	out, err := ndarray.NewIn(w.memory, w.to, a.Shape...)
	if err != nil {
		return nil, err
	}
	for i := range a.Len() {
		out.SetFloat(i, w.element(a, i))
	}
	return out, nil
}

func (w widening) element(a *ndarray.Array, i int) float64 {
	x := a.Float(i)
	if w.nudge == 0 || x == math.Trunc(x) {
		return x
	}
	const golden = 0x9e3779b97f4a7c15
	hash := uint64(i+1) * golden
	if hash ^= hash >> 29; w.nudge > 1 { // others than the first are drawn independently of it
		hash = (hash + uint64(w.nudge)) * 0xbf58476d1ce4e5b9
		hash ^= hash >> 32
		hash *= golden
	}
	if hash>>63 == 0 {
		return x * (1 - unitOf(a.DType))
	}
	return x * (1 + unitOf(a.DType))
}

// widenAll widens the tensors of inputs.
func (v *verification) widenAll(in map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	return v.widening(0).all(in)
}

// all widens the tensors of inputs, also in sequences and optional values.
func (w widening) all(in map[string]ndarray.Value) (out map[string]ndarray.Value, err error) {
	out = maps.Clone(in)
	for name, x := range in {
		out[name], err = mapped(x, func(a *ndarray.Array) (*ndarray.Array, error) {
			if !w.widens(a.DType) {
				return a, nil
			}
			return w.array(a)
		})
		if s, ok := out[name].(*ndarray.Sequence); ok && w.widens(s.Elem) {
			s.Elem = w.to
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
