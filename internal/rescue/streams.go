package rescue

import (
	"errors"
	"fmt"
	"io"
	"reflect"
)

// Reader guards a reader of the caller's: a nil one, one that panics, and one that says it has read more than it was given room
// for, are errors of its Read.
func Reader(r io.Reader) io.Reader { return guardedReader{r} }

// Writer is [Reader] for writers.
func Writer(w io.Writer) io.Writer { return guardedWriter{w} }

type guardedReader struct{ r io.Reader }

func (g guardedReader) Read(p []byte) (int, error) {
	if g.r == nil {
		return 0, errors.New("the reader is nil")
	}
	return counted("the reader", g.r, g.r.Read, p)
}

type guardedWriter struct{ w io.Writer }

func (g guardedWriter) Write(p []byte) (int, error) {
	if g.w == nil {
		return 0, errors.New("the writer is nil")
	}
	return counted("the writer", g.w, g.w.Write, p)
}

// counted is what a call returns, unless it panics or its count is impossible.
func counted(of string, stream any, call func([]byte) (int, error), p []byte) (n int, err error) {
	defer func() {
		if v := reflect.ValueOf(stream); err != nil && err != io.EOF && v.Kind() == reflect.Pointer && v.IsNil() {
			n, err = 0, fmt.Errorf("%s is a nil %T", of, stream)
		}
	}()
	defer Into(&err)
	Call(of, func() { n, err = call(p) })
	if n < 0 || n > len(p) {
		return 0, fmt.Errorf("%T breaks the rules of its interface: %d bytes of at most %d", stream, n, len(p))
	}
	return n, err
}
