//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package safefile

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFolderLockedByOthers: a program that keeps the folder locked delays a writer but does not stop it. Nothing of others
// is removed then.
func TestFolderLockedByOthers(t *testing.T) {
	defer func(wait time.Duration) { lockWait = wait }(lockWait)
	lockWait = 10 * time.Millisecond
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".berth-1.tmp"), nil, 0o644))
	unlock, locked := lockFolder(dir)
	require.True(t, locked)
	_, locked = lockFolder(dir)
	require.False(t, locked)
	told := true
	obsolete := func(alone bool) []string { told = alone; return nil }
	require.NoError(t, WriteAll(context.Background(), obsolete, File{filepath.Join(dir, "f"), text("x")}))
	assert.False(t, told)
	assert.Equal(t, map[string]string{"f": "x", ".berth-1.tmp": ""}, contents(t, dir))
	unlock()
	require.NoError(t, WriteAll(context.Background(), obsolete, File{filepath.Join(dir, "f"), text("y")}))
	assert.True(t, told)
	assert.Equal(t, map[string]string{"f": "y"}, contents(t, dir))
}
