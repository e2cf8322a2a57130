package conformance

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

func info(name string, dims ...int64) *onnxwire.ValueInfo {
	shape := &onnxwire.Shape{}
	for _, d := range dims {
		shape.Dims = append(shape.Dims, &onnxwire.Dim{Kind: onnxwire.DimValue, Value: d})
	}
	return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: 1, Shape: shape}}}
}

func marshal(t *testing.T, m onnxwire.Message) []byte {
	data, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	return data
}

func tensor(v ...float32) *onnxwire.Tensor {
	return &onnxwire.Tensor{DataType: 1, Dims: []int64{int64(len(v))}, RawData: ndarray.Bytes(v)}
}

// caseFiles is a case that adds two inputs; w is an initializer that is listed
// as an input, as old files do.
func caseFiles(t *testing.T, name string) map[string][]byte {
	m := &onnxwire.Model{IRVersion: 3, Graph: &onnxwire.Graph{Name: "g",
		Inputs: []*onnxwire.ValueInfo{info("w", 1), info("a", 2), info("b", 2)}, Outputs: []*onnxwire.ValueInfo{info("s", 2)},
		Initializers: []*onnxwire.Tensor{{Name: "w", DataType: 1, Dims: []int64{1}, FloatData: []float32{1}}}}}
	files := map[string][]byte{name + "/model.onnx": marshal(t, m)}
	for i := range 11 { // set 10 comes after set 9
		set := fmt.Sprintf("%s/test_data_set_%d/", name, i)
		files[set+"input_0.pb"] = marshal(t, tensor(float32(i), 1))
		files[set+"input_1.pb"] = marshal(t, tensor(10, 20))
		files[set+"output_0.pb"] = marshal(t, tensor(float32(i)+10, 21))
	}
	return files
}

func writeFolder(t *testing.T, dir string, files map[string][]byte) {
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
}

func writeArchive(t *testing.T, path string, files map[string][]byte) {
	f, err := os.Create(path)
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for name, data := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(w.Close(), z.Close(), f.Close()))
}

// sums is a Prepare whose runner adds a and b, plus an error.
func sums(off float32) Prepare {
	return func(context.Context, *Case) (Runner, func() error, error) {
		return func(_ context.Context, in []Named) ([]Named, error) {
			a, b := ndarray.Slice[float32](in[0].Value.(*ndarray.Array)), ndarray.Slice[float32](in[1].Value.(*ndarray.Array))
			return []Named{{"s", ndarray.Of([]float32{a[0] + b[0], a[1] + b[1] + off}, 2)}}, nil
		}, nil, nil
	}
}

func TestOpenAndVerify(t *testing.T) {
	dir := t.TempDir()
	writeFolder(t, filepath.Join(dir, "cases", "deep"), caseFiles(t, "test_add"))
	writeFolder(t, filepath.Join(dir, "cases"), caseFiles(t, "test_sum"))
	files := caseFiles(t, "node/test_add")
	files["../evil/model.onnx"] = nil
	writeArchive(t, filepath.Join(dir, "all.tar.gz"), files)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "archives"), 0o755))
	writeArchive(t, filepath.Join(dir, "archives", "a.tar.gz"), files)
	writeArchive(t, filepath.Join(dir, "archives", "b.tgz"), files)
	tests := []struct {
		path   string
		cases  string
		onDisk bool
	}{
		{"cases", "test_add test_sum", true},
		{"cases/test_sum", "test_sum", true},
		{"cases/test_sum/model.onnx", "test_sum", true},
		{"all.tar.gz", "test_add", false},
		{"archives", "test_add test_add", false},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			cases, err := Open(filepath.Join(dir, filepath.FromSlash(tt.path)))
			require.NoError(t, err)
			var got []string
			for _, c := range cases {
				got = append(got, c.Name)
				assert.Equal(t, tt.onDisk, c.ModelPath() != "")
				sets, err := c.SetNames()
				require.NoError(t, err)
				assert.Len(t, sets, 11)
				assert.Equal(t, "test_data_set_10", sets[10])
				assert.NoError(t, Verify(t.Context(), c, sums(0), BackendTolerance))
				err = Verify(t.Context(), c, sums(1), BackendTolerance)
				assert.EqualError(t, err, c.Name+`/test_data_set_0: output "s": element [1] is 22, want 21 (1 of 2 elements differ, largest difference 1, relative 0.0476)`)
			}
			assert.Equal(t, tt.cases, strings.Join(got, " "))
		})
	}
}

func TestInitializersMayBeGivenToo(t *testing.T) {
	dir := t.TempDir()
	files := caseFiles(t, "c")
	files["c/test_data_set_0/input_2.pb"] = marshal(t, tensor(1, 1))
	writeFolder(t, dir, files)
	cases, err := Open(dir)
	require.NoError(t, err)
	sig, err := cases[0].Signature(context.Background())
	require.NoError(t, err)
	for set, want := range map[string][]string{"test_data_set_0": {"w", "a", "b"}, "test_data_set_1": {"a", "b"}} {
		s, err := cases[0].LoadSet(context.Background(), sig, set)
		require.NoError(t, err)
		var got []string
		for _, in := range s.Inputs {
			got = append(got, in.Name)
		}
		assert.Equal(t, want, got)
	}
}

