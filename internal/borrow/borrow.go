// Package borrow lets the command read the graph of a model where it is. The one that the API gives is a copy, which takes as much memory
// as the model's, and time.
package borrow

import (
	"context"

	"github.com/berth-onnx/berth/ssa"
)

type onlyDescribed struct{}

// Describing marks the compilations within a context: their programs are described and dropped, so that their graphs may stay in
// memory with what rewriting has removed.
func Describing(ctx context.Context) context.Context {
	return context.WithValue(ctx, onlyDescribed{}, true)
}

// IsDescribing reports a context made by Describing, or within one.
func IsDescribing(ctx context.Context) bool { return ctx.Value(onlyDescribed{}) != nil }

// Graph calls f with the graph of a *berth.Model, which f must neither change nor keep. The error is that of a model that is closed, or of
// a file that was changed. Package berth sets it.
var Graph func(model any, f func(*ssa.Graph)) error
