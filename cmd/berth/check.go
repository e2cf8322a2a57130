package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/trial"
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

	ran       *coverage       // of the original
	seen      map[string]int  // elements compared, by output
	filled    map[string]bool // outputs that have had elements
	first     *sizeCase       // the first inputs that it ran with
	why       error           // of its first failure, until then
	spent     int64           // FLOPs of the runs after the first
	precision precision
	wide      *wideModels  // made when first needed
	far       [2]*doubtful // of the comparisons within the tolerance, the one furthest from what rounding makes: of the result, and with nothing folded
	unfolded  int          // 1 while the original with nothing folded is compared
	noted     float64      // the difference that res.Note tells of, for 16-bit floats
	variant   bool         // the inputs compared are no ordinary ones, but scaled or empty; see variants.go
	scaled    bool
	given     bool   // selections are those of the original; see selections.go
	vague     bool   // what rounding makes in an output explains any value of it
	vagueOf   string // the first such output
	tied      bool   // selections differ, and so does something else
}

func (a *app) newVerification(m, opt *berth.Model, have map[string]ndarray.Value, f optimizeFlags, res *optimizeJSON) *verification {
	return &verification{a: a, m: m, opt: opt, have: have, f: f, res: res, seen: map[string]int{}, filled: map[string]bool{}, precision: read(m, leastPrecise)}
}

// mostCompared bounds the arithmetic of one comparison after the first, mostSpent of all of them, in FLOPs of one run.
const mostCompared, mostSpent = 20e9, 100e9

// judging says what is done before a file is written.
func (f optimizeFlags) judging() string {
	if f.noVerify {
		return "running the model"
	}
	return "comparing outputs"
}

// refusal is what the original does not run with.
type refusal struct {
	Inputs string `json:"inputs"`
	Why    string `json:"why"`
}

// run compares the models for the shapes given, or for several sizes of what is open, and records shapes and outcome, or why
// there was none. The only error is a cancellation.
func (v *verification) run(ctx context.Context) error {
	var err error
	if v.ran, err = newCoverage(ctx, v.m, v.a.limits()...); err != nil {
		return err
	}
	defer func() { v.wide.Close(); v.ran.marked.Close() }()
	v.res.Verified = !v.f.noVerify
	err = v.cases(ctx)
	if err == nil {
		err = v.judge(ctx)
	}
	if err == nil {
		err = v.selected(ctx)
	}
	v.res.NotRun, v.res.decide = v.ran.hidden()
	if err != nil || v.first != nil {
		v.tellEmpty()
		return err
	}
	v.res.Verified = false
	remedy := "give inputs with --data or --input, or shapes with --shape"
	if len(v.have) > 0 {
		remedy = "check --data and --input"
	}
	if memory := (*ops.MemoryError)(nil); errors.As(v.why, &memory) {
		remedy = "allow more with --max-memory"
	}
	v.res.Note = fmt.Sprintf("the model itself does not run on these inputs (%v); %s", v.why, remedy)
	return nil
}

