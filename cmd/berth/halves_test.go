package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// halfLayers is a network of so many layers tanh(x W * s + b) over 16 channels, with its numbers rounded to a type. change may change a number before
// that: of a weight (w), scale (s) or offset (b), of a layer and a channel of the result.
func halfLayers(t *testing.T, dtype string, depth int, change func(what byte, layer, channel int, x float64) float64) *berth.Model {
	r := rand.New(rand.NewPCG(uint64(depth), 7))
	var text strings.Builder
	list := func(what byte, layer, n int, draw func() float64) {
		numbers := make([]string, n)
		for i := range numbers {
			x := draw()
			if change != nil {
				x = change(what, layer, i%16, x)
			}
			numbers[i] = fmt.Sprint(x)
		}
		shape := map[bool]string{true: "16,16", false: "16"}[n == 256]
		fmt.Fprintf(&text, "const %%%c%d: %s[%s] = [%s] ", what, layer, dtype, shape, strings.Join(numbers, ", "))
	}
	fmt.Fprintf(&text, `graph "g" { in %%h0: %s[N,16] `, dtype)
	for i := range depth {
		list('w', i, 256, func() float64 { return r.NormFloat64() / 3 })
		list('s', i, 16, func() float64 { return 0.5 + r.Float64() })
		list('b', i, 16, r.NormFloat64)
		fmt.Fprintf(&text, "%%p%d = MatMul(%%h%d, %%w%d) %%q%d = Mul(%%p%d, %%s%d) %%r%d = Add(%%q%d, %%b%d) %%h%d = Tanh(%%r%d) ", i, i, i, i, i, i, i, i, i, i+1, i)
	}
	fmt.Fprintf(&text, "out %%h%d }", depth)
	g, err := ssa.ParseGraph(text.String())
	require.NoError(t, err)
	return berth.FromModule(&ssa.Module{Graph: g})
}

// TestHalves: rewrites of models in 16-bit floats pass, although they exceed the tolerance; wrong ones do not.
func TestHalves(t *testing.T) {
	at := func(where string, layer, channel int, times, plus float64) func(byte, int, int, float64) float64 {
		return func(what byte, l, c int, x float64) float64 {
			if what == where[0] && l == layer && c == channel {
				x = x*times + plus
			}
			return x
		}
	}
	for _, c := range []struct {
		name   string
		dtype  string
		depth  int
		wrong  func(byte, int, int, float64) float64 // nil: what the passes make
		strict bool                                  // with a tolerance given
		want   bool
	}{
		{name: "rewritten", dtype: "float16", depth: 1, want: true},
		{name: "rewritten", dtype: "float16", depth: 6, want: true},
		{name: "rewritten", dtype: "float16", depth: 24, want: true},
		{name: "rewritten", dtype: "bfloat16", depth: 1, want: true},
		{name: "rewritten", dtype: "bfloat16", depth: 12, want: true},
		{name: "a tolerance is given", dtype: "float16", depth: 6, strict: true},
		{name: "a scale off by 2%", dtype: "float16", depth: 1, wrong: at("s", 0, 7, 1.02, 0)},
		{name: "a scale off by 2% in the last layer", dtype: "float16", depth: 6, wrong: at("s", 5, 3, 1.02, 0)},
		{name: "a scale off by 5% in the first layer", dtype: "float16", depth: 6, wrong: at("s", 0, 3, 1.05, 0)},
		{name: "an offset off by 0.02", dtype: "float16", depth: 6, wrong: at("b", 5, 2, 1, 0.02)},
		{name: "weights of a channel off by 3%", dtype: "float16", depth: 6, wrong: at("w", 4, 0, 1.03, 0)},
		{name: "a weight of the last layer lost", dtype: "float16", depth: 24, wrong: at("b", 23, 2, 0, 0)},
		{name: "a scale off by 10%", dtype: "bfloat16", depth: 2, wrong: at("s", 1, 3, 1.1, 0)},
		{name: "an offset lost", dtype: "bfloat16", depth: 12, wrong: at("b", 10, 2, 0, 0)},
	} {
		t.Run(fmt.Sprintf("%s, %s, %d", c.name, c.dtype, c.depth), func(t *testing.T) {
			m := halfLayers(t, c.dtype, c.depth, nil)
			other, _, err := m.Optimize(t.Context())
			if c.wrong != nil {
				other, err = halfLayers(t, c.dtype, c.depth, c.wrong), nil
			}
			require.NoError(t, err)
			a := &app{out: io.Discard, errOut: io.Discard, ctx: t.Context(), shapes: map[string][]int{}, dims: map[string]int64{}}
			var f optimizeFlags
			f.tolerance.Rtol, f.tolerance.Atol, f.given = 1e-5, 1e-5, c.strict
			var res optimizeJSON
			require.NoError(t, a.newVerification(m, other, nil, f, &res).run(t.Context()))
			assert.Equal(t, c.want, res.Verified, "%s (largest difference %g)", res.Note, res.MaxDiff)
			if c.want {
				assert.Contains(t, res.Note, "against float32", "the tolerance alone decided")
			}
			if !c.want {
				f.unchecked = true
				assert.ErrorContains(t, a.verdict(&res, f), "outputs differ", "also with --allow-unverified")
			}
		})
	}
}

