package program

import (
	"context"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ssa"
)

// Preparer prepares a node of static types by a backend, as [backend.Backend.Prepare] does.
type Preparer func(ctx context.Context, be backend.Backend, n *ssa.Node, threads int) (backend.Prepared, error)

// preparerKey is the key of a Preparer in a context.
type preparerKey struct{}

// In returns a context that carries it to where a model is compiled.
func (f Preparer) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, preparerKey{}, f)
}

// prepare asks the preparer of a context, or the backend.
func prepare(ctx context.Context, be backend.Backend, n *ssa.Node, threads int) (backend.Prepared, error) {
	if f, ok := ctx.Value(preparerKey{}).(Preparer); ok {
		return f(ctx, be, n, threads)
	}
	return be.Prepare(ctx, n, threads)
}
