package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/borrow"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// load opens a model, checks that the flags fit it, and reads the inputs given by --data. If lenient, the model need not be
// fit to run.
func (a *app) load(name string, lenient bool) (*berth.Model, map[string]ndarray.Value, error) {
	m, err := a.model(name, lenient)
	if err != nil {
		return nil, nil, err
	}
	in, err := a.inputsOf(name)
	if err == nil {
		err = a.checkGiven(m, in)
	}
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, in, nil
}

// opened is load with the options of the flags; outputs are files that will be written.
func (a *app) opened(name string, lenient bool, outputs ...string) (*berth.Model, map[string]ndarray.Value, []berth.Option, error) {
	opts, err := a.options(outputs...)
	if err != nil {
		return nil, nil, nil, err
	}
	m, in, err := a.load(name, lenient)
	return m, in, opts, err
}

// model opens a model and checks that the flags fit it.
func (a *app) model(name string, lenient bool) (*berth.Model, error) {
	m, err := a.open(name, lenient)
	if err != nil {
		return nil, err
	}
	err = a.checkNames(m)
	if err == nil && !a.several {
		err = a.checkModels([]string{name}, m)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// open opens a model file or builds a built-in one. A lenient caller shows the model's warnings itself.
func (a *app) open(model string, lenient bool) (*berth.Model, error) {
	if name, ok := strings.CutPrefix(model, "builtin:"); ok {
		m, err := testmodels.Build(name)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		built := berth.FromModule(m)
		a.say(model, built)
		return built, nil
	}
	switch model {
	case "":
		return nil, usagef("the name of the model is empty")
	case "-":
		return nil, usagef("a model is read from a pipe by its name: /dev/stdin; a file called - by ./-")
	}
	if err := a.spareInput(model); err != nil {
		return nil, err
	}
	open := berth.Open
	if lenient {
		open = berth.OpenLenient
	}
	m, err := open(model, a.openOptions()...)
	if err != nil {
		return nil, modelError(model, err)
	}
	if !lenient {
		for _, w := range m.Warnings() {
			a.note("berth: warning: %s", w)
		}
	}
	a.say(model, m)
	return m, nil
}

// say tells of a model that was opened, with --verbose.
func (a *app) say(name string, m *berth.Model) {
	if a.verbose {
		s := m.Contents()
		a.note("berth: %s: %d nodes, weights %s", name, s.Nodes, bytesText(s.WeightBytes))
	}
}

// openOptions are the flags that concern the opening of a model.
func (a *app) openOptions() []berth.Option {
	return []berth.Option{berth.WithChannelBlock(a.channelBlock), berth.WithDataRoot(a.dataRoot), berth.WithLimits(a.limitsGiven), berth.WithContext(a.ctx), berth.WithMaxMemory(int64(a.memory))}
}

// modelCommand is a command of one model; its errors name the file.
func modelCommand(use, short, long, example string, run func(c *cobra.Command, model string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: exactArgs(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error { return atModel(args[0], run(c, args[0])) }}
}

// modelError says that a file is no model, naming it once.
func modelError(path string, err error) error {
	var pe *fs.PathError
	if imp := (*onnximport.ImportError)(nil); !errors.As(err, &imp) && errors.As(err, &pe) {
		err = fmt.Errorf("%s: %w", path, pe.Err)
	}
	if memory := (*ops.MemoryError)(nil); errors.As(err, &memory) {
		return &exitError{exitFailed, err} // with more, the file may be a model
	}
	return &exitError{exitModel, err}
}

// atModel adds the model's name to an error of one of its nodes, inputs or sizes, and the remedy for an unknown operator.
func atModel(model string, err error) error {
	var node *ops.NodeError
	var export *berth.ExportError
	var memory *ops.MemoryError
	var binding *ops.BindingError
	var input *berth.InputError
	var size *planner.ProblemError
	var imp *onnximport.ImportError
	if option := (*berth.OptionError)(nil); errors.As(err, &option) && option.Err != nil {
		err = option.Err // says the same without the function of the library
	}
	switch {
	case errors.As(err, &imp) && imp.File != "" || err != nil && strings.HasPrefix(err.Error(), model+": "): // names it already
		return err
	case !errors.As(err, &node) && !errors.As(err, &export) && !errors.As(err, &memory) && !errors.As(err, &binding) && !errors.As(err, &input) && !errors.As(err, &size) && !errors.Is(err, ndarray.ErrSize):
		return err
	case errors.Is(err, ops.ErrUnsupported):
		return fmt.Errorf("%s: %w; 'berth inspect' shows the model", model, err)
	}
	return fmt.Errorf("%s: %w", model, err)
}

// inputsOf reads the inputs in the folder given by --data; there are none without the flag.
func (a *app) inputsOf(model string) (map[string]ndarray.Value, error) {
	in := map[string]ndarray.Value{}
	if a.data == "" {
		return in, nil
	}
	if strings.HasPrefix(model, "builtin:") {
		return nil, usagef("--data goes with a model file; %s has no recorded inputs", model)
	}
	if err := a.readsFolder(a.data); err != nil {
		return nil, err
	}
	set, err := conformance.ReadInputs(a.within(), model, a.data)
	if err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("--data %s: %w", a.data, err)}
	}
	for _, x := range set {
		in[x.Name] = x.Value
	}
	return in, nil
}

// checkGiven makes sure that --shape and --dim do not contradict the inputs given.
func (a *app) checkGiven(m *berth.Model, in map[string]ndarray.Value) error {
	for _, p := range m.Inputs() {
		if arr, ok := in[p.Name].(*ndarray.Array); ok {
			if err := a.contradiction(p, arr.Shape); err != nil {
				return err
			}
		}
	}
	return nil
}

// contradiction reports --shape and --dim that give an input another shape than that of the value given.
func (a *app) contradiction(p berth.Port, shape []int) error {
	if want, given := a.shapes[p.Name]; given && !slices.Equal(want, shape) {
		return usagef("--shape %s contradicts the input given, whose shape is %s", shapesText(a.shapes, []string{p.Name}, ""), dimsText(shape))
	}
	for i, d := range p.Type.Shape {
		symbol, named := d.SymbolName()
		if n, given := a.dims[symbol]; named && given && i < len(shape) && int64(shape[i]) != n {
			return usagef("--dim %s=%d contradicts the input %q given, whose shape is %s", symbol, n, p.Name, dimsText(shape))
		}
	}
	return nil
}

// shapesIn fixes the shapes of inputs to those of their values.
func shapesIn(values map[string]ndarray.Value) []berth.Option {
	var opts []berth.Option
	for name, v := range values {
		if arr, ok := v.(*ndarray.Array); ok {
			opts = append(opts, berth.WithShape(name, arr.Shape...))
		}
	}
	return opts
}

// randomInputs makes inputs for a model: those given, random values by seed, strings worth trying, and elements that fit what the model uses them for, for
// the rest. Open dimensions count as 1 unless shapes say otherwise.
func (a *app) randomInputs(m *berth.Model, shapes map[string][]int, given map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	out, sizes := map[string]ndarray.Value{}, a.sizesIn(m, shapes)
	for i, in := range m.Inputs() {
		if v, ok := given[in.Name]; ok {
			out[in.Name] = v
			continue
		}
		if in.Optional {
			continue
		}
		d := draw{a, m, in, sizes, uint64(i)}
		shape, ok := shapes[in.Name]
		if !ok && in.Type.Kind == ssa.KindTensor {
			if shape, ok = openAsOne(in.Type); !ok {
				return nil, usagef("input %q is %s: give %sits shape with --shape", in.Name, in.Type, a.inputAdvice(in.Name))
			}
		}
		v, err := d.value(in.Type, shape)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		out[in.Name] = v
	}
	return out, nil
}

// drawing says which of several values are drawn.
type drawing struct {
	plain bool // of integers 0 and 1, whatever the model uses them for
	try   int  // of counts, sizes and ranks, below [trial.Tries]
	form  int  // of sequences and optional values, an index of forms
}

// otherDrawings lists what may be drawn besides the first values; none where they would be the same.
func (a *app) otherDrawings(m *berth.Model, have map[string]ndarray.Value) (all []drawing) {
	containers := slices.ContainsFunc(m.Inputs(), func(p berth.Port) bool { return p.Type.Kind != ssa.KindTensor && have[p.Name] == nil })
	roles := false
	for name := range a.rolesOf(m) {
		roles = roles || have[name] == nil
	}
	for try := 1; try < trial.Tries && (roles || containers); try++ {
		all = append(all, drawing{try: try})
	}
	for form := 1; form < len(forms) && containers; form++ {
		all = append(all, drawing{form: form})
	}
	if roles {
		all = append(all, drawing{plain: true})
	}
	return all
}

// forms are the lengths of sequences that are drawn; an optional value is there with the first.
var forms = []int{3, 1, 0}

// formText names a form of a type.
func formText(t ssa.Type, form int) string {
	switch {
	case t.Kind == ssa.KindOptional && form > 0:
		return "absent"
	case t.Kind == ssa.KindOptional && t.Elem != nil && t.Elem.Kind == ssa.KindSequence:
		return formText(*t.Elem, form)
	case t.Kind == ssa.KindOptional:
		return "present"
	}
	return fmt.Sprintf("a sequence of %d", forms[form])
}

// sizesIn are the sizes of symbols, by --dim and by shapes of inputs.
func (a *app) sizesIn(m *berth.Model, shapes map[string][]int) map[string]int64 {
	sizes := maps.Clone(a.dims)
	if sizes == nil {
		sizes = map[string]int64{}
	}
	for _, in := range m.Inputs() {
		shape := shapes[in.Name]
		if in.Type.Rank() != len(shape) {
			continue
		}
		for i, d := range in.Type.Shape {
			if s, ok := d.SymbolName(); ok {
				sizes[s] = int64(shape[i])
			}
		}
	}
	return sizes
}

// read is what f says of a model's graph, which f must neither change nor keep.
func read[T any](m *berth.Model, f func(*ssa.Graph) T) (out T) {
	if borrow.Graph(m, func(g *ssa.Graph) { out = f(g) }) != nil {
		return f(m.Graph())
	}
	return out
}

// rolesOf says what a model uses its inputs for.
func (a *app) rolesOf(m *berth.Model) map[string]trial.Role {
	if a.roles == nil {
		a.roles = map[*berth.Model]map[string]trial.Role{}
	}
	if a.roles[m] == nil {
		a.roles[m] = read(m, trial.RolesOf)
	}
	return a.roles[m]
}

// draw makes the value of one input.
type draw struct {
	a      *app
	m      *berth.Model
	port   berth.Port
	sizes  map[string]int64
	stream uint64
}

// value draws a value of a type, a tensor of the shape.
func (d draw) value(t ssa.Type, shape []int) (ndarray.Value, error) {
	form := d.a.drawing.form
	switch {
	case t.Kind == ssa.KindTensor:
		return arrayOrNil(d.array(t.DType, shape, d.stream))
	case t.Kind == ssa.KindOptional && form > 0:
		return &ndarray.Optional{}, nil
	case t.Elem == nil || t.Kind != ssa.KindOptional && t.Kind != ssa.KindSequence:
		return nil, usagef("values of type %s are not drawn: give %sanother model", t, d.a.inputAdvice(d.port.Name))
	case t.Kind == ssa.KindOptional:
		v, err := d.value(*t.Elem, d.memberShape(*t.Elem))
		return &ndarray.Optional{Value: v}, err
	}
	s := &ndarray.Sequence{Elem: t.Elem.DType}
	for k := range forms[form] {
		member := d
		member.stream += uint64(k) << 32
		v, err := member.value(*t.Elem, d.memberShape(*t.Elem))
		if err != nil {
			return nil, err
		}
		s.Items = append(s.Items, v)
	}
	return s, nil
}

// memberShape is the shape of the members of a container: the symbols' sizes, else 2; of unknown ranks 2 and others in turn.
func (d draw) memberShape(t ssa.Type) (shape []int) {
	if !t.Ranked {
		return [][]int{{2, 3}, {2}, {1, 2, 3}, {}, {1, 3, 16, 16}}[min(d.a.drawing.try, 4)]
	}
	for _, dim := range t.Bind(d.sizes).Shape {
		n, ok := dim.Const()
		if !ok {
			n = 2
		}
		shape = append(shape, int(n))
	}
	return shape
}

// array draws a tensor.
func (d draw) array(dt ndarray.DType, shape []int, stream uint64) (*ndarray.Array, error) {
	role, used := d.a.rolesOf(d.m)[d.port.Name]
	ctx := d.a.within()
	switch {
	case dt == ndarray.String:
		return textsOf(d.m)(ctx, dt, shape, uint64(d.a.seed), stream)
	case !used || d.a.drawing.plain:
		return randomArray(ctx, dt, shape, uint64(d.a.seed), stream)
	}
	arr, err := ndarray.NewIn(d.a.memory, dt, shape...)
	if err != nil {
		return nil, err
	}
	by := trial.Drawing{Role: role, Len: arr.Len(), Sizes: d.sizes, Try: d.a.drawing.try, Rand: rand.New(rand.NewPCG(uint64(d.a.seed), stream))}
	for i := range elements(ctx, arr.Len()) {
		if x, _ := by.Element(i); dt.IsFloat() {
			arr.SetFloat(i, x)
		} else {
			arr.SetInt(i, int64(x))
		}
	}
	return arr, ctx.Err()
}

// drawnText says what inputs were drawn by what the model uses them for, sequences and optional values among them.
func (a *app) drawnText(m *berth.Model, given, in map[string]ndarray.Value) (texts []string) {
	for _, p := range m.Inputs() {
		if given[p.Name] != nil || in[p.Name] == nil {
			continue
		}
		role, used := a.rolesOf(m)[p.Name]
		x, isArray := in[p.Name].(*ndarray.Array)
		switch {
		case !isArray:
			texts = append(texts, fmt.Sprintf("%s: %s", p.Name, formText(p.Type, a.drawing.form)))
		case used && !a.drawing.plain && x.Len() > 0:
			texts = append(texts, fmt.Sprintf("%s = %s (%s for %s)", p.Name, rangeText(x), role.Kind.Text(), role.Op))
		}
	}
	return texts
}

// rangeText is the number that all elements are, or the least and the largest.
func rangeText(x *ndarray.Array) string {
	low, high := x.Float(0), x.Float(0)
	for i := range x.Len() {
		low, high = min(low, x.Float(i)), max(high, x.Float(i))
	}
	if low == high {
		return fmt.Sprintf("%.4g", low)
	}
	return fmt.Sprintf("%.4g … %.4g", low, high)
}

// inputAdvice says which flags of the command give the value of an input, as far as they are not given already; "" if none does.
func (a *app) inputAdvice(name string) string {
	switch {
	case a.has["input"]:
		return fmt.Sprintf("it with --input %s=FILE or ", name)
	case a.has["data"] && a.data == "":
		return "it with --data or "
	}
	return ""
}

// openAsOne gives unknown dimensions the size 1.
func openAsOne(t ssa.Type) ([]int, bool) {
	if t.Kind != ssa.KindTensor || !t.Ranked {
		return nil, false
	}
	shape := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = 1
		if n, ok := d.Const(); ok {
			shape[i] = int(n)
		}
	}
	return shape, true
}

// randomArray fills an array with random values by seed: standard normal floats; 0 or 1 for integers and booleans.
// A context, which may carry a budget of memory, ends it.
func randomArray(ctx context.Context, dt ndarray.DType, shape []int, seed, stream uint64) (*ndarray.Array, error) {
	arr, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), dt, shape...)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	for i := range elements(ctx, arr.Len()) {
		if dt == ndarray.Bool || dt.IsInteger() {
			arr.SetInt(i, int64(rng.IntN(2)))
		} else {
			arr.SetFloat(i, rng.NormFloat64())
		}
	}
	return arr, ctx.Err()
}

// textsOf returns a randomArray of strings worth giving to a model, one after the other, the first by seed and stream.
func textsOf(m *berth.Model) func(ctx context.Context, dt ndarray.DType, shape []int, seed, stream uint64) (*ndarray.Array, error) {
	return func(ctx context.Context, dt ndarray.DType, shape []int, seed, stream uint64) (*ndarray.Array, error) {
		arr, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), dt, shape...)
		if err != nil {
			return nil, err
		}
		words := read(m, trial.Words)
		for i := range elements(ctx, arr.Len()) {
			arr.Str[i] = words[(seed+stream+uint64(i))%uint64(len(words))]
		}
		return arr, ctx.Err()
	}
}

