package conformance

import (
	"errors"
	"fmt"
	"io"
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

// CheckRegular reports a path that is missing or no regular file.
func CheckRegular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return err
}

// mostText is how large a file with the tolerance of a case may be, in bytes.
const mostText = 1 << 20

// readText reads a small file of a file system, and refuses what is none.
func readText(files fs.FS, name string) ([]byte, error) {
	if err := checkRegular(files, name); err != nil {
		return nil, err
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostText+1))
	if len(data) > mostText {
		err = fmt.Errorf("%s has more than %d bytes", name, mostText)
	}
	return data, err
}

// checkRegular is [CheckRegular] in a file system.
func checkRegular(files fs.FS, name string) error {
	info, err := fs.Stat(files, name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	return err
}
