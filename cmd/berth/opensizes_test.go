package main

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ssa"
)

// TestOpenSizes runs models whose open dimensions may not be one.
func TestOpenSizes(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		args        []string
		note        string // on standard error; what is taken
		fails       string // with this text
	}{
		{name: "a window of seven", graph: `in %x: float32[N,1,T] const %w: float32[2,1,7] = splat 1 %y = Conv(%x, %w) out %y`,
			note: "they were taken as --shape x=1x1x16"},
		{name: "a signal without a batch", graph: `in %x: float32[T] const %a: int64[2] = [0, 1] %u = Unsqueeze(%x, %a)
			const %w: float32[2,1,7] = splat 1 %y = Conv(%u, %w) out %y`, note: "they were taken as --shape x=16"},
		{name: "one is enough", graph: `in %x: float32[N,T] %y = Neg(%x) out %y`, note: "they were taken as --shape x=1x1"},
		{name: "what is given stays", graph: `in %x: float32[N,1,T] const %w: float32[2,1,7] = splat 1 %y = Conv(%x, %w) out %y`,
			args: []string{"--shape", "x=1x1x1"}, fails: "the window spans 7"},
		{name: "so does a symbol", graph: `in %x: float32[N,1,T] const %w: float32[2,1,7] = splat 1 %y = Conv(%x, %w) out %y`,
			args: []string{"--dim", "T=3"}, fails: "the window spans 7"},
		{name: "a size that only a weight has", graph: `in %x: float32[N,T] const %w: float32[1575,2] = splat 1 %y = MatMul(%x, %w) out %y`, note: "they were taken as --shape x=1x1575"},
		{name: "two sizes, one after the other", graph: `in %x: float32[N,T] in %z: float32[N,S] const %v: float32[1575,2] = splat 1 const %w: float32[333,2] = splat 1
			%a = MatMul(%x, %v) %b = MatMul(%z, %w) %y = Add(%a, %b) out %y`, note: "they were taken as --shape x=1x1575 --shape z=1x333"},
		{name: "positions of an image's squares", graph: `in %x: float32[N,3,H,W] const %k: float32[8,3,16,16] = splat 0.1 const %e: float32[8,50] = splat 1 const %c: float32[1,1,8] = splat 1
			%a = Conv(%x, %k) [strides=[16, 16]] const %s: int64[3] = [0, 8, -1] %b = Reshape(%a, %s) %t = Transpose(%b) [perm=[0, 2, 1]] %d = Concat(%c, %t) [axis=1] %y = MatMul(%e, %d) out %y`,
			note: "they were taken as --shape x=1x3x112x112"},
		{name: "two that depend on each other", graph: `in %x: float32[T,N,3] const %w: float32[1,16,3] = splat 0.1 const %r: float32[1,16,4] = splat 0.1 const %n: int32[2] = [3, 2]
			%y = LSTM(%x, %w, %r, _, %n) [hidden_size=4] out %y`, note: "they were taken as --shape x=16x2x3"},
		{name: "a symbol twice in an input", graph: `in %x: float32[B,S,S] const %w: float32[7,2] = splat 1 %y = MatMul(%x, %w) out %y`, note: "they were taken as --shape x=1x7x7"},
		{name: "a symbol that is last in one of two inputs", graph: `in %x: float32[B,S,T] in %z: float32[B,S] const %w: float32[7,2] = splat 1 %a = MatMul(%z, %w) %y = Mul(%x, %x) out %a, %y`,
			note: "--shape z=1x7"},
		{name: "no size of a symbol that stands twice", graph: `in %x: float32[B,S,S] const %w: float32[7,2] = splat 1 const %v: float32[6,2] = splat 1 %a = MatMul(%x, %w) %b = MatMul(%x, %v) %y = Add(%a, %b) out %y`,
			fails: "the sizes of x are open and were guessed: give them with --shape or --dim"},
		{name: "no size does", graph: `in %x: float32[N,T] const %w: float32[1575,2] = splat 1 const %v: float32[1574,2] = splat 1 %a = MatMul(%x, %w) %b = MatMul(%x, %v) %y = Add(%a, %b) out %y`,
			fails: "the sizes of x are open and were guessed: give them with --shape or --dim"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.graph + ` }`)
			require.NoError(t, err)
			path := filepath.Join(t.TempDir(), "open.onnx")
			require.NoError(t, berth.FromModule(&ssa.Module{Graph: g}).Save(path, berth.SaveOptions{}))
			for _, cmd := range [][]string{{"run", path}, {"bench", path, "--seconds", "0"}, {"diff", path, path}} {
				args := append(cmd, c.args...)
				if c.fails != "" {
					fails(t, exitFailed, []string{c.fails}, args...)
					continue
				}
				o := cli(t, args...)
				require.Zero(t, o.code, o.err)
				assert.Contains(t, o.err, c.note)
			}
		})
	}
}

