package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// saved writes a graph in text form to a file.
func saved(t *testing.T, graph string) string {
	t.Helper()
	g, err := ssa.ParseGraph(`graph "g" { ` + graph + ` }`)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, berth.FromModule(&ssa.Module{Graph: g}).Save(path, berth.SaveOptions{}))
	return path
}

const (
	// The else branch is for inputs of 5 columns, whose matrix product it computes after a reshape that only other sizes get.
	branches = `in %x: float32[2,M] in %c: bool[]
		%y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[2,M] %a = Identity(%p) %b = Neg(%a) out %b }
			else_branch: graph "e" { in %p: float32[2,M]
				%s = Shape(%p) const %i: int64[] = 1 %d = Gather(%s, %i) const %three: int64[] = 3 %e = Equal(%d, %three)
				%q = If(%e | %p) {
					then_branch: graph "et" { in %r: float32[2,M] const %k: int64[3] = [1, 2, 3] %u = Reshape(%r, %k) out %u }
					else_branch: graph "ee" { in %r: float32[2,M] out %r } }
				const %w: float32[5,4] = splat 1 %m = MatMul(%q, %w) out %m } }
		out %y`
	linear = `in %x: float32[N,4] const %w: float32[4,3] = splat 0.5 %y = MatMul(%x, %w) out %y`
	pixels = `in %x: float32[N,3,H,W] const %w: float32[4,3,3,3] = splat 0.1
		%a = Conv(%x, %w) [strides=[2, 2]] %y = MaxPool(%a) [kernel_shape=[2, 2], strides=[2, 2]] out %y`
	sequence = `in %ids: float32[batch,seq_len] in %past: float32[batch,past_len] %y = Concat(%ids, %past) [axis=1] out %y`
)

// npyFile writes a tensor of float32.
func npyFile(t *testing.T, shape []int, elements ...float32) string {
	t.Helper()
	a := ndarray.Must(ndarray.Float32, shape...)
	for i, x := range elements {
		a.SetFloat(i, float64(x))
	}
	return writeTemp(t, t.TempDir(), "x.npy", npyBytes(t, a))
}

// dataSet writes a folder of recorded inputs.
func dataSet(t *testing.T, inputs ...*ndarray.Array) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "test_data_set_0")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for i, a := range inputs {
		writeTemp(t, dir, "input_"+string(rune('0'+i))+".pb", tensorBytes(t, "", a))
	}
	return dir
}

// TestOptimizeBranches freezes a shape for which one branch never runs: folding in it shows a tool that infers every branch that
// its product has no operand of that shape, unless the declared shapes stay open.
func TestOptimizeBranches(t *testing.T) {
	out := filepath.Join(t.TempDir(), "o.onnx")
	args := []string{"optimize", saved(t, branches), "-o", out, "--no-compare", "--json", "--shape", "x=2x3", "--data", dataSet(t, ndarray.Must(ndarray.Float32, 2, 3), trueScalar())}
	keptOpen(t, out, "MatMul", args)
	t.Run("the model itself", func(t *testing.T) {
		o := cli(t, "optimize", saved(t, strings.ReplaceAll(branches, "[2,M]", "[2,3]")), "-o", out, "--no-compare", "--no-verify")
		assert.Equal(t, exitDone, o.code, o.err)
		assert.Contains(t, o.err, "other tools may refuse the result, as the model itself")
	})
}

// keptOpen: optimize names the operator that other tools refuse, leaves the declared shapes open, as with --keep-io, and writes a portable file.
func keptOpen(t *testing.T, out, op string, args []string) {
	t.Helper()
	o := cli(t, args...)
	require.Equal(t, exitDone, o.code, o.err)
	assert.Contains(t, o.err, "inputs and outputs stay as declared")
	got := object(t, o.out)
	assert.Equal(t, true, got["verified"])
	for _, part := range []string{"fold constants", op} {
		assert.Contains(t, got["declared_shapes_kept"], part)
	}
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	w, err := berth.Open(out)
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.CheckPortable(t.Context()))
	o = cli(t, append(args, "--keep-io")...)
	require.Equal(t, exitDone, o.code, o.err)
	assert.NotContains(t, o.out+o.err, "stay as declared")
	same, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, same), "the file of --keep-io")
}

func trueScalar() *ndarray.Array {
	a := ndarray.Must(ndarray.Bool)
	a.SetInt(0, 1)
	return a
}

// TestOptimizeRefuses: what can not be verified, or read by other tools, is not written.
func TestOptimizeRefuses(t *testing.T) {
	wrong := dataSet(t, ndarray.Must(ndarray.Float32, 2, 5))
	for _, c := range []struct {
		name, graph string
		args        []string
		says        []string
		allowed     bool // with --allow-unverified
	}{
		{"data of another shape", linear, []string{"--data", wrong}, []string{"not verified", "--data"}, true},
		{"data of another type", linear, []string{"--data", dataSet(t, ndarray.Must(ndarray.Int64, 2, 4))}, []string{"not verified"}, true},
		{"no size does", `in %x: float32[N,T] const %w: float32[1575,2] = splat 1 const %v: float32[1574,2] = splat 1 %a = MatMul(%x, %w) %b = MatMul(%x, %v) %y = Add(%a, %b) out %y`, nil, []string{"not verified", "--shape"}, true},
		{"a branch that accepts nothing", `in %x: float32[2,M] in %c: bool[] %y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[2,M] %b = Neg(%p) out %b }
			else_branch: graph "e" { in %p: float32[2,M] const %w: float32[5,4] = splat 1 %m = MatMul(%p, %w) out %m } } out %y`,
			[]string{"--shape", "x=2x3"}, []string{"other tools would refuse", "MatMul"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "o.onnx")
			args := append([]string{"optimize", saved(t, c.graph), "-o", out, "--no-compare"}, c.args...)
			fails(t, exitDiffers, append(c.says, "nothing was written"), args...)
			absent(t, out)
			if c.allowed {
				assert.Contains(t, ok(t, append(args, "--allow-unverified")...), "(not verified)")
				assert.FileExists(t, out)
			}
		})
	}
}

