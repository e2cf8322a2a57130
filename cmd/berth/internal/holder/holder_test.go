//go:build unix

package holder

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if Serve() {
		return
	}
	os.Exit(m.Run())
}

// TestHolder: the process has the file open as long as its input is, which is as long as this one runs. A pipe tells: it ends when nobody
// can write to it any more.
func TestHolder(t *testing.T) {
	Start()
	require.Nil(t, input, "nothing to hold")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	Keep(write)
	Start()
	require.NoError(t, write.Close())

	require.NoError(t, read.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = read.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "held")
	require.NoError(t, input.Close())
	require.NoError(t, read.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = read.Read(make([]byte, 1))
	assert.ErrorContains(t, err, "EOF")
}
