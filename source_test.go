package berth_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/preprocess"
	"github.com/berth-onnx/berth/ssa"
)

// saved writes a built-in model with its weights in a data file, and returns the folder's files.
func saved(t *testing.T, external int64) (model string, files map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, builtin("mlp").Save(filepath.Join(dir, "m.onnx"), berth.SaveOptions{External: external, Metadata: map[string]string{"labels": "cat,dog"}}))
	files = map[string][]byte{}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range list {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		files[f.Name()] = data
	}
	return "m.onnx", files
}

// below puts files into a folder of a file system in memory.
func below(dir string, files map[string][]byte) fstest.MapFS {
	out := fstest.MapFS{}
	for name, data := range files {
		out[path.Join(dir, name)] = &fstest.MapFile{Data: data}
	}
	return out
}

// zipped is a file system that can not seek.
func zipped(t *testing.T, files map[string][]byte) fs.FS {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range files {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	return r
}

// TestSources imports one model from wherever it may lie, and compares what it computes.
func TestSources(t *testing.T) {
	_, whole := saved(t, 0)
	name, parts := saved(t, 1)
	require.Len(t, whole, 1)
	require.Len(t, parts, 2)
	dotted := map[string][]byte{}
	var data string
	for file, content := range parts {
		dotted["./"+file] = content
		if file != name {
			data = file
		}
	}
	in := map[string]ndarray.Value{"x": floats(0, 4, 64)}
	want, err := builtin("mlp").RunValues(t.Context(), in)
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), parts[name], 0o644))
	for kind, open := range map[string]func() (*berth.Model, error){
		"fs":         func() (*berth.Model, error) { return berth.OpenFS(below("", whole), name) },
		"fs, data":   func() (*berth.Model, error) { return berth.OpenFS(below("", parts), name) },
		"fs, folder": func() (*berth.Model, error) { return berth.OpenFS(below("a/b", parts), "a/b/"+name) },
		"zip, data":  func() (*berth.Model, error) { return berth.OpenFS(zipped(t, parts), name) },
		"fs, other data": func() (*berth.Model, error) {
			return berth.OpenFS(below("", map[string][]byte{name: parts[name]}), name, berth.WithExternalData(parts))
		},
		"reader":      func() (*berth.Model, error) { return berth.Read(bytes.NewReader(whole[name])) },
		"slow reader": func() (*berth.Model, error) { return berth.Read(iotest.HalfReader(bytes.NewReader(whole[name]))) },
		"reader, data": func() (*berth.Model, error) {
			return berth.Read(bytes.NewReader(parts[name]), berth.WithExternalData(parts))
		},
		"bytes, data":      func() (*berth.Model, error) { return berth.Parse(parts[name], berth.WithExternalData(parts)) },
		"bytes, data in .": func() (*berth.Model, error) { return berth.Parse(parts[name], berth.WithExternalData(dotted)) },
		"file, other data": func() (*berth.Model, error) {
			return berth.Open(filepath.Join(folder, name), berth.WithExternalData(parts))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			m, err := open()
			require.NoError(t, err)
			defer m.Close()
			got, err := m.RunValues(t.Context(), in)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			assert.Equal(t, "cat,dog", m.Metadata().Properties["labels"])
		})
	}

	short := map[string][]byte{name: parts[name], data: parts[data][:100]}
	twice := (*berth.OptionError)(nil)
	_, err = berth.Parse(parts[name], berth.WithExternalData(map[string][]byte{"./" + data: parts[data], "x/../" + data: short[data]}))
	require.ErrorAs(t, err, &twice)
	require.Contains(t, twice.Error(), fmt.Sprintf("several names of %q", data))
	_, err = berth.OpenFS(below("", whole), "n.onnx", berth.WithMaxMemory(-1))
	require.ErrorAs(t, err, &twice, "an option is looked at before the file")
	unread := bytes.NewReader(parts[name])
	_, err = berth.Read(unread, berth.WithChannelBlock(3))
	require.ErrorAs(t, err, &twice)
	require.Equal(t, len(parts[name]), unread.Len(), "and before the stream")
	broken := errors.New("the line is down")
	for _, c := range []struct {
		kind string
		open func() (*berth.Model, error)
		want error
		text string
	}{
		{"no file", func() (*berth.Model, error) { return berth.OpenFS(below("", whole), "n.onnx") }, fs.ErrNotExist, "n.onnx"},
		{"bad name", func() (*berth.Model, error) { return berth.OpenFS(below("", whole), "../m.onnx") }, fs.ErrNotExist, "../m.onnx"},
		{"folder", func() (*berth.Model, error) { return berth.OpenFS(below("a", whole), "a") }, nil, "no regular file"},
		{"nil fs", func() (*berth.Model, error) { return berth.OpenFS(nil, name) }, nil, "nil"},
		{"fs without data", func() (*berth.Model, error) {
			return berth.OpenFS(below("", map[string][]byte{name: parts[name]}), name)
		}, fs.ErrNotExist, data},
		{"short data", func() (*berth.Model, error) { return berth.OpenFS(below("", short), name) }, nil, "cut short"},
		{"no model", func() (*berth.Model, error) {
			return berth.OpenFS(below("", map[string][]byte{"x": []byte("text")}), "x")
		}, nil, "not an ONNX file"},
		{"memory", func() (*berth.Model, error) { return berth.OpenFS(below("", whole), name, berth.WithMaxMemory(1)) }, nil, "memory"},
		{"nil reader", func() (*berth.Model, error) { return berth.Read(nil) }, nil, "nil"},
		{"broken reader", func() (*berth.Model, error) {
			return berth.Read(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)))
		}, broken, "the line is down"},
		{"reader without data", func() (*berth.Model, error) { return berth.Read(bytes.NewReader(parts[name])) }, nil, "hand over the data"},
		{"data of another name", func() (*berth.Model, error) {
			return berth.Parse(parts[name], berth.WithExternalData(map[string][]byte{"x": nil}))
		}, fs.ErrNotExist, data},
		{"cut", func() (*berth.Model, error) { return berth.Read(bytes.NewReader(whole[name][:len(whole[name])/2])) }, nil, "damaged"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			_, err := c.open()
			var ie *berth.ImportError
			require.ErrorAs(t, err, &ie)
			assert.ErrorContains(t, err, c.text)
			if c.want != nil {
				assert.ErrorIs(t, err, c.want)
			}
		})
	}
}

