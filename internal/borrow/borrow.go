// Package borrow lets the command read the graph of a model where it is. The one that the API gives is a copy, which takes as much memory
// as the model's, and time.
package borrow

import "github.com/berth-onnx/berth/ssa"

// Graph calls f with the graph of a *berth.Model, which f must neither change nor keep. The error is that of a model that is closed, or of
// a file that was changed. Package berth sets it.
var Graph func(model any, f func(*ssa.Graph)) error
