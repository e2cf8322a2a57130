package loops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/loops"
)

// TestAnyOrder compares how many places the value that p becomes needs in the order
// the nodes stand in and in any.
func TestAnyOrder(t *testing.T) {
	cases := []struct {
		name       string
		lines      []string
		given, any int
	}{
		{"all readers surely come before", []string{"%m = MatMul(%p, %v)", "%q = MatMul(%m, %v)"}, 1, 1},
		{"a reader comes before only as the nodes stand", []string{"%m = MatMul(%p, %v)", "%q = MatMul(%v, %v)"}, 1, 2},
		{"made in place by the only reader", []string{"%q = Neg(%p)"}, 1, 1},
		{"made in place, but something else may still read", []string{"%m = MatMul(%p, %v)", "%q = Neg(%p)"}, 1, 2},
		{"made from what it replaces", []string{"%q = MatMul(%p, %v)"}, 2, 2},
		{"a view of the old one is read beside", []string{"%m = Identity(%p)", "%l = MatMul(%m, %v)", "%q = MatMul(%v, %v)"}, 1, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := loopOf(t, []string{"p"}, c.lines, []string{"q"})
			given, err := loops.Of(n)
			require.NoError(t, err)
			anyOrder, err := loops.OfAnyOrder(n)
			require.NoError(t, err)
			v := given.Carries[1].Result
			assert.Equal(t, c.given, given.Period(v))
			assert.Equal(t, c.any, anyOrder.Period(v))
		})
	}
}
