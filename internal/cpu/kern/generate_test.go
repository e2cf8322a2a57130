package kern

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGeneratedFilesAreCurrent runs the generator and compares its output with
// the committed files.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("the generator takes some seconds: not in short mode")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to run the generator with")
	}
	dir := t.TempDir()
	env := append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	inGenerator := func(args ...string) ([]byte, error) {
		c := exec.Command(goTool, args...)
		c.Dir, c.Env = "asmgen", env
		return c.CombinedOutput()
	}
	if out, err := inGenerator("mod", "download"); err != nil {
		t.Skipf("the generator's own modules cannot be had here: %v\n%s", err, out)
	}
	out, err := inGenerator("build", "-o", filepath.Join(dir, "asmgen"), ".")
	require.NoError(t, err, "%s", out)
	for _, pkg := range []string{"machine", "simd"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, pkg), 0o755))
	}
	run := exec.Command(filepath.Join(dir, "asmgen"), "-out", dir)
	out, err = run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*_amd64.*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		want, err := os.ReadFile(f)
		require.NoError(t, err)
		name, err := filepath.Rel(dir, f)
		require.NoError(t, err)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s is out of date: go run . in asmgen", name)
	}
}

// The vector instructions are those of AVX alone: on processors that keep the halves of a register apart, an
// instruction of SSE waits for the upper half of the one that it writes.
func TestEncodings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("simd", "*_amd64.s"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	sse := regexp.MustCompile(`(?m)^\t[^VT/#][A-Z0-9]+ .*\bX[0-9]+.*$`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		instructions := strings.ReplaceAll(string(text), "; ", "\n\t") // of a line that has several
		require.Empty(t, sse.FindAllString(instructions, 3), f)
	}
}
