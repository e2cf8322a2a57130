//go:build unix

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPipes: a pipe that nobody writes to is not waited for.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	pipe := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, unix.Mkfifo(path, 0o600))
		return path
	}
	model := saved(t, linear)
	fails(t, exitModel, []string{"pipe without content"}, "inspect", pipe("m.onnx"))
	fails(t, exitFailed, []string{"no regular file"}, "run", model, "--input", "x="+pipe("x.npy"))
	fails(t, exitModel, []string{"no regular file"}, "compare", "--instance", pipe("i.csv"))
	pipe("input_0.pb")
	fails(t, exitFailed, []string{"no regular file"}, "run", model, "--data", dir)
}
