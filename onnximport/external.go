package onnximport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// externalData opens the files in which a model keeps weights of its own file.
// A file is mapped once, however many tensors lie in it.
type externalData struct {
	model string                                       // path of the model file; "" means that there is none
	root  string                                       // Options.DataRoot
	data  func(location string) ([]byte, error)        // reads instead of dir; nil: there is none
	read  func(path string) (*onnxwire.Mapping, error) // maps or reads a file
	open  map[string]*onnxwire.Mapping                 // by location and by path
	files []io.Closer                                  // the same in the order they were opened
}

// constant wraps the window of a file that a tensor names.
//
// https://github.com/onnx/onnx/blob/main/docs/ExternalData.md
func (x *externalData) constant(ctx context.Context, t *onnxwire.Tensor) (*ssa.Constant, error) {
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
	need := dt.FileBytes(n)
	if length >= 0 && length != int64(need) {
		return nil, fail("", "tensor %q of type %s%v needs %d bytes, its external data has length %d", t.Name, dt, shape, need, length)
	}
	if need == 0 {
		return rawConstant(ctx, t.Name, dt, shape, n, nil)
	}
	m, err := x.file(t.Name, location)
	if err != nil {
		return nil, err
	}
	data := m.Bytes()
	if offset > int64(len(data)) || int64(need) > int64(len(data))-offset {
		return nil, fail("the data file may be cut short, or belong to another model",
			"tensor %q wants %d bytes from byte %d on of %q, which has %d", t.Name, need, offset, location, len(data))
	}
	return rawConstant(ctx, t.Name, dt, shape, n, data[offset:offset+int64(need)])
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
			if length < 0 {
				err = strconv.ErrRange
			}
		}
		if err != nil || offset < 0 {
			return "", 0, 0, fail("", "tensor %q has external data with %s %q", t.Name, e.Key, e.Value)
		}
	}
	if location == "" {
		return "", 0, 0, fail("", "tensor %q has external data without a location", t.Name)
	}
	return location, offset, length, nil
}

// file maps a data file after checking its path.
func (x *externalData) file(tensor, location string) (*onnxwire.Mapping, error) {
	if m := x.open[location]; m != nil {
		return m, nil
	}
	if x.data != nil {
		return x.given(tensor, location)
	}
	if x.model == "" {
		return nil, fail("import it from its file, or hand over the data (WithExternalData)", "tensor %q has external data, but the model was given without its folder", tensor)
	}
	path, err := x.resolve(tensor, location)
	if err != nil {
		return nil, err
	}
	m := x.open[path] // by another spelling of the location
	if m == nil {
		if m, err = x.read(path); err != nil {
			return nil, fail("", "external data %q of tensor %q can not be read: %w", location, tensor, err)
		}
		x.files = append(x.files, m)
	}
	x.open[location], x.open[path] = m, m
	return m, nil
}

// given asks the caller for a data file.
func (x *externalData) given(tensor, location string) (*onnxwire.Mapping, error) {
	local, err := localPath(tensor, location)
	if err != nil {
		return nil, err
	}
	var data []byte
	rescue.Call("Options.Data", func() { data, err = x.data(path.Clean(filepath.ToSlash(local))) })
	if err != nil {
		return nil, fail("", "external data %q of tensor %q can not be read: %w", location, tensor, err)
	}
	m := onnxwire.InMemory(data)
	x.open[location] = m
	return m, nil
}

// localPath is a location as a relative path without "..".
func localPath(tensor, location string) (string, error) {
	local := filepath.FromSlash(strings.ReplaceAll(location, "\\", "/"))
	if strings.ContainsRune(location, 0) || !filepath.IsLocal(local) || strings.HasPrefix(location, "/") {
		return "", fail("", "external data %q of tensor %q is not a path below the model's folder", location, tensor)
	}
	return local, nil
}

// resolve turns a location into a path: relative, without "..", and, once links
// are followed, a regular file below the root.
func (x *externalData) resolve(tensor, location string) (string, error) {
	local, err := localPath(tensor, location)
	if err != nil {
		return "", err
	}
	path := folder(x.model) + local
	real, info, err := follow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fail("put the data file beside the model", "the file %q with the elements of tensor %q does not exist: %w", path, tensor, fs.ErrNotExist)
	} else if err != nil {
		return "", fail("", "external data %q of tensor %q: %w", location, tensor, err)
	}
	if !info.Mode().IsRegular() {
		return "", fail("", "external data %q of tensor %q is not a regular file", location, tensor)
	}
	if info.Size() == 0 { // also files of /proc, some of which never end
		return "", fail("", "external data %q of tensor %q is empty", location, tensor)
	}
	if fault := x.place(real, info); fault != "" {
		return "", fail(fmt.Sprintf("copy the file into the folder of the model, or, if it may be read, allow its folder %q (--data-root, WithDataRoot)", filepath.Dir(real)),
			"external data %q of tensor %q %s", location, tensor, fault)
	}
	return real, nil
}

// follow resolves links.
func follow(path string) (real string, info fs.FileInfo, err error) {
	if real, err = filepath.EvalSymlinks(path); err == nil {
		info, err = os.Stat(real)
	}
	return real, info, err
}

// place says what is wrong with where a data file lies, "" if nothing is. A model may come from a stranger, and the outputs
// show what was read: so links must stay in the folder of the model, and a file with names elsewhere is taken for a link.
// Where the model itself was opened through a link, its data may lie beside the file that it leads to: download caches keep
// both as links into one folder. Who opens the model can allow one more folder, in which links are not looked at.
//
// https://github.com/onnx/onnx/blob/main/docs/security.md and ValidateExternalDataPath of ONNX Runtime draw the same lines.
func (x *externalData) place(real string, info fs.FileInfo) string {
	if x.root != "" && isBelow(x.root, real) {
		return ""
	}
	model, err := filepath.EvalSymlinks(x.model)
	if err != nil {
		model = x.model
	}
	switch {
	case !isBelow(folder(x.model), real) && !isBelow(folder(model), real):
		return fmt.Sprintf("is a link that leads out of the folder %q", filepath.Dir(x.model))
	case sysmem.HardLinks(info) > 1:
		return "has more than one name (hard links), which may lie outside the folder of the model"
	}
	return ""
}

// folder is the folder of a path, with the separator at its end; [filepath.Dir] would resolve ".." without following links.
func folder(path string) string {
	dir, _ := filepath.Split(path)
	return cmp.Or(dir, "."+string(filepath.Separator))
}

// isBelow reports that a path without links lies below a folder.
func isBelow(folder, real string) bool {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	below, err := relative(root, real)
	return err == nil && filepath.IsLocal(below)
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
