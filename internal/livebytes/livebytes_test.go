package livebytes_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/livebytes"
)

// TestPeak: what is reachable while a function runs counts, also if nothing is left of it.
func TestPeak(t *testing.T) {
	const size = 32 << 20
	before := livebytes.Now()
	most, err := livebytes.Peak(0, func() error {
		b := make([]byte, size)
		for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; {
			time.Sleep(time.Millisecond) // so that a collection ends in the meantime
		}
		runtime.KeepAlive(b)
		return nil
	})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, most-before, int64(size))
	assert.Less(t, livebytes.Now()-before, int64(size))
}

// TestPeakError: the first error ends the calls.
func TestPeakError(t *testing.T) {
	calls, failed := 0, errors.New("failed")
	_, err := livebytes.Peak(time.Minute, func() error {
		calls++
		return failed
	})
	assert.Equal(t, 1, calls)
	assert.ErrorIs(t, err, failed)
}