// TestOptimizeDraws: inputs are drawn such that loops run, indices and sizes fit, and sequences and optional values are there; others are tried, too. What was drawn is told.
func TestOptimizeDraws(t *testing.T) {
	const frames = `%a, %b = Loop(%n, _, %x, %e) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2,4] in %s: seq(float32[2,4]) const %w: float32[4,4] = splat 0.25
		%q = MatMul(%p, %w) %r = Tanh(%q) %t = SequenceInsert(%s, %r) out %c, %r, %t } }`
	for _, c := range []struct{ name, graph, drawn, also, refused string }{
		{"frames of a decoder", `in %x: float32[2,4] in %n: int64[] %e = SequenceEmpty() ` + frames + ` %y = ConcatFromSequence(%b) [axis=0] out %y`, "n = 3 (a count for Loop)", "n = 7", "n = 0"},
		{"positions", `in %n: int64[] const %z: int64[] = 0 const %o: int64[] = 1 %r = Range(%z, %n, %o) %y = Mul(%r, %r) out %y`, "n = 3 (a count for Range)", "n = 7; n = 0", ""},
		{"sizes of an image", `in %x: float32[1,2,4,4] in %s: int64[4] %y = Resize(%x, _, _, %s) [mode="linear"] out %y`, "s = 1 … 8 (sizes for Resize)", "", ""},
		{"the last row", `in %i: int64[3] in %x: float32[9,4] %y = Gather(%x, %i) out %y`, "(indices for Gather)", "i = 8; i = 0", ""},
		{"a divisor of sizes", `in %h: int64[] in %x: float32[6,4] const %a: int64[1] = [0] const %m: int64[1] = [-1] %u = Unsqueeze(%h, %a) %s = Concat(%u, %m) [axis=0] %y = Reshape(%x, %s) out %y`, "h = 1 (sizes for Reshape)", "", ""},
		{"no count of three", `in %k: int64[1] in %x: float32[2,2] %v, %i = TopK(%x, %k) out %v, %i`, "k = 1 (a count for TopK)", "k = 0", "k = 7"},
		{"a sequence", `in %x: seq(float32[2,N]) %y = ConcatFromSequence(%x) [axis=0] out %y`, "x: a sequence of 3", "floats x 1000; floats x 0.001; x: a sequence of 1", "x: a sequence of 0"},
		{"a sequence of any rank", `in %x: seq(float32[...]) in %i: int64[] %n = SequenceLength(%x) %y = Add(%n, %i) out %y`, "x: a sequence of 3", "x: a sequence of 1; x: a sequence of 0", ""},
		{"an optional input", `in %x: float32[2] in %b: opt(float32[2]) %h = OptionalHasElement(%b) %y = If(%h | %x, %b) {
			then_branch: graph "t" { in %p: float32[2] in %o: opt(float32[2]) %g = OptionalGetElement(%o) %a = Add(%p, %g) out %a }
			else_branch: graph "e" { in %p: float32[2] in %o: opt(float32[2]) %m = Neg(%p) out %m } } out %y`, "b: present", "b: absent", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := saved(t, c.graph)
			out := ok(t, "optimize", path, "-o", path+".opt", "--no-compare")
			assert.Regexp(t, `drawn: .*`+regexp.QuoteMeta(c.drawn), out)
			assert.Contains(t, out, "verified: same outputs")
			if c.also != "" {
				assert.Regexp(t, `also: .*`+regexp.QuoteMeta(c.also), out)
			}
			if c.refused != "" {
				assert.Regexp(t, `refused: .*`+regexp.QuoteMeta(c.refused), out)
			}
			o := cli(t, "run", path)
			require.Equal(t, exitDone, o.code, o.err)
			assert.Contains(t, o.err, c.drawn)
			if c.name == "positions" {
				assert.Contains(t, cli(t, "compare", path, "--run").err, c.drawn)
			}
		})
	}
}

// TestOptimizeEmptyOutput: an output that has no element with any input is compared by its type and shape alone.
func TestOptimizeEmptyOutput(t *testing.T) {
	for _, c := range []struct {
		graph string
		says  string
		code  int
	}{
		{`in %x: float32[0,4] %y = Neg(%x) out %y`, "verified: same outputs", exitDone},
		{`in %x: float32[0,4] in %s: int64[2] %y = Reshape(%x, %s) [allowzero=1] out %y`, "verified: same outputs", exitDone},
		{`in %x: float32[1,4] %z = Sub(%x, %x) %y = NonZero(%z) out %y`, "verified: in part", exitDone},                                                       // what NonZero reads is compared
		{`in %x: float32[0,4] in %w: float32[4] %n = ReduceMean(%x) [keepdims=0] %y = Sqrt(%n) %z = Neg(%y) out %z`, "no output has an element", exitDiffers}, // NaN
	} {
		path := saved(t, c.graph)
		o := cli(t, "optimize", path, "-o", path+".opt", "--no-compare")
		assert.Equal(t, c.code, o.code, c.graph)
		assert.Contains(t, o.out+o.err, c.says, c.graph)
	}
}

// TestDimOfMembers: --dim also fixes a dimension of the members of a sequence, whose shape --shape can not set.
func TestDimOfMembers(t *testing.T) {
	path := saved(t, `in %x: seq(float32[2,N]) %y = ConcatFromSequence(%x) [axis=0] out %y`)
	assert.Contains(t, ok(t, "run", path, "--dim", "N=5"), "float32[6,5]")
	fails(t, exitUsage, []string{"--shape x: the input is seq(float32[2,N])"}, "run", path, "--shape", "x=2x5")
}

// TestOptimizeEndless: a loop that never ends once its condition, an input, is true is compared with a false one; the other is told as refused.
func TestOptimizeEndless(t *testing.T) {
	path := saved(t, `in %x: float32[4] in %c: bool[] %y = Loop(_, %c, %x) { body: graph "b" { in %i: int64[] in %k: bool[] in %v: float32[4] %same = Identity(%k) %w = Neg(%v) out %same, %w } } out %y`)
	out := ok(t, "optimize", path, "-o", path+".opt", "--no-compare", "--timeout", "20s")
	assert.Contains(t, out, "the loop never ends")
	assert.Contains(t, out, "not run:  body of Loop")
}
