package safefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	require.ErrorIs(t, WriteAll(File{filepath.Join(dir, "data"), text("weights")}, File{path, func(io.Writer) error { return cause }}), cause)
	assert.Equal(t, map[string]string{"f": "old"}, contents(t, dir))
}

// TestWriteAllFailsBetween: the second rename fails, the first file was not there before and is taken away again.
func TestWriteAllFailsBetween(t *testing.T) {
	dir := t.TempDir()
	model, data := filepath.Join(dir, "model"), filepath.Join(dir, "data")
	require.NoError(t, Write(model, text("old")))
	cause := errors.New("no")
	defer func() { rename = os.Rename }()
	rename = func(from, to string) error {
		if to == model {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: cause}
		}
		return os.Rename(from, to)
	}
	err := WriteAll(File{data, text("weights")}, File{model, text("new")})
	require.ErrorIs(t, err, cause)
	assert.EqualError(t, err, "rename "+model+": no")
	assert.Equal(t, map[string]string{"model": "old"}, contents(t, dir))

	err = WriteAll(File{data, text("weights")}, File{filepath.Join(dir, "replaced"), text("x")}, File{model, text("new")})
	require.ErrorIs(t, err, cause)
	assert.Equal(t, map[string]string{"model": "old"}, contents(t, dir))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "replaced"), []byte("before"), 0o644))
	err = WriteAll(File{data, text("weights")}, File{filepath.Join(dir, "replaced"), text("x")}, File{model, text("new")})
	require.ErrorIs(t, err, cause)
	assert.Equal(t, map[string]string{"model": "old", "replaced": "x", "data": "weights"}, contents(t, dir), "what was replaced may refer to the new file")
}

func TestMissingFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "f")
	for _, err := range []error{Check(path), Write(path, text("x"))} {
		require.ErrorIs(t, err, fs.ErrNotExist)
		assert.Contains(t, err.Error(), path+":", "the target is named, not the temporary file")
	}
	var kind *KindError
	for _, p := range []string{"", "folder/"} {
		require.ErrorAs(t, Check(p), &kind, "%q", p)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, Write(file, text("x")))
	require.Error(t, Write(filepath.Join(file, "below"), text("x")))
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
