package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// textModel writes a model given as the inside of a graph in text form.
func textModel(t *testing.T, inside string) string {
	t.Helper()
	g, err := ssa.ParseGraph(`graph "g" {` + inside + `}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	path := filepath.Join(t.TempDir(), "text.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 20}}, IR: 9}, path, onnxexport.Options{}))
	return path
}

// TestLimits: what is too large or too long ends with the name of the flag that
// says how much is too much.
func TestLimits(t *testing.T) {
	large := textModel(t, `in %x: float32[1] const %s: int64[1] = [1099511627776] %y = Expand(%x, %s) out %y`)
	fails(t, exitFailed, []string{large, "--max-memory", "beyond the limit of 1073741824"}, "run", large, "--max-memory", "1GiB")
	fails(t, exitFailed, []string{large, "--max-memory"}, "run", large)
	wide := textModel(t, `in %x: float32[1099511627776] %y = Neg(%x) out %y`)
	fails(t, exitFailed, []string{wide, "--max-memory"}, "run", wide)
	endless := textModel(t, `in %x: float32[4] const %n: int64[] = 4611686018427387904 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] %q = Neg(%p) out %c, %q } } out %y`)
	fails(t, exitFailed, []string{endless + ": stopped after 200ms (--timeout)"}, "run", endless, "--timeout", "200ms")
	small := textModel(t, `in %x: float32[1] %y = Neg(%x) out %y`)
	ok(t, "run", small, "--max-memory", "512 MB", "--timeout", "1m")
	for _, bad := range []string{"much", "-1GiB", "0", "1e30TiB"} {
		fails(t, exitUsage, []string{"--max-memory", bad}, "run", small, "--max-memory", bad)
	}
	fails(t, exitUsage, []string{"--timeout"}, "run", small, "--timeout", "-1s")
}

// TestDeviceLimits: the device is chosen and its memory limited by flags, which have an effect or are refused.
func TestDeviceLimits(t *testing.T) {
	m := textModel(t, `in %x: float32[4,4] const %w: float32[4,4] = [1, 2, 3, 4, 0, 1, 0, 1, -1, 0, 2, 0, 1, 1, 1, 1] %p = MatMul(%x, %w) %y = Softmax(%p) out %y`)
	ok(t, "run", m, "--backend", "cuda-sim", "--device", "0", "--device-memory", "1 MiB")
	for _, args := range [][]string{{"run", m}, {"bench", m}, {"inspect", m}} {
		fails(t, exitFailed, []string{"weights of 64, an arena of ", "limit of device memory is 80 bytes", "--device-memory"},
			append(args, "--backend", "cuda-sim", "--device-memory", "80")...)
	}
	o := fails(t, exitFailed, []string{"no plan could be run", "the limit of device memory is 80 bytes"}, "compare", m, "--run", "--json", "--backend", "cuda-sim", "--device-memory", "80")
	assert.Contains(t, o.out, "the limit of device memory is 80 bytes")
	dir := t.TempDir()
	recorded(t, dir, "mlp", 0)
	o = fails(t, exitFailed, []string{"limit of device memory is 80 bytes", "1 of 1 cases could not be run"},
		"verify", dir, "--backend", "cuda-sim", "--device-memory", "80")
	assert.Contains(t, o.out, "0 passed, 1 failed, 0 skipped; 0 data sets run")
	for _, args := range [][]string{{"run", m}, {"bench", m}, {"inspect", m}, {"compare", m}, {"verify", m}} {
		fails(t, exitUsage, []string{"--device has no effect on " + args[0] + " without --backend cuda or cuda-sim"}, append(args, "--device", "1")...)
		fails(t, exitUsage, []string{"--device-memory has no effect on " + args[0]}, append(args, "--device-memory", "1GiB")...)
		for _, number := range []string{"-1", "1", "1000000"} {
			if args[0] != "verify" { // which has no cases here
				fails(t, exitFailed, []string{"there is no GPU " + number + ": the driver finds 0: cuda-sim"}, append(args, "--backend", "cuda-sim", "--device", number)...)
			}
		}
		if args[0] == "compare" {
			args = append(args, "--run")
		}
		fails(t, exitUsage, []string{"--device-memory", "much"}, append(args, "--backend", "cuda-sim", "--device-memory", "much")...)
	}
	fails(t, exitUsage, []string{"--device-memory has no effect on compare without --run", "add --run, or leave it out"}, "compare", m, "--backend", "cuda-sim", "--device-memory", "1GiB")
}

// TestLimitsOfModels: what a model may cost is raised and lowered by the flag that the error names.
func TestLimitsOfModels(t *testing.T) {
	deep := `%y0 = Neg(%x) `
	for i := range 12 {
		deep = fmt.Sprintf(`%%y%d = If(%%c | %%c, %%x) { then_branch: graph "t" { in %%c: bool[] in %%x: float32[2] %s out %%y%d } else_branch: graph "e" { in %%c: bool[] in %%x: float32[2] %%e = Exp(%%x) out %%e } } `, i+1, deep, i)
	}
	path := textModel(t, `in %c: bool[] in %x: float32[2] `+deep+` out %y12`)
	o := fails(t, exitModel, []string{path, "bodies nest deeper than 10", "--limit depth=N"}, "run", path)
	assert.Empty(t, o.out)
	ok(t, "run", path, "--limit", "depth=20")
	fails(t, exitModel, []string{path, "longer than 1 bytes", "--limit name-bytes=N"}, "run", path, "--limit", "depth=20", "--limit", "name-bytes=1")
	fails(t, exitModel, []string{path, "more than 3 nodes", "--limit nodes=N"}, "run", path, "--limit", "depth=20", "--limit", "nodes=3")
	for _, bad := range [][]string{{"--limit", "depth"}, {"--limit", "depth=0"}, {"--limit", "width=3"}, {"--limit", "depth=3", "--limit", "depth=4"}} {
		fails(t, exitUsage, []string{"--limit"}, append([]string{"run", path}, bad...)...)
	}
	fails(t, exitUsage, []string{"--limit has no effect on builtin:mlp"}, "run", "builtin:mlp", "--limit", "nodes=3")
}

// TestDeclaredZero: a dimension that is declared to be 0 is 0.
func TestDeclaredZero(t *testing.T) {
	path := textModel(t, `in %x: float32[0,3] %y = Exp(%x) out %y`)
	for _, port := range []string{"inputs", "outputs"} {
		assert.Equal(t, "float32[0,3]", object(t, ok(t, "inspect", path, "--json"))[port].([]any)[0].(map[string]any)["type"])
	}
	assert.Contains(t, ok(t, "run", path), "float32[0,3]")
	fails(t, exitUsage, []string{"--shape x: the input is float32[0,3]"}, "run", path, "--shape", "x=2x3")
}

// TestOptimizeWithoutOutputs: nothing of a model without outputs would be left, and ONNX Runtime does not open a model without nodes.
func TestOptimizeWithoutOutputs(t *testing.T) {
	path, out := textModel(t, `in %x: float32[2] %y = Exp(%x) out `), filepath.Join(t.TempDir(), "o.onnx")
	fails(t, exitModel, []string{path, "the model has no outputs"}, "optimize", path, "-o", out)
	fails(t, exitModel, []string{path, "the model has no outputs"}, "optimize", path, "-o", out, "--no-verify", "--no-compare")
	absent(t, out)
	ok(t, "inspect", path)
}

// TestErrorsNameTheFileOnce: whatever goes wrong where, the model's file is named, and once.
func TestErrorsNameTheFileOnce(t *testing.T) {
	path := shareddata.Path(t, "models", "vit_mini", "model.onnx")
	out := filepath.Join(t.TempDir(), "o.onnx")
	for _, budget := range []string{"1B", "12MB", "20MB"} {
		for _, command := range [][]string{{"optimize", path, "-o", out, "--no-compare"}, {"run", path}} {
			o := cli(t, append(command, "--max-memory", budget)...)
			if o.code != exitDone {
				assert.Equal(t, 1, strings.Count(o.err, path), "%s: %s", budget, o.err)
				assert.Contains(t, o.err, "--max-memory")
			}
		}
	}
}

// TestWatch: a command that stays busy after its context has ended is ended with its process, and its temporary folders go;
// one that ends is left alone.
func TestWatch(t *testing.T) {
	ended := make(chan int, 2)
	endProcess = func(code int) { ended <- code }
	defer func() { endProcess = nil }()
	var errOut strings.Builder
	a := &app{errOut: &errOut, temporary: new(folders), ending: new(ending), timeout: time.Second}
	dir, _, err := a.temporary.make(t.Context())
	require.NoError(t, err)

	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	a.ctx = ctx
	a.watch(ctx)
	assert.Equal(t, exitFailed, <-ended)
	assert.NoDirExists(t, dir)
	assert.Equal(t, "berth: stopped after 1s (--timeout)\n", errOut.String())

	ctx, cancel = context.WithCancel(t.Context())
	assert.True(t, a.watch(ctx)())
	cancel()
	assert.Empty(t, ended)
}

// TestWatchWaits: work that is to be finished is, however long it takes, and the end is told of once.
func TestWatchWaits(t *testing.T) {
	ended := make(chan int, 1)
	endProcess = func(code int) { ended <- code }
	defer func() { endProcess = nil }()
	var errOut strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	a := &app{errOut: &errOut, temporary: new(folders), ending: new(ending), ctx: ctx}
	a.ending.finishing.Lock()
	a.watch(ctx)
	cancel()
	time.Sleep(2 * grace)
	require.Empty(t, ended)
	a.sayEnded()
	a.ending.finishing.Unlock()
	assert.Equal(t, exitFailed, <-ended)
	assert.Equal(t, "berth: interrupted\n", errOut.String())
}

// TestRandomArrayEnds: a context ends making inputs, whose shape a file says.
func TestRandomArrayEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := randomArray(ctx, ndarray.Float32, []int{4}, 1, 1)
	require.ErrorIs(t, err, context.Canceled)
	seen := 0
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	for range elements(ctx, 1<<30) {
		if seen++; seen == 10 {
			cancel()
		}
	}
	assert.Equal(t, 1<<16, seen)
}
