package onnxexport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

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

// Save writes a module to an ONNX file, and the constants that Options.External picks to a data file beside it, whose name
// has a hash of its content: NAME.HASH.data. That file is complete on the disk before the model that refers to it takes the
// place of the old one; data files named after the model that this leaves without one are removed last. So whenever the process ends, path is
// the old model or the new one, and the data it reads are there. The module may be mapped from the very files that are
// replaced. Where path is a symbolic link, the data file lies beside the link, where who opens that path looks for it.
// Errors are [*ExportError] and those of [safefile.WriteAll].
func Save(m *ssa.Module, path string, opts Options) error {
	if err := safefile.Check(path); err != nil {
		return err
	}
	x, err := prepare(m, opts)
	if err != nil {
		return err
	}
	files, err := x.files(path)
	if err != nil {
		return err
	}
	if opts.Check != nil {
		last := &files[len(files)-1]
		fill := last.Fill
		last.Fill = func(w io.Writer) error { return cmp.Or(fill(w), opts.Check()) }
	}
	for i := range files {
		files[i].Temporary = opts.Temporary
	}
	read, _ := DataFiles(x.opts.Context, path) // of what is replaced, which need be no model
	if err := x.opts.Context.Err(); err != nil {
		return err
	}
	return safefile.WriteAll(x.opts.Context, func(alone bool) []string { return obsolete(x.opts.Context, path, read, alone) }, files...)
}

// Copy writes the files of a model that [Save] has written under the same name in another folder: the same bytes, as safely as Save.
// It returns the paths of the data files.
func Copy(ctx context.Context, from, path string) (data []string, err error) {
	if err := safefile.Check(path); err != nil {
		return nil, err
	}
	weights, err := DataFiles(ctx, from)
	if err != nil {
		return nil, err
	}
	var files []safefile.File
	dir, _ := filepath.Split(path)
	for _, w := range weights {
		data = append(data, dir+filepath.Base(w))
		files = append(files, safefile.File{Path: data[len(data)-1], Named: true, Fill: copying(w)})
	}
	files = append(files, safefile.File{Path: path, Fill: copying(from)})
	read, _ := DataFiles(ctx, path)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return data, safefile.WriteAll(ctx, func(alone bool) []string { return obsolete(ctx, path, read, alone) }, files...)
}

// copying fills a file with the content of another one.
func copying(from string) func(io.Writer) error {
	return func(w io.Writer) error {
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(w, in)
		return err
	}
}

// files lists what is to be written: the data file if there is one, then the model.
func (x *exporter) files(path string) ([]safefile.File, error) {
	write := safefile.File{Path: path, Fill: func(w io.Writer) error { _, err := onnxwire.WriteTo(x.opts.Context, w, x.model); return err }}
	_, err := onnxwire.Size(x.opts.Context, x.model)
	var large *onnxwire.TooLargeError
	threshold := x.opts.External
	switch {
	case x.opts.Context.Err() != nil:
		return nil, x.opts.Context.Err()
	case threshold <= 0 && errors.As(err, &large):
		threshold = autoExternal
	case threshold <= 0 && err != nil:
		return nil, &ExportError{Reason: err.Error(), Err: err}
	case threshold <= 0:
		return []safefile.File{write}, nil
	}
	moved := x.external(threshold)
	if len(moved) == 0 {
		return []safefile.File{write}, nil
	}
	dir, name := filepath.Split(path)
	location, err := dataName(x.opts.Context, name, moved)
	if err != nil {
		return nil, err
	}
	for _, m := range moved {
		m.tensor.ExternalData[0].Value = location
	}
	if _, err := onnxwire.Size(x.opts.Context, x.model); err != nil {
		return nil, &ExportError{Reason: err.Error(), Err: err}
	}
	data := safefile.File{Path: dir + location, Named: true, Fill: func(w io.Writer) error { return writeData(w, moved) }}
	return []safefile.File{data, write}, nil
}

// movedTensor is a tensor whose elements go to the data file.
type movedTensor struct {
	tensor *onnxwire.Tensor
	raw    []byte
	offset int64
}

// external points all tensors from a size on at a data file without a name yet, and returns them with their elements in the
// order of their offsets.
func (x *exporter) external(threshold int64) []movedTensor {
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
			{Key: "location"},
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
