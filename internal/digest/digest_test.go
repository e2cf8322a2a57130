package digest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOf: equal contents have one digest, others another, also where they differ in a later piece or by how they are cut.
func TestOf(t *testing.T) {
	long := make([]byte, 1<<20)
	other := append([]byte(nil), long...)
	other[len(other)-1] = 1
	must := func(sum Sum, err error) Sum {
		require.NoError(t, err)
		return sum
	}
	bytes := func(data []byte) Sum { return must(Of(t.Context(), data)) }
	texts := func(list ...string) Sum { return must(OfStrings(t.Context(), list)) }
	assert.Equal(t, bytes(long), bytes(append([]byte(nil), long...)))
	seen := map[Sum]bool{}
	for _, sum := range []Sum{bytes(nil), bytes([]byte{0}), bytes(long), bytes(other), bytes(long[:len(long)-1]), texts("ab", "c"), texts("a", "bc"), texts("abc")} {
		assert.False(t, seen[sum])
		seen[sum] = true
	}
}
