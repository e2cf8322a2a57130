//go:build unix

package onnximport

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExternalDataKinds: pipes, sockets and devices are refused without being opened, which could wait for ever.
func TestExternalDataKinds(t *testing.T) {
	dir := dataFolder(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	link(t, dir, "pipe", "link")
	t.Chdir(dir) // the path of a socket is short
	socket, err := net.Listen("unix", "socket")
	require.NoError(t, err)
	defer socket.Close()
	locations := []string{"pipe", "link", "socket"}
	const charDevice, zero = syscall.S_IFCHR | 0o666, 1<<8 | 5
	if syscall.Mknod(at("device"), charDevice, zero) == nil { // root only
		locations = append(locations, "device")
	}
	for _, location := range locations {
		for _, opts := range []Options{{}, {DataRoot: dir}} {
			_, err := FromModel(externalModel("location", location), at("m.onnx"), opts)
			assert.ErrorContains(t, err, "not a regular file", location)
		}
	}
}
