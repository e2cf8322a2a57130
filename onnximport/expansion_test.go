package onnximport

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// TestFunctionsThatMultiply: functions that call each other twice are counted before any
// call is written out.
func TestFunctionsThatMultiply(t *testing.T) {
	large := 1 << min(40, strconv.IntSize-2)
	for _, c := range []struct {
		deep, limit int
		want        string
	}{
		{4, 31, ""},
		{4, 29, "more than 29 nodes once the calls of its functions are written out"},
		{14, 0, ""},
		{40, 0, "more than 500000 nodes"},
		{60, large, fmt.Sprintf("more than %d nodes", large)},
	} {
		fs := []*onnxwire.Function{function("f0", "a", "r", wnode("Neg", "a", "b"), wnode("Neg", "b", "r"))}
		for i := 1; i < c.deep; i++ {
			call := fmt.Sprintf("f%d", i-1)
			fs = append(fs, function(fmt.Sprintf("f%d", i), "a", "r", in("f", wnode(call, "a", "b")), in("f", wnode(call, "b", "r"))))
		}
		m := callModel("o", fs, in("f", wnode(fmt.Sprintf("f%d", c.deep-1), "x", "o")))
		_, err := FromModel(m, "", Options{Limits: Limits{Nodes: c.limit}})
		if c.want == "" {
			require.NoError(t, err, "%d deep", c.deep)
			continue
		}
		var e *ImportError
		require.ErrorAs(t, err, &e, "%d deep", c.deep)
		require.ErrorContains(t, err, c.want)
		require.Contains(t, e.Remedy, "Limits.Nodes (berth.WithLimits, or Options of onnximport; --limit nodes=N of the command)")
	}
}

// TestFunctionsThatChain: functions that each call the next are refused by the limit of the depth, and counted until the context
// ends.
func TestFunctionsThatChain(t *testing.T) {
	const deep = 200_000
	defer debug.SetMaxStack(debug.SetMaxStack(8 << 20)) // far less than a recursion over all of them takes
	fs := make([]*onnxwire.Function, deep)
	for i := range fs {
		fs[i] = function(fmt.Sprintf("f%d", i), "a", "r", in("f", wnode(fmt.Sprintf("f%d", i+1), "a", "r")))
	}
	m := callModel("o", fs, in("f", wnode("f0", "x", "o")))
	_, err := FromModel(m, "", Options{})
	var e *ImportError
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "calls of functions nest deeper than 64")
	require.Contains(t, e.Remedy, "Limits.CallDepth (berth.WithLimits, or Options of onnximport; --limit call-depth=N of the command)")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = (&expansion{imp: &importer{ctx: ctx, limits: Limits{CallDepth: 1}}, total: map[*onnxwire.Function]int{}}).function(fs[0])
	require.ErrorIs(t, err, context.Canceled)
}

// TestDeepBodies: an If in an If, a thousand deep, is refused by the limit of the depth.
func TestDeepBodies(t *testing.T) {
	n := wnode("Relu", "x", "r0")
	for i := range 1000 {
		then := branch(n.Outputs[0], n)
		otherwise := branch("e", wnode("Neg", "x", "e"))
		n = wnode("If", "c", fmt.Sprintf("r%d", i+1), graphAttr("then_branch", then), graphAttr("else_branch", otherwise))
	}
	m := callModel(n.Outputs[0], nil, n)
	_, err := FromModel(m, "", Options{})
	var e *ImportError
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "bodies nest deeper than 10")
	require.Contains(t, e.Remedy, "Limits.Depth (berth.WithLimits, or Options of onnximport; --limit depth=N of the command)")
}
