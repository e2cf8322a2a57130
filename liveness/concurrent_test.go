package liveness_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// meet reports whether two blocks, with all they hold from one iteration to the next,
// are alive together in some schedule.
func meet(c *liveness.Concurrent, a, b int) bool {
	x, y := touches(c, a), touches(c, b)
	return !c.Deps.Follows(c.Deps.Heads(x), c.Deps.Tails(y)) && !c.Deps.Follows(c.Deps.Heads(y), c.Deps.Tails(x))
}

// touches are the steps that touch anything that may lie in a block.
func touches(c *liveness.Concurrent, block int) (steps []int) {
	for v := range c.Vars {
		if slices.Contains(c.Roots(v), block) {
			steps = append(steps, c.Touches[v]...)
		}
	}
	return steps
}

func graphOf(t testing.TB, text string) *ssa.Graph {
	g, err := ssa.ParseGraph("graph \"g\" {\n" + text + "\n}\n")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return g
}

func TestConcurrentBlocks(t *testing.T) {
	loop := func(body, results string) string {
		return `const %n: int64[] = 5 in %x: float32[4,4] in %w: float32[4,4] const %t: bool[] = true
			%a = MatMul(%x, %w)
			%y, %z = Loop(%n, %t, %a, %x | %w) {
				body: graph "b" {
					in %i: int64[] in %c: bool[] in %p: float32[4,4] in %q: float32[4,4] in %v: float32[4,4]
					` + body + ` out %c, ` + results + `
				}
			}
			%e = Exp(%y) out %e, %z`
	}
	cases := []struct {
		name, graph string
		places      map[string]int
		meet, apart [][2]string
	}{
		{"branches without an order meet", `in %x: float32[4,4] in %w: float32[4,4]
			%a = MatMul(%x, %w) %b = MatMul(%a, %w) %c = MatMul(%x, %w) %d = MatMul(%c, %w) %e = MatMul(%b, %d) out %e`,
			nil, [][2]string{{"a", "c"}, {"a", "d"}, {"b", "c"}, {"a", "b"}, {"b", "e"}}, [][2]string{{"a", "e"}, {"c", "e"}}},
		{"a view keeps its source", `in %x: float32[4,4] in %w: float32[4,4] const %s: int64[1] = [16]
			%a = MatMul(%x, %w) %v = Reshape(%a, %s) %b = Exp(%a) %c = MatMul(%b, %w) %d = ReduceSum(%v) %e = Add(%c, %d) out %e`,
			nil, [][2]string{{"a", "b"}, {"a", "c"}, {"a", "d"}}, [][2]string{{"a", "e"}}},
		{"branches of an If do not", `in %k: bool[] in %x: float32[4,4] in %w: float32[4,4]
			%a = Exp(%x)
			%y = If(%k | %a, %w) {
				then_branch: graph "t" { in %p: float32[4,4] in %q: float32[4,4] %b = MatMul(%p, %q) %c = MatMul(%b, %q) out %c }
				else_branch: graph "e" { in %r: float32[4,4] in %s: float32[4,4] %d = MatMul(%r, %s) %f = MatMul(%d, %s) out %f }
			}
			%z = Exp(%y) out %z`,
			nil, [][2]string{{"a", "b"}, {"a", "d"}, {"b", "c"}, {"d", "f"}}, [][2]string{{"b", "d"}, {"b", "f"}, {"a", "z"}, {"b", "z"}}},
		{"a product can not go over what it reads", loop("%b = MatMul(%p, %v)", "%b, %q"), map[string]int{"b": 2},
			[][2]string{{"a", "b"}, {"b", "e"}}, [][2]string{{"a", "e"}}},
		{"what is read before it is made again needs one place", loop("%m = MatMul(%p, %v) %b = MatMul(%m, %v)", "%b, %q"), map[string]int{"b": 1, "m": 1},
			[][2]string{{"a", "m"}, {"b", "m"}}, nil},
		{"what may be read later needs two, whatever the given order", loop("%m = MatMul(%p, %v) %o = Exp(%q) %b = MatMul(%o, %v)", "%b, %m"), map[string]int{"b": 2, "m": 2},
			[][2]string{{"b", "o"}}, nil},
		{"the initial value ends with its readers", loop("%m = MatMul(%p, %v) %o = MatMul(%m, %v) %b = MatMul(%o, %v)", "%b, %q"), nil,
			[][2]string{{"a", "m"}}, [][2]string{{"a", "o"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := liveness.BuildConcurrent(context.Background(), graphOf(t, c.graph), liveness.Options{Windows: true})
			require.NoError(t, err)
			index := map[string]int{}
			for i, x := range p.Vars {
				if x.Kind == liveness.Block {
					index[x.Value.Name] = i
				}
			}
			for name, n := range c.places {
				assert.Equal(t, n, p.Places(index[name]), name)
			}
			for _, m := range c.meet {
				assert.True(t, meet(p, index[m[0]], index[m[1]]), "%v meet", m)
			}
			for _, m := range c.apart {
				assert.False(t, meet(p, index[m[0]], index[m[1]]), "%v are apart", m)
			}
		})
	}
}

func TestConcurrentExclusive(t *testing.T) {
	p, err := liveness.BuildConcurrent(context.Background(), graphOf(t, `in %k: bool[] in %x: float32[4,4] in %w: float32[4,4]
		%a = Exp(%x)
		%y = If(%k | %k, %a, %w) {
			then_branch: graph "t" { in %l: bool[] in %p: float32[4,4] in %q: float32[4,4]
				%b = MatMul(%p, %q)
				%c = If(%l | %b, %q) {
					then_branch: graph "tt" { in %p3: float32[4,4] in %q3: float32[4,4] %g = MatMul(%p3, %q3) out %g }
					else_branch: graph "te" { in %p4: float32[4,4] in %q4: float32[4,4] %h = MatMul(%q4, %p4) out %h }
				} out %c }
			else_branch: graph "e" { in %m: bool[] in %r: float32[4,4] in %s: float32[4,4] %d = MatMul(%r, %s) out %d }
		} out %y`), liveness.Options{})
	require.NoError(t, err)
	index := map[string]int{}
	for i, x := range p.Vars {
		index[x.Value.Name] = i
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{{"b", "d", true}, {"g", "d", true}, {"h", "d", true}, {"g", "h", true}, {"a", "b", false}, {"b", "g", false}, {"d", "d", false}} {
		assert.Equal(t, c.want, p.Exclusive(index[c.a], index[c.b]), "%s, %s", c.a, c.b)
		assert.Equal(t, c.want, p.Exclusive(index[c.b], index[c.a]), "%s, %s", c.b, c.a)
	}
}
