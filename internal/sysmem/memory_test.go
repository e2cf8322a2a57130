package sysmem

import (
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
