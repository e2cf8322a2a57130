package sysmem

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGoLimit: the default budget is no more than GOMEMLIMIT, which a process is started with; 0 is no limit.
func TestGoLimit(t *testing.T) {
	if os.Getenv("BERTH_TEST_CHILD") == "" {
		for _, limit := range []string{"0", "50MiB"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestGoLimit$", "-test.v")
			cmd.Env = append(os.Environ(), "BERTH_TEST_CHILD=1", "GOMEMLIMIT="+limit)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		return
	}
	if os.Getenv("GOMEMLIMIT") == "0" {
		assert.Equal(t, share(Memory(), math.MaxInt), Default())
		return
	}
	assert.EqualValues(t, 50<<20, Default())
	var full *Error
	require.ErrorAs(t, Budget(0).Ask("an arena", 51<<20), &full)
	assert.EqualValues(t, 50<<20, full.Limit)
	require.NoError(t, Budget(60<<20).Ask("an arena", 51<<20), "a limit that is given counts alone")
}

func TestMemory(t *testing.T) {
	switch runtime.GOOS {
	case "linux", "darwin", "windows":
		assert.Greater(t, Memory(), int64(64<<20), "a machine that runs this test has more")
	default:
		assert.Zero(t, Memory())
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		name                  string
		memory, largest, want int64
	}{
		{"known", 8 << 30, math.MaxInt64, 6 << 30},
		{"not known", 0, math.MaxInt64, 64 << 30},
		{"32 bits", 8 << 30, math.MaxInt32, math.MaxInt32 / 4 * 3},
		{"32 bits, not known", 0, math.MaxInt32, math.MaxInt32 / 4 * 3},
		{"32 bits, little memory", 1 << 30, math.MaxInt32, 3 << 28},
	} {
		assert.Equal(t, c.want, share(c.memory, c.largest), c.name)
	}
}

// TestCopyBeside: copying and clearing memory do not wait for goroutines that compute at each piece.
func TestCopyBeside(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	from, to := make([]byte, 48*copyPiece), make([]byte, 48*copyPiece)
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	for name, f := range map[string]func() error{
		"Copy": func() error { return Copy(t.Context(), to, from) },
		"zero": func() error { return zero(t.Context(), to) },
	} {
		begin := time.Now()
		require.NoError(t, f())
		assert.Less(t, time.Since(begin), time.Second, name)
	}
}
