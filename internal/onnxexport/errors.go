package onnxexport

// ExportError says why a module can not be written as ONNX.
type ExportError struct {
	Node   string // operator and name of the node, through bodies; empty if it is no node's fault
	Reason string
	Remedy string // what to do; may be empty
	Err    error  // underlying error; may be nil
}

// Error prints node, reason and remedy on one line.
func (e *ExportError) Error() string {
	text := e.Reason
	if e.Node != "" {
		text = "node " + e.Node + ": " + text
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Unwrap returns the underlying error.
func (e *ExportError) Unwrap() error { return e.Err }
