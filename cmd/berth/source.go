package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// load opens a model, checks that the flags fit it, and reads the inputs given by --data.
func (a *app) load(name string) (*berth.Model, map[string]ndarray.Value, error) {
	m, err := a.model(name)
	if err != nil {
		return nil, nil, err
	}
	in, err := a.inputsOf(name)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, in, nil
}

// model opens a model and checks that the flags fit it.
func (a *app) model(name string) (*berth.Model, error) {
	m, err := a.open(name)
	if err != nil {
		return nil, err
	}
	if err := a.checkNames(m); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// open opens a model file or builds a built-in one.
func (a *app) open(model string) (*berth.Model, error) {
	if name, ok := strings.CutPrefix(model, "builtin:"); ok {
		m, err := testmodels.Build(name)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		return berth.FromModule(m), nil
	}
	m, err := berth.Open(model, a.openOptions()...)
	if err != nil {
		return nil, modelError(model, err)
	}
	for _, w := range m.Warnings() {
		a.note("berth: warning: %s", w)
	}
	return m, nil
}

// openOptions are the flags that say how to read a model file.
func (a *app) openOptions() []berth.Option {
	return []berth.Option{berth.WithChannelBlock(a.channelBlock)}
}

// modelError says that a file is no model, naming it once.
func modelError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = fmt.Errorf("%s: %w", path, pe.Err)
	}
	return &exitError{exitModel, err}
}

// about adds the model's name to an error of one of its nodes, and what to do about
// an operator that is not there.
func about(model string, err error) error {
	var ne *ops.NodeError
	var exp *berth.ExportError
	var full *ops.MemoryError
	var imp *onnximport.ImportError
	switch {
	case errors.As(err, &imp) && imp.File != "": // names it already
		return err
	case !errors.As(err, &ne) && !errors.As(err, &exp) && !errors.As(err, &full):
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
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	for _, x := range set.Inputs {
		in[x.Name] = x.Value
	}
	return in, nil
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
		v, err := randomArray(in.Type.DType, shape, uint64(a.seed), uint64(i), a.memoryLimit)
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

// randomArray fills an array with values by seed: standard normal floats, small
// non-negative integers, coin flips. limit is that of [ops.Room].
func randomArray(dt ndarray.DType, shape []int, seed, stream uint64, limit int64) (*ndarray.Array, error) {
	size, err := ndarray.ByteSize(dt, shape)
	if err != nil {
		return nil, err
	}
	if err := ops.Room("a random input", int64(size), limit); err != nil {
		return nil, err
	}
	arr, err := ndarray.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	for i := range arr.Len() {
		switch {
		case dt == ndarray.Bool:
			arr.SetInt(i, int64(rng.IntN(2)))
		case dt.IsInteger():
			arr.SetInt(i, int64(rng.IntN(2)))
		default:
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
	for _, in := range m.Inputs() {
		if shapes[in.Name] == nil && !in.Optional {
			if shape, ok := openAsOne(in.Type.Bind(a.dims)); ok {
				shapes[in.Name] = shape
			}
		}
	}
	return shapes
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
