package onnxwire

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/sysmem"
)

func TestOpenAliasesWeights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	raw := bytes.Repeat([]byte{7}, 5000)
	data, err := Marshal(&Model{Graph: &Graph{Name: "g", Initializers: []*Tensor{{Name: "w", RawData: raw}}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))

	f, err := Open(path)
	require.NoError(t, err)
	assert.Equal(t, path, f.Path)
	tensor := f.Model.Graph.Initializers[0]
	assert.Equal(t, raw, tensor.RawData)
	assert.Equal(t, len(tensor.RawData), cap(tensor.RawData), "appending must not write into the mapping")
	content := f.mapping.Bytes()
	assert.Len(t, content, f.Size())
	at := uintptr(unsafe.Pointer(&tensor.RawData[0])) - uintptr(unsafe.Pointer(&content[0]))
	assert.Less(t, at, uintptr(len(content)), "the weights lie in the mapping")

	require.NoError(t, f.Close())
	require.NoError(t, f.Close(), "closing twice")
	assert.Zero(t, f.Size())
	assert.Equal(t, "w", tensor.Name, "names outlive the file")
	assert.Equal(t, "g", f.Model.Graph.Name)
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name    string
		content string
		want    string
	}{
		{"empty", "", "the file is empty"},
		{"lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
		{"text", "<html></html>", "byte 0"},
		{"no-graph", "\x08\x09", "no ONNX graph"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, test.name+".onnx")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			f, err := Open(path)
			assert.Nil(t, f)
			assert.ErrorContains(t, err, test.want)
			assert.ErrorContains(t, err, path)
		})
	}
	_, err := Open(filepath.Join(dir, "missing.onnx"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(dir)
	assert.ErrorContains(t, err, "is a directory")
}

func TestMapFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.bin")
	require.NoError(t, os.WriteFile(path, []byte("weights"), 0o600))
	m, err := MapFile(context.Background(), path)
	require.NoError(t, err)
	assert.Equal(t, "weights", string(m.Bytes()))
	assert.NoError(t, m.Close())
	assert.Nil(t, m.Bytes())

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	m, err = MapFile(context.Background(), path)
	require.NoError(t, err)
	assert.Empty(t, m.Bytes())
	assert.NoError(t, m.Close())
}

// TestReadFileEnds: a file that is not mapped is read in pieces, until the context ends.
func TestReadFileEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse.onnx")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	require.NoError(t, os.Truncate(path, 3*readPiece))
	m, err := ReadFile(t.Context(), path)
	require.NoError(t, err)
	require.Len(t, m.Bytes(), 3*readPiece)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ReadFile(ended, path)
	require.ErrorIs(t, err, context.Canceled)
}

// TestChangedWhileRead: a file that is written to while it is read is an error, whatever was read.
func TestChangedWhileRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	for name, change := range map[string]func() error{
		"longer":  func() error { return os.Truncate(path, 100) },
		"shorter": func() error { return os.Truncate(path, 1) },
		"written": func() error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
	} {
		require.NoError(t, os.WriteFile(path, []byte("weights"), 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		require.NoError(t, unchanged(f, info), name)
		require.NoError(t, change())
		var changed *sysmem.FileChangedError
		require.ErrorAs(t, unchanged(f, info), &changed, name)
		require.NoError(t, f.Close())
	}
}
