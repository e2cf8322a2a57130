package onnxexport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ssa"
)

// autoExternal is the size from which constants leave a model that would be too
// large for one file.
const autoExternal = 1 << 10

const (
	smallAlign = 64      // bytes; where a tensor of the data file starts
	largeAlign = 4096    // the same for tensors from largeFrom on: a page, so that they can be mapped
	largeFrom  = 1 << 20 // bytes
)

// Save writes a module to an ONNX file, and the constants that Options.External picks to a data file beside it, the first
// of [DataFiles] that the model now at path does not read. That file is complete before the model that refers to it takes
// the place of the old one; the old one's data file is removed last. So whenever the process ends, path is the old model
// or the new one, and the data it reads are there. The module may be mapped from the very files that are replaced. Errors
// are [*ExportError] and those of [safefile.WriteAll].
func Save(m *ssa.Module, path string, opts Options) error {
	x, err := prepare(m, opts)
	if err != nil {
		return err
	}
	old := slices.DeleteFunc(DataFiles(path), func(data string) bool { return !reads(path, data) })
	files, err := x.files(path, old)
	if err != nil {
		return err
	}
	if err := safefile.WriteAll(files...); err != nil {
		return err
	}
	for _, data := range old {
		os.Remove(data) // where the system keeps a mapped file, it only takes up room
	}
	return nil
}

// DataFiles lists the names that a data file of the model at path can have.
func DataFiles(path string) []string { return []string{path + ".data", path + ".1.data"} }

// reads reports whether the model at path has weights in a data file beside it.
func reads(path, data string) bool {
	if _, err := os.Stat(data); err != nil {
		return false
	}
	m, err := onnxwire.MapFile(path)
	if err != nil {
		return false
	}
	defer m.Close()
	return bytes.Contains(m.Bytes(), protowire.AppendString(nil, filepath.Base(data)))
}

// files lists what is to be written: the data file if there is one, by a name not in taken, then the model.
func (x *exporter) files(path string, taken []string) ([]safefile.File, error) {
	write := safefile.File{Path: path, Fill: func(w io.Writer) error { _, err := onnxwire.WriteTo(w, x.model); return err }}
	_, err := onnxwire.Size(x.model)
	var large *onnxwire.TooLargeError
	threshold := x.opts.External
	switch {
	case threshold <= 0 && errors.As(err, &large):
		threshold = autoExternal
	case threshold <= 0 && err != nil:
		return nil, &ExportError{Reason: err.Error(), Err: err}
	case threshold <= 0:
		return []safefile.File{write}, nil
	}
	free := slices.DeleteFunc(DataFiles(path), func(name string) bool { return slices.Contains(taken, name) })
	if len(free) == 0 {
		return nil, &ExportError{Reason: fmt.Sprintf("the model that is replaced reads both %q", taken), Remedy: "write to another name"}
	}
	moved := x.external(filepath.Base(free[0]), threshold)
	if _, err := onnxwire.Size(x.model); err != nil {
		return nil, &ExportError{Reason: err.Error(), Err: err}
	}
	if len(moved) == 0 {
		return []safefile.File{write}, nil
	}
	return []safefile.File{{Path: free[0], Fill: func(w io.Writer) error { return writeData(w, moved) }}, write}, nil
}

// movedTensor is a tensor whose elements go to the data file.
type movedTensor struct {
	tensor *onnxwire.Tensor
	raw    []byte
	offset int64
}

// external points all tensors from a size on at the data file, and returns them
// with their elements in the order of their offsets.
func (x *exporter) external(location string, threshold int64) []movedTensor {
	var moved []movedTensor
	end := int64(0)
	for _, t := range x.tensors {
		size := int64(len(t.RawData))
		if size < threshold || size == 0 || t.Name == "" {
			continue
		}
		align := int64(smallAlign)
		if size >= largeFrom {
			align = largeAlign
		}
		offset := (end + align - 1) / align * align
		end = offset + size
		moved = append(moved, movedTensor{t, t.RawData, offset})
		t.RawData, t.DataLocation = nil, onnxwire.DataExternal
		t.ExternalData = []*onnxwire.StringEntry{
			{Key: "location", Value: location},
			{Key: "offset", Value: strconv.FormatInt(offset, 10)},
			{Key: "length", Value: strconv.FormatInt(size, 10)},
		}
	}
	return moved
}

func writeData(w io.Writer, moved []movedTensor) error {
	at := int64(0)
	var zeros [largeAlign]byte
	for _, m := range moved {
		if _, err := w.Write(zeros[:m.offset-at]); err != nil {
			return err
		}
		if _, err := w.Write(m.raw); err != nil {
			return fmt.Errorf("tensor %q: %w", m.tensor.Name, err)
		}
		at = m.offset + int64(len(m.raw))
	}
	return nil
}
