package liveness_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

func set(runs ...int) liveness.Set {
	var s liveness.Set
	for i := 0; i < len(runs); i += 2 {
		s = append(s, liveness.Range{Lo: runs[i], Hi: runs[i+1]})
	}
	return s
}

func TestSets(t *testing.T) {
	a, b := set(0, 4, 8, 10), set(2, 6, 9, 12)
	assert.Equal(t, set(0, 6, 8, 12), a.Union(b))
	assert.Equal(t, set(2, 4, 9, 10), a.Intersect(b))
	assert.True(t, a.Meets(b, nil))
	assert.True(t, a.Meets(b, set(2, 4)), "9 is left")
	assert.True(t, a.Meets(b, set(3, 4, 9, 10)), "2 is left")
	assert.False(t, a.Meets(b, set(2, 4, 9, 10)))
	assert.Equal(t, set(0, 10), set(0, 4, 8, 10).Union(set(4, 8)), "runs that touch become one")
	hull, holes := a.Hull()
	assert.Equal(t, liveness.Range{Lo: 0, Hi: 10}, hull)
	assert.Equal(t, []liveness.Range{{Lo: 4, Hi: 8}}, holes)
	for p, want := range map[int]bool{0: true, 3: true, 4: false, 7: false, 9: true, 10: false} {
		assert.Equal(t, want, a.Has(p), "point %d", p)
	}
}

// The transpiler's own example: a loop whose variables live over the back edge.
//
//	0: a = 0    1: b = a+1    2: c = c+b    3: a = b*2    4: if a < N goto 1    5: return c
func TestFixedPoint(t *testing.T) {
	const a, b, c = 0, 1, 2
	f := &liveness.Flow{
		Main: &liveness.Arm{Hi: 6, Forks: []*liveness.Fork{{Loop: true, Arms: []*liveness.Arm{{Lo: 1, Hi: 5}}}}},
		Uses: [][]int{nil, {a}, {c, b}, {b}, {a}, {c}},
		Defs: [][]int{{a}, {b}, {c}, {a}, nil, nil},
		Vars: 3,
	}
	live := f.Solve()
	assert.Equal(t, set(0, 2, 3, 5), live[a], "dead between its last reader and its next definition")
	assert.Equal(t, set(1, 4), live[b])
	assert.Equal(t, set(0, 6), live[c], "live on entry and over the back edge")
}

func TestDeadResultMeetsWhatOutlivesItsStep(t *testing.T) {
	f := &liveness.Flow{Main: &liveness.Arm{Hi: 3}, Uses: [][]int{nil, {0}, {0}}, Defs: [][]int{{0}, {1}, nil}, Vars: 2}
	live := f.Solve()
	assert.Equal(t, set(0, 3), live[0])
	assert.Equal(t, set(1, 3), live[1])
}

// A value captured by a branch is read there, whatever reads it directly before.
func TestCapturesAreUses(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "captured" {
  in %x: float32[4]
  in %c: bool[]
  %a: float32[4] = Mul(%x, %x)
  %e: float32[4] = Exp(%a)
  %f: float32[4] = Exp(%e)
  %r: float32[4] = If(%c | %a, %f) {
    then_branch: graph "then" {
      in %p: float32[4]
      in %q: float32[4]
      %s: float32[4] = Add(%p, %q)
      out %s
    }
    else_branch: graph "else" {
      in %p2: float32[4]
      in %q2: float32[4]
      %u: float32[4] = Neg(%q2)
      out %u
    }
  }
  out %r
}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	tl, err := liveness.Build(context.Background(), g, liveness.Options{})
	require.NoError(t, err)
	at := map[string]int{}
	for i, s := range tl.Steps {
		if !s.Border && s.Node != nil {
			at[s.Node.Out[0].Name] = i
		}
	}
	for v, x := range tl.Vars {
		if x.Value == nil {
			continue
		}
		switch x.Value.Name {
		case "a":
			assert.True(t, tl.Live[v].Has(at["s"]), "a is read in the branch")
			assert.True(t, tl.Live[v].Has(at["f"]), "and alive until then")
			assert.False(t, tl.Live[v].Has(at["u"]), "the other branch does not read it")
		case "r":
			assert.Equal(t, liveness.Pointer, x.Kind)
			assert.Len(t, tl.Roots(v), 2, "the result is either branch's")
		}
	}
}

// A workspace is live at the steps of its node alone: in a straight line, in branches, and in
// every copy of a loop's body.
func TestWorkspaceIsLiveAtItsSteps(t *testing.T) {
	g := graphOf(t, `const %n: int64[] = 5 in %x: float32[4,4] in %w: float32[4,4] in %c: bool[] const %t: bool[] = true
		%a = MatMul(%x, %w)
		%r = If(%c | %a) {
			then_branch: graph "then" { in %p: float32[4,4] %p1 = MatMul(%p, %p) %p2 = Exp(%p1) out %p2 }
			else_branch: graph "else" { in %q: float32[4,4] %q1 = MatMul(%q, %q) out %q1 }
		}
		%y = Loop(%n, %t, %r | %w) {
			body: graph "b" {
				in %i: int64[] in %k: bool[] in %h: float32[4,4] in %v: float32[4,4]
				%h1 = MatMul(%h, %v) %h2 = MatMul(%h1, %v) out %k, %h2
			}
		}
		%e = MatMul(%y, %w) out %e`)
	isProduct := func(n *ssa.Node) int64 {
		if n.Op == "MatMul" {
			return 128
		}
		return 0
	}
	tl, err := liveness.Build(context.Background(), g, liveness.Options{Scratch: isProduct})
	require.NoError(t, err)
	want := map[int]liveness.Set{}
	for i, s := range tl.Steps {
		if s.Scratch != liveness.None {
			want[s.Scratch] = want[s.Scratch].Union(set(i, i+1))
		}
	}
	require.Len(t, want, 6)
	for v, steps := range want {
		assert.Equal(t, steps, tl.Live[v], tl.String(v))
	}
}
