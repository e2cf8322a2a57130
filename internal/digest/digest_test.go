package digest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOf: equal contents have one digest, others another, also where they differ in a later piece or by how they are cut.
func TestOf(t *testing.T) {
	long := make([]byte, 1<<20)
	other := append([]byte(nil), long...)
	other[len(other)-1] = 1
	assert.Equal(t, Of(long), Of(append([]byte(nil), long...)))
	seen := map[Sum]bool{}
	for _, sum := range []Sum{Of(nil), Of([]byte{0}), Of(long), Of(other), Of(long[:len(long)-1]), OfStrings([]string{"ab", "c"}), OfStrings([]string{"a", "bc"}), OfStrings([]string{"abc"})} {
		assert.False(t, seen[sum])
		seen[sum] = true
	}
}
