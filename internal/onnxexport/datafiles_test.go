package onnxexport

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

// filled is a module with a weight of n elements that are all different and start at first.
func filled(t testing.TB, n int, first float32) *ssa.Module {
	t.Helper()
	w := make([]float32, n)
	for i := range w {
		w[i] = first + float32(i)
	}
	g := ssa.NewGraph("g")
	g.Results = []*ssa.Value{g.NewNode("Relu", []*ssa.Value{g.AddConst("w", ssa.NewConstant(ndarray.Of(w, n)))}, 1).Out[0]}
	return &ssa.Module{Graph: g, IR: 8, Opsets: []ssa.Opset{{Version: 17}}}
}

// weight opens a saved module of filled, checks all elements, and returns the first.
func weight(t testing.TB, path string) float32 {
	t.Helper()
	mod, err := onnximport.Load(path, onnximport.Options{})
	require.NoError(t, err)
	defer mod.Close()
	a, err := mod.Graph.Nodes[0].In[0].Const.Array()
	require.NoError(t, err)
	w := ndarray.Slice[float32](a)
	for i := range w {
		require.Equal(t, w[0]+float32(i), w[i])
	}
	return w[0]
}

// listed lists the names in a folder, hashes replaced by HASH.
func listed(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	hash := regexp.MustCompile(`\.[0-9a-f]{16}\.data$`)
	out := []string{}
	for _, e := range entries {
		out = append(out, hash.ReplaceAllString(e.Name(), ".HASH.data"))
	}
	return out
}

// external saves with all weights outside.
var external = Options{External: 1}

func TestSaveReplacesTheFilesItIsMappedFrom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	require.NoError(t, Save(filled(t, 1<<16, 7), path, Options{}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.data"), nil, 0o644)) // nobody's
	for _, opts := range []Options{{}, external, external, {}, external, {}} {
		mod, err := onnximport.Load(path, onnximport.Options{})
		require.NoError(t, err)
		require.NoError(t, Save(mod, path, opts))
		require.NoError(t, mod.Close())
		want := []string{"m.onnx", "other.data"}
		if opts.External > 0 {
			want = []string{"m.onnx", "m.onnx.HASH.data", "other.data"}
		}
		assert.Equal(t, want, listed(t, dir))
		assert.Equal(t, float32(7), weight(t, path))
	}
}

// dataOf is [DataFiles] of a file that can be read.
func dataOf(t *testing.T, path string) []string {
	t.Helper()
	files, err := DataFiles(t.Context(), path)
	require.NoError(t, err)
	return files
}

// TestDataFileRemoved: of the data files that a replaced model leaves, those that are named after it go, unless another model
// in the folder reads them.
func TestDataFileRemoved(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	names := func() []string { return listed(t, dir) }
	path := at("m.onnx")
	require.NoError(t, Save(filled(t, 100, 1), path, external))
	first := dataOf(t, path)
	require.Len(t, first, 1)
	require.NoError(t, Save(filled(t, 100, 2), path, external))
	assert.Equal(t, []string{"m.onnx", "m.onnx.HASH.data"}, names())
	second := dataOf(t, path)
	assert.NotEqual(t, first, second)

	copied, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, name := range []string{"m.onnx.bak", "other.onnx", "OTHER.ONNX", "detector.model", "copy", "weights.data"} {
		require.NoError(t, os.WriteFile(at(name), copied, 0o644))
		require.NoError(t, Save(filled(t, 100, 3), path, external))
		assert.Len(t, names(), 4, "%s reads the old data file", name)
		assert.Equal(t, float32(2), weight(t, at(name)))
		require.NoError(t, os.Remove(at(name)))
	}
	require.NoError(t, Save(filled(t, 100, 3), path, Options{}))
	assert.Equal(t, []string{"m.onnx"}, names())

	for _, c := range []struct {
		location string
		gone     bool
	}{{"m.onnx.data", true}, {"m.onnx_data", false}, {"weights.bin", false}} {
		require.NoError(t, os.WriteFile(at(c.location), make([]byte, 400), 0o644))
		m := export(t, filled(t, 100, 1), Options{})
		w := m.Graph.Initializers[0]
		w.RawData, w.DataLocation, w.ExternalData = nil, onnxwire.DataExternal, []*onnxwire.StringEntry{{Key: "location", Value: c.location}}
		data, err := onnxwire.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o644))
		assert.Equal(t, []string{at(c.location)}, dataOf(t, path))
		require.NoError(t, Save(filled(t, 100, 4), path, external))
		assert.Equal(t, c.gone, !fileThere(at(c.location)), c.location)
		assert.Equal(t, float32(4), weight(t, path))
	}
	require.NoError(t, os.WriteFile(at("m.onnx.data"), nil, 0o644))
	require.NoError(t, Save(filled(t, 100, 5), path, external))
	assert.True(t, fileThere(at("m.onnx.data")), "the model did not read it")
}