// TestOpenSizesTried: open dimensions get several sizes of real inputs, and the outcome says which.
func TestOpenSizesTried(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		args        []string
		want        []string
	}{
		{"image", pixels, nil, []string{"x=1x3x64x64", "x=2x3x96x128", "x=3x3x160x224"}},
		{"one symbol given", pixels, []string{"--dim", "N=5"}, []string{"x=5x3x64x64", "x=5x3x96x128", "x=5x3x160x224"}},
		{"a dilated window", `in %x: float32[N,1,H,W] %y = MaxPool(%x) [dilations=[10, 10], kernel_shape=[8, 4]] out %y`, nil, []string{"x=1x1x142x142", "x=2x1x142x142", "x=3x1x160x224"}},
		{"a volume", `in %x: float32[?,?,?,?,?] %y = MaxPool(%x) [kernel_shape=[2, 2, 2]] out %y`, nil, []string{"x=1x3x8x8x8", "x=2x1x9x9x9", "x=3x4x16x16x16"}},
		{"six dimensions", `in %x: float32[?,?,?,?,?,?] %y = Neg(%x) out %y`, nil, []string{"x=1x4x4x4x4x4", "x=2x5x5x5x5x5", "x=3x6x6x6x6x6"}},
		{"twelve dimensions", `in %x: float32[?,?,?,?,?,?,?,?,?,?,?,?] %y = Neg(%x) out %y`, nil, []string{"x=1" + strings.Repeat("x3", 11), "x=2" + strings.Repeat("x3", 11), "x=3" + strings.Repeat("x3", 11)}},
		{"sizes that only the channels fix", `in %x: float32[?,?,?,?,?] const %s: float32[5,1,1,1] = splat 2 %y = PRelu(%x, %s) out %y`, nil, []string{"x=1x5x16x16x16"}},
		{"heads", `in %q: float32[?,?,?] in %k: float32[?,?,?] in %v: float32[?,?,?] %y = Attention(%q, %k, %v) [q_num_heads=9, kv_num_heads=3] out %y`, nil,
			[]string{"k=1x16x24 q=1x16x72 v=1x16x24", "k=2x33x36 q=2x33x108 v=2x33x36", "k=3x64x48 q=3x64x144 v=3x64x48"}},
		{"sequence", sequence, nil, []string{"ids=1x16 past=1x5", "ids=2x33 past=2x9", "ids=3x64 past=3x1"}},
		{"a given shape fixes a symbol", sequence, []string{"--shape", "past=7x2"}, []string{"ids=7x16 past=7x2", "ids=7x33 past=7x2", "ids=7x64 past=7x2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := saved(t, c.graph)
			out := ok(t, append([]string{"optimize", path, "-o", path + ".opt", "--no-compare"}, c.args...)...)
			assert.Contains(t, out, "inputs:   "+strings.Join(c.want, "; ")+"\n")
		})
	}
}

