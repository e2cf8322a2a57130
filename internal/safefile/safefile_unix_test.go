//go:build unix

package safefile

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
	for _, mode := range []fs.FileMode{0o600, 0o666, 0o640, 0o755, 0o200} {
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

// TestModeOfSeveral: a new file that the last one refers to is as private as that was before; beside a new one it follows the umask.
func TestModeOfSeveral(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for _, c := range []struct {
		model      fs.FileMode // 0: there is none yet
		data, want fs.FileMode
	}{{0o600, 0, 0o600}, {0o640, 0, 0o640}, {0, 0, 0o644}, {0o600, 0o644, 0o644}} {
		dir := t.TempDir()
		model, data := filepath.Join(dir, "model"), filepath.Join(dir, "data")
		for path, mode := range map[string]fs.FileMode{model: c.model, data: c.data} {
			if mode != 0 {
				require.NoError(t, os.WriteFile(path, []byte("old"), mode))
				require.NoError(t, os.Chmod(path, mode))
			}
		}
		require.NoError(t, WriteAll(t.Context(), nil, File{Path: data, Fill: text("x")}, File{Path: model, Fill: text("y")}))
		assert.Equal(t, c.want, modeOf(t, data), "%+v", c)
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

// TestOwner: owner and group stay where the process may set them; the other names of a file keep what they had.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	path, twin := filepath.Join(dir, "f"), filepath.Join(dir, "twin")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o640))
	require.NoError(t, os.Link(path, twin))
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 1234, 4321
		require.NoError(t, os.Chown(path, uid, gid))
	}
	require.NoError(t, Write(path, text("new")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	assert.Equal(t, []int{uid, gid}, []int{int(st.Uid), int(st.Gid)})
	assert.Equal(t, fs.FileMode(0o640), info.Mode())
	assert.Equal(t, map[string]string{"f": "new", "twin": "old"}, contents(t, dir))
}

// TestLinksAtNamedFiles: a file that the program names replaces a link at its name, wherever that leads, and nothing is written there.
func TestLinksAtNamedFiles(t *testing.T) {
	for _, to := range []string{"other", "nothing", ".", "link"} {
		t.Run(to, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), []byte("old"), 0o600))
			require.NoError(t, os.Symlink(to, filepath.Join(dir, "link")))
			require.NoError(t, WriteAll(t.Context(), nil, File{Path: filepath.Join(dir, "link"), Named: true, Fill: text("x")}, File{Path: filepath.Join(dir, "m"), Fill: text("y")}))
			assert.Equal(t, map[string]string{"other": "old", "link": "x", "m": "y"}, contents(t, dir))
		})
	}
}

// TestReplacedLinkStaysReplaced: when a later file can not be renamed, the one in the place of a link stays: an old model may read it by that name.
func TestReplacedLinkStaysReplaced(t *testing.T) {
	dir := t.TempDir()
	data, model := filepath.Join(dir, "data"), filepath.Join(dir, "model")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "elsewhere"), []byte("weights"), 0o600))
	require.NoError(t, os.WriteFile(model, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("elsewhere", data))
	cause := errors.New("no")
	step = func(op, path string) error {
		if op == "rename" && path == model {
			return cause
		}
		return nil
	}
	defer func() { step = func(string, string) error { return nil } }()
	require.ErrorIs(t, WriteAll(t.Context(), nil, File{Path: data, Named: true, Fill: text("weights")}, File{Path: model, Fill: text("new")}), cause)
	assert.Equal(t, map[string]string{"data": "weights", "elsewhere": "weights", "model": "old"}, contents(t, dir))
}

// TestReadOnly: a file that may not be written to is not replaced either, also by root and behind a link.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o444))
	require.NoError(t, os.Symlink("f", filepath.Join(dir, "link")))
	for _, p := range []string{path, filepath.Join(dir, "link")} {
		for _, err := range []error{Check(p), Write(p, text("new"))} {
			var refused *TargetError
			require.ErrorAs(t, err, &refused)
			require.ErrorIs(t, err, fs.ErrPermission)
			assert.EqualError(t, err, path+" is read-only; make it writable, or write to another name")
		}
	}
	assert.Equal(t, map[string]string{"f": "old", "link": "-> f"}, contents(t, dir))
}

// TestKinds: folders, pipes, devices and sockets are refused before anything happens, also behind links.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Symlink("pipe", at("link")))
	require.NoError(t, os.Symlink("link", at("link2")))
	require.NoError(t, os.Symlink(".", at("here")))
	socket, err := net.Listen("unix", at("s"))
	require.NoError(t, err)
	defer socket.Close()
	kinds := map[string]string{dir: "a folder", at("here"): "a folder", at("pipe"): "a pipe", at("link"): "a pipe", at("link2"): "a pipe", at("s"): "a socket", os.DevNull: "a device"}
	const charDevice, null = syscall.S_IFCHR | 0o666, 1<<8 | 3
	if syscall.Mknod(at("device"), charDevice, null) == nil { // root only
		kinds[at("device")] = "a device"
	}
	before := contents(t, dir)
	for path, kind := range kinds {
		var refused *TargetError
		require.ErrorAs(t, Check(path), &refused, path)
		assert.Contains(t, refused.Error(), " is "+kind+" ")
		filled := func(io.Writer) error { t.Error("was filled"); return nil }
		require.ErrorAs(t, WriteAll(context.Background(), nil, File{Path: at("data"), Fill: filled}, File{Path: path, Fill: filled}), &refused, path)
	}
	assert.Equal(t, before, contents(t, dir))
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
		WriteAll(context.Background(), nil, File{Path: data, Fill: text(half)}, File{Path: model, Fill: text(half)}),
		WriteAll(context.Background(), nil, File{Path: data, Fill: text("small")}, File{Path: model, Fill: text(half + half)}),
	} {
		require.ErrorIs(t, err, syscall.ENOSPC)
		assert.NotContains(t, err.Error(), ".berth-")
		assert.Equal(t, map[string]string{"model": "old"}, contents(t, dir))
	}
	require.NoError(t, WriteAll(context.Background(), nil, File{Path: data, Fill: text(half)}, File{Path: model, Fill: text("new")}))
	assert.Equal(t, map[string]string{"model": "new", "data": half}, contents(t, dir))
}

