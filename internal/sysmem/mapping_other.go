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

// stamp would tell that a mapped file was written to.
type stamp struct{}

func stampOf(uintptr) (stamp, error) { return stamp{}, errors.ErrUnsupported }

// HardLinks is 1: other systems do not tell here how many names a file has.
func HardLinks(os.FileInfo) int { return 1 }
