package onnxgo

import "fmt"

// LossError says that a part of a model that its meaning depends on does not reach a backend through onnx-go.
// [Graph.Parse] and [Graph.Open] read the whole model.
type LossError struct {
	Operator string // that can not be understood without it; "" if it is no operator's
	Value    string // its first result, or the value that is incomplete
	Lost     string // what is lost
	Err      error  // why what arrived makes no model; may be nil
}

// Error says what is lost and what to do.
func (e *LossError) Error() string {
	at := fmt.Sprintf("value %q", e.Value)
	if e.Operator != "" {
		at = fmt.Sprintf("operator %s of %s", e.Operator, at)
	}
	cause := ""
	if e.Err != nil {
		cause = ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s: onnx-go does not hand over %s%s; decode the model with Parse or Open of the backend", at, e.Lost, cause)
}

// Unwrap returns the cause.
func (e *LossError) Unwrap() error { return e.Err }

// GraphError says that a graph was filled or used in a way that has no meaning.
type GraphError struct {
	Value  string // the node concerned, by name; "" if it is none
	Reason string
}

// Error names the node and the reason.
func (e *GraphError) Error() string {
	if e.Value == "" {
		return e.Reason
	}
	return fmt.Sprintf("node %q: %s", e.Value, e.Reason)
}