// TestKilled ends a process at every step of a replacement: the old files or the new ones are whole, and the next writer
// removes what is left over.
func TestKilled(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv("SAFEFILE_KILL")); err == nil {
		replaceAndDie(n, os.Getenv("SAFEFILE_DIR"))
		return
	}
	versions := map[string]int{}
	for n := 0; ; n++ {
		dir := t.TempDir()
		obsolete, data, model := pair(dir, "old")
		require.NoError(t, WriteAll(context.Background(), obsolete, data, model))
		err := helper(t, "TestKilled", "SAFEFILE_KILL="+strconv.Itoa(n), "SAFEFILE_DIR="+dir)
		versions[checkPair(t, dir)]++
		obsolete, data, model = pair(dir, "new")
		require.NoError(t, WriteAll(context.Background(), obsolete, data, model))
		assert.Equal(t, map[string]string{"model": "new", "data.new": "weights of new"}, contents(t, dir), "step %d", n)
		if err == nil {
			break
		}
		require.ErrorContains(t, err, "killed")
	}
	assert.Equal(t, map[string]int{"old": 9, "new": 3}, versions)
}

// replaceAndDie replaces a pair of files and kills its process at the nth step.
func replaceAndDie(n int, dir string) {
	step = func(string, string) error {
		if n--; n < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	obsolete, data, model := pair(dir, "new")
	_ = WriteAll(context.Background(), obsolete, data, model)
}

// TestDiscard: of files that a context has ended writing, the large ones are closed by somebody else, without a name. Other errors wait for them.
func TestDiscard(t *testing.T) {
	defer func(f func(*os.File)) { CloseRemoved = f }(CloseRemoved)
	var given []*os.File
	CloseRemoved = func(f *os.File) { given = append(given, f) }
	full := errors.New("full")
	for name, c := range map[string]struct {
		size  int
		err   error
		given bool
	}{
		"small":     {largeFile - 1, nil, false},
		"large":     {largeFile, nil, true},
		"disk full": {largeFile, full, false},
	} {
		for where, write := range map[string]func(context.Context, string, func(io.Writer) error) error{
			"a file": func(ctx context.Context, dir string, fill func(io.Writer) error) error {
				return WriteAll(ctx, nil, File{Path: filepath.Join(dir, "out"), Fill: fill})
			},
			"a folder": func(ctx context.Context, dir string, fill func(io.Writer) error) error {
				dir = filepath.Join(dir, "folder")
				require.NoError(t, os.Mkdir(dir, 0o777))
				f, err := os.Create(filepath.Join(dir, "out"))
				require.NoError(t, err)
				defer RemoveFolder(ctx, dir)
				defer f.Close()
				return errors.Join(fill(f), ctx.Err())
			},
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				given = nil
				dir := t.TempDir()
				ctx, cancel := context.WithCancel(t.Context())
				err := write(ctx, dir, func(w io.Writer) error {
					_, err := w.Write(make([]byte, c.size))
					if c.err == nil {
						cancel()
					}
					return errors.Join(err, c.err)
				})
				cancel()
				require.ErrorIs(t, err, cmp.Or(c.err, context.Canceled))
				assert.Empty(t, contents(t, dir))
				if require.Equal(t, c.given, len(given) == 1); c.given {
					info, err := given[0].Stat()
					require.NoError(t, err)
					assert.EqualValues(t, c.size, info.Size())
					require.NoError(t, given[0].Close())
				}
			})
		}
	}
}

// TestAbandon: what a process that ends has not finished is gone, and gets no name any more; what has its name stays.
func TestAbandon(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(filepath.Join(dir, "old"), text("x")))
	ended, abandoned := make(chan error), make(chan func(), 1)
	go func() {
		ended <- Write(filepath.Join(dir, "new"), func(w io.Writer) error {
			abandoned <- Abandon()
			return text("y")(w)
		})
	}()
	resume := <-abandoned
	assert.Equal(t, map[string]string{"old": "x"}, contents(t, dir))
	select {
	case err := <-ended:
		t.Fatal("renamed: ", err)
	case <-time.After(20 * time.Millisecond):
	}
	resume()
	require.ErrorIs(t, <-ended, fs.ErrNotExist)
	assert.Equal(t, map[string]string{"old": "x"}, contents(t, dir))
	unfinished.Range(func(f, _ any) bool { t.Error(f.(*os.File).Name()); return true })
}
