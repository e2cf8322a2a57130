package berth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/onnximport"
)

// maxModelBytes is the most that the format of a model file allows.
const maxModelBytes = math.MaxInt32

// OpenFS imports a model file of a file system, an [embed.FS] or a zip archive, say, and the
// files of external data beside it. They are read into memory, so that nothing stays open.
// Options and errors are those of [Open].
func OpenFS(fsys fs.FS, name string, opts ...Option) (_ *Model, err error) {
	defer rescue.Into(&err)
	c := newConfig(opts)
	o, err := importOptions(false, opts)
	if err != nil {
		return nil, err
	}
	if fsys == nil {
		return nil, &ImportError{File: name, Reason: "the file system is nil"}
	}
	data, err := c.readFS(fsys, name, maxModelBytes)
	if err != nil {
		return nil, rescue.WithCause(c.ctx, &ImportError{Reason: err.Error(), Err: err})
	}
	if o.Data == nil {
		o.Data = func(location string) ([]byte, error) {
			return c.readFS(fsys, path.Join(path.Dir(name), location), math.MaxInt64)
		}
	}
	return newModel(o, opts)(onnximport.FromBytes(data, name, o))
}

// Read imports a model from a stream, up to its end. External data can not be reached, except by
// [WithExternalData].
func Read(r io.Reader, opts ...Option) (_ *Model, err error) {
	defer rescue.Into(&err)
	c := newConfig(opts)
	if err := c.validate(); err != nil {
		return nil, err
	}
	data, err := onnxwire.ReadAll(c.ctx, c.memory, endWith(c.ctx, rescue.Reader(r)), "the model", 0, maxModelBytes)
	if err != nil {
		return nil, rescue.WithCause(c.ctx, &ImportError{Reason: err.Error(), Err: err})
	}
	return Parse(data, opts...)
}

// endWith makes a reader end with a context, also while it blocks. What is left of a read then goes on in a goroutine of
// its own, which ends when the read does.
func endWith(ctx context.Context, r io.Reader) io.Reader {
	if ctx == nil || ctx.Done() == nil {
		return r
	}
	return &endingReader{ctx, r, make([]byte, 64<<10)}
}

type endingReader struct {
	ctx context.Context
	r   io.Reader
	buf []byte // of the read in progress, which may last longer than the caller waits
}

// Read reads at most as much as the buffer holds.
func (e *endingReader) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := rescue.Until(e.ctx, func() (int, error) { return e.r.Read(e.buf[:min(len(p), len(e.buf))]) })
	return copy(p, e.buf[:n]), err
}

// readFS reads a regular file, in a goroutine that opens and closes it: each call of a file system may block.
func (c *config) readFS(fsys fs.FS, name string, most int64) ([]byte, error) {
	return rescue.Until(c.ctx, func() (data []byte, err error) {
		rescue.Call("the file system", func() { data, err = c.readFile(fsys, name, most) })
		return data, err
	})
}

func (c *config) readFile(fsys fs.FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("the file system gives a nil file")}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: errors.New("the file system gives nil file information")}
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is no regular file")}
	}
	return onnxwire.ReadAll(c.ctx, c.memory, endWith(c.ctx, rescue.Reader(f)), name, info.Size(), most)
}

// dataIn gives the content of files in memory, by location: "./weights.bin" is "weights.bin".
func dataIn(files map[string][]byte) func(location string) ([]byte, error) {
	return func(location string) ([]byte, error) {
		if data, ok := files[location]; ok {
			return data, nil
		}
		return nil, fmt.Errorf("%q is not among the files of WithExternalData: %w", location, fs.ErrNotExist)
	}
}
