package ssa

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/ndarray"
)

func parse(t *testing.T, text string) *Graph {
	t.Helper()
	g, err := ParseGraph(text)
	require.NoError(t, err)
	require.NoError(t, Check(g))
	return g
}

const diamond = `graph "g" {
  in %x: float32[2]
  %a: float32[2] = Neg(%x)
  %b: float32[2] = Abs(%x)
  %c: float32[2] = Add(%a, %a)
  %d: float32[2] = Mul(%c, %b)
  out %d, %a
}
`

func byName(g *Graph, name string) *Value {
	for _, v := range g.Values() {
		if v.Name == name {
			return v
		}
	}
	return nil
}

func TestReplaceUses(t *testing.T) {
	g := parse(t, diamond)
	g.ReplaceUses(byName(g, "a"), byName(g, "b"))
	require.NoError(t, g.Sort())
	require.NoError(t, Check(g))
	assert.Empty(t, byName(g, "a").Uses())
	assert.Len(t, byName(g, "b").Uses(), 3)
	assert.Same(t, byName(g, "b"), g.Results[1])
}

// TestReplaceResult: in lists short and long, with values that stand in several places, the list and what is said of it are
// those of going through all of it.
func TestReplaceResult(t *testing.T) {
	for _, length := range []int{3, manyResults - 1, manyResults, 3 * manyResults} {
		g, rng := NewGraph("g"), rand.New(rand.NewPCG(uint64(length), 1))
		var values []*Value
		for i := range length {
			values = append(values, g.AddParam(fmt.Sprint("v", i), StaticTensor(ndarray.Float32, 1)))
		}
		draw := func() *Value { return values[rng.IntN(len(values))] }
		for range length {
			g.Results = append(g.Results, draw())
		}
		want := slices.Clone(g.Results)
		for range 4 * length {
			old, v := draw(), draw()
			g.ReplaceResult(old, v)
			for i, r := range want {
				if r == old {
					want[i] = v
				}
			}
			require.Equal(t, want, g.Results)
			probe := draw()
			require.Equal(t, slices.Contains(want, probe), g.IsResult(probe))
		}
	}
}

func TestRemoveNodesDropsUses(t *testing.T) {
	g := parse(t, diamond)
	g.Results = g.Results[1:]
	gone := map[string]bool{"Mul": true, "Add": true, "Abs": true}
	assert.Equal(t, 3, g.RemoveNodes(func(n *Node) bool { return gone[n.Op] }))
	require.NoError(t, Check(g))
	assert.Len(t, g.Nodes, 1)
	assert.Empty(t, byName(g, "a").Uses())
}

func TestInputsKeepUsesExact(t *testing.T) {
	g := parse(t, diamond)
	x, b := byName(g, "x"), byName(g, "b")
	add := byName(g, "c").Def
	for _, step := range []struct {
		name string
		do   func()
		uses int // of x
	}{
		{"set one", func() { add.SetInput(0, x) }, 3},
		{"set other", func() { add.SetInput(1, x) }, 4},
		{"absent", func() { add.SetInput(0, nil) }, 3},
		{"append", func() { add.AddInput(x) }, 4},
		{"truncate", func() { add.TruncateInputs(2) }, 3},
		{"replace all", func() { add.SetInputs([]*Value{b, x, x}) }, 4},
		{"none", func() { add.SetInputs(nil) }, 2},
	} {
		step.do()
		require.NoError(t, g.Sort())
		require.NoError(t, Check(g), step.name)
		assert.Len(t, x.Uses(), step.uses, step.name)
	}
}

func TestCloneIsEqualAndApart(t *testing.T) {
	g := parse(t, sample)
	c, mapping := g.Clone()
	require.NoError(t, Check(c))
	assert.Empty(t, Compare{Names: true, Types: true}.Diff(g, c))
	for i, v := range g.Values() {
		assert.NotSame(t, v, mapping[i])
	}
	before := g.String()
	for _, n := range c.Nodes {
		n.SetInputs(nil)
		for _, b := range n.Bodies {
			b.Results = nil
		}
	}
	assert.Equal(t, before, g.String())
	require.NoError(t, Check(g))
}

func TestCompact(t *testing.T) {
	g := parse(t, diamond)
	g.AddConst("dead", ScalarConst[float32](1))
	g.Results = g.Results[1:]
	g.RemoveNodes(func(n *Node) bool { return n.Op != "Neg" })
	text := g.String()
	assert.True(t, g.Compact(), "dropped nodes lie beside those that stay")
	assert.True(t, g.Compact(), "and stay there")
	copied, _ := g.Clone()
	assert.False(t, copied.Compact(), "a copy is made of what is left")
	copied.AddConst("another", ScalarConst[float32](1))
	assert.True(t, copied.Compact())
	require.NoError(t, Check(g))
	assert.Equal(t, text, g.String())
	assert.Equal(t, 2, g.NumValues())
	assert.Equal(t, 1, g.NumNodeIDs())
}

func TestSortIsStableAndFindsCycles(t *testing.T) {
	g := parse(t, diamond)
	before := g.String()
	require.NoError(t, g.Sort())
	assert.Equal(t, before, g.String(), "a legal order stays")
	g.Nodes[0], g.Nodes[3] = g.Nodes[3], g.Nodes[0]
	require.NoError(t, g.Sort())
	require.NoError(t, Check(g))
	byName(g, "a").Def.SetInput(0, byName(g, "d"))
	assert.Error(t, g.Sort())
}

