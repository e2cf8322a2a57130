package names

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFresh takes names in a row, some of them of the form that is made of others.
func TestFresh(t *testing.T) {
	s := Set{"taken": 0}
	for _, c := range []struct{ want, got string }{
		{"x", "x"}, {"x", "x_1"}, {"x_2", "x_2"}, {"x", "x_3"}, {"taken", "taken_1"}, {"", "_1"}, {"", "_2"}, {"x_1", "x_1_1"},
	} {
		assert.Equal(t, c.got, s.Fresh(c.want))
	}
}
