package program

import "context"

// Watcher is told of each program that is compiled, before it is returned.
type Watcher func(*Program)

// watcherKey is the key of a Watcher in a context.
type watcherKey struct{}

// In returns a context that carries it to where a model is compiled.
func (w Watcher) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, watcherKey{}, w)
}

// told tells the watcher of a context, if it has one.
func told(ctx context.Context, p *Program) {
	if w, ok := ctx.Value(watcherKey{}).(Watcher); ok {
		w(p)
	}
}
