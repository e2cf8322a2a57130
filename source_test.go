package berth_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
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