// TestTriedSingly: each open dimension is tried by itself, what the original refuses is named, values come from the model's comparisons, the
// command line and recorded sets, and what no input enters is told of with the inputs that decide about it.
func TestTriedSingly(t *testing.T) {
	const rate = `in %x: float32[N] in %sr: int64[] const %k: int64[] = 16000 const %l: int64[] = 8 %c = Equal(%sr, %k) %d = Greater(%l, %sr) %f = Or(%c, %d)
		%y = If(%c | %x) { then_branch: graph "t" { in %p: float32[N] %a = Neg(%p) out %a } else_branch: graph "e" { in %p: float32[N] %b = Abs(%p) out %b } } out %y, %f`
	const hidden = `in %x: float32[4] in %u: float32[] const %k: float32[] = 100000000 %c = Greater(%u, %k)
		%y = If(%c | %x) { then_branch: graph "t" { in %p: float32[4] %a = Neg(%p) out %a } else_branch: graph "e" { in %p: float32[4] %b = Abs(%p) out %b } } out %y`
	const fixed = `in %x: float32[N,2,W] const %s: int64[3] = [0, 2, 62] %y = Reshape(%x, %s) out %y`
	for _, c := range []struct {
		name, graph string
		args        []string
		want        []string
		not         string
	}{
		{"dimensions", pixels, nil, []string{"singly:   N=3, 2; H=1, 3, 97, 96, 160; W=1, 3, 97, 128, 224\n", `refused:  x=1x3x0x64 (run: Conv "-> a"`}, ""},
		{"one that a constant fixes", fixed, nil, []string{"inputs:   x=1x2x62", "singly:   N=3, 2\n", "refused:  x=1x2x16 (", " more (--json lists them)"}, ""},
		{"constants", rate, nil, []string{"sr = 16000; sr = 8; sr = 7; sr = 9", "verified: same"}, "not run"},
		{"given", rate, []string{"--input", "sr=16000"}, []string{"verified: in part", `not run:  else_branch of If "y"; they depend on sr: other values can be given with --input or --data`}, "sr = "},
		{"a branch that is hard to enter", hidden, nil, []string{`not run:  then_branch of If "y"; they depend on u: `}, ""},
		{"a branch of whose results the first is not read", `in %x: float32[4] in %c: bool[] %u, %y = If(%c | %x) { then_branch: graph "t" { in %p: float32[4] %a = Neg(%p) %b = Exp(%p) out %a, %b }
			else_branch: graph "e" { in %p: float32[4] %a = Abs(%p) %b = Sin(%p) out %a, %b } } out %y`, nil, []string{"verified: same"}, "not run"},
		{"entered by hand", hidden, []string{"--input", "u=2e8"}, []string{`not run:  else_branch of If "y"`}, ""},
		{"recorded", linear, nil, []string{"also:     floats x 1000; floats x 0.001; x=0x4; test_data_set_0 with x=7x4\n"}, ""},
		{"a recorded set that --shape excludes", linear, []string{"--shape", "x=3x4"}, []string{"refused:  test_data_set_0 (--shape x=3x4 contradicts"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := saved(t, c.graph)
			if strings.Contains(c.name, "recorded") {
				set := filepath.Join(filepath.Dir(path), "test_data_set_0")
				require.NoError(t, os.Mkdir(set, 0o755))
				writeTemp(t, set, "input_0.pb", tensorBytes(t, "", ndarray.Must(ndarray.Float32, 7, 4)))
			}
			out := ok(t, append([]string{"optimize", path, "-o", path + ".opt", "--no-compare"}, c.args...)...)
			for _, want := range c.want {
				assert.Contains(t, out, want)
			}
			if c.not != "" {
				assert.NotContains(t, out, c.not)
			}
		})
	}
}

// TestNumbersAsInputs: a number in the place of a file fills an input, if its type has it.
func TestNumbersAsInputs(t *testing.T) {
	path := saved(t, `in %x: float32[2] in %h: float16[N] in %i: int8[] in %u: uint64[] in %b: bool[1] %y = Neg(%x) %z = Neg(%h) out %y, %z, %i, %u, %b`)
	first := func(args ...string) (all []any) {
		o := object(t, ok(t, append([]string{"run", path, "--json"}, args...)...))["outputs"].([]any)
		for _, x := range o {
			all = append(all, x.(map[string]any)["first"])
		}
		return all
	}
	got := first("--input", "x=1e-3", "--input", "h=-2", "--shape", "h=1", "--input", "i=-128", "--input", "u=18446744073709549568", "--input", "b=true")
	assert.InDelta(t, -1e-3, got[0].([]any)[1], 1e-9)
	assert.Equal(t, []any{[]any{2.0}, []any{-128.0}, []any{18446744073709549568.0}, []any{1.0}}, got[1:])
	for spec, says := range map[string]string{
		"i=128": "which has no such number", "i=1.5": "which has no such number", "u=-1": "which has no such number", "h=1": "give its shape", "x=1e39": "which has no such number", "b=2": "which has no such number",
		"x=none": "not understood", "q=1": "there is no input",
	} {
		fails(t, exitUsage, []string{says}, "run", path, "--input", spec)
	}
}

// TestNonFinite: NaN and infinities are counted, and agreement needs them at the same places.
func TestNonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	path := saved(t, `in %x: float32[2,3] %y = Neg(%x) out %y`)
	input := "x=" + npyFile(t, []int{2, 3}, nan, inf, 1, 2, nan, 4)
	o := object(t, ok(t, "run", path, "--input", input, "--json"))["outputs"].([]any)[0].(map[string]any)
	assert.EqualValues(t, 2, o["nan"])
	assert.EqualValues(t, 1, o["inf"])
	assert.EqualValues(t, -4, o["min"])
	assert.Equal(t, []any{nil, nil, -1.0, -2.0, nil, -4.0}, o["first"])
	text := ok(t, "run", path, "--input", "x="+npyFile(t, []int{2, 3}, nan, nan, nan, nan, nan, nan))
	assert.Regexp(t, `float32\[2,3\] +NaN +NaN +NaN +6 +0 +NaN`, text)

	a := ndarray.Must(ndarray.Float32, 2, 3)
	a.SetFloat(4, math.NaN())
	a.SetFloat(5, math.Inf(-1))
	text = ok(t, "optimize", path, "-o", path+".opt", "--no-compare", "--data", dataSet(t, a))
	assert.Contains(t, text, "outputs:  1 of 6 elements are NaN, 1 infinite\n")
	zero := saved(t, `in %x: float32[2,3] const %z: float32[] = 0 %y = Mul(%x, %z) %w = Neg(%y) out %w`)
	other := saved(t, `in %x: float32[2,3] const %z: float32[2,3] = splat 0 %y = Max(%z) %w = Neg(%y) out %w`)
	fails(t, exitDiffers, nil, "diff", zero, other, "--data", dataSet(t, a))
}