// TestMetadata reads what a file says about itself, before and after it is optimized.
func TestMetadata(t *testing.T) {
	built := builtin("mlp").Metadata()
	assert.NotNil(t, built.Properties)
	assert.Empty(t, built.Producer)

	m, err := berth.Open(zoo(t, "ppocr_rec"))
	require.NoError(t, err)
	defer m.Close()
	meta := m.Metadata()
	assert.NotEmpty(t, meta.Properties)
	assert.Positive(t, meta.IR)
	assert.NotEmpty(t, meta.Opsets)
	longest := 0
	for _, v := range meta.Properties {
		longest = max(longest, strings.Count(v, "\n"))
	}
	assert.Greater(t, longest, 5000, "the dictionary of characters")
	clear(meta.Properties)
	assert.NotEmpty(t, m.Metadata().Properties, "a copy")
	small, _, err := m.Optimize(t.Context())
	require.NoError(t, err)
	assert.Equal(t, m.Metadata().Properties, small.Metadata().Properties)
}

func TestVersion(t *testing.T) {
	assert.NotEmpty(t, berth.Version())
}

// readFunc is a reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestReadEnds: a context ends reading, whether the reader gives bytes without end, nothing for ever, or panics.
func TestReadEnds(t *testing.T) {
	shutdown, end := errors.New("the server stops"), make(chan struct{})
	defer close(end)
	for kind, read := range map[string]func(cancel context.CancelCauseFunc, reads int) int{
		"blocks": func(cancel context.CancelCauseFunc, _ int) int {
			cancel(shutdown)
			<-end
			return 0
		},
		"gives bytes": func(cancel context.CancelCauseFunc, reads int) int {
			if reads == 100 {
				cancel(shutdown)
			}
			return 1
		},
	} {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			reads := 0
			_, err := berth.Read(readFunc(func(p []byte) (int, error) {
				reads++
				return read(cancel, reads), nil
			}), berth.WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, shutdown)
			var ie *berth.ImportError
			assert.ErrorAs(t, err, &ie)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := berth.Read(readFunc(func([]byte) (int, error) { panic("the reader fails") }), berth.WithContext(ctx))
	var pe *berth.PanicError
	require.ErrorAs(t, err, &pe)
	name, whole := saved(t, 0)
	m, err := berth.Read(iotest.HalfReader(bytes.NewReader(whole[name])), berth.WithContext(ctx))
	require.NoError(t, err)
	require.NoError(t, m.Close())
}

// blockingFS is a file system one of whose calls ends the context, and returns when it may.
type blockingFS struct {
	fs.FS
	in     string
	block  func()
	closed chan struct{}
}

func (b *blockingFS) at(call string) {
	if call == b.in {
		b.block()
	}
}

func (b *blockingFS) Open(name string) (fs.File, error) {
	b.at("Open")
	f, err := b.FS.Open(name)
	return &blockingFile{f, b}, err
}

type blockingFile struct {
	fs.File
	of *blockingFS
}

func (f *blockingFile) Stat() (fs.FileInfo, error) { f.of.at("Stat"); return f.File.Stat() }
func (f *blockingFile) Read(p []byte) (int, error) { f.of.at("Read"); return f.File.Read(p) }
func (f *blockingFile) Close() error {
	f.of.at("Close")
	close(f.of.closed)
	return f.File.Close()
}

// TestOpenFSEnds: a context ends the opening of a file whichever call of its file system blocks; the file is closed when that returns.
func TestOpenFSEnds(t *testing.T) {
	name, whole := saved(t, 0)
	files := fstest.MapFS{name: {Data: whole[name]}}
	for _, call := range []string{"Open", "Stat", "Read", "Close"} {
		t.Run(call, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			end, closed := make(chan struct{}), make(chan struct{})
			_, err := berth.OpenFS(&blockingFS{files, call, func() { cancel(); <-end }, closed}, name, berth.WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
			close(end)
			<-closed
		})
	}
	closed := make(chan struct{})
	m, err := berth.OpenFS(&blockingFS{files, "", nil, closed}, name, berth.WithContext(t.Context()))
	require.NoError(t, err)
	<-closed
	require.NoError(t, m.Close())
}

// nilFS opens everything, and gives nothing.
type nilFS struct{ file fs.File }

func (f nilFS) Open(string) (fs.File, error) { return f.file, nil }

// nilInfo is a file without information.
type nilInfo struct{ fs.File }

func (nilInfo) Stat() (fs.FileInfo, error) { return nil, nil }
func (nilInfo) Close() error               { return nil }

// liar reads more than it was given room for.
type liar struct{}

func (liar) Read(p []byte) (int, error) { return len(p) + 1, nil }

// TestBadStreams: nil streams, and those that break the rules of their interfaces, are told from errors of berth's.
func TestBadStreams(t *testing.T) {
	m := builtin("mlp")
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	second := func(_ any, err error) error { return err }
	third := func(_, _ any, err error) error { return err }
	const reader, writer, rules = "the reader is nil", "the writer is nil", "breaks the rules"
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"CompareInstance", reader, second(berth.CompareInstance(t.Context(), "x", nil, berth.CompareOptions{}))},
		{"CompareInstance", rules, second(berth.CompareInstance(t.Context(), "x", liar{}, berth.CompareOptions{}))},
		{"ReadCSV", reader, third(planner.ReadCSV(nil))},
		{"ReadWAV", reader, second(preprocess.ReadWAV(nil))},
		{"ReadWAV", rules, second(preprocess.ReadWAV(liar{}))},
		{"Read", reader, second(berth.Read(nil))},
		{"Read", rules, second(berth.Read(liar{}))},
		{"Read with a context", rules, second(berth.Read(liar{}, berth.WithContext(t.Context())))},
		{"Read", "the reader is a nil *os.File", second(berth.Read((*os.File)(nil)))},
		{"Read", "the reader is a nil *bytes.Reader", second(berth.Read((*bytes.Reader)(nil)))},
		{"Read", "the reader is a nil *bytes.Reader", second(berth.Read((*bytes.Reader)(nil), berth.WithContext(t.Context())))},
		{"ReadCSV", "the reader is a nil *bytes.Reader", third(planner.ReadCSV((*bytes.Reader)(nil)))},
		{"ReadWAV", "the reader is a nil *os.File", second(preprocess.ReadWAV((*os.File)(nil)))},
		{"WriteCSV", "the writer is a nil *bytes.Buffer", planner.WriteCSV((*bytes.Buffer)(nil), &planner.Problem{}, nil)},
		{"WriteHTML", "the writer is a nil *os.File", new(berth.Dump).WriteHTML((*os.File)(nil))},
		{"WriteHTML", "WriteHTML(nil): want the Dump", (*berth.Dump)(nil).WriteHTML(io.Discard)},
		{"WriteMemoryMap", "Model.Compile programs", new(berth.Program).WriteMemoryMap(io.Discard)},
		{"Extend", "Extend(nil): want a function", second(m.Extend(t.Context(), nil))},
		{"NewSessionIn", "NewSessionIn(nil): want an arena", second(p.NewSessionIn(nil))},
		{"NewSessionContext", "the context is nil", second(p.NewSessionContext(nil))},                       //nolint:staticcheck // it is
		{"NewSessionInContext", "the context is nil", second(p.NewSessionInContext(nil, berth.NewArena()))}, //nolint:staticcheck // it is
		{"OpenFS", "nil file", second(berth.OpenFS(nilFS{}, "x"))},
		{"OpenFS", "nil file information", second(berth.OpenFS(nilFS{nilInfo{}}, "x"))},
		{"WriteInstance", writer, m.WriteInstance(t.Context(), nil)},
		{"WriteMemoryMap", writer, p.WriteMemoryMap(nil)},
		{"WriteHTML", writer, new(berth.Dump).WriteHTML(nil)},
		{"WriteCSV", writer, planner.WriteCSV(nil, &planner.Problem{}, nil)},
		{"Format.Write", writer, ssa.Format{}.Write(nil, m.Graph())},
	} {
		var internal *berth.PanicError
		assert.ErrorContains(t, c.err, c.want, c.name)
		assert.NotErrorAs(t, c.err, &internal, c.name)
	}
}

