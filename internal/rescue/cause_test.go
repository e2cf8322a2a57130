package rescue

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

// full is a context that a budget has ended: its Err tells, Done stays open.
type full struct {
	context.Context
	err error
}

func (f full) Err() error { return f.err }

// TestWithCause: what a caller finds in an error that a context's end led to.
func TestWithCause(t *testing.T) {
	cause, beyond, other := errors.New("shut down"), errors.New("beyond the budget"), errors.New("no such file")
	ended, end := context.WithCancelCause(t.Context())
	end(cause)
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want []error
	}{
		{"a cause", ended, context.Canceled, []error{context.Canceled, cause}},
		{"another error", ended, other, []error{other}},
		{"a budget within a context that goes on", full{t.Context(), beyond}, beyond, []error{beyond}},
		{"a context that goes on", t.Context(), context.Canceled, []error{context.Canceled}},
	} {
		got := WithCause(c.ctx, c.err)
		for _, want := range c.want {
			assert.ErrorIs(t, got, want, c.name)
		}
		if len(c.want) == 1 {
			assert.Same(t, c.err, got, c.name)
		}
	}
}