// elements counts from 0 to n-1, and stops early when the context ends: who reads what the loop made looks at the context.
func elements(ctx context.Context, n int) iter.Seq[int] {
	const block = 1 << 16
	return func(yield func(int) bool) {
		for lo := 0; lo < n && ctx.Err() == nil; lo += block {
			for i := lo; i < min(lo+block, n); i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// bindShapes collects the shapes given by --shape and those of given inputs, and 1
// for what stays open, for commands that must run a model.
func (a *app) bindShapes(m *berth.Model, have map[string]ndarray.Value) map[string][]int {
	shapes := maps.Clone(a.shapes)
	for name, v := range have {
		if arr, ok := v.(*ndarray.Array); ok && shapes[name] == nil {
			shapes[name] = arr.Shape
		}
	}
	dims := a.boundDims(m, have)
	for _, in := range m.Inputs() {
		if shapes[in.Name] == nil && !in.Optional {
			if shape, ok := openAsOne(in.Type.Bind(dims)); ok {
				shapes[in.Name] = shape
			}
		}
	}
	return shapes
}

// boundDims are the sizes of symbols by --dim, and by the shapes of inputs that --shape or the inputs given fix.
func (a *app) boundDims(m *berth.Model, have map[string]ndarray.Value) map[string]int64 {
	shapes := maps.Clone(a.shapes)
	for name, v := range have {
		if arr, ok := v.(*ndarray.Array); ok && shapes[name] == nil {
			shapes[name] = arr.Shape
		}
	}
	return a.sizesIn(m, shapes)
}

// maxAbsDiff is the largest absolute difference of two arrays; infinite where
// one is NaN and the other is not, or shapes differ.
func maxAbsDiff(x, y *ndarray.Array) float64 {
	if x.Len() != y.Len() {
		return math.Inf(1)
	}
	var most float64
	for i := range x.Len() {
		p, q := x.Float(i), y.Float(i)
		if p != p && q != q || p == q {
			continue
		}
		d := math.Abs(p - q)
		if d != d {
			return math.Inf(1)
		}
		most = max(most, d)
	}
	return most
}

// nonFinite counts the elements that are NaN and those that are infinite.
func nonFinite(a *ndarray.Array) (nan, inf int) {
	if !a.DType.IsFloat() {
		return 0, 0
	}
	for i := range a.Len() {
		x := a.Float(i)
		switch {
		case math.IsNaN(x):
			nan++
		case math.IsInf(x, 0):
			inf++
		}
	}
	return nan, inf
}