// TestSameCounts: nodes, arenas and sizes mean the same in every command.
func TestSameCounts(t *testing.T) {
	for _, model := range []string{"unet", "inception", "encoder", "lstm-loop"} {
		var shape []string
		if model == "encoder" {
			shape = []string{"--shape", "ids=2x7"}
		}
		path := exported(t, model)
		out, page := path+".opt", path+".html"
		m := object(t, ok(t, append([]string{"optimize", path, "-o", out, "--json"}, shape...)...))
		for side, file := range map[string]string{"before": path, "after": out} {
			row := m[side].(map[string]any)
			args := append([]string{"inspect", file, "--json", "--html", page}, shape...)
			in := object(t, ok(t, args...))
			assert.Equal(t, in["nodes"], row["nodes"], "%s, %s", model, side)
			assert.Equal(t, in["arena_bytes"], row["arena_bytes"], "%s, %s", model, side)
			assert.Equal(t, in["weight_bytes"], row["initializer_bytes"], "%s, %s", model, side)
			html, err := os.ReadFile(page)
			require.NoError(t, err)
			assert.Equal(t, dash(int64(in["arena_bytes"].(float64)), func(n int64) string { return fmt.Sprint(n) }), regexp.MustCompile(`arena<td>(\d+) bytes`).FindStringSubmatch(string(html))[1], "%s, %s", model, side)
			nodes := 0
			for _, n := range in["operators"].(map[string]any) {
				nodes += int(n.(float64))
			}
			assert.EqualValues(t, in["nodes"], nodes)
		}
	}
	path := exported(t, "unet")
	before := modelSize(path)
	m := object(t, ok(t, "optimize", path, "-o", path, "--json", "--no-compare"))
	assert.EqualValues(t, before, m["before"].(map[string]any)["file_bytes"], "of the file that is replaced")
}

// TestDiffByScale: rounding in tensors of large elements is no difference, and the first node whose weights differ is named.
func TestDiffByScale(t *testing.T) {
	layers := func(scale, second string) string {
		return saved(t, `in %x: float32[8,8] const %u: float32[8,8] = splat `+scale+` const %v: float32[8,8] = splat `+second+`
			%a = MatMul(%x, %u) %b = Tanh(%a) %c = MatMul(%b, %v) %d = Sin(%c) out %d`)
	}
	a := layers("1000", "0.5")
	ok(t, "diff", a, layers("1000.01", "0.5"))
	m := object(t, fails(t, exitDiffers, []string{`value "c"`}, "diff", a, layers("1000.01", "0.505"), "--json").out)
	assert.Equal(t, "c", m["value"])
	first := m["ranking"].([]any)[0].(map[string]any)
	assert.Equal(t, "c", first["value"])
	assert.Less(t, first["operands"], first["relative"])
	small := saved(t, `in %x: float32[8,8] const %u: float32[] = 1e-9 %a = Mul(%x, %u) out %a`)
	fails(t, exitDiffers, nil, "diff", small, saved(t, `in %x: float32[8,8] const %u: float32[] = 2e-9 %a = Mul(%x, %u) out %a`))
}

// found is a model whose result has a size that depends on data.
const found = `in %x: float32[4,4] %a = Relu(%x) %i = NonZero(%a) %y = Neg(%i) out %y`

// TestNoProofOfUnknownSizes: a plan that leaves values out is not called optimal.
func TestNoProofOfUnknownSizes(t *testing.T) {
	path := saved(t, found)
	assert.NotContains(t, ok(t, "compare", path), "optimal")
	for _, r := range object(t, ok(t, "compare", path, "--json"))["planners"].([]any) {
		assert.Equal(t, false, r.(map[string]any)["proven"])
	}
	inspected := object(t, ok(t, "inspect", path, "--json"))
	assert.NotZero(t, inspected["dynamic_values"])
	assert.Contains(t, ok(t, "inspect", path), "they are not in these figures")
	path = saved(t, pixels)
	assert.Contains(t, ok(t, "compare", path), "optimal")
	assert.Contains(t, ok(t, "compare", path, "--shape", "x=1x3x64x64"), "optimal")
}

// TestInstanceOfTheTable: the instance that compare writes is the problem of the first row, in open sizes and searched orders, too.
func TestInstanceOfTheTable(t *testing.T) {
	for _, model := range []string{saved(t, pixels), "builtin:unet", "builtin:residual"} {
		path := filepath.Join(t.TempDir(), "i.csv")
		table := object(t, ok(t, "compare", model, "--json", "--planner", "auto", "--write-instance", path))
		again := object(t, ok(t, "compare", "--instance", path, "--json", "--planner", "auto"))
		want, got := table["planners"].([]any)[0].(map[string]any), again["planners"].([]any)[0].(map[string]any)
		for _, field := range []string{"arena_bytes", "lower_bound_bytes", "proven"} {
			assert.Equal(t, want[field], got[field], "%s of %s", field, model)
		}
	}
}

// TestBadNumbers: invalid numbers and names are refused.
func TestBadNumbers(t *testing.T) {
	path := saved(t, linear)
	for _, args := range [][]string{{"--rtol", "-1"}, {"--atol", "nan"}, {"--max-opset", "99"}, {"-o", "-"}} {
		fails(t, exitUsage, []string{args[0]}, append([]string{"optimize", path}, args...)...)
	}
}