// panicFS is a file system that panics.
type panicFS struct{}

func (panicFS) Open(string) (fs.File, error) { panic("mine") }

// TestPanicsOfCallers: a panic of a function that the caller gave is an error that says whose it is, with its value.
func TestPanicsOfCallers(t *testing.T) {
	m := builtin("mlp")
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	inputs := map[string]ndarray.Value{}
	for _, in := range m.Inputs() {
		inputs[in.Name] = drawn(in.Type, 1)
	}
	s, err := p.NewSession()
	require.NoError(t, err)
	s.Observe(func(berth.Step, []ndarray.Value) { panic("mine") })
	second := func(_ any, err error) error { return err }
	for of, err := range map[string]error{
		"the reader":                   second(berth.Read(readFunc(func([]byte) (int, error) { panic("mine") }))),
		"the writer":                   m.WriteInstance(t.Context(), writeFunc(func([]byte) (int, error) { panic("mine") })),
		"the file system":              second(berth.OpenFS(panicFS{}, "x")),
		"the observer":                 second(s.RunValues(t.Context(), inputs)),
		"the function given to Extend": second(m.Extend(t.Context(), func(context.Context, *ssa.Graph) error { panic("mine") })),
		"CompareOptions.Progress":      second(m.Compare(t.Context(), berth.CompareOptions{Progress: func(string, string) { panic("mine") }})),
		"CompareOptions.Folded":        second(m.Compare(t.Context(), berth.CompareOptions{Folded: func(*ssa.Graph) { panic("mine") }})),
	} {
		var pe *berth.PanicError
		require.ErrorAs(t, err, &pe, of)
		assert.Equal(t, of, pe.Of)
		assert.Equal(t, "mine", pe.Value)
		assert.ErrorContains(t, err, of+" panicked: mine")
	}
}

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }
