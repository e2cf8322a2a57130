package onnxexport_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

// exportDir is where a test writes models: BERTH_EXPORT_DIR keeps them for a
// look with other tools.
func exportDir(t *testing.T) string {
	if dir := os.Getenv("BERTH_EXPORT_DIR"); dir != "" {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		return dir
	}
	return t.TempDir()
}

// roundTrip exports a module, imports the file, and compares the two graphs.
func roundTrip(t *testing.T, mod *ssa.Module, path string) *ssa.Module {
	t.Helper()
	require.NoError(t, ssa.Check(mod.Graph))
	require.NoError(t, onnxexport.Save(mod, path, onnxexport.Options{}))
	back, err := onnximport.Load(path, onnximport.Options{})
	require.NoError(t, err)
	require.NoError(t, ssa.Check(back.Graph))
	assert.Equal(t, mod.Opsets, back.Opsets)
	return back
}

func TestModelsRoundTrip(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "models"))
	require.NoError(t, err)
	dir := exportDir(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			mod, err := onnximport.Load(c.ModelPath(), onnximport.Options{})
			require.NoError(t, err)
			defer mod.Close()
			back := roundTrip(t, mod, filepath.Join(dir, c.Name+".onnx"))
			defer back.Close()
			assert.Empty(t, ssa.Compare{Types: true}.Diff(mod.Graph, back.Graph))
		})
	}
}

// negativeAxis are models with an axis that their operator set does not take; it is
// written counted from the front.
var negativeAxis = map[string]bool{"test_GLU": true}

func TestConformanceRoundTrip(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(shareddata.Path(t, "onnx-conformance"), "*.tar.gz"))
	require.NoError(t, err)
	for _, archive := range archives {
		name := filepath.Base(archive)
		t.Run(name[:len(name)-len(".tar.gz")], func(t *testing.T) {
			cases, err := conformance.Open(archive)
			require.NoError(t, err)
			dir := filepath.Join(exportDir(t), name)
			require.NoError(t, os.MkdirAll(dir, 0o755))
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) {
					data, err := c.ModelBytes()
					require.NoError(t, err)
					mod, err := onnximport.FromBytes(data, "", onnximport.Options{})
					require.NoError(t, err)
					back := roundTrip(t, mod, filepath.Join(dir, c.Name+".onnx"))
					defer back.Close()
					if diff := (ssa.Compare{Types: true}).Diff(mod.Graph, back.Graph); !negativeAxis[c.Name] {
						assert.Empty(t, diff)
					}
				})
			}
		})
	}
}
