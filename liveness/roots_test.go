package liveness

import (
	"context"
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
