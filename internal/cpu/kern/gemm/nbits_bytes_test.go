package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// byBytesOf makes such columns for rows that are quantized, and the same as numbers; nil where there are no kernels.
func byBytesOf(tb testing.TB, rng *rand.Rand, s NBitsSpec, zeros []float32, exact bool) (*NBits, []float64) {
	b, err := NewNBits(s)
	require.NoError(tb, err)
	if b.ByBytes(zeros, exact); b.BytesBlock() == 0 {
		return nil, nil
	}
	return nbitsFrom(tb, rng, b, zeros)
}

// TestNBitsBytesWithinBound compares products of quantized rows with the formula in float64: with that of the rows quantized in Go, where
// there are the roundings of sums, and with that of the rows, where there is half a step of each number.
func TestNBitsBytesWithinBound(t *testing.T) {
	for _, bits := range []int{4, 8} {
		for _, s := range []struct{ k, block int }{{64, 16}, {96, 32}, {300, 32}, {512, 128}, {20, 64}, {257, 32}, {1030, 512}} {
			for _, m := range []int{1, 2, 3, 4, 7, 8, 17, 70} {
				for _, kind := range []string{"one", "bytes"} {
					t.Run(fmt.Sprintf("%d bits, %d×%d by %d, zeros %s", bits, m, s.k, s.block, kind), func(t *testing.T) {
						kerntest.EachLevel(t, func(t *testing.T) {
							for _, exact := range []bool{false, true} {
								bytesWithinBound(t, m, NBitsSpec{71, s.k, bits, s.block}, kind, exact)
							}
						})
					})
				}
			}
		}
	}
}

func bytesWithinBound(t *testing.T, m int, s NBitsSpec, kind string, exact bool) {
	rng := rand.New(rand.NewPCG(uint64(s.K), uint64(m)))
	b, numbers := byBytesOf(t, rng, s, zerosOf(rng, kind, s.N*machine.CeilDiv(s.K, s.Block)), exact)
	if b == nil {
		return
	}
	a, bias := kerntest.Noise(rng, m*s.K, 0), kerntest.Noise(rng, s.N, 0)
	clear(a[:16]) // of the first block; all of it in blocks of 16
	c := bytesProduct(t, b, a, bias, m)
	for i, v := range c {
		row, w := a[i/s.N*s.K:][:s.K], numbers[i%s.N*s.K:][:s.K]
		sum := float64(bias[i%s.N])
		quantized, size, steps := sum, math.Abs(sum), 0.0
		for k0 := 0; k0 < s.K; k0 += s.Block {
			end := min(k0+s.Block, s.K)
			scale, q := bytesOfRow(row[k0:end], exact)
			step := float64(scale) * (0.5 + 127.0/(1<<22))
			if exact {
				step = float64(scale)
			}
			for k := k0; k < end; k++ {
				sum += float64(row[k]) * w[k]
				quantized += float64(scale) * q[k-k0] * w[k]
				size += (math.Abs(float64(row[k])) + float64(scale)) * math.Abs(w[k])
				steps += step * math.Abs(w[k])
			}
		}
		roundings := float64(b.Blocks()+5) / (1 << 24) * size
		require.InDelta(t, quantized, v, roundings, "element %d", i)
		require.InDelta(t, sum, v, roundings+steps, "element %d", i)
	}
}

// bytesProduct runs a product on one thread and on three.
func bytesProduct(t *testing.T, b *NBits, a, bias []float32, m int) []float32 {
	spec := GemmSpec{M: m, N: b.s.N, K: b.s.K, Alpha: 1, NBitsB: true, WholeBits: b.WholeBits(), BytesBlock: b.BytesBlock(), BytesDigits: b.BytesDigits()}
	spec.Epilogue.Bias = simd.BiasPerCol
	g, err := NewGemm(spec)
	require.NoError(t, err)
	c, again := make([]float32, m*b.s.N), make([]float32, m*b.s.N)
	require.NoError(t, g.Run(GemmArgs{A: a, C: c, Bias: bias, NBitsB: b}, make([]byte, g.Workspace(1)), 1))
	require.NoError(t, g.Run(GemmArgs{A: a, C: again, Bias: bias, NBitsB: b}, make([]byte, g.Workspace(3)), 3))
	for i := range c {
		require.Equal(t, math.Float32bits(c[i]), math.Float32bits(again[i]))
	}
	return c
}

