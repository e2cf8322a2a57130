package onnxwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
)

// Mapping is a file's content in memory, read-only: mapped where the system can and the file is large, else read.
//
// Touching a page that is gone because a mapped file was cut short is a fault: who reads a mapping sets
// [runtime/debug.SetPanicOnFault] and recovers, and [Mapping.Check] says that the file is still what it was. Replace files by
// renaming, as internal/safefile does.
type Mapping struct {
	data  []byte
	watch *sysmem.Watch // nil: data is ordinary memory
}

// mappedFrom is the size in bytes from which on files are mapped.
const mappedFrom = 1 << 20

// MapFile opens path for reading, within the memory that the context allows ([sysmem.BudgetOf]). The caller closes the mapping when nothing uses its bytes any more.
func MapFile(ctx context.Context, path string) (*Mapping, error) {
	return openFile(ctx, path, mappedFrom)
}

// ReadFile is MapFile for files that may change while they are in use: the content is a copy.
func ReadFile(ctx context.Context, path string) (*Mapping, error) {
	return openFile(ctx, path, math.MaxInt64)
}

// openFile maps files of least bytes and more, and reads others.
func openFile(ctx context.Context, path string, least int64) (*Mapping, error) {
	f, err := openRead(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("is a directory; give the model file in it")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if info.Mode().IsRegular() && info.Size() >= least && info.Size() == int64(int(info.Size())) {
		if m := watched(f); m != nil {
			return m, nil
		}
	}
	defer f.Close()
	data, err := readFile(ctx, f, info)
	if err == nil && info.Mode().IsRegular() {
		err = unchanged(f, info)
	}
	if err != nil {
		return nil, err
	}
	return &Mapping{data: data}, nil
}

// unchanged reports a file that was written to while it was read.
func unchanged(f *os.File, was os.FileInfo) error {
	if now, err := f.Stat(); err != nil || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) {
		return &sysmem.FileChangedError{Path: f.Name()}
	}
	return nil
}

// watched maps a file; nil if that can not be done.
func watched(f *os.File) *Mapping {
	w, err := sysmem.NewWatch(f)
	if err != nil {
		return nil
	}
	info, err := f.Stat() // after the wait
	if err != nil {
		return nil
	}
	data, err := sysmem.MapFile(f, int(info.Size()))
	if err != nil {
		return nil
	}
	return &Mapping{data, w}
}

// InMemory is the content of a file that the caller has read.
func InMemory(data []byte) *Mapping { return &Mapping{data: data} }

// readFile reads a file that is not mapped. A pipe may have no end: no more is read of it than a model can have.
func readFile(ctx context.Context, f *os.File, info os.FileInfo) ([]byte, error) {
	memory, pieces := sysmem.BudgetOf(ctx), &endedReader{ctx, f}
	switch {
	case info.Mode().IsRegular() && info.Size() == 0: // also files of /proc, some of which make who reads them wait
		return nil, nil
	case info.Mode().IsRegular():
		return ReadAll(ctx, memory, pieces, f.Name(), info.Size(), math.MaxInt64)
	case info.Mode()&os.ModeNamedPipe == 0:
		return nil, &os.PathError{Op: "open", Path: f.Name(), Err: errors.New("is neither a file nor a pipe; give the model file")}
	}
	data, err := ReadAll(ctx, memory, pieces, f.Name(), 0, MaxSize)
	if err == nil && len(data) == 0 {
		err = &os.PathError{Op: "read", Path: f.Name(), Err: errors.New("is a pipe without content: nothing writes to it, or what wrote has failed")}
	}
	return data, err
}

// endedReader ends long reads with a context.
type endedReader struct {
	ctx context.Context
	in  io.Reader
}

const readPiece = 4 << 20 // bytes read between two looks at the context

func (r *endedReader) Read(b []byte) (int, error) {
	if r.ctx != nil && r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	return r.in.Read(b[:min(len(b), readPiece)])
}

// mostIdleReads is how often a reader may give neither bytes nor an error in turn.
const mostIdleReads = 100

