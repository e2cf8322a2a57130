package safefile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// text fills a file with a string.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// contents reads a folder: names to content, links to "-> target".
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			require.NoError(t, err)
			out[e.Name()] = "-> " + to
		case e.Type().IsRegular():
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			out[e.Name()] = string(data)
		default:
			out[e.Name()] = e.Type().String()
		}
	}
	return out
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, Check("new"))
	assert.Empty(t, contents(t, "."), "Check leaves nothing behind")
	require.NoError(t, Write("new", text("one")))
	require.NoError(t, Check("new"))
	require.NoError(t, Write(filepath.Join(dir, "new"), text("two")))
	assert.Equal(t, map[string]string{"new": "two"}, contents(t, "."))
}

func TestWriteLarge(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("0123456789", 50_000)
	require.NoError(t, Write(filepath.Join(dir, "f"), func(w io.Writer) error {
		for _, part := range []string{long[:3], long[3:300_000], long[300_000:]} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		return nil
	}))
	assert.Equal(t, map[string]string{"f": long}, contents(t, dir))
}

// TestPaced: a file of several pieces is given to the disk while it is written, piece by piece and each once, and a temporary one never.
func TestPaced(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", (3*syncPiece+pieceSize)/16)
	for _, temporary := range []bool{false, true} {
		dir, steps := t.TempDir(), failAt(t, 1000, nil)
		require.NoError(t, WriteAll(t.Context(), nil, File{Path: filepath.Join(dir, "f"), Fill: text(long), Temporary: temporary}))
		assert.Equal(t, !temporary, slices.Contains(*steps, "sync f"))
		assert.Equal(t, !temporary, slices.Contains(*steps, "sync folder "+filepath.Base(dir)))
		assert.True(t, contents(t, dir)["f"] == long)
	}
	w := &pacedWriter{}
	var err error
	w.file, err = os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer w.file.Close()
	var starts []int64
	for piece := []byte(long[:3<<20]); w.written < 30<<20; {
		_, err := w.Write(piece)
		require.NoError(t, err)
		if len(starts) == 0 || w.started != starts[len(starts)-1] {
			starts = append(starts, w.started)
		}
	}
	assert.Equal(t, []int64{0, 9 << 20, 18 << 20, 27 << 20}, starts)
}

// TestWriteFails: an error of the content leaves everything as it was.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, Write(path, text("old")))
	cause := errors.New("no more")
	require.ErrorIs(t, Write(path, func(w io.Writer) error {
		_ = text("half")(w)
		return cause
	}), cause)
	assert.PanicsWithValue(t, "at the disco", func() { _ = Write(path, func(io.Writer) error { panic("at the disco") }) })
	require.ErrorIs(t, WriteAll(context.Background(), nil, File{Path: filepath.Join(dir, "data"), Fill: text("weights")}, File{Path: path, Fill: func(io.Writer) error { return cause }}), cause)
	assert.Equal(t, map[string]string{"f": "old"}, contents(t, dir))
}

// failAt makes the nth step fail and returns the names of the steps taken.
func failAt(t *testing.T, n int, cause error) *[]string {
	t.Helper()
	taken := &[]string{}
	step = func(op, path string) error {
		*taken = append(*taken, op+" "+filepath.Base(path))
		if len(*taken) == n+1 {
			return cause
		}
		return nil
	}
	t.Cleanup(func() { step = func(string, string) error { return nil } })
	return taken
}

// pair is a model file that says which data file it refers to, and that data file.
func pair(dir, version string) (obsolete func(bool) []string, data, model File) {
	data = File{Path: filepath.Join(dir, "data."+version), Fill: text("weights of " + version)}
	model = File{Path: filepath.Join(dir, "model"), Fill: text(version)}
	return func(bool) []string {
		var out []string
		all, _ := filepath.Glob(filepath.Join(dir, "data.*"))
		for _, path := range all {
			if path != data.Path {
				out = append(out, path)
			}
		}
		return out
	}, data, model
}

// checkPair requires the old files or the new ones, whole, and returns which.
func checkPair(t *testing.T, dir string) string {
	t.Helper()
	got := contents(t, dir)
	version := got["model"]
	require.Contains(t, []string{"old", "new"}, version)
	require.Equal(t, "weights of "+version, got["data."+version])
	return version
}

