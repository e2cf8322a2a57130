package onnximport

import (
	"path/filepath"
	"testing"

	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/stretchr/testify/require"
)

// BenchmarkLoad imports and closes real models.
func BenchmarkLoad(b *testing.B) {
	paths, err := filepath.Glob(filepath.Join(shareddata.Path(b, "models"), "*", "model.onnx"))
	require.NoError(b, err)
	require.NotEmpty(b, paths)
	for _, path := range paths {
		b.Run(filepath.Base(filepath.Dir(path)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mod, err := Load(path, Options{})
				require.NoError(b, err)
				require.NoError(b, mod.Close())
			}
		})
	}
}
