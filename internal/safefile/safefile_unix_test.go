//go:build unix

package safefile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Mode()
}

// TestMode: new files follow the umask, old ones keep their permissions, and the temporary file has them from the start.
func TestMode(t *testing.T) {
	dir := t.TempDir()
	for _, umask := range []int{0o022, 0o077, 0o002} {
		path := filepath.Join(dir, "new")
		old := syscall.Umask(umask)
		err := Write(path, text("x"))
		syscall.Umask(old)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o666&^umask), modeOf(t, path))
		require.NoError(t, os.Remove(path))
	}
	path := filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	for _, mode := range []fs.FileMode{0o600, 0o666, 0o640, 0o444, 0o755} {
		require.NoError(t, os.Chmod(path, mode))
		require.NoError(t, Write(path, func(w io.Writer) error {
			tmp, err := filepath.Glob(filepath.Join(dir, Pattern))
			require.NoError(t, err)
			require.Len(t, tmp, 1)
			assert.Equal(t, mode, modeOf(t, tmp[0]))
			return text(mode.String())(w)
		}))
		assert.Equal(t, mode, modeOf(t, path))
		assert.Equal(t, map[string]string{"old": mode.String()}, contents(t, dir))
	}
}

// TestLinks: links stay, also links to links, to other folders, to nothing yet, and through linked folders.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real", "deep")
	require.NoError(t, os.MkdirAll(real, 0o755))
	require.NoError(t, os.Symlink("real/deep", filepath.Join(dir, "short")))
	require.NoError(t, os.WriteFile(filepath.Join(real, "target"), []byte("old"), 0o640))
	require.NoError(t, os.Symlink("short/target", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "link"), filepath.Join(dir, "link2")))
	require.NoError(t, os.Symlink("../beside", filepath.Join(real, "up")))
	before := contents(t, dir)

	for _, link := range []string{"link", "link2", "short/target"} {
		require.NoError(t, Check(filepath.Join(dir, link)))
		require.NoError(t, Write(filepath.Join(dir, link), text(link)))
		assert.Equal(t, before, contents(t, dir))
		assert.Equal(t, map[string]string{"target": link, "up": "-> ../beside"}, contents(t, real))
		assert.Equal(t, fs.FileMode(0o640), modeOf(t, filepath.Join(real, "target")))
	}
	require.NoError(t, Write(filepath.Join(dir, "short", "up"), text("new")))
	assert.Equal(t, map[string]string{"deep": fs.ModeDir.String(), "beside": "new"}, contents(t, filepath.Join(dir, "real")), ".. is that of the real folder")

	require.NoError(t, os.Symlink("b", filepath.Join(dir, "a")))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "b")))
	assert.ErrorContains(t, Check(filepath.Join(dir, "a")), "too many symbolic links")
}

// TestKinds: folders, pipes, devices and sockets are refused before anything happens, also behind links.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink("pipe", filepath.Join(dir, "link")))
	for path, kind := range map[string]string{dir: "a folder", pipe: "a pipe", filepath.Join(dir, "link"): "a pipe", os.DevNull: "a device"} {
		var refused *KindError
		require.ErrorAs(t, Check(path), &refused, path)
		assert.Contains(t, refused.Error(), " is "+kind+" ")
		require.ErrorAs(t, WriteAll(File{path, func(io.Writer) error { t.Error("was filled"); return nil }}), &refused, path)
	}
	assert.Len(t, contents(t, dir), 2)
}

// TestFolderTakesNoFile: a folder that may not be written to, or lies in a read-only file system.
func TestFolderTakesNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if os.Getuid() == 0 { // permissions do not hold for root
		mount(t, dir, "size=64k", 0)
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
		mount(t, dir, "size=64k", syscallRemountReadOnly)
	} else {
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
		require.NoError(t, os.Chmod(dir, 0o555))
	}
	for _, err := range []error{Check(path), Write(path, text("new")), Check(path + "2")} {
		require.Error(t, err)
		assert.NotContains(t, err.Error(), ".berth-")
	}
	assert.Equal(t, map[string]string{"f": "old"}, contents(t, dir))
}

// TestDiskFull: there is room for the old files only. Nothing changes and no temporary file stays.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "size=128k", 0)
	half := strings.Repeat("x", 80<<10)
	model, data := filepath.Join(dir, "model"), filepath.Join(dir, "data")
	require.NoError(t, Write(model, text("old")))
	for _, err := range []error{
		Write(model, text(half+half)),
		Write(data, text(half+half)),
		WriteAll(File{data, text(half)}, File{model, text(half)}),
		WriteAll(File{data, text("small")}, File{model, text(half + half)}),
	} {
		require.ErrorIs(t, err, syscall.ENOSPC)
		assert.NotContains(t, err.Error(), ".berth-")
		assert.Equal(t, map[string]string{"model": "old"}, contents(t, dir))
	}
	require.NoError(t, WriteAll(File{data, text(half)}, File{model, text("new")}))
	assert.Equal(t, map[string]string{"model": "new", "data": half}, contents(t, dir))
}

// TestKilled ends a process that writes two files at every step. The old model stays whole until the new one is, the new
// one never is there without its data, and what is left over is known by its name.
func TestKilled(t *testing.T) {
	if step := os.Getenv("SAFEFILE_KILL"); step != "" {
		writeAndDie(step, os.Getenv("SAFEFILE_DIR"))
		return
	}
	for _, c := range []struct {
		step        string
		model, data string
		leftOver    int
	}{
		{"fill data", "old", "", 1}, {"fill model", "old", "", 2}, {"before rename 0", "old", "", 2}, {"after rename 0", "old", "weights", 1},
		{"before rename 1", "old", "weights", 1}, {"after rename 1", "new", "weights", 0},
	} {
		t.Run(c.step, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, Write(filepath.Join(dir, "model"), text("old")))
			require.ErrorContains(t, helper(t, "TestKilled", "SAFEFILE_KILL="+c.step, "SAFEFILE_DIR="+dir), "killed")
			got := contents(t, dir)
			assert.Equal(t, c.model, got["model"])
			assert.Equal(t, c.data, got["data"])
			left, err := filepath.Glob(filepath.Join(dir, Pattern))
			require.NoError(t, err)
			assert.Len(t, left, c.leftOver)
			require.NoError(t, WriteAll(File{filepath.Join(dir, "data"), text("2")}, File{filepath.Join(dir, "model"), text("2")}), "what is left over is in nobody's way")
		})
	}
}

// writeAndDie writes data and model and kills its process at a step.
func writeAndDie(step, dir string) {
	at := func(name string) {
		if name == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	renames := 0
	rename = func(from, to string) error {
		at("before rename " + string(rune('0'+renames)))
		err := os.Rename(from, to)
		at("after rename " + string(rune('0'+renames)))
		renames++
		return err
	}
	fill := func(name, content string) File {
		return File{filepath.Join(dir, name), func(w io.Writer) error {
			_ = text(content[:2])(w)
			at("fill " + name)
			return text(content[2:])(w)
		}}
	}
	_ = WriteAll(fill("data", "weights"), fill("model", "new"))
}
