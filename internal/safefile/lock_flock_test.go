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
	left := lockWait
	unlock, locked := lockFolder(context.Background(), &left, dir)
	require.True(t, locked)
	_, locked = lockFolder(context.Background(), &left, dir)
	require.False(t, locked)
	assert.LessOrEqual(t, left, time.Duration(0), "a writer waits once")
	told := true
	obsolete := func(alone bool) []string { told = alone; return nil }
	require.NoError(t, WriteAll(context.Background(), obsolete, File{Path: filepath.Join(dir, "f"), Fill: text("x")}))
	assert.False(t, told)
	assert.Equal(t, map[string]string{"f": "x", ".berth-1.tmp": ""}, contents(t, dir))
	lockWait = time.Hour
	ended, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, WriteAll(ended, obsolete, File{Path: filepath.Join(dir, "f"), Fill: text("z")}), context.DeadlineExceeded)
	p := pending{target: target{path: filepath.Join(dir, "f")}}
	require.ErrorIs(t, group{&p}.commit(ended, &lockWait, obsolete), context.DeadlineExceeded)
	assert.Equal(t, map[string]string{"f": "x", ".berth-1.tmp": ""}, contents(t, dir))
	unlock()
	require.NoError(t, WriteAll(context.Background(), obsolete, File{Path: filepath.Join(dir, "f"), Fill: text("y")}))
	assert.True(t, told)
	assert.Equal(t, map[string]string{"f": "y"}, contents(t, dir))
}
