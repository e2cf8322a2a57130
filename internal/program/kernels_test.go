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

// TestKernelsMadeAtOnce: what is being prepared while others are dropped counts once it is kept, and what was forgotten meanwhile does not.
func TestKernelsMadeAtOnce(t *testing.T) {
	large := func(p *prepared) error { p.Held = 1 << 20; return nil }
	for _, c := range []struct {
		name string
		made func(t *testing.T, k *kernels) // while the first is prepared
		kept int
	}{
		{"another that is as large", func(t *testing.T, k *kernels) { _, err := k.get(t.Context(), "b", large); require.NoError(t, err) }, 1},
		{"none", func(*testing.T, *kernels) {}, 1},
		{"and forgotten", func(_ *testing.T, k *kernels) { k.forget() }, 0},
	} {
		k := newKernels(Options{Memory: 16 << 20})
		k.forget()
		for i := range 3 {
			_, err := k.get(t.Context(), string(rune('c'+i)), func(p *prepared) error { c.made(t, k); return large(p) })
			require.NoError(t, err, c.name)
			sum := int64(0)
			for _, p := range k.made {
				sum += p.bytes
			}
			assert.Equal(t, sum, k.bytes, c.name)
			assert.Len(t, k.made, c.kept, c.name)
		}
	}
}
