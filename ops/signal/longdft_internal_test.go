package signal

import (
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/berth-onnx/berth/ops"
)

// TestLongTransforms compares transforms that are split with those that are not.
func TestLongTransforms(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := &ops.Call{Ctx: t.Context()}
	for _, n := range []int{6, 64, 91, 210, 509, 1018, 4096} {
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(rng.NormFloat64(), rng.NormFloat64())
		}
		for _, inverse := range []bool{false, true} {
			want := fourier.NewCmplxFFT(n).Coefficients(nil, x)
			if inverse {
				want = fourier.NewCmplxFFT(n).Sequence(nil, x)
			}
			near := func(how string, got []complex128) {
				for i := range want {
					require.Less(t, cmplx.Abs(got[i]-want[i]), 1e-10*float64(n), "%s, length %d, element %d", how, n, i)
				}
			}
			got := make([]complex128, n)
			for a := 2; a < n; a++ {
				if n%a == 0 {
					newLongDFT(c, inverse).split(got, x, a, n/a)
					near("split", got)
				}
			}
			newLongDFT(c, inverse).sum(got, x)
			near("sum", got)
		}
		signal := make([]float64, n)
		newLongDFT(c, true).realParts(signal, x[:n/2+1])
		require.InDeltaSlice(t, fourier.NewFFT(n).Sequence(nil, x[:n/2+1]), signal, 1e-10*float64(n))
	}
	require.False(t, isShort(1000003))
	require.True(t, isShort(1<<16))
	require.Equal(t, []int{2, 2, 3, 7}, primeFactors(84))
}
