package kit

import (
	"github.com/berth-onnx/berth/ops"
	"gonum.org/v1/gonum/mathext/prng"
)

// Uniform returns a generator of float64 in [0,1) with 53 random bits, made of
// two 32-bit words of MT19937. With the same seed it gives the same numbers as
// the generator behind the test data of the standard, so seeded operators can be
// compared with it.
// Source: M. Matsumoto, T. Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998;
// genrand_res53 of the authors' reference code (2002).
func Uniform(c *ops.Call, seed int64) func() float64 {
	mt := prng.NewMT19937()
	mt.Seed(uint64(seed))
	w := Watching(c)
	return func() float64 {
		w.Did(1)
		a, b := mt.Uint32()>>5, mt.Uint32()>>6
		return (float64(a)*67108864 + float64(b)) / 9007199254740992
	}
}
