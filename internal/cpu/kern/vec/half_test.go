package vec

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

func TestHalfAllValues(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		f := make([]float32, len(all))
		HalfToFloat(f, all)
		back := make([]uint16, len(all))
		FloatToHalf(back, f)
		for i, h := range all {
			want := float16.Frombits(h).Float32()
			require.True(t, kerntest.Same(want, f[i]), "half %#04x is %g, want %g", h, f[i], want)
			if want == want {
				require.Equal(t, h, back[i], "%g", f[i])
			} else {
				require.True(t, float16.Frombits(back[i]).IsNaN())
			}
		}
		BfloatToFloat(f, all)
		FloatToBfloat(back, f)
		for i, h := range all {
			want := math.Float32frombits(uint32(h) << 16)
			require.True(t, kerntest.Same(want, f[i]), "bfloat %#04x", h)
			if want == want {
				require.Equal(t, h, back[i])
			} else {
				require.EqualValues(t, h|0x40, back[i])
			}
		}
	})
}

func TestHalfRounding(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 100_003)
	for i := range x {
		x[i] = math.Float32frombits(rng.Uint32())
		if i%2 == 0 { // around the range of half precision
			x[i] = float32(math.Exp(rng.Float64()*36-20)) * float32(1-2*rng.IntN(2))
		}
	}
	copy(x, []float32{65504, 65519.996, 65520, 65536, 5.9604645e-08, 2.9802322e-08, 2.9802326e-08, 6.097555e-05, 1e-10})
	kerntest.EachLevel(t, func(t *testing.T) {
		h, b := make([]uint16, len(x)), make([]uint16, len(x))
		FloatToHalf(h, x)
		FloatToBfloat(b, x)
		for i, v := range x {
			if v != v {
				continue
			}
			require.Equal(t, float16.Fromfloat32(v).Bits(), h[i], "%g", v)
			require.Equal(t, floatToBfloat1(v), b[i], "%g", v)
			up := math.Float32frombits(uint32(b[i]) << 16)
			if !math.IsInf(float64(up), 0) {
				require.LessOrEqual(t, math.Abs(float64(up)-float64(v)), math.Abs(float64(v))/256+1e-40)
			}
		}
	})
}

func TestHalfTails(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	kerntest.EachLevel(t, func(t *testing.T) {
		for n := 0; n <= 67; n++ {
			x := kerntest.Noise(rng, n, n%3)
			h := make([]uint16, n+1)
			h[n] = 0x1234
			FloatToHalf(h, x)
			y, check := kerntest.Guarded(n)
			HalfToFloat(y, h[:n])
			check(t)
			require.EqualValues(t, 0x1234, h[n])
			for i := range x {
				require.InDelta(t, x[i], y[i], 1e-3)
			}
		}
	})
}

// TestHalfLengths converts every short length, narrowing also over the operand itself.
func TestHalfLengths(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for n := range 100 {
			over := make([]float32, n+1)
			x, want := make([]float32, n), make([]uint16, n)
			for i := range x {
				over[i] = float32(i)*0.37 - 11
				x[i], want[i] = over[i], floatToHalf1(over[i])
			}
			bits := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(over))), n+1)
			FloatToHalf(bits[:n], over[:n])
			require.Equal(t, want, bits[:n])
			h := append(make([]uint16, 0, n+1), 7)
			h = h[:n+1]
			h[n] = 7
			FloatToHalf(h[:n], x)
			require.Equal(t, want, h[:n])
			require.EqualValues(t, 7, h[n])
			HalfToFloat(over[:n], h[:n])
			for i, w := range want {
				require.Equal(t, halfToFloat1(w), over[i])
			}
		}
	})
}
