package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpans compares with one state for each byte.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const size = 64
	for range 200 {
		var s spans
		var want [size]side
		for range 30 {
			lo := int64(r.IntN(size))
			hi := lo + int64(r.IntN(size-int(lo)+1))
			to := side(r.IntN(4))
			s.set(lo, hi, to)
			for i := lo; i < hi; i++ {
				want[i] = to
			}
			for _, on := range []side{onHost, onDevice, onBoth} {
				from := int64(r.IntN(size))
				got := map[int64]bool{}
				require.NoError(t, s.each(from, size, on, func(lo, hi int64) error {
					for i := lo; i < hi; i++ {
						require.False(t, got[i])
						got[i] = true
					}
					return nil
				}))
				for i := from; i < size; i++ {
					require.Equal(t, want[i] == on, got[i], "byte %d", i)
				}
			}
		}
		for i := 1; i < len(s.list); i++ {
			require.LessOrEqual(t, s.list[i-1].hi, s.list[i].lo)
		}
	}
}
