package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestOutputsRefused: every flag that names a file to write refuses what can not be one, before the model is looked at.
func TestOutputsRefused(t *testing.T) {
	dir := t.TempDir()
	readOnly := filepath.Join(dir, "readonly")
	require.NoError(t, os.WriteFile(readOnly, []byte("old"), 0o444))
	for path, want := range map[string]string{
		dir: "is a folder", dir + "/": "is a folder", readOnly: "is read-only", filepath.Join(dir, "none", "x"): "there is no folder " + filepath.Join(dir, "none"),
		filepath.Join(readOnly, "x"): readOnly + " is no folder", filepath.Join(dir, strings.Repeat("x", 300)): "",
	} {
		for _, args := range [][]string{
			{"optimize", "none.onnx", "-o", path}, {"optimize", "none.onnx", "-o", path, "--save-external", "1KB"}, {"inspect", "none.onnx", "--html", path},
			{"verify", "none.onnx", "--list", path}, {"compare", "none.onnx", "--write-instance", path}, {"run", "none.onnx", "--dump", path},
			{"bench", "none.onnx", "--dump", path}, {"diff", "none.onnx", "none.onnx", "--dump", path},
		} {
			fails(t, exitFailed, []string{want}, args...)
		}
	}
	fails(t, exitFailed, []string{"not a directory"}, "run", "builtin:mlp", "--output-dir", readOnly)
	assert.Equal(t, []string{"readonly"}, filesIn(t, dir))
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestEmptyFlags: an empty value is not the same as no flag.
func TestEmptyFlags(t *testing.T) {
	for _, args := range [][]string{{"optimize", "builtin:mlp", "-o", ""}, {"inspect", "builtin:mlp", "--html="}, {"run", "builtin:mlp", "--output-dir", ""}, {"run", "builtin:mlp", "--dump="}} {
		fails(t, exitUsage, []string{"is empty"}, args...)
	}
}

// TestOutputsSpareData: a command does not write over arrays, recorded data and archives that it reads.
func TestOutputsSpareData(t *testing.T) {
	dir := t.TempDir()
	model, set := filepath.Join(dir, "model.onnx"), filepath.Join(dir, "test_data_set_0")
	ok(t, "optimize", "builtin:mlp", "-o", model, "--no-compare", "--no-verify")
	require.NoError(t, os.Mkdir(set, 0o755))
	input := ndarray.Must(ndarray.Float32, 4, 64)
	recorded := writeTemp(t, set, "input_0.pb", tensorBytes(t, "x", input))
	array := writeTemp(t, dir, "probabilities.npy", npyBytes(t, input))
	archive := trainData(t, dir)
	for _, args := range [][]string{
		{"train", model, "--data", archive, "-o", archive}, {"train", model, "--data", archive, "-o", filepath.Join(dir, "o"), "--curve", archive},
		{"run", model, "--input", "x=" + array, "--output-dir", dir}, {"run", model, "--input", "x=" + array, "--dump", array},
		{"optimize", model, "--input", "x=" + array, "-o", array}, {"optimize", model, "--data", set, "-o", recorded}, {"optimize", model, "-o", recorded},
		{"bench", model, "--data", set, "--dump", recorded}, {"verify", dir, "--list", recorded}, {"verify", dir, "--list", model},
	} {
		before := map[string][]byte{}
		for _, path := range []string{model, recorded, array, archive} {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			before[path] = data
		}
		fails(t, exitUsage, []string{"is read by this command; write to another name"}, args...)
		for path, was := range before {
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, was, now, args)
		}
	}
}

// TestOutputsSpareInputs: a command does not write over what it reads, nor one file twice.
func TestOutputsSpareInputs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	ok(t, "optimize", "builtin:mlp", "-o", path, "--save-external", "1KB", "--no-compare", "--no-verify")
	data := berth.DataFiles(path)[0]
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Base(data), link))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, args := range [][]string{
		{"optimize", path, "-o", data}, {"optimize", path, "-o", link}, {"optimize", path, "-o", filepath.Join(dir, "x"), "--dump", path}, {"inspect", path, "--html", path},
		{"inspect", path, "--html", data}, {"compare", path, "--write-instance", path}, {"run", path, "--dump", data}, {"verify", path, "--list", path},
	} {
		o := cli(t, args...)
		assert.NotEqual(t, exitDone, o.code, args)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after, args)
		ok(t, "diff", "builtin:mlp", path)
	}
	out := filepath.Join(dir, "twice")
	fails(t, exitUsage, []string{"written twice"}, "optimize", path, "-o", out, "--dump", filepath.Join(dir, ".", "x", "..", "twice"))
	fails(t, exitUsage, []string{"is read by this command"}, "optimize", path, "-o", data)
	assert.Len(t, filesIn(t, dir), 3)
}

