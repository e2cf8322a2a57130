// Package borrow lets the command read the graph of a model, and training the states of a session, where they are. Those that the API gives
// are copies, which take as much memory, and time.
package borrow

import (
	"context"

	"github.com/berth-onnx/berth/ndarray"
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

// State calls f with what a *berth.Session keeps for an input that is a state, which f must neither change nor keep. Its errors are those of
// [berth.Session.Cache], and f's. Package berth sets it.
var State func(session any, input string, f func(*ndarray.Array) error) error