// TestNothingIgnored: what is given and has no effect is a mistake.
func TestNothingIgnored(t *testing.T) {
	path, out := saved(t, sequence), filepath.Join(t.TempDir(), "o.onnx")
	data := dataSet(t, ndarray.Must(ndarray.Float32, 2, 4))
	withSet := filepath.Join(filepath.Dir(data), "model.onnx")
	require.NoError(t, os.Rename(saved(t, linear), withSet))
	for _, c := range []struct {
		says string
		args []string
	}{
		{"given twice", []string{"compare", path, "--planner", "auto", "--planner", "pool"}},
		{"given twice", []string{"optimize", path, "-o", out, "-o", out}},
		{`"ids" the shapes [1,2] and [1,3]`, []string{"run", path, "--shape", "ids=1x2", "--shape", "ids=1x3"}},
		{`"batch" the sizes 1 and 2`, []string{"run", path, "--dim", "batch=1", "--dim", "batch=2"}},
		{`makes "batch" 2, another`, []string{"run", path, "--shape", "ids=1x2", "--shape", "past=2x3"}},
		{`makes "batch" 2, another`, []string{"run", path, "--dim", "batch=1", "--shape", "past=2x3"}},
		{"contradicts the input given", []string{"optimize", saved(t, linear), "-o", out, "--data", data, "--shape", "x=3x4"}},
		{"contradicts the input given", []string{"run", saved(t, linear), "--input", "x=" + npyFile(t, []int{2, 4}), "--shape", "x=3x4"}},
		{"--seconds -1", []string{"bench", path, "--seconds", "-1"}},
		{"--seconds NaN", []string{"bench", path, "--seconds", "NaN"}},
		{"--seed has no effect on compare without --run or --tape-machine", []string{"compare", path, "--seed", "3"}},
		{"--shape has no effect on verify", []string{"verify", path, "--shape", "x=1"}},
		{"--planner has no effect on models", []string{"models", "--planner", "auto"}},
		{"--threads has no effect on compare of a bare instance", []string{"compare", "--instance", "x.csv", "--threads", "2"}},
		{"--data has no effect on compare of a bare instance", []string{"compare", "--instance", "x.csv", "--data", "d"}},
		{"only one of --node, --text and --html", []string{"inspect", path, "--text", "--node", "x"}},
		{"--keep-io has no effect on optimize without --shape or --dim", []string{"optimize", path, "-o", out, "--keep-io"}},
		{"--rtol has no effect on optimize with --no-verify", []string{"optimize", path, "-o", out, "--no-verify", "--rtol", "0.1"}},
		{"--atol has no effect on optimize with --no-verify", []string{"optimize", path, "-o", out, "--no-verify", "--atol", "0.1"}},
		{"--seed has no effect on optimize with --no-verify", []string{"optimize", path, "-o", out, "--no-verify", "--seed", "1"}},
		{"--allow-unverified has no effect on optimize with --no-verify", []string{"optimize", path, "-o", out, "--no-verify", "--allow-unverified"}},
		{"--optimize-for has no effect on optimize", []string{"optimize", path, "-o", out, "--optimize-for", "memory"}},
		{"--accuracy has no effect on optimize", []string{"optimize", path, "-o", out, "--accuracy", "strict"}},
		{"--accuracy medium is neither", []string{"run", path, "--accuracy", "medium"}},
		{"--accuracy has no effect on run with --backend reference", []string{"run", path, "--backend", "reference", "--accuracy", "strict"}},
		{"--optimize-for has no effect on bench with --backend reference", []string{"bench", path, "--backend", "reference", "--optimize-for", "memory"}},
		{"--accuracy has no effect on verify with --backend reference", []string{"verify", path, "--backend", "reference", "--accuracy", "strict"}},
		{"--python has no effect on bench without --compare ort", []string{"bench", path, "--python", "python3"}},
		{"--data-root: ", []string{"run", path, "--data-root", out + ".none"}},
		{"is no folder", []string{"run", path, "--data-root", path}},
		{"--data-root has no effect on builtin:mlp", []string{"run", "builtin:mlp", "--data-root", filepath.Dir(path)}},
		{"--channel-block has no effect on " + path, []string{"run", path, "--channel-block", "8"}},
		{"--channel-block has no effect on builtin:mlp", []string{"inspect", "builtin:mlp", "--channel-block", "16"}},
		{"--channel-block has no effect on " + path + " and builtin:mlp", []string{"diff", path, "builtin:mlp", "--channel-block", "16"}},
		{"--channel-block has no effect on verify", []string{"verify", path, "--channel-block", "8"}},
		{"--accuracy has no effect on compare of a bare instance", []string{"compare", "--instance", "x.csv", "--accuracy", "strict"}},
		{"--ignore-label has no effect on train without --loss cross-entropy", []string{"train", path, "--data", "x.npz", "-o", out, "--loss", "huber", "--ignore-label", "-100"}},
		{"--of has no effect on compare without --train", []string{"compare", path, "--of", "y"}},
		{"--budget has no effect on compare with --train", []string{"compare", path, "--train", "huber", "--budget", "1s"}},
		{"--planner has no effect on inspect with --text or --node", []string{"inspect", path, "--text", "--planner", "pool"}},
		{"--schedule has no effect on inspect with --node", []string{"inspect", path, "--node", "y", "--schedule", "file"}},
		{"--threads has no effect on inspect with --text or --node", []string{"inspect", path, "--node", "y", "--threads", "2"}},
		{"--verbose has no effect on models", []string{"models", "-v"}},
		{"--accuracy has no effect on models", []string{"models", "--accuracy", "strict"}},
		{"--data-root has no effect on models", []string{"models", "--data-root", filepath.Dir(path)}},
		{"--seed has no effect: no input is random", []string{"run", saved(t, linear), "--input", "x=" + npyFile(t, []int{2, 4}), "--seed", "1"}},
		{"--seed has no effect: no input is random", []string{"bench", saved(t, linear), "--data", data, "--seed", "1"}},
		{"--seed has no effect: no input is random", []string{"diff", saved(t, linear), saved(t, linear), "--data", data, "--seed", "1"}},
		{"--seed has no effect: no input is random", []string{"optimize", saved(t, linear), "-o", out, "--data", data, "--seed", "1"}},
		{"--seed has no effect: no input is random", []string{"compare", saved(t, linear), "--run", "--data", data, "--seed", "1"}},
		{"--dim N=3 contradicts the input", []string{"run", saved(t, linear), "--input", "x=" + npyFile(t, []int{2, 4}), "--dim", "N=3"}},
		{"--dim N=3 contradicts the input", []string{"bench", saved(t, linear), "--data", data, "--dim", "N=3"}},
		{"--shape x=3x4 contradicts the input", []string{"bench", saved(t, linear), "--data", data, "--shape", "x=3x4"}},
		{`input "x" is given twice`, []string{"run", saved(t, linear), "--input", "x=" + npyFile(t, []int{2, 4}), "--input", writeTemp(t, t.TempDir(), "a.npz", npzBytes(t, map[string]*ndarray.Array{"x": ndarray.Must(ndarray.Float32, 2, 4)}))}},
		{"no array in it has the name of an input; the inputs are x, the arrays y", []string{"run", saved(t, linear), "--input", writeTemp(t, t.TempDir(), "a.npz", npzBytes(t, map[string]*ndarray.Array{"y": ndarray.Must(ndarray.Float32, 2, 4)}))}},
		{"--top has no effect", []string{"run", saved(t, `in %x: float32[2] %y = ReduceMax(%x) [keepdims=0] out %y`), "--top", "1"}},
		{"--data has no effect with --no-verify", []string{"optimize", withSet, "-o", out, "--no-verify", "--data", data, "--dim", "N=2"}},
		{"--input has no effect with --no-verify", []string{"optimize", exported(t, "mlp"), "-o", out, "--no-verify", "--no-compare", "--no-plan", "--input", "x=1"}},
		{`no input "q"; the inputs are x`, []string{"run", exported(t, "mlp"), "--image", "q=cat.png"}},
		{"--letterbox concerns images", []string{"run", "builtin:mlp", "--letterbox"}},
		{"--poison", []string{"verify", withSet, "--poison=maybe"}},
		{"--only nothing", []string{"verify", withSet, "--only", "nothing"}},
	} {
		o := fails(t, exitUsage, []string{c.says}, c.args...)
		assert.Empty(t, o.out)
	}
	for _, args := range [][]string{{"run", "builtin:mlp", "--letterbox=false", "--crop=false"}, {"optimize", withSet, "-o", out, "--keep-io=false", "--no-compare"},
		{"optimize", withSet, "-o", out, "--no-verify=false", "--rtol", "0.1", "--no-compare"}, {"models", "--parallel-safe=false"}} {
		ok(t, args...)
	}
	o := cli(t, "optimize", path, "-o", out, "--no-compare", "--unroll-loops")
	assert.Contains(t, o.err, "--unroll-loops: no loop has a known number of iterations")
	loop := saved(t, `in %x: float32[2] const %n: int64[] = 3 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] %a = Exp(%p) out %c, %a } } out %y`)
	assert.NotContains(t, cli(t, "optimize", loop, "-o", out, "--no-compare", "--unroll-loops").err, "--unroll-loops")
}

