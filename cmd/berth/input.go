package main

import (
	"archive/zip"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// readInput reads NAME=FILE into the set of inputs. A .npz without a name gives
// every input it has an entry for.
func (a *app) readInput(m *berth.Model, spec string, images *imageFlags, in map[string]ndarray.Value) error {
	name, file, ok := splitInput(m, spec)
	switch {
	case !ok && strings.HasSuffix(spec, ".npz"):
		if err := readNPZ(isInput(m), spec, a.memory, in); err != nil {
			return fmt.Errorf("%s: %w", spec, err)
		}
		return nil
	case !ok:
		return usagef("--input %q: want NAME=FILE", spec)
	}
	port, err := inputPort(m, name)
	if err != nil {
		return err
	}
	if shape, given := a.shapes[name]; given {
		port.Type = ssa.StaticTensor(port.Type.DType, shape...)
	}
	var v ndarray.Value
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".npy":
		v, err = readFileNPY(file, a.memory)
	case ".npz":
		all := map[string]ndarray.Value{}
		if err = readNPZ(isInput(m), file, a.memory, all); err == nil && all[name] == nil {
			err = fmt.Errorf("has no entry %q", name)
		}
		v = all[name]
	case ".pb":
		v, err = conformance.ReadTensor(file)
	case ".wav":
		v, err = readSound(file, port.Type, a.memory)
	default:
		if !isImage(ext) {
			return usagef("--input %s: files of type %q are not understood (.npy, .npz, .pb, .wav, %s)", spec, ext, strings.Join(imageTypes, ", "))
		}
		v, err = images.readImage(file, port.Type, a.memory)
	}
	if err != nil {
		return fmt.Errorf("input %q: %s: %w", name, file, err)
	}
	in[name] = v
	return nil
}

// splitInput cuts NAME=FILE. Both may contain the sign: the cut is made after the
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

func readFileNPY(file string, memory ndarray.Budget) (ndarray.Value, error) {
	f, err := conformance.OpenRegular(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readNPY(f, memory)
}

// isInput reports names of a model's inputs.
func isInput(m *berth.Model) func(name string) bool {
	return func(name string) bool {
		_, err := inputPort(m, name)
		return err == nil
	}
}

// readNPZ reads the arrays of an archive with names that are wanted.
func readNPZ(wanted func(name string) bool, file string, memory ndarray.Budget, in map[string]ndarray.Value) error {
	if err := conformance.CheckRegular(file); err != nil {
		return err
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, e := range z.File {
		name := strings.TrimSuffix(e.Name, ".npy")
		if !wanted(name) {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return err
		}
		a, err := readNPY(r, memory)
		r.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		in[name] = a
	}
	return nil
}
