//go:build !unix

package sysmem

import (
	"errors"
	"os"
)

// MapFile leaves files to be read into memory: Windows keeps a mapped file from being
// replaced, and elsewhere there is no mapping at all.
func MapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// UnmapFile ends a mapping.
func UnmapFile([]byte) error { return errors.ErrUnsupported }