// TestHalvesWidened: types, constants and attributes of every kind, in bodies as well.
func TestHalvesWidened(t *testing.T) {
	path := saved(t, `in %x: float16[N,4] in %c: bool[] const %k: float16[4] = [0.1, 0.2, 0.3, 0.4] const %o: float16[] = 1
		%f = Cast(%x) [to=1] %g = Exp(%f) %h = Cast(%g) [to=10]
		%y = If(%c | %h) {
			then_branch: graph "t" { in %p: float16[N,4] const %w: float16[4] = [0.1, 0.2, 0.3, 0.4] %a = Mul(%p, %w) out %a }
			else_branch: graph "e" { in %p: float16[N,4] %s = Shape(%p) %z = ConstantOfShape(%s) [value=tensor(float16[1] = [3])] %b = Add(%p, %z) out %b } }
		%u = Mul(%y, %k) %v = Div(%u, %o) out %v`)
	m, err := berth.Open(path)
	require.NoError(t, err)
	defer m.Close()
	v := verification{a: &app{threads: 1}, m: m, precision: leastPrecise(m.Graph())}
	wide := v.widened(m, 1)
	defer wide.Close()
	assert.NotContains(t, wide.Graph().String(), "float16")
	ok(t, "optimize", path, "-o", filepath.Join(t.TempDir(), "o.onnx"), "--no-compare")
}

// TestNudges: what rounding makes in an output is the most of all runs with constants rounded otherwise, and each way rounds others up.
func TestNudges(t *testing.T) {
	of := func(x ...float64) *ndarray.Array { return ndarray.Of(x, len(x)) }
	const unit = 0x1p-24
	v, y := &verification{}, of(1)
	original, result := of(1+2*unit), of(1+60*unit)
	for name, c := range map[string]struct {
		nudged []*ndarray.Array
		pass   bool
	}{
		"no run":                    {nil, false},
		"a small sample":            {[]*ndarray.Array{of(1 + 5*unit)}, false},
		"a large one among several": {[]*ndarray.Array{of(1 + 5*unit), of(1 - 14*unit)}, true},
		"one that did not run":      {[]*ndarray.Array{nil, of(1 + 14*unit)}, true},
	} {
		_, pass := v.outputAsAccurate(result, original, wideTensors{y, y, c.nudged})
		assert.Equal(t, c.pass, pass, name)
	}
	x := ndarray.Of([]float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, 8)
	seen := map[string]bool{}
	for nudge := range mostNudges + 1 {
		a, err := widening{to: ndarray.Float64, nudge: nudge}.array(x)
		require.NoError(t, err)
		text := fmt.Sprint(slices.Collect(func(yield func(float64) bool) {
			for i := range a.Len() {
				yield(a.Float(i))
				require.InEpsilon(t, x.Float(i), a.Float(i), 1.01*unit)
			}
		}))
		require.False(t, seen[text], "nudge %d", nudge)
		seen[text] = true
	}
}

