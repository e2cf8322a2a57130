package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/npy"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// readInput reads NAME=FILE or NAME=NUMBER. A .npz without a name gives every input it has an entry for. The result has no value that does not fit
// its input: what a file says of type and shape is compared before its elements are read.
func (a *app) readInput(m *berth.Model, spec string, images *imageFlags) (map[string]ndarray.Value, error) {
	name, file, ok := splitInput(m, spec)
	switch {
	case !ok && strings.HasSuffix(spec, ".npz"):
		return a.readArchive(m, spec)
	case !ok:
		return nil, usagef("--input %q: want NAME=FILE or NAME=NUMBER", spec)
	}
	port, err := inputPort(m, name)
	if err != nil {
		return nil, err
	}
	var v ndarray.Value
	if isNumber(file) {
		v, err = a.filled(port, file)
	} else {
		v, err = a.readFile(port, file, images)
	}
	if err != nil {
		return nil, inFile(fmt.Sprintf("input %q: %s", name, file), err)
	}
	return map[string]ndarray.Value{name: v}, nil
}

// inFile names the file that an error is about; those of the command line name it themselves.
func inFile(file string, err error) error {
	if e := (*exitError)(nil); errors.As(err, &e) && e.code == exitUsage {
		return err
	}
	return fmt.Errorf("%s: %w", file, err)
}

// isNumber reports a number, true or false in the place of a file's name.
func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil || s == "true" || s == "false" || errors.Is(err, strconv.ErrRange)
}

