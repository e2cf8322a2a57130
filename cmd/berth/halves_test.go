package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
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

// TestExecuted: operations of bodies count as often as they run, those of the larger branch once.
func TestExecuted(t *testing.T) {
	loop := func(operands, state string) string {
		return `in %x: float32[4] in %m: int64[] in %c: bool[] const %n: int64[] = 5 const %t: bool[] = true
			%y = Loop(` + operands + `) { body: graph "b" { in %i: int64[] in %k: bool[] in %p: float32[4] %a = Neg(%p) ` + state + ` } } out %y`
	}
	for _, c := range []struct {
		name, graph string
		want        float64
	}{
		{"straight", `in %x: float32[4] %a = Neg(%x) %y = Neg(%a) out %y`, 8},
		{"an open dimension", `in %x: float32[N] %y = Neg(%x) out %y`, 0},
		{"a loop", loop(`%n, %t, %x`, `out %k, %a`), 20},
		{"a loop of unknown count", loop(`%m, %t, %x`, `out %k, %a`), 4},
		{"a loop that never runs", loop(`%n, %f, %x`, `out %k, %a`), 0},
		{"a scan", `in %x: float32[7,4] in %s: float32[4] %y, %z = Scan(%s, %x) [num_scan_inputs=1] { body: graph "b" { in %p: float32[4] in %q: float32[4] %a = Neg(%p) %b = Neg(%q) out %a, %b } } out %y, %z`, 56},
		{"branches", `in %c: bool[] in %x: float32[4] %y = If(%c | %x) { then_branch: graph "t" { in %v: float32[4] %a = Neg(%v) %b = Neg(%a) out %b } else_branch: graph "e" { in %w: float32[4] %d = Neg(%w) out %d } } out %y`, 8},
	} {
		graph := strings.Replace(c.graph, `const %t`, `const %f: bool[] = false const %t`, 1)
		m, err := berth.Open(saved(t, graph))
		require.NoError(t, err, c.name)
		assert.InDelta(t, c.want, executed(m.Graph()), 0, c.name)
		require.NoError(t, m.Close())
	}
}

// TestLongRunsAreCounted: while a long run lasts, lines tell how far it is; there are none with --json.
func TestLongRunsAreCounted(t *testing.T) {
	defer func(was time.Duration) { progressAfter = was }(progressAfter)
	progressAfter = time.Millisecond
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	hook, end := (&app{errOut: w}).counting("a run")
	hook.Before(t.Context(), berth.Event{})
	lines := bufio.NewScanner(r)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "berth: a run: 1 nodes in 0 s") {
		require.Contains(t, lines.Text(), "berth: a run: 0 nodes")
	}
	end()
	hook, end = (&app{errOut: w, json: true}).counting("a run")
	assert.Nil(t, hook)
	end()
}
