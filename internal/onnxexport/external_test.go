package onnxexport_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// TestShapesStayInline: whatever the threshold, what shapes are inferred from is in the model itself.
func TestShapesStayInline(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[1,2,4,4]
		const %w: float32[2,2,1,1] = [1, 2, 3, 4] const %roi: float32[0] = [] const %scales: float32[4] = [1, 1, 2, 2]
		const %starts: int64[1] = [0] const %ends: int64[1] = [9223372036854775807]
		%c = Conv(%x, %w) %r = Resize(%c, %roi, %scales) [mode="nearest"] %y = Slice(%r, %starts, %ends) out %y }`)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 13}}}, path, onnxexport.Options{External: 1}))
	f, err := onnxwire.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var moved []string
	for _, i := range f.Model.Graph.Initializers {
		if i.DataLocation == onnxwire.DataExternal {
			moved = append(moved, i.Name)
		}
	}
	assert.Equal(t, []string{"w"}, moved)
}
