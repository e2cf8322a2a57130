package onnximport

import (
	"fmt"
	"strings"
)

// ImportError says why a file is not a model berth can take, where, and what to
// do about it.
type ImportError struct {
	File   string // path of the model file; empty for a model in memory
	Node   string // path to the node through bodies and function calls; empty if it is no node's fault
	Op     string // operator of the node, with its domain if that is not the default one
	Reason string // what is wrong
	Remedy string // what to do; may be empty
	Err    error  // underlying error; may be nil
}

// Error prints file, node, reason and remedy on one line.
func (e *ImportError) Error() string {
	var sb strings.Builder
	if e.File != "" {
		fmt.Fprintf(&sb, "%s: ", e.File)
	}
	if e.Node != "" {
		fmt.Fprintf(&sb, "node %s (%s): ", e.Node, e.Op)
	}
	sb.WriteString(e.Reason)
	if e.Remedy != "" {
		fmt.Fprintf(&sb, "; %s", e.Remedy)
	}
	return sb.String()
}

// Unwrap returns the underlying error.
func (e *ImportError) Unwrap() error { return e.Err }

// fail makes an ImportError that an outer level completes with file and node.
func fail(remedy, format string, args ...any) *ImportError {
	e := &ImportError{Remedy: remedy}
	wrapped := fmt.Errorf(format, args...)
	e.Reason = wrapped.Error()
	if u, ok := wrapped.(interface{ Unwrap() error }); ok {
		e.Err = u.Unwrap()
	}
	return e
}