// TestMaxOpset: the result imports no newer operator set than asked for, or is not written.
func TestMaxOpset(t *testing.T) {
	path := exported(t, "residual")
	opset := func(file string) float64 {
		return object(t, ok(t, "inspect", file, "--json"))["opsets"].(map[string]any)[""].(float64)
	}
	require.Greater(t, opset(path), 9.0)
	out := filepath.Join(t.TempDir(), "o.onnx")
	ok(t, "optimize", path, "-o", out, "--no-compare", "--max-opset", "9")
	assert.LessOrEqual(t, opset(out), 9.0)
	ok(t, "diff", path, out)
	absent(t, out+".none")
	gelu := saved(t, `in %x: float32[2,3] %y = Gelu(%x) out %y`)
	ok(t, "optimize", gelu, "-o", out, "--no-compare", "--max-opset", "9")
	ok(t, "diff", gelu, out)
	branch := saved(t, `in %c: bool[] in %x: float32[2] %y = If(%c | %x) { then_branch: graph "t" { in %p: float32[2] %a = Exp(%p) out %a }
		else_branch: graph "e" { in %q: float32[2] %b = Erf(%q) %d = Neg(%b) %z = Round(%d) out %z } } out %y`)
	for most, c := range map[string][3]string{"8": {gelu, "Gelu", "9"}, "9": {branch, "Round", "11"}} {
		fails(t, exitModel, []string{c[1], "needs version " + c[2] + " of the operator set, at most " + most + " is allowed", "allow version " + c[2]}, "optimize", c[0], "-o", out+".none", "--max-opset", most)
	}
	absent(t, out+".none")
}