// TestStepFails lets each step of a replacement fail in turn: the old files stay or the new ones are complete, and nothing
// is left over that the next writer does not remove.
func TestStepFails(t *testing.T) {
	cause := errors.New("no")
	versions := map[string]int{}
	for n := 0; ; n++ {
		dir := t.TempDir()
		obsolete, data, model := pair(dir, "old")
		require.NoError(t, WriteAll(context.Background(), obsolete, data, model))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".berth-dead.tmp"), nil, 0o644))
		taken := failAt(t, n, cause)
		obsolete, data, model = pair(dir, "new")
		err := WriteAll(context.Background(), obsolete, data, model)
		version := checkPair(t, dir)
		versions[version]++
		if n >= len(*taken) {
			require.NoError(t, err)
			assert.Equal(t, []string{"remove .berth-dead.tmp", "create data.new", "write data.new", "sync data.new", "create model", "write model", "sync model",
				"rename data.new", "sync folder " + filepath.Base(dir), "rename model", "sync folder " + filepath.Base(dir), "remove data.old"}, *taken)
			assert.Equal(t, map[string]string{"model": "new", "data.new": "weights of new"}, contents(t, dir))
			break
		}
		at := (*taken)[n]
		assert.NotContains(t, contents(t, dir), "data."+map[string]string{"old": "new", "new": "none"}[version], "after %s", at)
		if n > 0 { // what is left over need not be removed
			require.ErrorIs(t, err, cause, at)
			left, err := filepath.Glob(filepath.Join(dir, Pattern))
			require.NoError(t, err)
			assert.Empty(t, left, "after %s", at)
		}
		step = func(string, string) error { return nil }
		require.NoError(t, WriteAll(context.Background(), obsolete, data, model))
		assert.Equal(t, map[string]string{"model": "new", "data.new": "weights of new"}, contents(t, dir), "after %s", at)
	}
	assert.Equal(t, map[string]int{"old": 9, "new": 4}, versions)
}

// TestReplacedFileMayReferToTheFirst: when an old file was replaced before a step fails, new files stay.
func TestReplacedFileMayReferToTheFirst(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"replaced", "model"} {
		require.NoError(t, os.WriteFile(path(name), []byte("old"), 0o644))
	}
	cause := &os.LinkError{Op: "rename", Err: errors.New("no")}
	step = func(op, p string) error {
		if op == "rename" && p == path("model") {
			return cause
		}
		return nil
	}
	defer func() { step = func(string, string) error { return nil } }()
	err := WriteAll(context.Background(), nil, File{Path: path("data"), Fill: text("weights")}, File{Path: path("replaced"), Fill: text("x")}, File{Path: path("model"), Fill: text("new")})
	assert.EqualError(t, err, "rename "+path("model")+": no")
	assert.Equal(t, map[string]string{"model": "old", "replaced": "x", "data": "weights"}, contents(t, dir))
}

// TestTwoWriters writes the same files at once, with the same content and with others: one whole pair is left, and nothing else.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir()
	obsolete, data, model := pair(dir, "old")
	require.NoError(t, WriteAll(context.Background(), obsolete, data, model))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				obsolete, data, model := pair(dir, []string{"old", "new"}[i%2])
				assert.NoError(t, WriteAll(context.Background(), obsolete, data, model))
			}
		})
	}
	wg.Wait()
	checkPair(t, dir)
	assert.Len(t, contents(t, dir), 2)
}

// TestLeftOver: files of writers that are at work stay, others that only look like them, too.
func TestLeftOver(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".berth-folder.tmp"), 0o755))
	for _, name := range []string{".berth-1.tmp", ".berth-2.tmp", ".berth-.txt", "berth-1.tmp", ".berth-1.tmp~"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
	}
	require.NoError(t, Write(filepath.Join(dir, "a"), func(w io.Writer) error {
		require.NoError(t, Write(filepath.Join(dir, "b"), text("b")))
		require.NoError(t, Check(filepath.Join(dir, "c")))
		return text("a")(w)
	}))
	assert.Equal(t, map[string]string{"a": "a", "b": "b", ".berth-folder.tmp": "d---------", ".berth-.txt": "x", "berth-1.tmp": "x", ".berth-1.tmp~": "x"}, contents(t, dir))
}

func TestMissingFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "none", "f")
	var refused *TargetError
	for _, err := range []error{Check(path), Write(path, text("x"))} {
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, fs.ErrNotExist)
		assert.EqualError(t, err, path+" can not be written: there is no folder "+filepath.Dir(path)+"; create it, or give another name")
	}
	for _, p := range []string{"", "folder/", dir} {
		require.ErrorAs(t, Check(p), &refused, "%q", p)
	}
	require.EqualError(t, Check(""), `"" is no name of a file; give one`)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, Write(file, text("x")))
	below := filepath.Join(file, "below")
	for _, err := range []error{Check(below), Write(below, text("x"))} {
		require.ErrorAs(t, err, &refused)
		require.EqualError(t, err, below+" can not be written: "+file+" is no folder; give another name")
	}
	require.Error(t, Check(filepath.Join(dir, strings.Repeat("long", 100))))
	require.Error(t, Check(filepath.Join(dir, "a\x00b")))
}

// helper runs a test of this binary in a process of its own, with environment variables set.
func helper(t *testing.T, name string, env ...string) error {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), "SAFEFILE_HELPER=1"), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	return err
}
