package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/safefile"
)

// Files that a command is going to write are checked before it works: that they can be written, and that none is one that
// the command reads or another one that it writes.

// checkOutputs checks the files that flags name, "" for none.
func (a *app) checkOutputs(paths ...string) error {
	a.outputs = nil
	for _, path := range paths {
		if path == "" {
			continue
		}
		if path == "-" {
			return usagef("-o -: results are files, not written to the terminal; for a file of that name say ./-")
		}
		if err := safefile.Check(path); err != nil {
			return err
		}
		if isStandardOutput(path) {
			return usagef("%s is the standard output, where the command prints; write to another name", path)
		}
		for _, other := range a.outputs {
			if samePath(path, other) {
				return usagef("%s is to be written twice; give different names", path)
			}
		}
		a.outputs = append(a.outputs, path)
	}
	return nil
}

// isStandardOutput reports a file to which the standard output of the process leads: replacing it would lose what is printed.
func isStandardOutput(path string) bool {
	printed, err1 := os.Stdout.Stat()
	written, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(printed, written)
}

// samePath reports that two paths name the same file, there or not.
func samePath(x, y string) bool {
	i, err1 := os.Stat(x)
	j, err2 := os.Stat(y)
	if err1 == nil && err2 == nil {
		return os.SameFile(i, j)
	}
	absX, err1 := filepath.Abs(x)
	absY, err2 := filepath.Abs(y)
	return err1 == nil && err2 == nil && absX == absY
}

// spareInput refuses to write over a model that is read, unless optimize replaces it, over its weights, and over what is recorded beside it.
func (a *app) spareInput(model string) error {
	if len(a.outputs) == 0 {
		return nil
	}
	if a.replaces == "" || !samePath(model, a.replaces) {
		if err := a.reads(model); err != nil {
			return err
		}
	}
	sets, _ := filepath.Glob(filepath.Join(filepath.Dir(model), "test_data_set_*")) // the pattern is well-formed
	for _, dir := range sets {
		if err := a.readsFolder(dir); err != nil {
			return err
		}
	}
	weights, err := onnxexport.DataFiles(a.within(), model)
	if lacksMemory(err) { // else who opens the model says what is wrong
		return err
	}
	return a.reads(weights...)
}

// reads notes files that the command reads, and refuses to write over them.
func (a *app) reads(files ...string) error {
	a.read = append(a.read, files...)
	for _, out := range a.outputs {
		if slices.ContainsFunc(files, func(file string) bool { return samePath(file, out) }) {
			return isRead(out)
		}
	}
	return nil
}

func isRead(path string) error {
	return usagef("%s is read by this command; write to another name", path)
}

// readsFolder is reads for the tensors in a folder of recorded inputs and outputs.
func (a *app) readsFolder(dir string) error {
	entries, _ := os.ReadDir(dir) // who reads the folder tells of errors
	for _, e := range entries {
		if strings.EqualFold(filepath.Ext(e.Name()), ".pb") {
			if err := a.reads(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeFlag is a flag for a number of bytes, with a unit or without.
type sizeFlag int64

// Set reads 1048576, 1MB or 1MiB. Zero bytes are as much as one: everything is as large.
func (f *sizeFlag) Set(s string) error {
	if strings.TrimSpace(s) == "0" {
		*f = 1
		return nil
	}
	n, err := parseBytes(s)
	*f = sizeFlag(n)
	return err
}

// String is the number of bytes.
func (f *sizeFlag) String() string { return fmt.Sprint(int64(*f)) }

// Type is what help texts call the value.
func (f *sizeFlag) Type() string { return "size" }

// checkedWriter remembers the first error of standard output: a table that was not printed is no success.
type checkedWriter struct {
	io.Writer
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("standard output: %w", err)
	}
	return n, err
}
