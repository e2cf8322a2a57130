package sysmem

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
