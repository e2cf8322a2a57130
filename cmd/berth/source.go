package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
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
		err = a.checkGiven(in)
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
	if err := a.checkNames(m); err != nil {
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
		return berth.FromModule(m), nil
	}
	if model == "" {
		return nil, usagef("the name of the model is empty")
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
	return m, nil
}

// openOptions are the flags that concern the opening of a model.
func (a *app) openOptions() []berth.Option {
	return []berth.Option{berth.WithChannelBlock(a.channelBlock), berth.WithDataRoot(a.dataRoot), berth.WithContext(a.ctx), berth.WithMaxMemory(int64(a.memory))}
}

// modelCommand is a command of one model; its errors name the file.
func modelCommand(use, short, long, example string, run func(c *cobra.Command, model string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: exactArgs(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error { return atModel(args[0], run(c, args[0])) }}
}

// modelError says that a file is no model, naming it once.
func modelError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = fmt.Errorf("%s: %w", path, pe.Err)
	}
	if memory := (*ops.MemoryError)(nil); errors.As(err, &memory) {
		return &exitError{exitFailed, err} // with more, the file may be a model
	}
	return &exitError{exitModel, err}
}

// atModel adds the model's name to an error of one of its nodes, and the remedy for an unknown operator.
func atModel(model string, err error) error {
	var node *ops.NodeError
	var export *berth.ExportError
	var memory *ops.MemoryError
	var imp *onnximport.ImportError
	switch {
	case errors.As(err, &imp) && imp.File != "": // names it already
		return err
	case !errors.As(err, &node) && !errors.As(err, &export) && !errors.As(err, &memory):
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
	set, err := conformance.ReadSet(model, a.data)
	recorded := func(x conformance.Named) bool { return x.Value != nil }
	if err == nil && len(set.Inputs) == 0 && !slices.ContainsFunc(set.Outputs, recorded) {
		err = fmt.Errorf("--data %s: there is no input_0.pb and the like in the folder", a.data)
	}
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	for _, x := range set.Inputs {
		in[x.Name] = x.Value
	}
	return in, nil
}

// checkGiven makes sure that --shape does not contradict the inputs given.
func (a *app) checkGiven(in map[string]ndarray.Value) error {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		arr, ok := in[name].(*ndarray.Array)
		if shape, given := a.shapes[name]; ok && given && !slices.Equal(shape, arr.Shape) {
			return usagef("--shape %s contradicts the input given, whose shape is %v", shapesText(a.shapes, []string{name}, ""), arr.Shape)
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

// randomInputs makes inputs for a model: those given, random values by seed for
// the rest. Open dimensions count as 1 unless shapes say otherwise.
func (a *app) randomInputs(m *berth.Model, shapes map[string][]int, given map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	out := map[string]ndarray.Value{}
	for i, in := range m.Inputs() {
		if v, ok := given[in.Name]; ok {
			out[in.Name] = v
			continue
		}
		if in.Optional {
			continue
		}
		shape, ok := shapes[in.Name]
		if !ok {
			if shape, ok = openAsOne(in.Type); !ok {
				return nil, usagef("input %q is %s: give it with --input %s=FILE or its shape with --shape", in.Name, in.Type, in.Name)
			}
		}
		v, err := randomArray(in.Type.DType, shape, uint64(a.seed), uint64(i), a.memory)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		out[in.Name] = v
	}
	return out, nil
}

// openAsOne gives unknown dimensions the size 1.
func openAsOne(t ssa.Type) ([]int, bool) {
	if t.Kind != ssa.KindTensor || !t.Ranked || t.DType == ndarray.String {
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
func randomArray(dt ndarray.DType, shape []int, seed, stream uint64, memory ndarray.Budget) (*ndarray.Array, error) {
	arr, err := ndarray.NewIn(memory, dt, shape...)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	for i := range arr.Len() {
		if dt == ndarray.Bool || dt.IsInteger() {
			arr.SetInt(i, int64(rng.IntN(2)))
		} else {
			arr.SetFloat(i, rng.NormFloat64())
		}
	}
	return arr, nil
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
	dims := maps.Clone(a.dims)
	for _, in := range m.Inputs() {
		shape := a.shapes[in.Name]
		if arr, ok := have[in.Name].(*ndarray.Array); ok && shape == nil {
			shape = arr.Shape
		}
		if len(shape) != in.Type.Rank() {
			continue
		}
		for i, d := range in.Type.Shape {
			if s, ok := d.SymbolName(); ok {
				dims[s] = int64(shape[i])
			}
		}
	}
	return dims
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
