package program_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestSmallMappedConstants: small constants in mapped files are copied once for all programs of a model, and only where runs read them.
func TestSmallMappedConstants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{0, 0, 128, 63}, 8<<10), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data, err := sysmem.MapFile(f, 32<<10)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system does not map files")
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, sysmem.UnmapFile(data)) }()
	table := program.NewConstants()
	compiled := func() map[string]*ssa.Constant {
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[N,2048] const %large: float32[1] = 1 const %small: float32[1] = 1 const %twice: float32[1] = 1 const %unread: float32[1] = 1
			%a = Add(%x, %large) %b = Mul(%a, %small) %y = Sub(%b, %twice) out %y }`)
		require.NoError(t, err)
		for _, v := range g.Values() {
			switch v.Name {
			case "large":
				v.Const = ssa.NewConstant(&ndarray.Array{DType: ndarray.Float32, Shape: []int{2048}, Data: data[:8<<10]})
				v.Type = v.Const.Type()
			case "small", "twice":
				v.Const = ssa.NewConstant(&ndarray.Array{DType: ndarray.Float32, Shape: []int{1}, Data: data[16<<10:][:4]})
			case "unread":
				v.Const = ssa.NewConstant(&ndarray.Array{DType: ndarray.Float32, Shape: []int{1}, Data: data[20<<10:][:4]})
			}
		}
		require.NoError(t, ops.InferGraph(g))
		p, err := program.Compile(t.Context(), g, program.Options{OwnGraph: true, Constants: table})
		require.NoError(t, err)
		assert.NotEmpty(t, p.Mapped())
		out := map[string]*ssa.Constant{}
		for _, s := range p.Slots {
			if s.Const != nil {
				out[s.Value.Name] = s.Const
			}
		}
		return out
	}
	first, second := compiled(), compiled()
	assert.False(t, sysmem.IsMapped(first["small"].Packed()))
	assert.Same(t, first["small"], first["twice"])
	assert.Same(t, first["small"], second["small"])
	assert.True(t, sysmem.IsMapped(first["large"].Packed()))
	assert.EqualValues(t, 4, table.Bytes())
	if unread := first["unread"]; unread != nil {
		assert.NotSame(t, unread, second["unread"], "nothing reads it")
	}
}