func TestDidYouMean(t *testing.T) {
	path := saved(t, sequence)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"did you mean optimize?", []string{"optimise"}},
		{"did you mean inspect?", []string{"inpsect"}},
		{"did you mean --planner?", []string{"compare", path, "--planer", "auto"}},
		{"did you mean --output?", []string{"optimize", path, "--ouput", "x"}},
		{"did you mean greedy-size?", []string{"run", path, "--planner", "greedysize"}},
		{"did you mean past?", []string{"run", path, "--shape", "pasd=1x2"}},
		{"did you mean batch?", []string{"run", path, "--dim", "bach=1"}},
		{"did you mean y?", []string{"inspect", path, "--node", "Y"}},
	} {
		fails(t, exitUsage, []string{c.says}, c.args...)
	}
	assert.NotContains(t, cli(t, "frobnicate").err, "did you mean")
}

func TestVersion(t *testing.T) {
	assert.Regexp(t, `^berth version .+ \(go1\.\d+.*, [a-z0-9]+/[a-z0-9]+\)\n$`, ok(t, "--version"))
}

// TestCompareDump: the page shows the graph that is planned.
func TestCompareDump(t *testing.T) {
	page := filepath.Join(t.TempDir(), "d.html")
	ok(t, "compare", "builtin:unet", "--dump", page, "--planner", "auto")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "BatchNormalization")
}

// TestProfileMedian: one slow run does not change a row.
func TestProfileMedian(t *testing.T) {
	rows := rank(map[string]*timing{"a": {row: profileRow{Name: "a", Count: 6}, nanos: []int64{5, 900, 4}}, "b": {row: profileRow{Name: "b", Count: 3}, nanos: []int64{10, 11, 15}}}, 3)
	assert.Equal(t, []profileRow{{Name: "b", Nanos: 11, Share: 11. / 16, Count: 1}, {Name: "a", Nanos: 5, Share: 5. / 16, Count: 2}}, rows)
}

// TestOptimizeSilero freezes a recorded model whose branch for 8 kHz accepts no frames of 576 samples: ONNX Runtime refuses the
// branch once it has folded its conditions, in the model itself, too.
func TestOptimizeSilero(t *testing.T) {
	dir := shareddata.Path(t, "models", "silero_vad")
	out := filepath.Join(t.TempDir(), "o.onnx")
	args := []string{"optimize", filepath.Join(dir, "model.onnx"), "-o", out, "--no-compare", "--json", "--data", filepath.Join(dir, "test_data_set_0")}
	open := object(t, ok(t, args...))
	assert.Equal(t, true, open["verified"], "with open shapes")
	require.NoError(t, os.Remove(out))
	args = append(args, "--shape", "input=1x576", "--shape", "state=2x1x128")
	keptOpen(t, out, "LSTM", args)
	fixed := object(t, ok(t, append(args, "--keep-io")...))
	nodes := func(o map[string]any) float64 { return o["after"].(map[string]any)["nodes"].(float64) }
	assert.LessOrEqual(t, nodes(fixed), nodes(open), "shapes are fixed, and a branch for others is left")
}

// TestOptimizeInvalid: what other tools refuse in a model is refused in its result, too, unless that is allowed; what only the
// result has always is.
func TestOptimizeInvalid(t *testing.T) {
	scatter := func(index string) string {
		return `in %x: float32[4] in %i: ` + index + `[2,1] in %u: float32[2] %y = ScatterND(%x, %i, %u) out %y`
	}
	const warned = `operand "indices" is int32`
	versions := func(ir, opset int64) string {
		path := saved(t, "in %x: float32[2] %y = Neg(%x) out %y")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		m, err := onnxwire.Parse(data)
		require.NoError(t, err)
		m.IRVersion, m.OpsetImports[0].Version = ir, opset
		data, err = onnxwire.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o666))
		return path
	}
	for _, c := range []struct{ name, path, why string }{
		{"allowed", saved(t, scatter("int64")), ""},
		{"type that is not allowed", saved(t, scatter("int32")), warned},
		{"branches of two types", saved(t, `in %c: bool[] in %x: float32[2] %y = If(%c | %x) { then_branch: graph "t" { in %p: float32[2] %a = Cast(%p) [to=6] out %a } else_branch: graph "e" { in %q: float32[2] %b = Neg(%q) out %b } } out %y`), "result 0 of else_branch is float"},
		{"file format of the future", versions(99, 17), "IR version 99"},
		{"operator set of the future", versions(8, 999), "version 999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "o.onnx")
			args := []string{"optimize", c.path, "-o", out, "--no-compare", "--json"}
			if c.why != "" {
				o := fails(t, exitDiffers, []string{c.path, c.why, "other tools would refuse", "--allow-unverified"}, args...)
				var res optimizeJSON
				require.NoError(t, json.Unmarshal([]byte(o.out), &res))
				assert.Empty(t, res.Output)
				assert.False(t, res.Verified)
				assert.Contains(t, res.Note, c.why)
				assert.NoFileExists(t, out)
				args = append(args, "--allow-unverified")
			}
			o := cli(t, args...)
			require.Equal(t, exitDone, o.code, o.err)
			assert.Equal(t, c.why != "", strings.Contains(o.err, "other tools may refuse"), o.err)
			assert.Equal(t, c.why != "", object(t, o.out)["type_violations"] != nil)
			assert.FileExists(t, out)
		})
	}
	good, err := berth.Open(saved(t, scatter("int64")))
	require.NoError(t, err)
	defer good.Close()
	bad, err := berth.Open(saved(t, scatter("int32")))
	require.NoError(t, err)
	defer bad.Close()
	_, err = new(app).checkValid(t.Context(), good, bad, optimizeFlags{unchecked: true})
	require.ErrorContains(t, err, warned)
	assert.Equal(t, exitDiffers, codeOf(err))
	old, err := new(app).checkValid(t.Context(), bad, good, optimizeFlags{})
	require.NoError(t, err)
	assert.Empty(t, old)
}

