//go:build unix

package onnxwire

import (
	"os"
	"syscall"
)

// openRead opens a file without waiting for somebody to open the other end of a pipe: one that nobody writes to is empty.
func openRead(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
