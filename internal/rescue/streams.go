package rescue

import (
	"errors"
	"fmt"
	"io"
)

// Reader guards a reader of the caller's: a nil one, and one that says it has read more than it was given room for, are
// errors of its Read.
func Reader(r io.Reader) io.Reader { return guardedReader{r} }

// Writer is [Reader] for writers.
func Writer(w io.Writer) io.Writer { return guardedWriter{w} }

type guardedReader struct{ r io.Reader }

func (g guardedReader) Read(p []byte) (int, error) {
	if g.r == nil {
		return 0, errors.New("the reader is nil")
	}
	n, err := g.r.Read(p)
	return counted(g.r, n, len(p), err)
}

type guardedWriter struct{ w io.Writer }

func (g guardedWriter) Write(p []byte) (int, error) {
	if g.w == nil {
		return 0, errors.New("the writer is nil")
	}
	n, err := g.w.Write(p)
	return counted(g.w, n, len(p), err)
}

// counted is what a call returned, unless its count is impossible.
func counted(stream any, n, most int, err error) (int, error) {
	if n < 0 || n > most {
		return 0, fmt.Errorf("%T breaks the rules of its interface: %d bytes of at most %d", stream, n, most)
	}
	return n, err
}
