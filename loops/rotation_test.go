package loops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// loopText is a graph with a Loop whose body has carried float32[4,4] parameters,
// the given lines, and the given results (without the condition); results past the
// parameters are stacked. Each parameter begins with a value of its own, made in the
// graph; preserve reads these values once more after the loop.
//
// The loop ends after %n iterations, or after the first one whose number is not below
// %e. A body may read %v and %d, which are %w and %c outside.
func loopText(params, lines, results []string, preserve bool) string {
	var b strings.Builder
	b.WriteString("graph \"main\" {\n  in %n: int64[]\n  in %e: int64[]\n  in %x: float32[4,4]\n  in %w: float32[4,4]\n  in %c: bool[]\n  const %t: bool[] = true\n")
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
	fmt.Fprintf(&b, "  %s = Loop(%%n, %%t, %s | %%w, %%c, %%e) {\n    body: graph \"body\" {\n      in %%i: int64[]\n      in %%k: bool[]\n", strings.Join(outs, ", "), strings.Join(inits, ", "))
	for _, p := range params {
		fmt.Fprintf(&b, "      in %%%s: float32[4,4]\n", p)
	}
	b.WriteString("      in %v: float32[4,4]\n      in %d: bool[]\n      in %end: int64[]\n")
	for _, l := range lines {
		b.WriteString("      " + l + "\n")
	}
	fmt.Fprintf(&b, "      %%on = Less(%%i, %%end)\n      out %%on, %%%s\n    }\n  }\n", strings.Join(results, ", %"))
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
