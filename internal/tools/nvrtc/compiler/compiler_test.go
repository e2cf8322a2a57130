//go:build linux && (amd64 || arm64)

package compiler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCommitted compiles the kernels of the module again and compares with the PTX that is committed.
func TestCommitted(t *testing.T) {
	library := os.Getenv("BERTH_NVRTC")
	if library == "" {
		t.Skip("BERTH_NVRTC names no libnvrtc.so.12 (the wheel nvidia-cuda-nvrtc-cu12==12.1.105 of PyPI)")
	}
	nvrtc, err := Open(library)
	require.NoError(t, err)
	files := 0
	for _, pattern := range []string{"../../../ptx/testdata/*.cu", "../../../../backend/cuda/internal/*/*.cu"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			want, err := os.ReadFile(strings.TrimSuffix(name, ".cu") + ".ptx")
			require.NoError(t, err, "go generate")
			got, err := nvrtc.Compile(name, string(source), "compute_70")
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "%s has changed, and its PTX has not: go generate", name)
			files++
		}
	}
	assert.Positive(t, files)
	_, err = nvrtc.Compile("faulty.cu", "__global__ void k() { undeclared = 1; }", "compute_70")
	assert.ErrorContains(t, err, "undeclared")
}
