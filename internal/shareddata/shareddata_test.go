package shareddata

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRoot(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	module := filepath.Dir(filepath.Dir(here))
	abs := t.TempDir()
	for _, c := range []struct{ name, env, want string }{
		{"not set: beside the repository", "", filepath.Join(filepath.Dir(module), "shared")},
		{"absolute", abs, abs},
		{"relative: from the repository's root", "data", filepath.Join(module, "data")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("BERTH_SHARED", c.env)
			assert.Equal(t, c.want, Root())
		})
	}
}

func TestPath(t *testing.T) {
	root := t.TempDir()
	t.Setenv("BERTH_SHARED", root)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "models", "a"), 0o755))
	assert.Equal(t, filepath.Join(root, "models", "a"), Path(t, "models", "a"))

	skipped := t.Run("absent", func(t *testing.T) {
		Path(t, "models", "b")
		assert.Fail(t, "a test without its data went on")
	})
	assert.True(t, skipped, "absent data is no failure")
}
