package oracle

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestThreads: nodes of little work are prepared for one thread, those of more for all.
func TestThreads(t *testing.T) {
	for _, c := range []struct {
		name, text string
		shared     bool
	}{
		{"a sum of few elements", "in %x: float32[100,100] %y = Add(%x, %x)", false},
		{"a sum of many", "in %x: float32[300,300] %y = Add(%x, %x)", true},
		{"a small product", "in %x: float32[64,64] in %w: float32[64,64] %y = MatMul(%x, %w)", false},
		{"a large product", "in %x: float32[128,256] in %w: float32[256,128] %y = MatMul(%x, %w)", true},
		{"a long row by a small matrix", "in %x: float32[1,256] in %w: float32[256,256] %y = MatMul(%x, %w)", false},
		{"a small transposition", "in %x: float32[100,200] %y = Transpose(%x) [perm=[1, 0]]", false},
		{"a large one", "in %x: float32[400,400] %y = Transpose(%x) [perm=[1, 0]]", true},
		{"sorting", "in %x: float32[100,100] const %k: int64[1] = [5] %y, %i = TopK(%x, %k)", true},
	} {
		g, err := ssa.ParseGraph(`graph "g" { ` + c.text + ` out %y }`)
		require.NoError(t, err, c.name)
		require.NoError(t, ops.InferGraph(g), c.name)
		n := g.Nodes[len(g.Nodes)-1]
		p, err := cpu.New().Prepare(t.Context(), n, 4)
		require.NoError(t, err, c.name)
		assert.Equal(t, map[bool]int{false: 1, true: 4}[c.shared], p.Threads, c.name)
		p, err = cpu.New().Prepare(t.Context(), n, 1)
		require.NoError(t, err, c.name)
		assert.Equal(t, 1, p.Threads, c.name)
	}
}