// numberOf is a number of a type; false for one that the type does not have.
func numberOf(dt ndarray.DType, s string) (one *ndarray.Array, ok bool) {
	if dt == ndarray.Undefined || dt == ndarray.String || dt.IsComplex() {
		return nil, false
	}
	one = ndarray.Must(dt)
	if dt.IsFloat() {
		x, err := strconv.ParseFloat(s, 64)
		one.SetFloat(0, x)
		return one, err == nil && math.IsInf(one.Float(0), 0) == math.IsInf(x, 0)
	}
	if dt == ndarray.Bool && (s == "true" || s == "false") {
		s = word(s == "true", "1", "0")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if u, errU := strconv.ParseUint(s, 10, 64); dt == ndarray.Uint64 {
		n, err = int64(u), errU
	}
	one.SetInt(0, n)
	return one, err == nil && one.Int(0) == n
}

// filled is an input all of whose elements are one number; its shape must be known.
func (a *app) filled(port berth.Port, number string) (ndarray.Value, error) {
	t := port.Type.Bind(a.dims)
	shape, known := a.shapes[port.Name]
	if !known && t.Kind == ssa.KindTensor {
		shape, known = t.Static()
	}
	if !known {
		return nil, usagef("--input %s=%s: the input is %s; give its shape with --shape or --dim", port.Name, number, t)
	}
	one, ok := numberOf(t.DType, number)
	if !ok {
		return nil, usagef("--input %s=%s: the input is %s, which has no such number", port.Name, number, t)
	}
	return arrayOrNil(ssa.NewSplat(one, shape...).ArrayIn(a.memory))
}

// readFile reads the value of one input.
func (a *app) readFile(port berth.Port, file string, images *imageFlags) (v ndarray.Value, err error) {
	shaped := port.Type
	if shape, given := a.shapes[port.Name]; given {
		shaped = ssa.StaticTensor(port.Type.DType, shape...)
	}
	ext := strings.ToLower(filepath.Ext(file))
	if !isImage(ext) && !slices.Contains(arrayTypes, ext) {
		return nil, usagef("--input %s=%s: files of type %q are not understood (%s, %s)", port.Name, file, ext, strings.Join(arrayTypes, ", "), strings.Join(imageTypes, ", "))
	}
	r, size, err := a.openInput(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	check := func(dt ndarray.DType, shape []int) error { return a.checkFits(port, dt, shape) }
	switch ext {
	case ".npy":
		v, err = arrayOrNil(npy.Read(a.within(), r, size, func(h npy.Header) error { return check(h.DType, h.Shape) }))
	case ".npz":
		var all map[string]*ndarray.Array
		if all, _, err = npy.ReadArchive(a.within(), r, size, a.wanted(func(name string) (berth.Port, bool) { return port, name == port.Name })); err == nil && all[port.Name] == nil {
			err = fmt.Errorf("has no entry %q", port.Name)
		}
		v = all[port.Name]
	case ".pb":
		v, err = conformance.ReadTensor(a.within(), r, size, check)
	case ".wav":
		v, err = readSound(endingReader{r, a.ctx}, shaped, a.memory)
	default:
		v, err = images.readImage(endingReader{r, a.ctx}, shaped, a.memory)
	}
	return v, err
}

// arrayTypes are the files with arrays or sound.
var arrayTypes = []string{".npy", ".npz", ".pb", ".wav"}

// openInput opens a file, which will not be written over, and returns how many bytes it has.
func (a *app) openInput(file string) (*os.File, int64, error) {
	if err := a.reads(file); err != nil {
		return nil, 0, err
	}
	r, err := conformance.OpenRegular(file)
	if err != nil {
		return nil, 0, err
	}
	info, err := r.Stat()
	if err != nil {
		r.Close()
		return nil, 0, err
	}
	return r, info.Size(), nil
}

// arrayOrNil keeps a nil array from becoming a value that is not nil.
func arrayOrNil(x *ndarray.Array, err error) (ndarray.Value, error) {
	if err != nil {
		return nil, err
	}
	return x, nil
}

// readArchive reads the arrays of an archive that are inputs of the model, and tells of others.
func (a *app) readArchive(m *berth.Model, file string) (map[string]ndarray.Value, error) {
	r, size, err := a.openInput(file)
	if err != nil {
		return nil, inFile(file, err)
	}
	defer r.Close()
	all, left, err := npy.ReadArchive(a.within(), r, size, a.wanted(func(name string) (berth.Port, bool) {
		port, err := inputPort(m, name)
		return port, err == nil
	}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(all) == 0 {
		return nil, usagef("--input %s: no array in it has the name of an input; the inputs are %s, the arrays %s", file, someOf(portNames(m)), someOf(left))
	}
	if len(left) > 0 {
		a.note("berth: warning: %s: no input takes the arrays %s", file, someOf(left))
	}
	in := map[string]ndarray.Value{}
	for name, x := range all {
		in[name] = x
	}
	return in, nil
}

// wanted are the checks of arrays by the inputs that take them.
func (a *app) wanted(port func(name string) (berth.Port, bool)) func(name string) func(npy.Header) error {
	return func(name string) func(npy.Header) error {
		p, ok := port(name)
		if !ok {
			return nil
		}
		return func(h npy.Header) error { return a.checkFits(p, h.DType, h.Shape) }
	}
}

// checkFits reports an array that an input does not take, or that --shape or --dim contradicts.
func (a *app) checkFits(p berth.Port, dt ndarray.DType, shape []int) error {
	t := p.Type
	if t.Kind != ssa.KindTensor {
		return nil // an optional one takes a tensor, too; the run says what does not fit
	}
	if t.DType != ndarray.Undefined && dt != t.DType || !fits(p, shape) {
		return fmt.Errorf("holds %s, the input is %s; give an array of that type and shape", ssa.StaticTensor(dt, shape...), t)
	}
	return a.contradiction(p, shape)
}

// someOf lists the first of some names.
func someOf(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func portNames(m *berth.Model) (names []string) {
	for _, p := range m.Inputs() {
		names = append(names, p.Name)
	}
	return names
}

// splitInput cuts NAME=FILE or NAME=NUMBER. Both may contain the sign: the cut is made after the
// name of an input, if there is one.
func splitInput(m *berth.Model, spec string) (name, file string, ok bool) {
	for _, p := range m.Inputs() {
		if file, ok := strings.CutPrefix(spec, p.Name+"="); ok {
			return p.Name, file, true
		}
	}
	name, file, ok = strings.Cut(spec, "=")
	return name, file, ok && name != ""
}
