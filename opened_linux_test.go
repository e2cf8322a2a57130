package berth_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestOpenedFileIsGivenBack: what opening a model has read of its file does not stay resident, and running brings back what it reads.
func TestOpenedFileIsGivenBack(t *testing.T) {
	g := ssa.NewGraph("g")
	v := g.AddParam("x", ssa.TensorOf(ndarray.Float32, ssa.D(4)))
	for i := range 30_000 {
		n := g.NewNode("Neg", []*ssa.Value{v}, 1)
		n.Name = fmt.Sprintf("a name that takes room in the file %d", i)
		v = n.Out[0]
		v.Name, v.Type = fmt.Sprint("v", i), ssa.TensorOf(ndarray.Float32, ssa.D(4))
	}
	g.Results = []*ssa.Value{v}
	path := filepath.Join(t.TempDir(), "many.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 20}}, IR: 9}, path, onnxexport.Options{}))
	m, err := berth.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	size, resident := mappingOf(t, path)
	require.Greater(t, size, 1<<20)
	assert.Less(t, resident, size/4)
	assert.Equal(t, "x", m.Inputs()[0].Name)
}

// mappingOf is how many bytes of a file the process maps, and how many of these are resident.
func mappingOf(t *testing.T, path string) (size, resident int) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	within := false
	for line := range strings.Lines(string(smaps)) {
		f := strings.Fields(line)
		if within = within && strings.HasSuffix(f[0], ":") || strings.HasSuffix(strings.TrimSpace(line), path); !within {
			continue
		}
		if kilobytes, err := strconv.Atoi(f[min(1, len(f)-1)]); err == nil {
			switch f[0] {
			case "Size:":
				size += kilobytes << 10
			case "Rss:":
				resident += kilobytes << 10
			}
		}
	}
	return size, resident
}
