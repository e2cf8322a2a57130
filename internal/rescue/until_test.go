package rescue

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestUntil: what comes back of a call in a goroutine of its own.
func TestUntil(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name string
		call func() (int, error)
		want string
	}{
		{"a value", func() (int, error) { return 1, nil }, ""},
		{"an error", func() (int, error) { return 0, failed }, "failed"},
		{"a panic", func() (int, error) { panic("a mistake") }, "internal error: a mistake"},
		{"the end of the goroutine", func() (int, error) { runtime.Goexit(); return 1, nil }, errEnded.Error()},
	} {
		ctx, end := context.WithCancel(t.Context())
		got, err := Until(ctx, c.call)
		end()
		if c.want == "" {
			assert.NoError(t, err, c.name)
			assert.Equal(t, 1, got, c.name)
			continue
		}
		assert.EqualError(t, err, c.want, c.name)
	}
}
