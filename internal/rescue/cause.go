package rescue

import (
	"context"
	"errors"
	"fmt"
)

// WithCause adds the cause of a context's end to an error that the end led to, which is [context.Context.Err] or wraps it. What is
// below an exported function returns that alone, so that both are in what the function returns.
func WithCause(ctx context.Context, err error) error {
	if err == nil || ctx == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
