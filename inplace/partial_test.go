package inplace

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

func planned(t testing.TB, g *ssa.Graph) (*planner.Problem, *planner.Solution) {
	f, err := LayParallel(context.Background(), g, liveness.Options{}, Options{})
	require.NoError(t, err)
	p, err := f.Problem(t.Context(), g.Name)
	require.NoError(t, err)
	require.NoError(t, p.Check())
	s, err := planner.Auto{}.Plan(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, planner.Validate(p, s))
	return p, s
}

func TestParallelFolds(t *testing.T) {
	loop := func(body, results string) string {
		return `const %n: int64[] = 5 in %x: float32[4,4] in %w: float32[4,4] const %t: bool[] = true
			%a = MatMul(%x, %w)
			%y = Loop(%n, %t, %a | %w) {
				body: graph "b" {
					in %i: int64[] in %c: bool[] in %p: float32[4,4] in %v: float32[4,4]
					` + body + ` out %c, ` + results + `
				}
			} out %y`
	}
	cases := []struct {
		name, graph string
		buffers     int
		bytes       int64
	}{
		{"a chain of in-place results is one block", `in %x: float32[4,4] %a = Exp(%x) %b = Relu(%a) %c = Neg(%b) out %c`, 1, 64},
		{"two readers without an order: neither may write over", `in %x: float32[4,4] %a = Exp(%x) %b = Relu(%a) %c = Neg(%a) out %b, %c`, 3, 192},
		{"the reader that is last in every order may", `in %x: float32[4,4] in %w: float32[4,4] %a = Exp(%x) %b = MatMul(%a, %w) %c = Add(%a, %b) out %c`, 2, 128},
		{"a result of the graph is not written over", `in %x: float32[4,4] %a = Exp(%x) %b = Relu(%a) out %a, %b`, 2, 128},
		{"operands of a concatenation are made inside", `in %x: float32[4,4] in %w: float32[4,4]
			%a = MatMul(%x, %w) %b = MatMul(%w, %x) %c = Concat(%a, %b) [axis=0] out %c`, 1, 128},
		{"the same operand twice lies inside once", `in %x: float32[4,4] in %w: float32[4,4] %a = MatMul(%x, %w) %c = Concat(%a, %a) [axis=0] out %c`, 1, 128},
		{"alternatives of an If share", `in %k: bool[] in %x: float32[4,4] in %w: float32[4,4]
			%y = If(%k | %x, %w) {
				then_branch: graph "t" { in %p: float32[4,4] in %q: float32[4,4] %b = MatMul(%p, %q) out %b }
				else_branch: graph "e" { in %r: float32[4,4] in %s: float32[4,4] %d = MatMul(%s, %r) out %d }
			} out %y`, 1, 64},
		{"a chain of results in place of each other, whatever else reads before", `in %x: float32[4,4] in %w: float32[4,4]
			%a = Exp(%x) %m = MatMul(%a, %w) %b = Add(%a, %m) %c = Relu(%b) out %c`, 2, 128},
		{"the same operand of two concatenations lies in one of them", `in %x: float32[4,4] in %w: float32[4,4]
			%a = MatMul(%x, %w) %b = MatMul(%w, %x) %c = Concat(%a, %b) [axis=0] %d = Concat(%b, %a) [axis=0] out %c, %d`, 2, 256},
		{"a value that changes over its readers without an order has to wait outside", `in %x: float32[4,4] in %w: float32[4,4]
			%a = MatMul(%x, %w) %b = Exp(%a) %c = MatMul(%a, %w) out %b, %c`, 3, 192},
		{"made in place around a loop, from the initial value on", loop("%b = Neg(%p)", "%b"), 2, 128},
		{"what is read beside needs a second place", loop("%m = ReduceSum(%p) %o = Add(%v, %m) %b = Mul(%v, %v)", "%b"), 6, 256},
		// %s is ready before %q has read what the loop handed on, which lies where %b will.
		{"parts of what a loop hands on are not made in its place while the old one is read", `const %n: int64[] = 5
			in %x: float32[4,4] in %w: float32[4,4] in %z: float32[2,4] const %t: bool[] = true
			%a = MatMul(%x, %w)
			%y = Loop(%n, %t, %a | %w, %z) {
				body: graph "b" {
					in %i: int64[] in %c: bool[] in %p: float32[4,4] in %v: float32[4,4] in %u: float32[2,4]
					%s = MatMul(%u, %v) %q = MatMul(%u, %p) %b = Concat(%s, %q) [axis=0] out %c, %b
				}
			} out %y`, 4, 192},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, s := planned(t, parse(t, c.graph))
			assert.Len(t, p.Buffers, c.buffers)
			assert.Equal(t, c.bytes, s.ArenaBytes)
		})
	}
}

// TestProblemAfterItsSearch: a folding keeps no context. What was folded before the context of the search ended is stated as a whole
// later; the context that ends the statement is its own.
func TestProblemAfterItsSearch(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" {
		in %x: float32[8]
		%a = Relu(%x)
		%b = Exp(%a)
		%c = Add(%a, %b)
		out %c
	}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	search, cancel := context.WithCancel(t.Context())
	_, f, err := Lay(search, g, liveness.Options{}, Options{})
	require.NoError(t, err)
	p, err := LayParallel(search, g, liveness.Options{}, Options{})
	require.NoError(t, err)
	cancel()

	ordered, ids, err := f.Problem(t.Context(), "ordered")
	require.NoError(t, err)
	assert.NotEmpty(t, ordered.Buffers)
	assert.Len(t, ids, len(ordered.Buffers))
	_, _, err = f.Problem(search, "ended")
	require.ErrorIs(t, err, context.Canceled)
	_, err = p.Problem(t.Context(), "any order")
	require.NoError(t, err)
	_, err = p.Problem(search, "ended")
	require.ErrorIs(t, err, context.Canceled)
}