// TestOptimizeChecksWithinMemory: what is folded to see what other tools see takes memory of --max-memory, and too little of it is no fault of the model.
func TestOptimizeChecksWithinMemory(t *testing.T) {
	m, err := berth.Open(saved(t, branches))
	require.NoError(t, err)
	defer m.Close()
	a := &app{errOut: io.Discard}
	_, err = a.checkValid(t.Context(), m, m, optimizeFlags{})
	require.NoError(t, err)
	a.memory = 1
	_, err = a.checkValid(t.Context(), m, m, optimizeFlags{})
	var full *berth.MemoryError
	require.ErrorAs(t, err, &full)
	assert.NotContains(t, err.Error(), "other tools")
}

// TestReadBackWithinMemory: too little memory to open the result again is no fault of the result.
func TestReadBackWithinMemory(t *testing.T) {
	m, err := berth.Open(saved(t, branches))
	require.NoError(t, err)
	defer m.Close()
	a := &app{errOut: io.Discard, ctx: t.Context(), memory: 1}
	_, err = a.twin(m, filepath.Join(t.TempDir(), "o.onnx"), berth.SaveOptions{}, optimizeFlags{})
	var full *berth.MemoryError
	require.ErrorAs(t, err, &full)
	assert.NotContains(t, err.Error(), "other tools")
}

// TestOptimizeCorrected: a result that other tools accept, of a file that they do not, is said to be corrected.
func TestOptimizeCorrected(t *testing.T) {
	changed := func(graph string, change func(m *onnxwire.Model)) string {
		path := saved(t, graph)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		m, err := onnxwire.Parse(data)
		require.NoError(t, err)
		change(m)
		data, err = onnxwire.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o666))
		return path
	}
	const clip = `in %x: float32[2,3] const %k: float32[] = 0 %y = Clip(%x, %k) out %y`
	for _, c := range []struct {
		name, graph string
		change      func(m *onnxwire.Model)
		want        []any
		opset       float64
	}{
		{"nothing", clip, func(*onnxwire.Model) {}, nil, 13},
		{"the type of an output", clip, func(m *onnxwire.Model) {
			m.Graph.Outputs[0].Type = &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat, Shape: &onnxwire.Shape{}}}
		}, []any{`output "y" is declared as float[], it is float[2,3]`}, 13},
		{"an operator set that is too old", clip, func(m *onnxwire.Model) { m.OpsetImports[0].Version = 7 }, []any{`node Clip "-> y": has 2 operands, version 7 of the operator set allows 1`}, 7},
		{"no operator set", clip, func(m *onnxwire.Model) { m.OpsetImports = nil }, []any{"the file imports no operator set, it is written for version 13"}, 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := changed(c.graph, c.change)
			m := object(t, ok(t, "optimize", path, "-o", path+".opt", "--no-compare", "--json"))
			got, _ := m["corrected"].([]any)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.opset, m["opset"])
			assert.Equal(t, c.want != nil, strings.Contains(ok(t, "optimize", path, "-o", path+".opt", "--no-compare"), "corrected: "))
		})
	}
}

// TestAdvice: what is advised is what the command takes, and is not given already.
func TestAdvice(t *testing.T) {
	names, masked := saved(t, `in %s: float32[...] %y = Abs(%s) out %y`), saved(t, `in %x: float32[N,4] %i = NonZero(%x) %y = Abs(%i) out %y`)
	data := dataSet(t, ndarray.Must(ndarray.Float32, 2, 4))
	path := filepath.Join(filepath.Dir(data), "model.onnx")
	require.NoError(t, os.Rename(masked, path))
	fails(t, exitUsage, []string{"give it with --input s=FILE or its shape"}, "run", names)
	for _, c := range []string{"bench", "compare"} {
		args := []string{c, names}
		if c == "compare" {
			args = append(args, "--run")
		}
		o := fails(t, exitUsage, []string{"give it with --data or its shape"}, args...)
		assert.NotContains(t, o.err, "--input")
	}
	assert.Contains(t, ok(t, "inspect", path), "give shapes with --shape, --dim or --data.")
	for _, c := range []string{"inspect", "compare"} {
		out := ok(t, c, path, "--data", data)
		assert.Contains(t, out, "they are not in these figures.")
		assert.NotContains(t, out, "give shapes")
	}
}

// TestPlannerOfTheKeptPlan: the plan that optimize keeps is that of --planner.
func TestPlannerOfTheKeptPlan(t *testing.T) {
	plan := func(args ...string) string {
		out := filepath.Join(t.TempDir(), "o.onnx")
		ok(t, append([]string{"optimize", "builtin:unet", "-o", out, "--no-verify", "--no-compare"}, args...)...)
		m, err := berth.Open(out)
		require.NoError(t, err)
		defer m.Close()
		return m.Metadata().Properties[berth.PlanKey]
	}
	assert.NotEmpty(t, plan())
	assert.NotEqual(t, plan(), plan("--planner", "naive"))
}
