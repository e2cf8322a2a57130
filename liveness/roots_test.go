package liveness

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
)

// TestRootsLook: following the sources of one variable through a long chain looks at the context on the way, and finding those of many
// looks behind each of them.
func TestRootsLook(t *testing.T) {
	const many = 1500
	l := &Layout{Vars: []Var{{Kind: Block}, {Kind: Block}}}
	for v := 2; v < many; v++ {
		l.Vars = append(l.Vars, Var{Kind: Pointer, Phi: true, Sources: []int{v - 1, 0}})
	}
	ctx := &looktest.Context{Context: t.Context(), Left: 1 << 30}
	require.Equal(t, []int{0, 1}, l.rootsOf(ctx, many-1))
	require.Equal(t, 1, 1<<30-ctx.Left)
	require.Equal(t, []int(nil), l.rootsOf(&looktest.Context{}, many-1), "ended before the chain does")

	ctx.Left = 1 << 30
	require.NoError(t, l.findRoots(ctx))
	require.GreaterOrEqual(t, 1<<30-ctx.Left, many-2)
	require.Equal(t, context.Canceled, l.findRoots(&looktest.Context{Left: 1}))
}

// TestRootsOfRandomSources: the roots of components are those that are found from each variable alone, and equal lists are shared along single sources.
func TestRootsOfRandomSources(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := &Layout{}
		for range 1 + r.IntN(30) {
			l.Vars = append(l.Vars, Var{Phi: true, Kind: []VarKind{Block, Pointer, Pointer}[r.IntN(3)]})
		}
		for v := range l.Vars {
			for range r.IntN(3) {
				l.Vars[v].Sources = append(l.Vars[v].Sources, r.IntN(len(l.Vars)))
			}
		}
		require.NoError(t, l.findRoots(t.Context()))
		for v := range l.Vars {
			require.Equal(t, l.rootsOf(t.Context(), v), l.Roots(v), "seed %d, variable %d of %v", seed, v, l.Vars)
		}
	}
}

// TestPinsLook: joining what loops pin looks at the context for each of them.
func TestPinsLook(t *testing.T) {
	tl := &Timeline{Layout: Layout{Vars: []Var{{Kind: Block}}}, Own: make([]Set, 1), Live: make([]Set, 1)}
	require.NoError(t, tl.findRoots(t.Context()))
	pins := []pin{{0, Range{0, 1}}, {0, Range{3, 4}}, {0, Range{1, 2}}}
	require.Equal(t, context.Canceled, tl.keepPinned(&looktest.Context{Left: 2}, pins))
	require.NoError(t, tl.keepPinned(t.Context(), pins))
	require.Equal(t, []Set{{{0, 2}, {3, 4}}}, tl.Live)
}
