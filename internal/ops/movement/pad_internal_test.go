package movement

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPadIndex walks each mode along [a b c d] by hand.
func TestPadIndex(t *testing.T) {
	for _, c := range []struct {
		mode string
		n    int
		want string
	}{
		{"edge", 4, "00000012333333"},
		{"wrap", 4, "30123012301230"},
		{"reflect", 4, "12321012321012"},
		{"reflect", 2, "10101010101010"},
		{"reflect", 1, "00000000000000"},
	} {
		got := ""
		for i := -5; i < 9; i++ {
			got += string(rune('0' + padIndex(c.mode, i, c.n)))
		}
		assert.Equal(t, c.want, got, c.mode)
	}
}
