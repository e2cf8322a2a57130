package rescue

import (
	"context"
	"errors"
	"fmt"
)

// WithCause adds the cause of a context's end to an error that the end led to, which is [context.Context.Err] or wraps it. What is
// below an exported function returns that alone, so that both are in what the function returns. A context whose methods panic, as
// those of a nil pointer do, adds nothing: err says so already where they were called under [Into].
func WithCause(ctx context.Context, err error) (out error) {
	out = err
	defer func() { _ = recover() }()
	if err == nil || ctx == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) { // a budget in the context ends nothing but the work
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
