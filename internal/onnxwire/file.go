package onnxwire

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/berth-onnx/berth/internal/sysmem"
)

// Mapping is a file's content in memory, read-only: mapped where the system can, else read.
//
// A mapped file must not be cut short while it is in use: touching a page that is gone ends the process. Replace files by
// renaming, as internal/safefile does.
type Mapping struct {
	data   []byte
	mapped bool // else data is ordinary memory
}

// MapFile opens path for reading. The caller closes the mapping when nothing uses its bytes any more.
func MapFile(path string) (*Mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &os.PathError{Op: "open", Path: path, Err: errors.New("is a directory; give the model file in it")}
	}
	if info.Mode().IsRegular() && info.Size() > 0 && info.Size() == int64(int(info.Size())) {
		if data, err := sysmem.MapFile(f, int(info.Size())); err == nil {
			return &Mapping{data: data, mapped: true}, nil
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return &Mapping{data: data}, nil
}

// Bytes returns the content. It must not be written to, nor used after Close.
func (m *Mapping) Bytes() []byte {
	return m.data
}

// Close gives the memory back. Closing twice does nothing.
func (m *Mapping) Close() error {
	data, mapped := m.data, m.mapped
	m.data, m.mapped = nil, false
	if !mapped {
		return nil
	}
	return sysmem.UnmapFile(data)
}

// File is a model file and the mapping its weights lie in.
type File struct {
	Path    string
	Model   *Model
	mapping *Mapping
}

// Open maps the model file at path and parses it. Tensor.RawData points into the mapping: close the file when no weight is
// used any more. The errors are *SyntaxError and *ModelError, which name the file, and *fs.PathError.
func Open(path string) (*File, error) {
	mapping, err := MapFile(path)
	if err != nil {
		return nil, err
	}
	model, err := parseFile(path, mapping.Bytes())
	if err != nil {
		mapping.Close()
		return nil, err
	}
	return &File{Path: path, Model: model, mapping: mapping}, nil
}

// Size returns the size of the file in bytes, 0 after Close.
func (f *File) Size() int {
	return len(f.mapping.Bytes())
}

// Close unmaps the file. All RawData of the model is invalid afterwards. Closing twice does nothing.
func (f *File) Close() error {
	return f.mapping.Close()
}

func parseFile(path string, data []byte) (*Model, error) {
	switch {
	case len(data) == 0:
		return nil, &ModelError{File: path, Reason: "the file is empty"}
	case bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")):
		return nil, &ModelError{File: path, Reason: "the file is a Git LFS pointer: run `git lfs pull` to fetch the model it stands for"}
	}
	model, err := Parse(data)
	switch e := err.(type) {
	case *SyntaxError:
		e.File = path
	case *ModelError:
		e.File = path
	}
	return model, err
}
