//go:build !unix

package onnxwire

import (
	"errors"
	"os"
)

// mmap leaves files to be read into memory: Windows keeps a mapped file from being replaced, and elsewhere there is no
// mapping at all.
func mmap(*os.File, int) ([]byte, func([]byte) error, error) {
	return nil, nil, errors.ErrUnsupported
}
