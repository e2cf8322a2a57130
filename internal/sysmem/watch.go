package sysmem

import (
	"fmt"
	"os"
	"time"
)

// Writes to a file are visible in its mapping, and a page beyond the end of a file that was
// cut short raises a fault (SIGBUS). Two things guard against both:
//
//	fault    every goroutine that reads mapped bytes sets debug.SetPanicOnFault, which
//	         makes the fault a panic that can be recovered, in assembly as well
//	content  size and time of modification are compared with those when the file was mapped
//
// A file that another one replaces by renaming is not changed: the mapping keeps the old one.

// FileChangedError reports a mapped file that was written to or cut short after it was opened.
type FileChangedError struct{ Path string }

// Error names the file and the remedies.
func (e *FileChangedError) Error() string {
	return fmt.Sprintf("file %q was changed after it was opened, and weights are read from it: open it again; replace files by renaming, or open them without mapping", e.Path)
}

// Watch notices that a mapped file is written to. It holds the file open.
type Watch struct {
	file *os.File
	fd   uintptr
	was  stamp
}

// timeStep is the coarsest step of modification times on common systems: a file written
// twice within one may keep its time.
const timeStep = 20 * time.Millisecond

// NewWatch watches a file from now on and becomes its owner. It waits until later writes must
// change the time of modification.
func NewWatch(f *os.File) (*Watch, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if age := time.Since(info.ModTime()); age >= 0 && age < timeStep {
		time.Sleep(timeStep - age)
	}
	w := &Watch{file: f, fd: f.Fd()}
	w.was, err = stampOf(w.fd)
	return w, err
}

// Check returns a [*FileChangedError] if the file was written to.
func (w *Watch) Check() error {
	if now, err := stampOf(w.fd); err != nil || now != w.was {
		return &FileChangedError{w.file.Name()}
	}
	return nil
}

// Close ends watching.
func (w *Watch) Close() error { return w.file.Close() }