// TestDataFileKept: data files stay where it is not known whether another model reads them.
func TestDataFileKept(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir, path string) error
		kept bool
	}{
		{"text", func(dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, "README.md"), []byte("# read me\n"), 0o644)
		}, false},
		{"a link to nothing", func(dir, _ string) error { return os.Symlink("nothing", filepath.Join(dir, "link")) }, false},
		{"a folder", func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, "sub.onnx"), 0o755) }, false},
		{"a link to a model", func(dir, path string) error {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(elsewhere, data, 0o644), os.Symlink(elsewhere, filepath.Join(dir, "link")))
		}, true},
		{"half a model", func(dir, path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "half.onnx"), data[:len(data)/2], 0o644))
		}, true},
		{"a file that can not be read", func(dir, _ string) error {
			return os.Symlink(filepath.Join(dir, "loop"), filepath.Join(dir, "loop"))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "m.onnx")
			require.NoError(t, Save(filled(t, 100, 1), path, external))
			old := dataOf(t, path)
			require.NoError(t, c.make(dir, path))
			require.NoError(t, Save(filled(t, 100, 2), path, external))
			assert.Equal(t, float32(2), weight(t, path))
			assert.Equal(t, c.kept, fileThere(old[0]))
		})
	}
}

// TestCopy: the copy has the bytes of the original, and what it replaces loses its data.
func TestCopy(t *testing.T) {
	for _, opts := range []Options{{}, external} {
		from, dir := filepath.Join(t.TempDir(), "m.onnx"), t.TempDir()
		path := filepath.Join(dir, "m.onnx")
		require.NoError(t, Save(filled(t, 100, 1), path, external))
		require.NoError(t, Save(filled(t, 100, 2), from, opts))
		_, err := Copy(t.Context(), from, path)
		require.NoError(t, err)
		assert.Equal(t, listed(t, filepath.Dir(from)), listed(t, dir))
		assert.Equal(t, float32(2), weight(t, path))
		for _, name := range append(dataOf(t, from), from) {
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(dir, filepath.Base(name)))
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		target := (*safefile.TargetError)(nil)
		_, err = Copy(t.Context(), from, dir)
		assert.ErrorAs(t, err, &target)
	}
}

// TestLinksAtDataFiles: a link at the name of a data file is replaced, by saving and by copying, and the file that it leads to stays.
func TestLinksAtDataFiles(t *testing.T) {
	from := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, Save(filled(t, 100, 1), from, external))
	for name, write := range map[string]func(path string) error{
		"Save": func(path string) error { return Save(filled(t, 100, 1), path, external) },
		"Copy": func(path string) error { _, err := Copy(t.Context(), from, path); return err },
	} {
		dir := t.TempDir()
		other := filepath.Join(dir, "other")
		require.NoError(t, os.WriteFile(other, []byte("of somebody"), 0o644))
		require.NoError(t, os.Symlink("other", filepath.Join(dir, filepath.Base(dataOf(t, from)[0]))))
		require.NoError(t, write(filepath.Join(dir, "m.onnx")))
		got, err := os.ReadFile(other)
		require.NoError(t, err)
		assert.Equal(t, "of somebody", string(got), name)
		assert.Equal(t, float32(1), weight(t, filepath.Join(dir, "m.onnx")), name)
	}
}

func fileThere(path string) bool { _, err := os.Lstat(path); return err == nil }

