package onnximport

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLoad imports and closes real models.
func BenchmarkLoad(b *testing.B) {
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	paths, err := filepath.Glob(filepath.Join(root, "models", "*", "model.onnx"))
	require.NoError(b, err)
	if len(paths) == 0 {
		b.Skip("no models here: set BERTH_SHARED to the folder with the test data")
	}
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