// TestOutputsSpareStandardOutput: a file that takes what a command prints is not replaced.
func TestOutputsSpareStandardOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "printed")
	file, err := os.Create(path)
	require.NoError(t, err)
	standard := os.Stdout
	os.Stdout = file
	t.Cleanup(func() { os.Stdout = standard; file.Close() })
	link := path + ".link"
	require.NoError(t, os.Symlink(path, link))
	for _, out := range []string{path, link} {
		for _, args := range [][]string{{"optimize", "builtin:mlp", "-o", out}, {"inspect", "builtin:mlp", "--html", out}, {"compare", "builtin:mlp", "--write-instance", out}} {
			fails(t, exitUsage, []string{"is the standard output"}, args...)
		}
	}
}

// TestOptimizeInPlace replaces a model and its data file: the sizes printed are those before and after.
func TestOptimizeInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	ok(t, "optimize", "builtin:mlp", "-o", path, "--save-external", "1KiB", "--no-compare")
	size := modelSize(path)
	assert.Greater(t, size, int64(64<<10))
	for _, external := range []string{"100", "0.5KB", "", "0", "64KiB", ""} {
		args := []string{"optimize", path, "-o", path, "--no-compare", "--json"}
		if external != "" {
			args = append(args, "--save-external", external)
		}
		res := object(t, ok(t, args...))
		assert.Equal(t, float64(size), res["before"].(map[string]any)["file_bytes"])
		size = modelSize(path)
		assert.Equal(t, float64(size), res["after"].(map[string]any)["file_bytes"])
		files := 1
		if external != "" {
			assert.Equal(t, []any{berth.DataFiles(path)[0]}, res["data_files"])
			files = 2
		}
		assert.Len(t, filesIn(t, filepath.Dir(path)), files)
		ok(t, "diff", "builtin:mlp", path)
	}
	for _, bad := range []string{"", "x", "-1", "1XB", "1e99", "NaN"} {
		fails(t, exitUsage, []string{"--save-external"}, "optimize", path, "-o", path, "--save-external="+bad)
	}
}

// TestOptimizeThroughLink replaces what a link leads to, and creates what a dangling one does.
func TestOptimizeThroughLink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	link := filepath.Join(dir, "link.onnx")
	require.NoError(t, os.Symlink("real/m.onnx", link))
	for range 2 {
		ok(t, "optimize", "builtin:mlp", "-o", link, "--no-compare")
		info, err := os.Lstat(link)
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&os.ModeSymlink)
		ok(t, "diff", "builtin:mlp", filepath.Join(dir, "real", "m.onnx"))
		require.NoError(t, os.Chmod(link, 0o640))
	}
	info, err := os.Stat(link)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())
}

// TestDataRoot: the flag and the remedy that names it.
func TestDataRoot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "models", "m.onnx")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
	ok(t, "optimize", "builtin:mlp", "-o", path, "--save-external", "1KB", "--no-compare", "--no-verify")
	data := berth.DataFiles(path)[0]
	require.NoError(t, os.Rename(data, filepath.Join(dir, "blob")))
	require.NoError(t, os.Symlink("../blob", data))
	fails(t, exitModel, []string{"leads out of the folder", "--data-root", `"` + dir + `"`}, "run", path)
	ok(t, "run", path, "--data-root", dir)
	m, err := berth.Open(path, berth.WithDataRoot(dir))
	require.NoError(t, err)
	require.NoError(t, m.Close())
}

// TestOutputNames: outputs whose names differ only in what a file name can not have get files of their own.
func TestOutputNames(t *testing.T) {
	g := ssa.NewGraph("g")
	x := g.AddParam("x", ssa.TensorOf(ndarray.Float32, ssa.D(2)))
	for _, name := range []string{"a/b", "a:b", "A_b", "a_b_2"} {
		v := g.NewNode("Relu", []*ssa.Value{x}, 1).Out[0]
		v.Name = name
		g.Results = append(g.Results, v)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, IR: 8, Opsets: []ssa.Opset{{Version: 17}}}, path, onnxexport.Options{}))
	out := filepath.Join(dir, "out")
	ok(t, "run", path, "--output-dir", out)
	assert.ElementsMatch(t, []string{"a_b.npy", "a_b_2.npy", "A_b_3.npy", "a_b_2_2.npy"}, filesIn(t, out))
}

