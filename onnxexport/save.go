package onnxexport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/berth-onnx/berth/internal/onnxwire"
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

// Save writes a module to an ONNX file, and the constants that Options.External
// picks to a file beside it with ".data" added to the name. Both files appear by
// renaming when they are complete. The module may be mapped from the very files
// that are replaced. Errors are [*ExportError] and those of the file system.
func Save(m *ssa.Module, path string, opts Options) error {
	x, err := prepare(m, opts)
	if err != nil {
		return err
	}
	var large *onnxwire.TooLargeError
	if opts.External <= 0 {
		if _, err := onnxwire.Size(x.model); err == nil {
			return onnxwire.WriteFile(path, x.model)
		} else if !errors.As(err, &large) {
			return &ExportError{Reason: err.Error(), Err: err}
		}
		opts.External = autoExternal
	}
	return x.saveExternal(path, opts.External)
}

// saveExternal writes the data file and then the model. Neither replaces an old
// file before both are complete.
func (x *exporter) saveExternal(path string, threshold int64) error {
	data := path + ".data"
	moved := x.external(filepath.Base(data), threshold)
	if len(moved) == 0 {
		return onnxwire.WriteFile(path, x.model)
	}
	tmp, err := writeTemp(data, func(w io.Writer) error { return writeData(w, moved) })
	if err != nil {
		return err
	}
	for _, t := range moved {
		t.tensor.RawData = nil
	}
	if _, err := onnxwire.Size(x.model); err != nil {
		return errors.Join(&ExportError{Reason: err.Error(), Err: err}, os.Remove(tmp))
	}
	modelTmp, err := writeTemp(path, func(w io.Writer) error { _, err := onnxwire.WriteTo(w, x.model); return err })
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, data); err != nil {
		return errors.Join(err, os.Remove(tmp), os.Remove(modelTmp))
	}
	if err := os.Rename(modelTmp, path); err != nil {
		return errors.Join(err, os.Remove(modelTmp))
	}
	return nil
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
		t.DataLocation = onnxwire.DataExternal
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

// writeTemp writes a temporary file beside path and returns its name; on an
// error nothing is left behind.
func writeTemp(path string, write func(io.Writer) error) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	buffered := bufio.NewWriterSize(f, 64<<10)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