// bytesOfRow quantizes a block as the kernel does.
func bytesOfRow(x []float32, exact bool) (scale float32, q []float64) {
	for _, v := range x {
		scale = max(scale, float32(math.Abs(float64(v))))
	}
	if exact {
		scale = max(scale/8355711, 0x1p-126)
		for _, v := range x {
			q = append(q, math.RoundToEven(max(-8355711, min(8355711, float64(v/scale)))))
		}
		return scale, q
	}
	scale /= 127
	inverse := min(1/scale, math.MaxFloat32)
	for _, v := range x {
		q = append(q, math.RoundToEven(max(-127, min(127, float64(v*inverse)))))
	}
	return scale, q
}

// TestNBitsBytesNotFinite has NaN and infinite numbers in one block of a row of ones, columns of ones.
func TestNBitsBytesNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	cases := []struct {
		name string
		in   []float32
		want float64
	}{
		{"NaN", []float32{float32(math.NaN())}, math.NaN()},
		{"NaN and infinity", []float32{inf, float32(math.NaN())}, math.NaN()},
		{"infinity", []float32{inf}, math.Inf(1)},
		{"the other", []float32{-inf}, math.Inf(-1)},
		{"both", []float32{inf, -inf}, math.NaN()},
		{"large", []float32{1e38}, 1e38},
		{"the smallest", []float32{math.SmallestNonzeroFloat32}, 0},
		{"zeros", []float32{0}, 0},
	}
	for _, kind := range []struct {
		bits  int
		exact bool
	}{{4, false}, {8, false}, {4, true}, {8, true}} {
		bits := kind.bits
		b, err := NewNBits(NBitsSpec{N: 1, K: 64, Bits: bits, Block: 32})
		require.NoError(t, err)
		if b.ByBytes([]float32{0}, kind.exact); b.BytesBlock() == 0 {
			t.Skip("no kernels at this level")
		}
		ones := make([]byte, 64*bits/8)
		for i := range ones {
			ones[i] = map[int]byte{4: 0x11, 8: 1}[bits]
		}
		p, err := b.Pack(t.Context(), ones)
		require.NoError(t, err)
		b, err = b.With(t.Context(), p, []float32{1, 1}, []float32{0})
		require.NoError(t, err)
		for _, c := range cases {
			a := make([]float32, 64)
			copy(a[40:], c.in)
			got := float64(bytesProduct(t, b, a, []float32{0}, 1)[0])
			if math.IsNaN(c.want) || math.IsInf(c.want, 0) {
				assert.Equal(t, fmt.Sprint(c.want), fmt.Sprint(got), c.name)
				continue
			}
			assert.InEpsilon(t, 1+c.want, 1+got, 1.0/(1<<22), c.name)
		}
	}
}

func TestNBitsBytesRefuses(t *testing.T) {
	var spec *machine.SpecError
	g, err := NewGemm(GemmSpec{M: 2, N: 4, K: 32, Alpha: 1, Beta: 1, NBitsB: true, BytesBlock: 32})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	if b, _ := byBytesOf(t, rng, NBitsSpec{4, 32, 4, 32}, []float32{8}, false); b != nil {
		require.ErrorAs(t, g.Run(GemmArgs{A: make([]float32, 64), C: make([]float32, 8), NBitsB: b}, make([]byte, g.Workspace(1)), 1), &spec)
	}
	for _, c := range []struct {
		s    NBitsSpec
		zero float32
	}{{NBitsSpec{4, 32, 2, 16}, 2}, {NBitsSpec{4, 2048, 4, 16384}, 8}, {NBitsSpec{4, 2048, 8, 1024}, 128},
		{NBitsSpec{4, 32, 4, 16}, 256}, {NBitsSpec{4, 32, 4, 16}, -1}, {NBitsSpec{4, 32, 4, 16}, 7.5}, {NBitsSpec{4, 32, 4, 16}, float32(math.NaN())}} {
		b, err := NewNBits(c.s)
		require.NoError(t, err)
		b.ByBytes([]float32{c.zero}, false)
		assert.Zero(t, b.BytesBlock(), "%+v", c)
	}
}