func TestShuffleIsLegalAndSeeded(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(20) {
		g := parse(t, diamond)
		require.NoError(t, g.Shuffle(seed))
		require.NoError(t, Check(g))
		again := parse(t, diamond)
		require.NoError(t, again.Shuffle(seed))
		assert.Equal(t, g.String(), again.String())
		orders[g.String()] = true
	}
	assert.Len(t, orders, 3, "Neg Abs Add Mul, Abs Neg Add Mul, Neg Add Abs Mul")
}

func TestDiffFindsEveryDifference(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"Neg(%x)", "Abs(%x)", "operator differs"},
		{"%x: float32[2]", "%x: float32[3]", "types"},
		{"Add(%a, %a)", "Add(%a, %b)", "operand 1"},
		{"Add(%a, %a)", "Add(%a, %a) [k=1]", "attributes"},
		{"Add(%a, %a)", `Add(%a, %a) @"n"`, "named"},
		{"out %d, %a", "out %d, %b", "result 1"},
		{"out %d, %a", "out %d", "results"},
		{`graph "g"`, `graph "h"`, "name"},
	} {
		a, b := parse(t, diamond), parse(t, strings.Replace(diamond, c.old, c.new, 1))
		assert.Contains(t, Compare{Names: true, Types: true}.Diff(a, b), c.want, "%s -> %s", c.old, c.new)
	}
	a, b := parse(t, diamond), parse(t, strings.ReplaceAll(diamond, "%a", "%other"))
	assert.Empty(t, Compare{Types: true}.Diff(a, b), "names do not count")
}

func TestConstantEqual(t *testing.T) {
	dense := NewConstant(ndarray.Of([]float32{2, 2}, 2))
	splat := NewSplat(ndarray.Scalar[float32](2), 2)
	assert.True(t, dense.Equal(splat))
	assert.True(t, splat.Equal(NewSplat(ndarray.Scalar[float32](2), 2)))
	assert.False(t, splat.Equal(NewSplat(ndarray.Scalar[float32](2), 3)))
	assert.False(t, dense.Equal(NewConstant(ndarray.Of([]int32{2, 2}, 2))))
	assert.False(t, dense.Equal(nil))
	assert.True(t, NewConstant(ndarray.Strings([]string{"a"}, 1)).Equal(NewConstant(ndarray.Strings([]string{"a"}, 1))))
	assert.False(t, splat.Equal(NewConstant(ndarray.Of([]float32{2, 3}, 2))))
	assert.True(t, NewSplat(ndarray.Strings([]string{"a"}), 2).Equal(NewConstant(ndarray.Strings([]string{"a", "a"}, 2))))
	assert.False(t, NewConstant(ndarray.Strings([]string{"a", "b"}, 2)).Equal(NewSplat(ndarray.Strings([]string{"a"}), 2)))
	assert.EqualValues(t, 4, splat.StoredBytes())
	failing := NewLazy(ndarray.Float32, []int{1}, func() (*ndarray.Array, error) { return nil, fmt.Errorf("gone") })
	assert.False(t, failing.Equal(NewConstant(ndarray.Of([]float32{1}, 1))))
	assert.Nil(t, NewLazy(ndarray.Int64, []int{1}, func() (*ndarray.Array, error) { return nil, fmt.Errorf("gone") }).Ints(4))
}

// TestConstantEqualLooks: comparing large constants looks at the context, and says that they differ where it ends.
func TestConstantEqualLooks(t *testing.T) {
	const n = 4 * comparedPiece
	a, b := NewConstant(ndarray.Of(make([]uint8, n), n)), NewConstant(ndarray.Of(make([]uint8, n), n))
	for name, other := range map[string]*Constant{"dense": b, "splat": NewSplat(ndarray.Scalar[uint8](0), n)} {
		all := &looktest.Context{Left: n}
		assert.True(t, a.EqualContext(all, other), name)
		assert.InDelta(t, 4, n-all.Left, 1, name)
		assert.False(t, a.EqualContext(&looktest.Context{Left: 2}, other), name)
	}
}

func TestContentOfConstants(t *testing.T) {
	g := NewGraph("g")
	assert.Equal(t, "{1,-1}", contentText(g.AddConst("a", Int64s(1, -1)).Content))
	assert.Nil(t, g.AddConst("b", ScalarConst[float32](1)).Content)
	assert.Nil(t, g.AddConst("c", NewSplat(ndarray.Scalar[int64](1), MaxContent+1)).Content)
}

// TestCloneEnds: a copy looks at its context at every value and node, and copies nothing when it has ended.
func TestCloneEnds(t *testing.T) {
	const n = 50
	g := NewGraph("g")
	for i := range n {
		g.NewNode("Relu", []*Value{g.AddParam(fmt.Sprint("p", i), StaticTensor(ndarray.Float32, 1))}, 1)
	}
	whole := &looktest.Context{Context: t.Context(), Left: math.MaxInt}
	_, _, err := g.CloneContext(whole)
	require.NoError(t, err)
	all := math.MaxInt - whole.Left
	require.GreaterOrEqual(t, all, 3*n, "two values a node")
	for looks := range all {
		ctx := &looktest.Context{Context: t.Context(), Left: looks}
		_, _, err := g.CloneContext(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.GreaterOrEqual(t, ctx.Left, -2, "one more for the error")
	}
}