func TestToleranceFile(t *testing.T) {
	dir := t.TempDir()
	files := caseFiles(t, "c")
	files["c/tolerance.json"] = []byte(`{"rtol": 0.5, "why": "coarse"}`)
	writeFolder(t, dir, files)
	cases, err := Open(dir)
	require.NoError(t, err)
	tol, err := cases[0].Tolerance(BackendTolerance)
	require.NoError(t, err)
	assert.Equal(t, Tolerance{Rtol: 0.5, Atol: 1e-7, Why: "coarse"}, tol)
	assert.NoError(t, Verify(t.Context(), cases[0], sums(1), BackendTolerance))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "c", "tolerance.json"), []byte("{"), 0o644))
	assert.ErrorContains(t, Verify(t.Context(), cases[0], sums(0), BackendTolerance), "tolerance.json")
	require.NoError(t, os.Truncate(filepath.Join(dir, "c", "tolerance.json"), 1<<40)) // of which little is read
	assert.ErrorContains(t, Verify(t.Context(), cases[0], sums(0), BackendTolerance), "tolerance.json has more than 1048576 bytes")
}

func TestLightModels(t *testing.T) {
	dir := t.TempDir()
	m := &onnxwire.Model{Graph: &onnxwire.Graph{Name: "g", Inputs: []*onnxwire.ValueInfo{info("x", 1, 4)}, Outputs: []*onnxwire.ValueInfo{info("y", 4)}}}
	writeFolder(t, dir, map[string][]byte{"light_net.onnx": marshal(t, m), "light_net_output_0.pb": marshal(t, tensor(0, 0.25, 0.5, 0.75))})
	cases, err := Open(dir)
	require.NoError(t, err)
	require.Len(t, cases, 1)
	assert.Equal(t, "light_net", cases[0].Name)
	pass := func(context.Context, *Case) (Runner, func() error, error) {
		return func(_ context.Context, in []Named) ([]Named, error) {
			return []Named{{"y", in[0].Value.(*ndarray.Array).Reshaped(4)}}, nil
		}, nil, nil
	}
	assert.NoError(t, Verify(t.Context(), cases[0], pass, Tolerance{}))
}

func TestRandomOutputsAreComparedByType(t *testing.T) {
	dir := t.TempDir()
	files := caseFiles(t, "c")
	m, err := onnxwire.Parse(files["c/model.onnx"])
	require.NoError(t, err)
	m.Graph.Nodes = []*onnxwire.Node{{OpType: "Bernoulli"}}
	files["c/model.onnx"] = marshal(t, m)
	writeFolder(t, dir, files)
	cases, err := Open(dir)
	require.NoError(t, err)
	assert.NoError(t, Verify(t.Context(), cases[0], sums(7), BackendTolerance))
}

func TestVerifyReportsFailures(t *testing.T) {
	dir := t.TempDir()
	writeFolder(t, dir, caseFiles(t, "c"))
	cases, err := Open(dir)
	require.NoError(t, err)
	broken := errors.New("broken")
	closed := false
	tests := []struct {
		name    string
		prepare Prepare
		want    string
	}{
		{"prepare", func(context.Context, *Case) (Runner, func() error, error) { return nil, nil, broken }, "c: broken"},
		{"run", func(context.Context, *Case) (Runner, func() error, error) {
			return func(context.Context, []Named) ([]Named, error) { return nil, broken }, func() error { closed = true; return nil }, nil
		}, "c/test_data_set_0: broken"},
		{"done", func(ctx context.Context, c *Case) (Runner, func() error, error) {
			run, _, _ := sums(0)(ctx, c)
			return run, func() error { return broken }, nil
		}, "c: broken"},
	}
	for _, tt := range tests {
		err := Verify(t.Context(), cases[0], tt.prepare, BackendTolerance)
		assert.EqualError(t, err, tt.want)
		assert.ErrorIs(t, err, broken)
	}
	assert.True(t, closed)
}

func TestOpenFailures(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.txt"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.tar.gz"), []byte("no"), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	for path, want := range map[string]string{
		"none": "none", "empty": "holds no model.onnx", "x.txt": "is no folder, .tar.gz or .onnx file", "x.tar.gz": "x.tar.gz"} {
		_, err := Open(filepath.Join(dir, path))
		assert.ErrorContains(t, err, want, path)
	}
}

// TestArchivesWithinBudget: what an archive holds, also names without content, is asked of the budget.
func TestArchivesWithinBudget(t *testing.T) {
	dir := t.TempDir()
	many := map[string][]byte{}
	for i := range 20000 {
		many[fmt.Sprintf("a/%d/b/c", i)] = nil
	}
	for name, files := range map[string]map[string][]byte{"large": {"x": make([]byte, 32<<20)}, "many": many} {
		path := filepath.Join(dir, name+".tar.gz")
		writeArchive(t, path, files)
		_, err := OpenContext(ndarray.Budget(8<<20).In(t.Context()), path)
		var memory *ops.MemoryError
		require.ErrorAs(t, err, &memory, name)
		assert.ErrorContains(t, err, path)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = OpenContext(ctx, path)
		require.ErrorIs(t, err, context.Canceled)
	}
}