// spoil makes the reference kernel of an operator wrong until the test ends: it adds 1 to the first element of its first result.
func spoil(t *testing.T, op string) {
	t.Helper()
	o := ops.Lookup("", op)
	right := o.Eval
	t.Cleanup(func() { o.Eval = right })
	o.Eval = func(c *ops.Call) error { return spoilt(c, right(c)) }
}

func spoilt(c *ops.Call, err error) error {
	if a, ok := c.Out[0].(*ndarray.Array); ok && err == nil && a.Len() > 0 {
		a.SetFloat(0, a.Float(0)+1)
	}
	return err
}

// Models whose constants folding computes: weights, a mask, a branch, what follows from a shape.
const (
	foldedWeights = `in %x: float32[2,4] const %u: float32[4,4] = splat 0.25 const %v: float32[4,4] = splat 0.5
		%w = Mul(%u, %v) %y = MatMul(%x, %w) out %y`
	foldedMask   = `in %x: float32[4,4] const %u: float32[4,4] = splat 2 %w = Trilu(%u) [upper=0] %y = Add(%x, %w) out %y`
	foldedBranch = `in %x: float32[N,4] in %c: int64[] const %k: int64[] = 7000 %e = Equal(%c, %k)
		%y = If(%e | %x) {
			then_branch: graph "t" { in %p: float32[N,4] const %s: float32[4] = [1, 2, 3, 4] %n = Neg(%s) %b = Add(%p, %n) out %b }
			else_branch: graph "e" { in %p: float32[N,4] %b = Abs(%p) out %b } } out %y`
	foldedShape = `in %x: float32[2,4] %s = Shape(%x) const %two: int64[] = 2 %d = Mul(%s, %two) %f = Cast(%d) [to=1]
		const %one: float32[2] = [1, 1] %g = Add(%f, %one) %r = ReduceSum(%x) [keepdims=0] %y = Add(%g, %r) out %y`
	foldedSearch = `in %x: float32[6] const %m: float32[6] = [0, 1, 0, 2, 3, 0] %i = NonZero(%m) const %s: int64[1] = [3]
		%j = Reshape(%i, %s) %y = Gather(%x, %j) out %y`
)

// TestSpoiltFolding: a reference kernel that is wrong makes a wrong constant of the result and of the folded original alike.
func TestSpoiltFolding(t *testing.T) {
	for _, c := range []struct {
		name, graph, op string
		same            any // operators that only one kernel computes
		refused         bool
	}{
		{"weights", foldedWeights, "Mul", nil, true},
		{"a mask", foldedMask, "Trilu", nil, true},
		{"a branch that a later input enters", foldedBranch, "Neg", nil, true},
		{"behind a shape", foldedShape, "Cast", nil, true},
		{"only one kernel", foldedSearch, "NonZero", []any{"NonZero", "Reshape"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := saved(t, c.graph)
			out := filepath.Join(t.TempDir(), "o.onnx")
			args := []string{"optimize", path, "-o", out, "--no-compare", "--json"}
			folding := object(t, ok(t, args...))["folding"].(map[string]any)
			assert.Equal(t, true, folding["checked"])
			assert.Positive(t, folding["nodes"])
			assert.Equal(t, c.same, folding["same_kernels"], "the report says what was not computed in another way")
			spoil(t, c.op)
			args[3] = out + ".2"
			if !c.refused {
				ok(t, args...)
				return
			}
			o := cli(t, args...)
			assert.Equal(t, exitDiffers, o.code)
			assert.Contains(t, o.err, "with nothing folded, the model itself gives other outputs than folded")
			absent(t, args[3])
		})
	}
}

// TestFoldingTold: the lines that say how far constants were checked.
func TestFoldingTold(t *testing.T) {
	for _, c := range []struct{ name, graph, want string }{
		{"other kernels", foldedWeights, "folding:  nodes folded: 1; the same outputs with nothing folded and other kernels\n"},
		{"one kernel", foldedSearch, "folding:  nodes folded: 2; the same outputs with nothing folded; only one kernel computes NonZero, Reshape\n"},
	} {
		path := saved(t, c.graph)
		assert.Contains(t, ok(t, "optimize", path, "-o", path+".opt", "--no-compare"), c.want, c.name)
	}
	path := saved(t, linear)
	assert.NotContains(t, ok(t, "optimize", path, "-o", path+".opt", "--no-compare"), "folding:")
}

