package expr_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/expr"
)

// TestManyBuilds: operators that many goroutines build at once, more together than one build may nest, are none that apply themselves without end,
// also while one that does is found.
func TestManyBuilds(t *testing.T) {
	const goroutines, nested = 20, 550
	var deep, refused sync.WaitGroup
	deep.Add(goroutines)
	refused.Add(1)
	require.NoError(t, expr.Register("peeled", func(x ...expr.Expr[float32]) expr.Expr[float32] {
		switch len(x) {
		case 0: // without end
			return expr.Apply[float32]("peeled").Add(expr.Apply[float32]("peeled"))
		case 1:
			deep.Done()
			refused.Wait()
			return x[0]
		}
		rest := make([]expr.Value[float32], len(x)-1)
		for i, v := range x[1:] {
			rest[i] = v
		}
		return expr.Apply("peeled", rest...)
	}))
	var built sync.WaitGroup
	for range goroutines {
		built.Go(func() {
			x := make([]expr.Value[float32], nested)
			for i := range x {
				x[i] = num(float64(i))
			}
			assert.NoError(t, expr.Apply("peeled", x...).Err())
		})
	}
	deep.Wait()
	assert.EqualError(t, expr.Apply[float32]("peeled").Err(), "peeled: it applies itself without end")
	assert.EqualError(t, expr.Apply[float32]("peeled").Add(num(1)).Err(), "peeled: it applies itself without end")
	refused.Done()
	built.Wait()
}
