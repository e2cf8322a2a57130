//go:build linux && (amd64 || arm64)

package holder

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ends says that the test binary is a command that ends, with a pipe open.
const ends = "BERTH_TEST_HOLDER_ENDS"

func TestMain(m *testing.M) {
	if os.Getenv(ends) == "" {
		os.Exit(m.Run())
	}
	sleeping.Sec = 1
	Keep(os.NewFile(3, "pipe"))
	Start()
	os.Exit(7)
}

// TestHolder: a process that has ended has its files open for a while, but not its standard streams. A pipe tells: it ends when nobody can
// write to it any more.
func TestHolder(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	out, streams, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ends+"=1")
	c.ExtraFiles, c.Stdout, c.Stderr = []*os.File{write}, streams, streams
	begin := time.Now()
	require.NoError(t, c.Start())
	require.NoError(t, write.Close())
	require.NoError(t, streams.Close())
	require.Error(t, c.Wait())
	require.Equal(t, 7, c.ProcessState.ExitCode())
	for name, f := range map[string]*os.File{"streams": out, "file": read} {
		require.NoError(t, f.SetReadDeadline(begin.Add(10*time.Second)), name)
		_, err = f.Read(make([]byte, 1))
		require.ErrorContains(t, err, "EOF", name)
	}
	assert.Greater(t, time.Since(begin), 900*time.Millisecond, "the file was closed when the process ended")
}