// TestDataFilesOfOddNames: any name, a link into another folder, and the same bytes twice.
func TestDataFilesOfOddNames(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.MkdirAll("deep/er", 0o755))
	require.NoError(t, os.Symlink("deep/er", "short"))
	require.NoError(t, os.Symlink("deep/real.onnx", "link.onnx"))
	for _, path := range []string{"plain", "./m.onnx", "m.bin", "short/../up.onnx", "link.onnx", strings.Repeat("long", 60) + ".onnx", filepath.Join(dir, "ä.onnx")} {
		for first := range 3 {
			require.NoError(t, Save(filled(t, 100, float32(first)), path, external))
			assert.Equal(t, float32(first), weight(t, path))
		}
		require.Len(t, dataOf(t, path), 1)
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, Save(filled(t, 100, 2), path, external))
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, after)
	}
	assert.Len(t, listed(t, "."), 2+6*2, "one data file each")
	assert.Equal(t, []string{"er", "real.onnx", "up.onnx", "up.onnx.HASH.data"}, listed(t, "deep"))
	link, err := os.Readlink("link.onnx")
	require.NoError(t, err)
	assert.Equal(t, "deep/real.onnx", link)
	assert.Empty(t, dataOf(t, "none"))
	assert.Empty(t, dataOf(t, "."))
}

// TestSaveRefused: nothing is prepared or left over where the model can not be written.
func TestSaveRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.onnx"), 0o755))
	for _, name := range []string{"folder.onnx", "none/m.onnx", ""} {
		for _, opts := range []Options{{}, external} {
			var refused *safefile.TargetError
			assert.ErrorAs(t, Save(filled(t, 100, 1), filepath.Join(dir, name), opts), &refused)
		}
	}
	path := filepath.Join(dir, "m.onnx")
	require.NoError(t, Save(filled(t, 100, 1), path, external))
	data := dataOf(t, path)[0]
	require.NoError(t, os.Remove(data))
	require.NoError(t, os.Mkdir(data, 0o755))
	assert.ErrorContains(t, Save(filled(t, 100, 1), path, external), filepath.Base(data)+" is a folder")
	assert.Len(t, listed(t, dir), 3)
	require.NoError(t, os.Remove(data))
	cause := errors.New("no more")
	assert.ErrorIs(t, safefile.Write(path, func(io.Writer) error { return cause }), cause)
	assert.Equal(t, []string{"folder.onnx", "m.onnx"}, listed(t, dir))
}

// TestTwoSaves saves different models under one name at once.
func TestTwoSaves(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	failed := make(chan error)
	for i := range 4 {
		go func() {
			var err error
			for range 5 {
				err = errors.Join(err, Save(filled(t, 1000, float32(i%2)), path, external))
			}
			failed <- err
		}()
	}
	for range 4 {
		assert.NoError(t, <-failed)
	}
	weight(t, path)
	assert.Equal(t, []string{"m.onnx", "m.onnx.HASH.data"}, listed(t, dir))
}

// TestOpenedWhileReplaced opens a model while others replace it and remove its data: each time a whole pair is read.
func TestOpenedWhileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, Save(filled(t, 1000, 0), path, external))
	done := make(chan error)
	go func() {
		var err error
		for i := range 100 {
			err = errors.Join(err, Save(filled(t, 1000, float32(i%3)), path, external))
		}
		done <- err
	}()
	for opened := 0; ; opened++ {
		select {
		case err := <-done:
			require.NoError(t, err)
			t.Logf("opened %d times", opened)
			return
		default:
			weight(t, path)
		}
	}
}

func TestHashed(t *testing.T) {
	for name, want := range map[string]bool{
		"m.onnx.0123456789abcdef.data": true, "m.onnx.0123456789abcdeg.data": false, "m.onnx.0123456789abcde.data": false,
		"m.onnx.0123456789abcdef": false, "m.onnx.data": false, "n.onnx.0123456789abcdef.data": false, "m.onnx.0123456789ABCDEF.data": false,
	} {
		assert.Equal(t, want, hashed("m.onnx", name), fmt.Sprint(name))
	}
}