// cases compares the models for several sizes of what is open together, then for sizes of single dimensions, for variants of the first case
// that ran, for further strings, for values the model compares its inputs with, and for recorded inputs. Its error is a cancellation.
func (v *verification) cases(ctx context.Context) error {
	cases := v.a.realisticSizes(v.m, v.have)
	for i, c := range cases {
		if i > 0 && (v.settled() || v.tooMuch(ctx, c.shapes)) {
			break
		}
		if _, err := v.try(ctx, c.shapes); err != nil {
			return err
		}
	}
	one := func(shapes map[string][]int, in map[string]ndarray.Value) error {
		return v.one(ctx, sizeCase{shapes, in})
	}
	switch {
	case v.first != nil || v.res.failure != nil:
	case len(cases) == 1:
		v.a.withOtherDraws(ctx, v.m, v.a.bindShapes(v.m, v.have), v.have, one)
	default:
		v.why = v.a.withOpenSizes(ctx, v.m, v.have, one)
	}
	steps := []func(context.Context) error{v.choices, v.recorded}
	if v.first != nil {
		v.res.Drawn = v.a.drawnText(v.m, v.have, v.first.in)
		steps = []func(context.Context) error{v.singles, v.variants, v.forms, v.texts, v.choices, v.recorded, v.hits}
	}
	for _, step := range steps {
		if ctx.Err() != nil || v.settled() {
			return ctx.Err()
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// settled reports that nothing more is to be learned: outputs differ, or one run was all that is wanted.
func (v *verification) settled() bool {
	return v.f.noVerify && v.first != nil || !v.f.noVerify && !v.res.Verified
}

// tooMuch reports that one run with these sizes takes more arithmetic than another comparison is worth. What the arithmetic is of sizes that
// the models refuse is not known; such a run ends early.
func (v *verification) tooMuch(ctx context.Context, shapes map[string][]int) bool {
	g, err := v.m.Folded(ctx, append(v.a.limits(), shapeOptions(shapes)...)...)
	if err != nil {
		return false
	}
	n := berth.StatsOf(g).FLOPs
	v.spent += n
	return n > mostCompared || v.spent > mostSpent
}

// try compares the models for random inputs of some shapes, and says whether the original ran with them. Its error is a cancellation.
func (v *verification) try(ctx context.Context, shapes map[string][]int) (ran bool, err error) {
	in, err := v.a.randomInputs(v.m, shapes, v.have)
	if err == nil {
		err = v.one(ctx, sizeCase{shapes, in})
	}
	if err != nil && v.first == nil && v.why == nil {
		v.why = err
	}
	return err == nil, ctx.Err()
}

// one runs the original and compares the optimized model with it. Its error is that of the original, which says nothing of
// the optimized one, or a cancellation.
func (v *verification) one(ctx context.Context, c sizeCase) error {
	want, err := v.original(ctx, c.in)
	if err != nil {
		v.refuse(allShapesText(c.shapes), err)
		return err
	}
	if v.first == nil {
		v.first, v.res.Shapes = &c, c.shapes
	}
	if v.f.noVerify {
		return nil
	}
	v.res.Tried = append(v.res.Tried, c.shapes)
	return v.compare(ctx, c.in, want)
}

// refuse records what the original does not run with, once.
func (v *verification) refuse(inputs string, err error) {
	if !slices.ContainsFunc(v.res.Refused, func(r refusal) bool { return r.Inputs == inputs }) {
		v.res.Refused = append(v.res.Refused, refusal{inputs, err.Error()})
	}
}

// mostRecorded bounds the recorded inputs that are compared.
const mostRecorded = 3

// recorded compares the models for the inputs in the folders test_data_set_* beside the model, unless others were given.
func (v *verification) recorded(ctx context.Context) error {
	sets, err := filepath.Glob(filepath.Join(filepath.Dir(v.res.Model), "test_data_set_*"))
	if err != nil || len(v.have) > 0 || strings.HasPrefix(v.res.Model, "builtin:") || filepath.Base(v.res.Model) != "model.onnx" {
		return ctx.Err()
	}
	for _, dir := range sets[:min(len(sets), mostRecorded)] {
		c, err := v.recordedIn(ctx, dir)
		switch {
		case err != nil:
			v.refuse(filepath.Base(dir), err)
		case v.settled() || v.first != nil && v.tooMuch(ctx, c.shapes):
		case v.first == nil:
			err = v.one(ctx, c)
		default:
			err = v.again(ctx, filepath.Base(dir)+" with "+allShapesText(c.shapes), c.in)
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// recordedIn reads one folder of recorded inputs, and makes those it lacks. Sets that contradict --shape or --dim are errors.
func (v *verification) recordedIn(ctx context.Context, dir string) (c sizeCase, err error) {
	set, err := conformance.ReadInputs(v.a.memory.In(ctx), v.res.Model, dir)
	if err != nil {
		return c, err
	}
	in := map[string]ndarray.Value{}
	for _, x := range set {
		in[x.Name] = x.Value
	}
	if err := v.a.checkGiven(v.m, in); err != nil {
		return c, err
	}
	c.shapes = v.a.bindShapes(v.m, in)
	c.in, err = v.a.randomInputs(v.m, c.shapes, in)
	return c, err
}

// original runs the model as it is.
func (v *verification) original(ctx context.Context, in map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	return v.ran.of(v.m).RunValues(ctx, in, append(v.a.limits(), berth.WithoutPasses(), berth.WithHook(v.ran.hook))...)
}

// exact leaves out the pass that computes dequantized arithmetic in integers: its results may differ by one quantization step,
// which does not mean that the file is wrong.
var exact = berth.WithoutPass("quantized")

// compare runs the optimized model and compares its outputs with those wanted.
func (v *verification) compare(ctx context.Context, in, want map[string]ndarray.Value) (err error) {
	if !v.variant {
		v.count(want)
	}
	if err := v.checkFolding(ctx, in, want); err != nil || !v.res.Verified {
		return err
	}
	comparable := v.comparable(want)
	defer func() {
		for name, n := range comparable {
			if v.res.Verified && err == nil && !v.vague {
				v.seen[name] += n
			}
		}
	}()
	got, err := v.opt.RunValues(ctx, in, append(v.a.limits(), exact)...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.res.Verified, v.res.failure = false, err
		return nil
	}
	return v.hold(ctx, in, got, want)
}

// hold decides whether outputs are those wanted, exactly or but for what rounding explains. Its only error is a cancellation.
func (v *verification) hold(ctx context.Context, in, got, want map[string]ndarray.Value) (err error) {
	got, want = maps.Clone(got), maps.Clone(want)
	made, written := maps.Clone(got), maps.Clone(want)
	v.mask(got, want)
	differences, largest := v.differences(got, want), largestOf(got, want)
	quantizes := read(v.m, quantizesWhileRunning) // then selections are looked at last, since nearly every value is selected
	if len(differences) > 0 && !quantizes {
		if ties, err := v.amongTies(ctx, in); ties || err != nil {
			return err
		}
	}
	before := v.res.MaxDiff
	if !v.scaled {
		v.res.MaxDiff = max(v.res.MaxDiff, number(largest))
	}
	if len(differences) == 0 {
		v.consider(in, made, written, v.inRounding(got, want))
		return nil
	}
	if v.res.Verified, err = v.explained(ctx, in, made, written, largest); err != nil || v.res.Verified {
		return err
	}
	if quantizes {
		told := v.res.MaxDiff
		v.res.MaxDiff = before
		if v.res.Verified, err = v.amongTies(ctx, in); err != nil || v.res.Verified {
			return err
		}
		v.res.MaxDiff = told
	}
	v.res.differed = true
	v.res.MaxDiff = max(v.res.MaxDiff, number(largest))
	if v.given { // the rest follows from it, as a rule
		differences = []string{"with the selections of the original: " + differences[0]}
	}
	for _, d := range differences {
		v.a.note("berth: %s", d)
	}
	return nil
}

// count adds the elements of the original's outputs, and those that are no finite numbers.
func (v *verification) count(want map[string]ndarray.Value) {
	for name, o := range want {
		v.filled[name] = v.filled[name] || len(tensors(map[string]ndarray.Value{"": o})) != 1
		if a, ok := o.(*ndarray.Array); ok {
			v.filled[name] = v.filled[name] || a.Len() > 0
			nan, inf := nonFinite(a)
			v.res.NaN, v.res.Inf, v.res.Elements = v.res.NaN+nan, v.res.Inf+inf, v.res.Elements+a.Len()
		}
	}
}

// comparable counts the elements of each output that a comparison says something of: not NaN, of which any is like any other, and for scaled inputs
// finite.
func (v *verification) comparable(want map[string]ndarray.Value) map[string]int {
	all := map[string]int{}
	for output, x := range want {
		for _, a := range tensors(map[string]ndarray.Value{output: x}) {
			nan, inf := nonFinite(a)
			if !v.scaled {
				inf = 0
			}
			all[output] += a.Len() - nan - inf
		}
	}
	return all
}

// unseen lists the outputs of which no element has been compared, but for those that have none with any input: by their types, or as they are computed from an input
// that has none.
func (v *verification) unseen() (names []string) {
	hasNone := func(t ssa.Type) bool { return slices.ContainsFunc(t.Shape, func(d ssa.Dim) bool { return d.Is(0) }) }
	var empty []string
	for _, p := range v.m.Inputs() {
		if hasNone(p.Type) {
			empty = append(empty, p.Name)
		}
	}
	for i, o := range v.m.Outputs() {
		if v.seen[o.Name] > 0 || hasNone(o.Type) {
			continue
		}
		sources := func(g *ssa.Graph) []string { return trial.SourcesOf(g).Names(g.Results[i]) }
		if len(empty) > 0 && !v.filled[o.Name] && slices.ContainsFunc(read(v.m, sources), func(name string) bool { return slices.Contains(empty, name) }) {
			continue
		}
		names = append(names, o.Name)
	}
	return names
}

// tellEmpty records the outputs of which nothing was compared. A model of which that are all is not verified, unless what it selects from was compared.
func (v *verification) tellEmpty() {
	if v.f.noVerify || !v.res.Verified {
		return
	}
	if v.res.Empty = v.unseen(); len(v.res.Empty) > 0 && len(v.res.Empty) == len(v.m.Outputs()) && len(v.res.Selected) == 0 {
		v.res.Verified = false
		v.res.Note = fmt.Sprintf("no output has an element that is a number with the inputs tried (%s); give others with --input or --data, such as an image with something to find",
			someOf(v.res.Empty))
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

// tensors lists the tensors of outputs, members of containers by their place in them.
func tensors(outputs map[string]ndarray.Value) map[string]*ndarray.Array {
	all := map[string]*ndarray.Array{}
	for name, v := range outputs {
		addTensors(all, name, v)
	}
	return all
}

func addTensors(all map[string]*ndarray.Array, name string, v ndarray.Value) {
	switch v := v.(type) {
	case *ndarray.Array:
		all[name] = v
	case *ndarray.Sequence:
		for i, x := range v.Items {
			addTensors(all, fmt.Sprintf("%s[%d]", name, i), x)
		}
	case *ndarray.Optional:
		if v != nil {
			addTensors(all, name, v.Value)
		}
	case *ndarray.Map:
		addTensors(all, name+".keys", v.Keys)
		addTensors(all, name+".values", v.Values)
	case *ndarray.Sparse:
		addTensors(all, name+".indices", v.Indices)
		addTensors(all, name+".values", v.Values)
	}
}

// largestOf is the largest difference in any output; infinity where types, shapes, strings or numbers of members differ.
func largestOf(got, want map[string]ndarray.Value) (d float64) {
	g, w := tensors(got), tensors(want)
	if len(g) != len(w) {
		return math.Inf(1)
	}
	for name, y := range w {
		x := g[name]
		switch {
		case x == nil || !sameForm(x, y):
			return math.Inf(1)
		case isNumeric(y.DType):
			d = max(d, maxAbsDiff(x, y))
		default:
			d = max(d, otherDiff(x, y))
		}
	}
	return d
}

// otherDiff is the largest difference of tensors of complex numbers, and infinity for strings that differ.
func otherDiff(x, y *ndarray.Array) float64 {
	d := conformance.Compare(x, y, conformance.Tolerance{})
	switch {
	case d == nil:
		return 0
	case y.DType == ndarray.String:
		return math.Inf(1)
	}
	return d.MaxAbs
}

// sameForm reports tensors of one element type and shape.
func sameForm(x, y *ndarray.Array) bool { return x.DType == y.DType && slices.Equal(x.Shape, y.Shape) }

// isNumeric reports the types whose elements are real numbers.
func isNumeric(dt ndarray.DType) bool { return dt != ndarray.String && !dt.IsComplex() }

// explained decides whether rounding explains the differences of the outputs got from those wanted, of which the largest is given. It explains those of numbers
// alone: not another type, shape, string or number of members, and nothing that is not finite where the original is, nor with its selections the other way round. The only error is a cancellation.
func (v *verification) explained(ctx context.Context, in, got, want map[string]ndarray.Value, largest float64) (bool, error) {
	if !v.numbersDiffer(got, want) {
		return false, nil
	}
	if ok, err := v.withinRounding(ctx, in, got, want, largest); ok || err != nil {
		return ok, err
	}
	return v.asAccurate(ctx, in, got, want, largest)
}

// numbersDiffer reports outputs that differ in nothing but real numbers.
func (v *verification) numbersDiffer(got, want map[string]ndarray.Value) bool {
	g, w := tensors(got), tensors(want)
	for name, y := range w {
		x := g[name]
		if x == nil || !sameForm(x, y) || !isNumeric(y.DType) && conformance.Compare(x, y, v.tolerance(y)) != nil {
			return false
		}
		for i := range y.Len() {
			if p, q := x.Float(i), y.Float(i); y.DType.IsFloat() && (isFinite(q) && !isFinite(p) || v.given && !isFinite(q) && p != q && (p == p || q == q)) {
				return false
			}
		}
	}
	return len(g) == len(w)
}

// withinRounding decides whether rounding explains the differences of a model that quantizes while it runs or of scaled inputs. Where a value is
// half way between two quantization steps, the rounding error of a sum selects one of them, and later nodes amplify that: the
// results of such a model vary by more than the tolerance. To measure by how much, the original model is run with other
// kernels, which add in another order. Each output of the optimized model may differ a few times as much, in its largest and in its mean square difference,
// since each run is one sample.
func (v *verification) withinRounding(ctx context.Context, in, got, want map[string]ndarray.Value, most float64) (bool, error) {
	if !read(v.m, quantizesWhileRunning) && !v.scaled {
		return false, nil
	}
	v.a.note("berth: outputs differ by up to %.3g; running the model once more, as it is with other kernels, to see how much of that is rounding", most)
	other, err := v.m.RunValues(ctx, in, append(v.a.limits(), berth.WithoutPasses(), berth.WithBackend("reference"))...)
	if err != nil {
		return false, ctx.Err()
	}
	v.mask(other, maps.Clone(want))
	got, want = maps.Clone(got), maps.Clone(want)
	v.mask(got, want)
	if !v.numbersDiffer(other, want) || !v.scattered(tensors(got), tensors(other), tensors(want)) {
		return false, nil
	}
	if !v.scaled {
		v.res.Note = fmt.Sprintf("outputs differ by up to %.3g; the model quantizes while it runs, and the order of sums alone makes up to %.3g", most, largestOf(other, want))
	}
	return true, nil
}

// scattered reports that the outputs got are about as far from those wanted as other ones, each within the tolerance or by itself.
func (v *verification) scattered(got, other, want map[string]*ndarray.Array) bool {
	const samples = 4
	for name, y := range want {
		if conformance.Compare(got[name], y, v.tolerance(y)) == nil {
			continue
		}
		d, ok1 := distanceOf(got[name], y, y)
		of, ok2 := distanceOf(other[name], y, y)
		if !ok1 || !ok2 || !d.within(of, samples, 0) || maxAbsDiff(got[name], y) > samples*maxAbsDiff(other[name], y) {
			return false
		}
		v.vague = v.vague || v.scaled && samples*of.largest >= scaleOf(y)
	}
	return true
}

// quantizesWhileRunning reports a node that rounds computed values to few steps, for others to read.
func quantizesWhileRunning(g *ssa.Graph) (found bool) {
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			found = found || (strings.HasPrefix(n.Op, "QuantizeLinear") || strings.HasPrefix(n.Op, "DynamicQuantize")) && slices.ContainsFunc(n.Out, func(o *ssa.Value) bool { return o != nil && (len(o.Uses()) > 0 || b.IsResult(o)) })
		}
	})
	return found
}
