package onnximport

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
	link(t, dir, "outside", "link2")
	link(t, dir, "/proc/self/environ", "proc")
	link(t, dir, "loop", "loop")
	link(t, dir, "nowhere", "dangling")
	require.NoError(t, os.Link(filepath.Join(dir, "..", "secret"), filepath.Join(dir, "hard")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644))
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
		{"link to a link that leads out", []string{"location", "link2"}, "leads out of the folder"},
		{"link to /proc", []string{"location", "proc"}, ""},
		{"link to itself", []string{"location", "loop"}, "loop"},
		{"dangling link", []string{"location", "dangling"}, "does not exist"},
		{"hard link", []string{"location", "hard"}, "more than one name"},
		{"empty file", []string{"location", "empty"}, "is empty"},
		{"model's folder", []string{"location", "."}, "not a regular file"},
		{"below a file", []string{"location", "sub/weights.bin/x"}, "sub/weights.bin/x"},
		{"slash at the end", []string{"location", "sub/"}, "not a regular file"},
		{"folder", []string{"location", "sub"}, "not a regular file"},
		{"no location", []string{"offset", "8"}, "without a location"},
		{"offset past the end", []string{"location", "sub/weights.bin", "offset", "100"}, "which has 20"},
		{"data past the end", []string{"location", "sub/weights.bin", "offset", "12"}, "wants 12 bytes from byte 12 on"},
		{"huge offset", []string{"location", "sub/weights.bin", "offset", "9223372036854775807"}, "wants 12 bytes from byte 9223372036854775807 on of \"sub/weights.bin\", which has 20"},
		{"negative offset", []string{"location", "sub/weights.bin", "offset", "-4"}, `offset "-4"`},
		{"offset no number", []string{"location", "sub/weights.bin", "offset", "x"}, `offset "x"`},
		{"length -1", []string{"location", "sub/weights.bin", "length", "-1"}, `length "-1"`},
		{"lowest length", []string{"location", "sub/weights.bin", "length", "-9223372036854775808"}, `length "-9223372036854775808"`},
		{"highest length", []string{"location", "sub/weights.bin", "length", "9223372036854775807"}, "needs 12 bytes"},
		{"length no number", []string{"location", "sub/weights.bin", "length", ""}, `length ""`},
		{"length past int64", []string{"location", "sub/weights.bin", "length", "9223372036854775808"}, `length "9223372036854775808"`},
		{"offset and length overflow", []string{"location", "sub/weights.bin", "offset", "9223372036854775800", "length", "12"}, "which has 20"},
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
	require.NoError(t, os.Link(filepath.Join(dir, "..", "secret"), filepath.Join(dir, "hard")))
	for _, location := range []string{"outside", "hard"} {
		m := externalModel("location", location, "offset", "8")
		e := refused(t, m, Options{})
		assert.Contains(t, e.Reason, "without its folder")
		_, err := FromModel(m, filepath.Join(dir, "m.onnx"), Options{})
		assert.ErrorContains(t, err, "--data-root")
		_, err = FromModel(m, filepath.Join(dir, "m.onnx"), Options{DataRoot: filepath.Dir(dir)})
		assert.NoError(t, err, location)
		_, err = FromModel(m, filepath.Join(dir, "m.onnx"), Options{DataRoot: filepath.Join(dir, "sub")})
		assert.Error(t, err, location)
	}
	_, err := FromModel(externalModel("location", "sub/weights.bin"), filepath.Join(dir, "m.onnx"), Options{DataRoot: t.TempDir()})
	assert.NoError(t, err, "the model's folder is allowed as well")
}

// TestDownloadCache opens a model as Hugging Face's cache lays it out: the model and its data are links into one folder. A
// model that is no link itself gets nothing from there.
func TestDownloadCache(t *testing.T) {
	cache := t.TempDir()
	blobs, snapshot := filepath.Join(cache, "blobs"), filepath.Join(cache, "snapshots", "1f3a", "onnx")
	require.NoError(t, os.MkdirAll(blobs, 0o755))
	require.NoError(t, os.MkdirAll(snapshot, 0o755))
	model, err := onnxwire.Marshal(externalModel("location", "model.onnx_data"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(blobs, "c6ed"), model, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(blobs, "b879"), ndarray.Bytes([]float32{1, 2, 3}), 0o644))
	link(t, snapshot, "../../../blobs/c6ed", "model.onnx")
	link(t, snapshot, "../../../blobs/b879", "model.onnx_data")
	t.Chdir(snapshot)
	for _, path := range []string{"model.onnx", filepath.Join(snapshot, "model.onnx")} {
		mod, err := Load(path, Options{})
		require.NoError(t, err)
		require.NoError(t, mod.Close())
	}
	require.NoError(t, os.WriteFile("copy.onnx", model, 0o644))
	_, err = Load("copy.onnx", Options{})
	assert.ErrorContains(t, err, "leads out of the folder")
	assert.ErrorContains(t, err, filepath.Base(blobs)+`" (--data-root, WithDataRoot)`)
}

// TestFolderThroughLinks: ".." after a linked folder is that of the real one.
func TestFolderThroughLinks(t *testing.T) {
	dir := dataFolder(t)
	link(t, dir, "sub", "short")
	model, err := onnxwire.Marshal(externalModel("location", "weights.bin", "offset", "8"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", "deep"), 0o755))
	link(t, dir, "sub/deep", "deep")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "m.onnx"), model, 0o644))
	for _, path := range []string{dir + "/short/m.onnx", dir + "/deep/../m.onnx"} {
		mod, err := Load(path, Options{})
		require.NoError(t, err, path)
		require.NoError(t, mod.Close())
	}
}

// TestOneMappingPerFile: spellings of one location do not open the file again.
func TestOneMappingPerFile(t *testing.T) {
	dir := dataFolder(t)
	m := externalModel("location", "sub/weights.bin", "offset", "8")
	for _, location := range []string{"./sub/weights.bin", "sub//weights.bin", "sub/./weights.bin", `sub\weights.bin`} {
		twin := externalModel("location", location, "offset", "8").Graph.Initializers[0]
		twin.Name = location
		m.Graph.Initializers = append(m.Graph.Initializers, twin)
		m.Graph.Nodes = append(m.Graph.Nodes, wnode("Identity", location, "o"+location))
		m.Graph.Outputs = append(m.Graph.Outputs, &onnxwire.ValueInfo{Name: "o" + location})
	}
	mod, err := FromModel(m, filepath.Join(dir, "m.onnx"), Options{})
	require.NoError(t, err)
	assert.Len(t, mod.Holds, 1)
	require.NoError(t, mod.Close())
}

// TestSparseFile: a file whose size is far beyond memory is mapped, and what is read of it costs memory only.
func TestSparseFile(t *testing.T) {
	const size = 1 << 40
	dir := dataFolder(t)
	file, err := os.Create(filepath.Join(dir, "sparse"))
	require.NoError(t, err)
	defer file.Close()
	if err := file.Truncate(size); err != nil || strconv.IntSize == 32 {
		t.Skipf("no sparse file of a terabyte here: %v", err)
	}
	_, err = file.WriteAt(ndarray.Bytes([]float32{1, 2, 3}), size-12)
	require.NoError(t, err)
	mod, err := FromModel(externalModel("location", "sparse", "offset", strconv.FormatInt(size-12, 10)), filepath.Join(dir, "m.onnx"), Options{})
	require.NoError(t, err)
	a, err := mod.Graph.Nodes[0].In[1].Const.Array()
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 2, 3}, ndarray.Slice[float32](a))
	require.NoError(t, mod.Close())
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
