package berth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
)

// maxModelBytes is the most that the format of a model file allows.
const maxModelBytes = math.MaxInt32

// OpenFS imports a model file of a file system, an [embed.FS] or a zip archive, say, and the
// files of external data beside it. They are read into memory, so that nothing stays open.
// Options and errors are those of [Open].
func OpenFS(fsys fs.FS, name string, opts ...Option) (_ *Model, err error) {
	defer rescue.Into(&err)
	c := newConfig(opts)
	if fsys == nil {
		return nil, &ImportError{File: name, Reason: "the file system is nil"}
	}
	data, err := readFS(fsys, name, maxModelBytes, c.maxMemory)
	if err != nil {
		return nil, &ImportError{Reason: err.Error(), Err: err}
	}
	o := importOptions(false, opts)
	if o.Data == nil {
		o.Data = func(location string) ([]byte, error) {
			return readFS(fsys, path.Join(path.Dir(name), location), math.MaxInt64, c.maxMemory)
		}
	}
	return newModel(o)(onnximport.FromBytes(data, name, o))
}

// Read imports a model from a stream, up to its end. External data can not be reached, except by
// [WithExternalData].
func Read(r io.Reader, opts ...Option) (_ *Model, err error) {
	defer rescue.Into(&err)
	if r == nil {
		return nil, &ImportError{Reason: "the reader is nil"}
	}
	data, err := readAll(r, "the model", 0, maxModelBytes, newConfig(opts).maxMemory)
	if err != nil {
		return nil, &ImportError{Reason: err.Error(), Err: err}
	}
	return Parse(data, opts...)
}

// readFS reads a regular file.
func readFS(fsys fs.FS, name string, most, maxMemory int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is no regular file")}
	}
	return readAll(f, name, info.Size(), most, maxMemory)
}

// mostIdleReads is how often a reader may give neither bytes nor an error in turn.
const mostIdleReads = 100

// readAll reads up to the end, about size bytes. Memory is asked for before it is taken.
func readAll(r io.Reader, name string, size, most, maxMemory int64) ([]byte, error) {
	if size > most {
		return nil, tooLarge(name, most)
	}
	if err := ops.Room(name, size, maxMemory); err != nil {
		return nil, err
	}
	data := make([]byte, 0, max(size+1, 64<<10)) // one more: the end is seen without growing
	for idle := 0; ; {
		n, err := r.Read(data[len(data):cap(data)])
		if idle++; n > 0 {
			idle = 0
		}
		if err == nil && idle > mostIdleReads {
			err = io.ErrNoProgress
		}
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > most:
			return nil, tooLarge(name, most)
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(data) == cap(data) {
			size := 2 * int64(len(data))
			if err := ops.Room(name, size, maxMemory); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
	}
}

func tooLarge(name string, most int64) error {
	return fmt.Errorf("%s has more than %d bytes, the most that the format allows", name, most)
}

// dataIn gives the content of files in memory, by location.
func dataIn(files map[string][]byte) func(location string) ([]byte, error) {
	return func(location string) ([]byte, error) {
		if data, ok := files[location]; ok {
			return data, nil
		}
		for name, data := range files { // "./weights.bin" is the same file
			if path.Clean(name) == location {
				return data, nil
			}
		}
		return nil, fmt.Errorf("%q is not among the files of WithExternalData: %w", location, fs.ErrNotExist)
	}
}
