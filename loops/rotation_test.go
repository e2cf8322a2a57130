package loops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/program"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels/graphgen"
)

// loopText is a graph with a Loop whose body has carried float32[4,4] parameters,
// the given lines, and the given results (without the condition). Each parameter
// begins with a value of its own, made in the graph; preserve reads these values
// once more after the loop.
func loopText(params, lines, results []string, preserve bool) string {
	var b strings.Builder
	b.WriteString("graph \"main\" {\n  in %n: int64[]\n  in %x: float32[4,4]\n  in %w: float32[4,4]\n  in %c: bool[]\n  const %t: bool[] = true\n")
	var inits, outs, after []string
	last := "x"
	for i := range params {
		next := fmt.Sprintf("s%d", i)
		fmt.Fprintf(&b, "  %%%s = MatMul(%%%s, %%w)\n", next, last)
		inits = append(inits, "%"+next)
		last = next
	}
	for i := range results {
		outs = append(outs, fmt.Sprintf("%%o%d", i))
	}
	fmt.Fprintf(&b, "  %s = Loop(%%n, %%t, %s | %%w, %%c) {\n    body: graph \"body\" {\n      in %%i: int64[]\n      in %%k: bool[]\n", strings.Join(outs, ", "), strings.Join(inits, ", "))
	for _, p := range params {
		fmt.Fprintf(&b, "      in %%%s: float32[4,4]\n", p)
	}
	b.WriteString("      in %v: float32[4,4]\n      in %d: bool[]\n")
	for _, l := range lines {
		b.WriteString("      " + l + "\n")
	}
	fmt.Fprintf(&b, "      out %%k, %%%s\n    }\n  }\n", strings.Join(results, ", %"))
	for i, v := range inits {
		if preserve {
			after = append(after, fmt.Sprintf("%%z%d", i))
			fmt.Fprintf(&b, "  %%z%d = Tanh(%s)\n", i, v)
		}
	}
	fmt.Fprintf(&b, "  out %s\n}\n", strings.Join(append(outs, after...), ", "))
	return b.String()
}

func loopGraph(t *testing.T, params, lines, results []string, preserve bool) *ssa.Graph {
	text := loopText(params, lines, results, preserve)
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err, text)
	require.NoError(t, ops.InferGraph(g))
	return g
}

// loopOf is the Loop of such a graph.
func loopOf(t *testing.T, params, lines, results []string) *ssa.Node {
	g := loopGraph(t, params, lines, results, false)
	return g.Nodes[len(g.Nodes)-1]
}

// The vectors of the NNC specification (carry chains), and the corners beside
// them. Where an operator may write over its operand, one place less is enough
// than the specification's rule asks for.
var carryChains = []struct {
	name    string
	params  []string
	lines   []string
	results []string
	period  int // of the last result defined in the body
	ring    int
	prefix  int
}{
	{"y = avg(conv(x)): x dies before y is born", []string{"x0"},
		[]string{"%a = MatMul(%x0, %v)", "%y = MatMul(%a, %v)"}, []string{"y"}, 1, 1, 1},
	{"y = conv(x): both live at the convolution", []string{"x0"},
		[]string{"%y = MatMul(%x0, %v)"}, []string{"y"}, 2, 2, 1},
	{"h = relu(h): in place", []string{"x0"},
		[]string{"%y = Relu(%x0)"}, []string{"y"}, 1, 1, 1},
	{"x2 = x0 + conv(x1), the sum written over x0", []string{"x0", "x1"},
		[]string{"%a = MatMul(%x1, %v)", "%y = Add(%x0, %a)"}, []string{"x1", "y"}, 2, 2, 2},
	{"x2 = conv(x0) conv(x1), nothing in place", []string{"x0", "x1"},
		[]string{"%a = MatMul(%x1, %v)", "%y = MatMul(%x0, %a)"}, []string{"x1", "y"}, 3, 3, 2},
	{"x3 = x0 + f(x1) over a chain of two, the sum written over x0", []string{"x0", "x1", "x2"},
		[]string{"%a = MatMul(%x1, %v)", "%y = Add(%x0, %a)"}, []string{"x1", "x2", "y"}, 3, 3, 3},
	{"x3 = x0 f(x1) over a chain of two, nothing in place", []string{"x0", "x1", "x2"},
		[]string{"%a = MatMul(%x1, %v)", "%y = MatMul(%x0, %a)"}, []string{"x1", "x2", "y"}, 4, 4, 3},
	{"a delay line of four", []string{"x0", "x1", "x2", "x3"},
		[]string{"%y = MatMul(%x0, %v)"}, []string{"x1", "x2", "x3", "y"}, 5, 5, 4},
	{"a delay line of four, in place", []string{"x0", "x1", "x2", "x3"},
		[]string{"%y = Tanh(%x0)"}, []string{"x1", "x2", "x3", "y"}, 4, 4, 4},
	{"a delay line through identities", []string{"x0", "x1"},
		[]string{"%p = Identity(%x1)", "%y = MatMul(%x0, %v)"}, []string{"p", "y"}, 3, 3, 2},
	{"a swap: nothing is written", []string{"a", "b"}, nil, []string{"b", "a"}, 1, 1, 1},
	{"passed through unchanged", []string{"x0"}, nil, []string{"x0"}, 1, 1, 1},
	{"two chains cross: one value is born after its reader, one before", []string{"a", "b"},
		[]string{"%y = MatMul(%a, %v)", "%z = MatMul(%b, %b)"}, []string{"z", "y"}, 2, 2, 1},
	{"a captured value becomes the parameter", []string{"x0"}, nil, []string{"v"}, 1, 1, 1},
	{"two chains with periods two and three", []string{"a", "p", "q"},
		[]string{"%b = MatMul(%a, %v)", "%r = MatMul(%p, %v)"}, []string{"b", "q", "r"}, 3, 6, 2},
	{"both branches make the carried value", []string{"x0"},
		[]string{"%y = If(%d | %x0, %v) {", "then_branch: graph \"t\" {", "in %p1: float32[4,4]", "in %p2: float32[4,4]", "%y1 = MatMul(%p1, %p2)", "out %y1", "}",
			"else_branch: graph \"e\" {", "in %q1: float32[4,4]", "in %q2: float32[4,4]", "%y2 = Add(%q1, %q2)", "out %y2", "}", "}"}, []string{"y"}, 2, 2, 1},
	{"one branch keeps the old value: one place to spare", []string{"x0"},
		[]string{"%y = If(%d | %x0, %v) {", "then_branch: graph \"t\" {", "in %p1: float32[4,4]", "in %p2: float32[4,4]", "%y1 = MatMul(%p1, %p2)", "out %y1", "}",
			"else_branch: graph \"e\" {", "in %q1: float32[4,4]", "in %q2: float32[4,4]", "out %q1", "}", "}"}, []string{"y"}, 2, 2, 1},
}

