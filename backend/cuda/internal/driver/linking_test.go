//go:build linux && (amd64 || arm64)

package driver

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLinking: the command needs the system's loader and C library to open the driver, and neither with the tag nocuda.
func TestLinking(t *testing.T) {
	for _, c := range []struct {
		tags     string
		isStatic bool
	}{{"", false}, {"nocuda", true}} {
		name := filepath.Join(t.TempDir(), "berth")
		cmd := exec.Command("go", "build", "-tags", c.tags, "-o", name, "../../../../cmd/berth")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		f, err := elf.Open(name)
		require.NoError(t, err)
		libraries, err := f.ImportedLibraries()
		require.NoError(t, err)
		hasLoader := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		require.NoError(t, f.Close())
		assert.Equal(t, c.isStatic, len(libraries) == 0 && !hasLoader, "tags %q: %v", c.tags, libraries)
		if c.isStatic {
			out, err = exec.Command(name, "--help").CombinedOutput()
			require.NoError(t, err, string(out))
		}
	}
}
