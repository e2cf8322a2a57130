package conformance

import (
	"errors"
	"io/fs"
	"os"
)

// errNotRegular is the reason why a path is not opened: a pipe without a writer, or a device, would block.
var errNotRegular = errors.New("is no regular file; save its content to one")

// OpenRegular opens a file to read, and refuses what is no regular file.
func OpenRegular(path string) (*os.File, error) {
	if err := CheckRegular(path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ReadRegular reads a whole file, and refuses what is no regular file.
func ReadRegular(path string) ([]byte, error) {
	if err := CheckRegular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// CheckRegular reports a path that is missing or no regular file.
func CheckRegular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return err
}

// readRegular is [ReadRegular] in a file system.
func readRegular(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	return fs.ReadFile(files, name)
}
