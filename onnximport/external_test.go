package onnximport

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
)

// externalModel has one initializer, w, of three floats in another file.
func externalModel(entries ...string) *onnxwire.Model {
	t := &onnxwire.Tensor{Name: "w", DataType: onnxwire.TypeFloat, Dims: []int64{3}, DataLocation: onnxwire.DataExternal}
	for i := 0; i < len(entries); i += 2 {
		t.ExternalData = append(t.ExternalData, &onnxwire.StringEntry{Key: entries[i], Value: entries[i+1]})
	}
	m := wmodel("o", wnode("Add", "x w", "o"))
	m.Graph.Initializers = []*onnxwire.Tensor{t}
	return m
}

// dataFolder holds sub/weights.bin (8 bytes of padding, then 1, 2, 3), links,
// and a secret outside.
func dataFolder(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	data := append(make([]byte, 8), ndarray.Bytes([]float32{1, 2, 3})...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "weights.bin"), data, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "..", "secret"), data, 0o644))
	return dir
}

func link(t *testing.T, dir, target, name string) {
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Skipf("no links here: %v", err)
	}
}

func TestExternalData(t *testing.T) {
	dir := dataFolder(t)
	link(t, dir, "sub/weights.bin", "inside")
	for _, location := range []string{"sub/weights.bin", "./sub/weights.bin", `sub\weights.bin`, "inside", "sub/../sub/weights.bin"} {
		t.Run(location, func(t *testing.T) {
			path := filepath.Join(dir, "m.onnx")
			model, err := onnxwire.Marshal(externalModel("location", location, "offset", "8", "length", "12"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, model, 0o644))
			mod, err := Load(path, Options{})
			require.NoError(t, err)
			a, err := mod.Graph.Nodes[0].In[1].Const.Array()
			require.NoError(t, err)
			assert.Equal(t, []float32{1, 2, 3}, ndarray.Slice[float32](a))
			assert.Len(t, mod.Holds, 2)
			require.NoError(t, mod.Close())
			require.NoError(t, mod.Close())
		})
	}
}

func TestExternalDataRefused(t *testing.T) {
	dir := dataFolder(t)
	link(t, dir, "../secret", "outside")
	link(t, dir, "..", "up")
	tests := []struct {
		name    string
		entries []string
		want    string
	}{
		{"parent", []string{"location", "../secret"}, "not a path below"},
		{"absolute", []string{"location", filepath.Join(dir, "sub/weights.bin")}, "not a path below"},
		{"hidden parent", []string{"location", "sub/../../secret"}, "not a path below"},
		{"windows parent", []string{"location", `..\secret`}, "not a path below"},
		{"link that leads out", []string{"location", "outside"}, "leads out of the folder"},
		{"folder link that leads out", []string{"location", "up/secret"}, "leads out of the folder"},
		{"folder", []string{"location", "sub"}, "not a regular file"},
		{"no location", []string{"offset", "8"}, "without a location"},
		{"offset past the end", []string{"location", "sub/weights.bin", "offset", "100"}, "which has 20"},
		{"data past the end", []string{"location", "sub/weights.bin", "offset", "12"}, "wants bytes 12 to 24"},
		{"huge offset", []string{"location", "sub/weights.bin", "offset", "9223372036854775807"}, "which has 20"},
		{"negative offset", []string{"location", "sub/weights.bin", "offset", "-4"}, `offset "-4"`},
		{"offset no number", []string{"location", "sub/weights.bin", "offset", "x"}, `offset "x"`},
		{"length of another shape", []string{"location", "sub/weights.bin", "length", "8"}, "needs 12 bytes"},
		{"zero byte in name", []string{"location", "a\x00b"}, "not a path below"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := FromModel(externalModel(tt.entries...), filepath.Join(dir, "m.onnx"), Options{})
			var e *ImportError
			require.ErrorAs(t, err, &e)
			assert.Contains(t, e.Reason, tt.want)
			assert.Equal(t, filepath.Join(dir, "m.onnx"), e.File)
		})
	}
}

func TestExternalDataMissing(t *testing.T) {
	_, err := FromModel(externalModel("location", "gone.bin"), filepath.Join(t.TempDir(), "m.onnx"), Options{})
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "gone.bin")
	assert.ErrorContains(t, err, `"w"`)

	e := refused(t, externalModel("location", "w.bin"), Options{})
	assert.Contains(t, e.Reason, "without its folder")
}

func TestDataRootAllowsLinksBelowIt(t *testing.T) {
	dir := dataFolder(t)
	link(t, dir, "../secret", "outside")
	_, err := FromModel(externalModel("location", "outside", "offset", "8"), filepath.Join(dir, "m.onnx"), Options{DataRoot: filepath.Dir(dir)})
	assert.NoError(t, err)
}

func TestEmptyTensorNeedsNoFile(t *testing.T) {
	m := externalModel("location", "gone.bin")
	m.Graph.Initializers[0].Dims = []int64{0}
	m.Graph.Nodes[0] = wnode("Identity", "w", "o")
	_, err := FromModel(m, "", Options{})
	assert.NoError(t, err)
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.onnx")
	require.NoError(t, os.WriteFile(bad, []byte("\x3a\xff\xff"), 0o644))
	tests := []struct{ path, want string }{
		{filepath.Join(dir, "none.onnx"), "none.onnx: "},
		{bad, "bad.onnx: not an ONNX file, or a damaged one"},
		{dir, "is a directory"},
	}
	for _, tt := range tests {
		_, err := Load(tt.path, Options{})
		var e *ImportError
		require.ErrorAs(t, err, &e)
		assert.Contains(t, e.Error(), tt.want)
	}
	_, err := Load(filepath.Join(dir, "none.onnx"), Options{})
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