// ReadAll reads up to the end, about size bytes, not more than most. Memory is asked for before it is taken, until the
// context ends.
func ReadAll(ctx context.Context, memory sysmem.Budget, r io.Reader, name string, size, most int64) ([]byte, error) {
	if size > most {
		return nil, tooLarge(name, most)
	}
	if err := memory.AskContext(ctx, name, size); err != nil {
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
			if err := memory.AskContext(ctx, name, size); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
	}
}

func tooLarge(name string, most int64) error {
	return fmt.Errorf("%s has more than %d bytes, the most that the format allows", name, most)
}

// Bytes returns the content. It must not be written to, nor used after Close.
func (m *Mapping) Bytes() []byte {
	return m.data
}

// Close gives the memory back. Closing twice does nothing.
func (m *Mapping) Close() error {
	data, watch := m.data, m.watch
	m.data, m.watch = nil, nil
	if watch == nil {
		return nil
	}
	return errors.Join(sysmem.UnmapFile(data), watch.Close())
}

// Check returns a [*sysmem.FileChangedError] if a mapped file was written to.
func (m *Mapping) Check() error {
	if m.watch == nil {
		return nil
	}
	return m.watch.Check()
}

// MappedBytes is the size of the mapping, 0 for content that was read.
func (m *Mapping) MappedBytes() int64 {
	if m.watch == nil {
		return 0
	}
	return int64(len(m.data))
}

// File is a model file and the mapping its weights lie in.
type File struct {
	Path    string
	Model   *Model
	mapping *Mapping
}

// Open maps the model file at path and parses it. Tensor.RawData and Extra.Unknown point into the mapping: close the file when
// nothing uses them any more. The errors are *SyntaxError and *ModelError, which name the file, and *fs.PathError.
func Open(path string) (*File, error) { return OpenWith(context.Background(), path, MapFile) }

// OpenWith is [Open] with [ReadFile] or another way to get a file's content; it ends with the error of the context if
// that ends before.
func OpenWith(ctx context.Context, path string, open func(ctx context.Context, path string) (*Mapping, error)) (*File, error) {
	mapping, err := openUntil(ctx, path, open)
	if err != nil {
		return nil, err
	}
	model, err := parseMapping(ctx, path, mapping)
	if err != nil {
		mapping.Close()
		return nil, err
	}
	return &File{Path: path, Model: model, mapping: mapping}, nil
}

// openUntil opens a file, and leaves a pipe that does not end when the context does.
func openUntil(ctx context.Context, path string, open func(ctx context.Context, path string) (*Mapping, error)) (*Mapping, error) {
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return open(ctx, path)
	}
	return rescue.Until(ctx, func() (*Mapping, error) { return open(ctx, path) })
}

// Bytes returns the content, which must not be written to, nor used after Close.
func (f *File) Bytes() []byte { return f.mapping.Bytes() }

// Size returns the size of the file in bytes, 0 after Close.
func (f *File) Size() int {
	return len(f.mapping.Bytes())
}

// Close unmaps the file. All RawData and unknown fields of the model are invalid afterwards. Closing twice does nothing.
func (f *File) Close() error {
	return f.mapping.Close()
}

// Check is [Mapping.Check] of the file.
func (f *File) Check() error { return f.mapping.Check() }

// MappedBytes is [Mapping.MappedBytes] of the file.
func (f *File) MappedBytes() int64 { return f.mapping.MappedBytes() }

// parseMapping is parseFile for a file that may be cut short meanwhile.
func parseMapping(ctx context.Context, path string, m *Mapping) (model *Model, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if changed := m.Check(); changed != nil {
			model, err = nil, changed
			_ = recover() // a page that is gone
		}
	}()
	return parseFile(ctx, path, m.Bytes())
}

func parseFile(ctx context.Context, path string, data []byte) (*Model, error) {
	switch {
	case len(data) == 0:
		return nil, &ModelError{File: path, Reason: "the file is empty"}
	case bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")):
		return nil, &ModelError{File: path, Reason: "the file is a Git LFS pointer: run `git lfs pull` to fetch the model"}
	}
	model, err := ParseContext(ctx, data)
	switch e := err.(type) {
	case *SyntaxError:
		e.File = path
	case *ModelError:
		e.File = path
	}
	return model, err
}
