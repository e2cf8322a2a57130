package text

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// countedLooks is a context that counts how often it is looked at.
type countedLooks struct {
	context.Context
	looks int
}

func (c *countedLooks) Done() <-chan struct{} { c.looks++; return c.Context.Done() }
func (c *countedLooks) Err() error            { c.looks++; return c.Context.Err() }

func cut(w *kit.Watch, s, delimiter string) (out []string) {
	eachPiece(w, s, delimiter, -1, func(_ int, piece string) { out = append(out, piece) })
	return out
}

// TestLongStrings: a string is joined, cut and searched in pieces, also where a delimiter lies across the border of two.
func TestLongStrings(t *testing.T) {
	long := strings.Repeat("x", 20*textPiece-1)
	for name, do := range map[string]func(c *ops.Call, w *kit.Watch) bool{
		"joined":         func(c *ops.Call, w *kit.Watch) bool { return joined(c, w, long, "y") == long+"y" },
		"no space":       func(c *ops.Call, w *kit.Watch) bool { return len(cut(w, long, "")[0]) == len(long) },
		"no delimiter":   func(c *ops.Call, w *kit.Watch) bool { return len(cut(w, long, "--")[0]) == len(long) },
		"across borders": func(c *ops.Call, w *kit.Watch) bool { return len(cut(w, long+"--y", "--")[0]) == len(long) },
		"many":           func(c *ops.Call, w *kit.Watch) bool { return len(cut(w, long, "x")) == len(long)+1 },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			counted := &countedLooks{Context: ctx}
			c := &ops.Call{Ctx: counted}
			w := kit.Watching(c)
			assert.True(t, do(c, &w))
			assert.Greater(t, counted.looks, 9)
		})
	}
}