// verified compares a model with what is to be its optimized form.
func verified(t *testing.T, m, opt *berth.Model) (res optimizeJSON) {
	t.Helper()
	a := &app{out: io.Discard, errOut: io.Discard, ctx: t.Context(), shapes: map[string][]int{}, dims: map[string]int64{}}
	var f optimizeFlags
	f.tolerance.Rtol, f.tolerance.Atol = 1e-3, 1e-4
	require.NoError(t, a.newVerification(m, opt, nil, f, &res).run(t.Context()))
	return res
}

// TestSpoiltResults: what rewriting, kernels of joined nodes or plans may get wrong is seen.
func TestSpoiltResults(t *testing.T) {
	model := func(weight, offset, activation string) *berth.Model {
		list := weight
		for i := range 63 {
			list += fmt.Sprintf(", %g", float64(i%7-3)/8)
		}
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[N,8] const %w: float32[8,8] = [` + list + `] const %b: float32[8] = splat ` + offset +
			` %p = MatMul(%x, %w) %q = Add(%p, %b) %y = ` + activation + `(%q) out %y }`)
		require.NoError(t, err)
		return berth.FromModule(&ssa.Module{Graph: g})
	}
	m := model("0.5", "0.125", "Relu")
	require.True(t, verified(t, m, model("0.5", "0.125", "Relu")).Verified)
	for _, c := range []struct{ name, weight, offset, activation string }{
		{"a weight", "0.55", "0.125", "Relu"},
		{"a weight by little", "0.50002", "0.125", "Relu"},
		{"an offset", "0.5", "0.25", "Relu"},
		{"another activation", "0.5", "0.125", "Abs"},
		{"no activation", "0.5", "0.125", "Identity"},
	} {
		assert.False(t, verified(t, m, model(c.weight, c.offset, c.activation)).Verified, c.name)
	}
	t.Run("an epilogue", func(t *testing.T) {
		for _, name := range []string{"MatMul", "Gemm", fused.Name} {
			o := ops.Lookup(fused.Domain, name)
			t.Cleanup(func() { o.Prepare = nil })
			o.Prepare = func(*ssa.Node) (ops.Kernel, error) {
				return ops.KernelFunc(func(c *ops.Call) error { return spoilt(c, ops.Eval(c)) }), nil
			}
		}
		assert.False(t, verified(t, m, model("0.5", "0.125", "Relu")).Verified)
	})
}

// TestSpoiltPlans: a plan in a file that puts everything at one place is not run.
func TestSpoiltPlans(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "o.onnx")
	ok(t, "optimize", "builtin:unet", "-o", path, "--no-compare")
	m, err := berth.Open(path)
	require.NoError(t, err)
	defer m.Close()
	kept, err := base64.RawStdEncoding.DecodeString(m.Metadata().Properties[berth.PlanKey])
	require.NoError(t, err)
	head := 9 // version and fingerprint
	for range 2 {
		_, n := binary.Uvarint(kept[head:])
		head += n // arena, buffers
	}
	clear(kept[head:])
	wrong := filepath.Join(dir, "wrong.onnx")
	require.NoError(t, m.Save(wrong, berth.SaveOptions{Metadata: map[string]string{berth.PlanKey: base64.RawStdEncoding.EncodeToString(kept)}}))
	w, err := berth.Open(wrong)
	require.NoError(t, err)
	defer w.Close()
	require.NotEqual(t, m.Metadata().Properties[berth.PlanKey], w.Metadata().Properties[berth.PlanKey])
	for of, want := range map[*berth.Model]bool{m: true, w: false} {
		p, err := of.Compile(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, p.Plan().Planner == "saved", p.Plan().Planner)
	}
	assert.True(t, verified(t, m, w).Verified)
}
