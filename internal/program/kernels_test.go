package program

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKernelsOfManyDimensions: what is kept for shapes met while running counts with all of its dimensions, and is a small part of the budget.
func TestKernelsOfManyDimensions(t *testing.T) {
	k := newKernels(Options{Memory: 16 << 20})
	k.forget()
	const rank = 10_000
	for i := range 100 {
		_, err := k.get(t.Context(), string(rune('a'+i)), func(p *prepared) error {
			p.outs = []arrayType{{shape: make([]int, rank)}}
			return nil
		})
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(k.made)*rank*8, 16<<20/kernelShare)
}
