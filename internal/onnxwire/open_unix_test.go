//go:build unix

package onnxwire

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOpenKinds: a pipe is read, also one that nobody writes to; what has no end or no content is refused.
func TestOpenKinds(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	_, err := Open("pipe")
	assert.ErrorContains(t, err, "is a pipe without content")

	model, err := Marshal(&Model{Graph: &Graph{Name: "g"}})
	require.NoError(t, err)
	both, err := os.OpenFile("pipe", os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = both.Write(model)
	require.NoError(t, err)
	read, err := os.OpenFile("pipe", os.O_RDONLY, 0)
	require.NoError(t, err)
	require.NoError(t, both.Close())
	f, err := Open("/dev/fd/" + strconv.Itoa(int(read.Fd())))
	if assert.NoError(t, err) {
		assert.Equal(t, "g", f.Model.Graph.Name)
		require.NoError(t, f.Close())
	}
	require.NoError(t, read.Close())

	socket, err := net.Listen("unix", "socket")
	require.NoError(t, err)
	defer socket.Close()
	_, err = Open("socket")
	assert.Error(t, err)
	const charDevice, zero = syscall.S_IFCHR | 0o666, 1<<8 | 5
	if syscall.Mknod("device", charDevice, zero) == nil { // root only
		_, err = Open("device")
		assert.ErrorContains(t, err, "neither a file nor a pipe")
	}
}
