package selection_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/selection"
)

// TestSelects: comparisons and roundings of floats select; those of integers, conversions from floats to floats, and quantization do not.
func TestSelects(t *testing.T) {
	g := parse(t, `in %x: float32[4] in %i: int64[4] %a = Greater(%x, %x) %b = Greater(%i, %i) %c = Cast(%x) [to=7] %d = Cast(%x) [to=11] %e = Floor(%x) %f = Neg(%x) const %s: float32[] = 1 %q = QuantizeLinear(%x, %s) out %a, %b, %c, %d, %e, %f, %q`)
	var names []string
	for _, n := range g.Nodes {
		if selection.Selects(n) {
			names = append(names, n.Out[0].Name)
		}
	}
	assert.Equal(t, "a c e", strings.Join(names, " "))
}
