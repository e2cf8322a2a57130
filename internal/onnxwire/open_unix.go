//go:build unix

package onnxwire

import (
	"os"
	"syscall"
)

// openRead opens a file without waiting for another process to open the other end of a pipe: one without a writer is empty.
func openRead(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