// full is a standard output that takes no more than a few bytes.
type full struct{ bytes.Buffer }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.Len()+len(p) > 10 {
		return 0, errFull
	}
	return f.Buffer.Write(p)
}

// TestStandardOutputFails: what could not be printed is no success.
func TestStandardOutputFails(t *testing.T) {
	for _, args := range [][]string{{"models"}, {"models", "--json"}, {"inspect", "builtin:mlp"}, {"run", "builtin:mlp"}, {"--help"}} {
		var errOut bytes.Buffer
		assert.Equal(t, exitFailed, execute(context.Background(), args, &full{}, &errOut), args)
		assert.Contains(t, errOut.String(), "no space left", args)
	}
}

// TestFileNames: no name of an output leads out of the folder, hides a file, or is one that a system keeps for itself.
func TestFileNames(t *testing.T) {
	for _, c := range [][2]string{
		{"y", "y"}, {"", "_"}, {".", "_"}, {"..", "_"}, {".hidden", "_hidden"}, {"../up", "__up"}, {"/etc/x", "_etc_x"}, {"a:b", "a_b"}, {"a\x1b[31mb", "a_[31mb"}, {"a\nb\tc", "a_b_c"},
		{"a\u202eb\u200b", "a_b_"}, {"\u009b2J", "_2J"}, {"a\xffb", "a_b"}, {"end. ", "end_"}, {"CON", "_CON"}, {"nul.x", "_nul.x"}, {"com1", "_com1"}, {"com10", "com10"}, {"console", "console"}, {"Ausgänge größer", "Ausgänge größer"},
		{strings.Repeat("ä", 200), strings.Repeat("ä", 100)},
	} {
		assert.Equal(t, c[1], fileName(c[0]), "%q", c[0])
	}
}

// hostileNames are a model's that a terminal would act on.
const hostileNames = "\x1b]0;title\x07\x1b[31mred\nberth: done\r\u202e\u009b2J\xff"

// hostile writes a model in which everything has such a name, with an unknown operator or without.
func hostileModel(t *testing.T, unknown bool) string {
	t.Helper()
	g := ssa.NewGraph("g" + hostileNames)
	x := g.AddParam("x"+hostileNames, ssa.TensorOf(ndarray.Float32, ssa.Sym("N"+hostileNames), ssa.D(4)))
	y := g.NewNode("Neg", []*ssa.Value{x}, 1)
	y.Name, y.Out[0].Name = "n"+hostileNames, "v"+hostileNames
	z := g.NewNode("NonZero", []*ssa.Value{y.Out[0]}, 1)
	z.Name, z.Out[0].Name = "z"+hostileNames, "w"+hostileNames
	g.Results = []*ssa.Value{y.Out[0], z.Out[0]}
	opsets := []ssa.Opset{{Version: 17}}
	if unknown {
		n := g.NewNode("Op"+hostileNames, []*ssa.Value{x}, 1)
		n.Domain, n.Opaque, n.Name, n.Out[0].Name = "dom"+hostileNames, true, "o"+hostileNames, "u"+hostileNames
		g.Results = append(g.Results, n.Out[0])
		opsets = append(opsets, ssa.Opset{Domain: n.Domain, Version: 1})
	}
	path := filepath.Join(t.TempDir(), "m\x1b[31m.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, IR: 8, Opsets: opsets}, path, onnxexport.Options{}))
	return path
}

// TestHostileNames: nothing that a command prints, or names a file by, does more in a terminal than to be shown.
func TestHostileNames(t *testing.T) {
	defer func(after time.Duration) { progressAfter = after }(progressAfter)
	progressAfter = time.Microsecond
	known, unknown, dir := hostileModel(t, false), hostileModel(t, true), t.TempDir()
	for _, path := range []string{known, unknown} {
		for _, args := range [][]string{
			{"inspect", path}, {"inspect", path, "--text"}, {"inspect", path, "--node", "n" + hostileNames}, {"inspect", path, "--node", "none"}, {"run", path, "--top", "1"}, {"run", path, "--output-dir", filepath.Join(dir, "out")},
			{"run", path, "--shape", "x=1"}, {"run", path, "--dim", "N=1"}, {"run", path, "--input", "x=none.npy"}, {"run", path, "--input", "x" + hostileNames + "=" + path + ".npy"}, {"run", path + ".none"},
			{"run", path, "--max-memory", "1"}, {"compare", path, "--planner", "pool"}, {"compare", path, "--planner", "pool", "--csv"}, {"compare", path, "--planner", "pool", "--markdown", "--run"}, {"compare", path, "--tape-machine", "--planner", "pool"}, {"diff", path, known}, {"diff", known, path}, {"diff", path, path},
			{"bench", path, "--seconds", "0", "--profile"}, {"optimize", path, "-o", filepath.Join(dir, "o.onnx"), "-v"}, {"optimize", path, "-o", filepath.Join(dir, "o.onnx"), "--max-opset", "7"},
			{"verify", path}, {"train", path, "--data", path + ".npz", "-o", filepath.Join(dir, "o.onnx")}, {"frob\x1b[31m"}, {"run", path, "--frob\x1b[31m"},
		} {
			o := berthCtx(context.Background(), args...)
			for _, r := range o.out + o.err {
				require.True(t, r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError, "%q prints %q: %q", args, r, o.out+o.err)
			}
			for line := range strings.Lines(o.out + o.err) {
				require.False(t, strings.HasPrefix(line, "berth: done"), "%q prints a line of the file's: %q", args, line)
			}
		}
	}
	for _, name := range filesIn(t, filepath.Join(dir, "out")) {
		assert.False(t, strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }), "%q", name)
	}
	m := object(t, ok(t, "inspect", known, "--json"))
	want := strings.ToValidUTF8("x"+hostileNames, "\ufffd") // as JSON has it
	assert.Equal(t, want, m["inputs"].([]any)[0].(map[string]any)["name"])
}

