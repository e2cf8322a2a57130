package contraction

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// prepare makes the kernel of an equation over operands of one shape.
func prepare(t *testing.T, equation string, shape ...int) *Kernel {
	t.Helper()
	g := ssa.NewGraph("einsum")
	var in []*ssa.Value
	for range strings.Count(equation, ",") + 1 {
		in = append(in, g.AddParam("x", ssa.StaticTensor(ndarray.Float32, shape...)))
	}
	k, err := New(g.NewNode("Einsum", in, 1, ssa.StringAttr("equation", equation)), 1)
	require.NoError(t, err)
	return k
}

// TestManyOperands: preparing takes time in the number of operands, and intermediates that have been read make room.
func TestManyOperands(t *testing.T) {
	const n = 20000
	k := prepare(t, strings.Repeat("a,", n-1)+"a->a", 16)
	assert.Len(t, k.steps, n-1)
	assert.Equal(t, 2*64, k.Workspace())
}

// TestWorkspace: intermediates and their copies take the places of others that are not read any more.
func TestWorkspace(t *testing.T) {
	const matrix = 4 * 64 * 64
	short, long := prepare(t, "ab,bc,cd->ad", 64, 64), prepare(t, "ab,bc,cd,de,ef,fg,gh->ah", 64, 64)
	assert.GreaterOrEqual(t, short.Workspace(), matrix)
	assert.Equal(t, short.Workspace()+matrix, long.Workspace())
	assert.Equal(t, 3*matrix, prepare(t, "abcd,badc,cdab->dcba", 8, 8, 8, 8).Workspace())
}
