package emit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ptx"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

// aKernel stores a number for each thread.
const aKernel = Header + `.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .f32 %f<3>;
	.reg .b32 %r<3>;
	mov.f32 %f1, 0f3F800000;
	mov.u32 %r1, %tid.x;
	// epilogue %f1 %r1
	ret;
}
`

// TestEpilogue: the program takes the place of the mark; what has none, or no program for it, is told.
func TestEpilogue(t *testing.T) {
	const f = ndarray.Float32
	p := &tile.Program{Operands: []ndarray.DType{f, f}}
	sum := p.Add(tile.Instr{Op: "Add", DType: f, Args: []tile.Ref{0, 1}})
	p.Results = []tile.Result{{Value: p.Add(tile.Instr{Op: "Tanh", DType: f, Args: []tile.Ref{sum}})}}
	l, err := p.Bind([][]int{{4, 8}, {8}})
	require.NoError(t, err)
	text, err := Epilogue(aKernel, p, l)
	require.NoError(t, err)
	assert.NotContains(t, text, "// epilogue")
	assert.Contains(t, text, ".param .u64 k_param_0,\n\t.param .u64 x1\n)")
	assert.Equal(t, 1, strings.Count(text, ".version"))
	m, err := ptx.Parse(text)
	require.NoError(t, err)
	_, err = ptx.Compile(m)
	require.NoError(t, err)

	var no *UnsupportedError
	_, err = Epilogue(strings.ReplaceAll(aKernel, "// epilogue", "// nothing"), p, l)
	require.ErrorAs(t, err, &no)
	rows := *p
	rows.Inner = 1
	_, err = Epilogue(aKernel, &rows, l)
	require.ErrorAs(t, err, &no)
	doubles := &tile.Program{Operands: []ndarray.DType{ndarray.Float64}, Results: []tile.Result{{Value: 0}}}
	_, err = Epilogue(aKernel, doubles, l)
	require.ErrorAs(t, err, &no)
}
