package onnximport

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// externalData opens the files in which a model keeps weights of its own file.
// A file is mapped once, however many tensors lie in it.
type externalData struct {
	dir   string // the model's folder; "" means that there is none
	root  string // folder the files must lie in; "" means dir
	open  map[string]*onnxwire.Mapping
	order []io.Closer
}

func (x *externalData) files() []io.Closer { return x.order }

// constant wraps the window of a file that a tensor names.
//
// https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
func (x *externalData) constant(t *onnxwire.Tensor) (*ssa.Constant, error) {
	dt, shape, n, err := shapeOf(t)
	if err != nil {
		return nil, err
	}
	if dt == ndarray.String {
		return nil, fail("", "tensor %q holds strings in external data, which the format does not allow", t.Name)
	}
	location, offset, length, err := window(t)
	if err != nil {
		return nil, err
	}
	need := packedBytes(dt, n)
	if length >= 0 && length != int64(need) {
		return nil, fail("", "tensor %q of type %s%v needs %d bytes, its external data has length %d", t.Name, dt, shape, need, length)
	}
	if need == 0 {
		return rawConstant(t.Name, dt, shape, n, nil)
	}
	m, err := x.file(t.Name, location)
	if err != nil {
		return nil, err
	}
	data := m.Bytes()
	if offset > int64(len(data)) || int64(need) > int64(len(data))-offset {
		return nil, fail("the data file may be cut short, or belong to another model",
			"tensor %q wants bytes %d to %d of %q, which has %d", t.Name, offset, offset+int64(need), location, len(data))
	}
	return rawConstant(t.Name, dt, shape, n, data[offset:offset+int64(need)])
}

// window reads the entries of external_data. length is -1 when not given.
func window(t *onnxwire.Tensor) (location string, offset, length int64, err error) {
	length = -1
	for _, e := range t.ExternalData {
		switch e.Key {
		case "location":
			location = e.Value
		case "offset":
			offset, err = strconv.ParseInt(e.Value, 10, 64)
		case "length":
			length, err = strconv.ParseInt(e.Value, 10, 64)
		}
		if err != nil || offset < 0 || length < -1 {
			return "", 0, 0, fail("", "tensor %q has external data with %s %q", t.Name, e.Key, e.Value)
		}
	}
	if location == "" {
		return "", 0, 0, fail("", "tensor %q has external data without a location", t.Name)
	}
	return location, offset, length, nil
}

// file maps a data file, after checking that it lies where it may.
func (x *externalData) file(tensor, location string) (*onnxwire.Mapping, error) {
	if m := x.open[location]; m != nil {
		return m, nil
	}
	if x.dir == "" {
		return nil, fail("import it from its file", "tensor %q has external data, but the model was given without its folder", tensor)
	}
	path, err := x.resolve(tensor, location)
	if err != nil {
		return nil, err
	}
	m, err := onnxwire.MapFile(path)
	if err != nil {
		return nil, fail("", "external data %q of tensor %q can not be read: %w", location, tensor, err)
	}
	if x.open == nil {
		x.open = map[string]*onnxwire.Mapping{}
	}
	x.open[location] = m
	x.order = append(x.order, m)
	return m, nil
}

// resolve turns a location into a path: relative, without "..", and, once links
// are followed, a regular file below the root.
func (x *externalData) resolve(tensor, location string) (string, error) {
	local := filepath.FromSlash(strings.ReplaceAll(location, "\\", "/"))
	if strings.ContainsRune(location, 0) || !filepath.IsLocal(local) || strings.HasPrefix(location, "/") {
		return "", fail("", "external data %q of tensor %q is not a path below the model's folder", location, tensor)
	}
	path := filepath.Join(x.dir, local)
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fail("put the data file beside the model", "the file %q with the elements of tensor %q does not exist: %w", path, tensor, fs.ErrNotExist)
	} else if err != nil {
		return "", fail("", "external data %q of tensor %q: %w", location, tensor, err)
	}
	root := x.root
	if root == "" {
		root = x.dir
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", fail("", "folder of external data: %w", err)
	}
	below, err := relative(root, real)
	if err != nil || !filepath.IsLocal(below) {
		return "", fail("copy the file beside the model, or set Options.DataRoot", "external data %q of tensor %q is a link that leads out of the folder %q", location, tensor, root)
	}
	info, err := os.Stat(real)
	if err != nil || !info.Mode().IsRegular() {
		return "", fail("", "external data %q of tensor %q is not a regular file", location, tensor)
	}
	return real, nil
}

func relative(root, path string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return filepath.Rel(root, path)
}