// TestMessagesOfModels: errors of every command name the file, and are short whatever names and attributes in it are.
func TestMessagesOfModels(t *testing.T) {
	named := func(change func(n *onnxwire.Node)) string {
		n := &onnxwire.Node{OpType: "Relu", Inputs: []string{"x"}, Outputs: []string{"y"}}
		change(n)
		return wireModel(t, []int64{2, 3}, n)
	}
	zeros := wireModel(t, []int64{0, 1 << 62, 1 << 62}, &onnxwire.Node{OpType: "Relu", Inputs: []string{"x"}, Outputs: []string{"y"}})
	huge := textModel(t, `in %x: float32[1000] const %n: int64[] = 1125899906842624 %u, %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[1000] %q = Neg(%p) out %c, %p, %q } } out %y`)
	long := strings.Repeat("n", 1<<20)
	for path, want := range map[string]string{
		zeros: `input "x"`, huge: "more than any memory",
		named(func(n *onnxwire.Node) { n.Name = long }):   "--limit name-bytes=N",
		named(func(n *onnxwire.Node) { n.Domain = long }): "--limit name-bytes=N",
		named(func(n *onnxwire.Node) {
			n.OpType, n.Attributes = "Transpose", []*onnxwire.Attribute{{Name: "perm", Type: onnxwire.AttrInts, Ints: make([]int64, 1<<20)}}
		}): "perm",
	} {
		for _, args := range [][]string{{"run", path}, {"bench", path}, {"diff", path, path}} {
			o := cli(t, args...)
			assert.Contains(t, []int{exitFailed, exitModel}, o.code, args)
			assert.Equal(t, 1, strings.Count(o.err, path), "%s: %.300s", args, o.err)
			assert.Contains(t, o.err, want, args)
			assert.Less(t, len(o.err), 20000, args)
		}
	}
}

// wireModel writes a model of one node, as files can have it, with the input x and the output y.
func wireModel(t *testing.T, shape []int64, n *onnxwire.Node, changes ...func(*onnxwire.Graph)) string {
	port := func(name string) *onnxwire.ValueInfo {
		v := &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat, Shape: &onnxwire.Shape{}}}}
		for _, d := range shape {
			v.Type.Tensor.Shape.Dims = append(v.Type.Tensor.Shape.Dims, &onnxwire.Dim{Kind: onnxwire.DimValue, Value: d})
		}
		return v
	}
	g := &onnxwire.Graph{Name: "g", Nodes: []*onnxwire.Node{n}, Inputs: []*onnxwire.ValueInfo{port("x")}, Outputs: []*onnxwire.ValueInfo{{Name: "y"}}}
	for _, change := range changes {
		change(g)
	}
	data, err := onnxwire.Marshal(&onnxwire.Model{IRVersion: 10, OpsetImports: []*onnxwire.OperatorSetID{{Version: 21}}, Graph: g})
	require.NoError(t, err)
	return writeTemp(t, t.TempDir(), "m.onnx", data)
}

// modelSize is the size of a model's files.
func modelSize(path string) int64 { return fileSize(append(berth.DataFiles(path), path)...) }