func TestPeriods(t *testing.T) {
	for _, c := range carryChains {
		t.Run(c.name, func(t *testing.T) {
			r, err := loops.Of(loopOf(t, c.params, c.lines, c.results))
			require.NoError(t, err)
			assert.Equal(t, c.ring, r.Ring, "ring")
			assert.Equal(t, c.prefix, r.Prefix, "prefix")
			last := r.Carries[len(r.Carries)-1].Result
			assert.Equal(t, c.period, r.Period(last), "period")
			assert.Zero(t, r.CopyBytes(), "bytes copied per iteration")
		})
	}
}

// TestValues runs every chain 0, 1, 2, … 2·ring+1 times, with its initial values
// read after the loop and not, in a poisoned arena: the results are those of the
// interpreter, and no carried byte is copied.
func TestValues(t *testing.T) {
	for _, c := range carryChains {
		for _, preserve := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/preserve=%v", c.name, preserve), func(t *testing.T) {
				g := loopGraph(t, c.params, c.lines, c.results, preserve)
				p, err := program.Compile(t.Context(), g, program.Options{})
				require.NoError(t, err)
				assert.Zero(t, p.Report.CopiesPerTrip)
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				for trips := range 2*c.ring + 2 {
					for _, choice := range []bool{false, true} {
						in := []ndarray.Value{ndarray.Of([]int64{int64(trips)}), square(1), square(2), ndarray.Of([]bool{choice})}
						want, err := ops.Interpret(t.Context(), g, in, nil)
						require.NoError(t, err)
						got, err := s.Run(t.Context(), in)
						require.NoError(t, err)
						require.Empty(t, graphgen.Noise.Diff(got, want), "%d iterations", trips)
					}
				}
			})
		}
	}
}

// square is a 4×4 matrix of small numbers that depend on k.
func square(k int) *ndarray.Array {
	v := make([]float32, 16)
	for i := range v {
		v[i] = float32((i*7+k*5)%9-4) / 8
	}
	return ndarray.Of(v, 4, 4)
}

func TestScanOutputsAreWrittenInPlace(t *testing.T) {
	n := loopOf(t, []string{"x0"}, []string{"%y = MatMul(%x0, %v)", "%z = Relu(%y)"}, []string{"y", "y", "z", "z", "x0"})
	r, err := loops.Of(n)
	require.NoError(t, err)
	var window []bool
	for _, s := range r.ScanOuts {
		window = append(window, s.Window)
	}
	assert.Equal(t, []bool{true, true, false, false}, window, "a value goes to one stack in place; further stacks and parameters are copied")
	assert.EqualValues(t, 2*64, r.CopyBytes())
	assert.Equal(t, 1, r.Ring, "a carried value that stays in its stack needs no second place")
}

// A slice that is a view of what the body makes is written in place, too; that a
// value is carried as well as stacked costs nothing.
func TestViewsAreStackedInPlace(t *testing.T) {
	n := loopOf(t, []string{"x0"}, []string{"%y = MatMul(%x0, %v)", "%same = Identity(%y)", "%old = Identity(%x0)"}, []string{"y", "same", "old"})
	r, err := loops.Of(n)
	require.NoError(t, err)
	assert.True(t, r.ScanOuts[0].Window)
	assert.Equal(t, "y", r.ScanOuts[0].Made.Name)
	assert.False(t, r.ScanOuts[1].Window, "a parameter")
	assert.EqualValues(t, 64, r.CopyBytes())
}
