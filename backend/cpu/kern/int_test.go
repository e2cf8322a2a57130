package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomBytes returns bytes over the whole range, extremes included.
func randomBytes(rng *rand.Rand, n int) []byte {
	x := make([]byte, n+1)[1:] // off alignment
	for i := range x {
		x[i] = byte(rng.Uint32())
		if rng.IntN(8) == 0 {
			x[i] = []byte{0, 0x7f, 0x80, 0xff}[rng.IntN(4)]
		}
	}
	return x
}

func asInt(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}

func zeroAt(z []int32, i int) int32 {
	switch len(z) {
	case 0:
		return 0
	case 1:
		return z[0]
	}
	return z[i]
}

// intZeros makes the zero points of a form: none, one, or one each.
func intZeros(rng *rand.Rand, form, n int, signed bool) []int32 {
	z := make([]int32, []int{0, 1, n}[form])
	for i := range z {
		z[i] = asInt(byte(rng.Uint32()), signed)
	}
	return z
}

func runIntGemm(t *testing.T, s IntGemmSpec, formA, formB int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.M), uint64(s.N*1000+s.K)))
	g, err := NewIntGemm(s)
	require.NoError(t, err)
	s = g.s
	a := IntGemmArgs{A: randomBytes(rng, g.needA), B: randomBytes(rng, g.needB), C: make([]int32, g.needC+64)}
	a.ZA, a.ZB = intZeros(rng, formA, s.M, s.ASigned), intZeros(rng, formB, s.N, s.BSigned)
	b := a.B
	if s.ConstB {
		a.PackedB, err = g.PackB(t.Context(), b)
		require.NoError(t, err)
		a.B = nil
	}
	ws := make([]byte, g.Workspace(2))
	for i := range ws {
		ws[i] = 0xff
	}
	for i := range a.C {
		a.C[i] = 12345
	}
	require.NoError(t, g.Run(a, ws, 2))
	for n := range s.Batch {
		for i := range s.M {
			for j := range s.N {
				want := int32(0)
				for k := range s.K {
					at := n*s.StrideB + k*s.LDB + j
					if s.TransB {
						at = n*s.StrideB + j*s.LDB + k
					}
					want += (asInt(a.A[n*s.StrideA+i*s.LDA+k], s.ASigned) - zeroAt(a.ZA, i)) * (asInt(b[at], s.BSigned) - zeroAt(a.ZB, j))
				}
				if got := a.C[n*s.StrideC+i*s.LDC+j]; got != want {
					require.Equal(t, want, got, "%+v forms %d %d: row %d column %d", s, formA, formB, i, j)
				}
			}
		}
	}
	for _, v := range a.C[g.needC:] {
		require.EqualValues(t, 12345, v, "wrote after the result")
	}
}

func TestIntGemm(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for v := range 16 {
			s := IntGemmSpec{ASigned: v&1 != 0, BSigned: v&2 != 0, TransB: v&4 != 0, ConstB: v&8 != 0}
			for n := 1; n <= 67; n += 1 + v%3 {
				s.M, s.N, s.K = 1+n%19, n, 1+n%23
				runIntGemm(t, s, n%3, (n/3)%3)
			}
			s.M, s.N, s.K = 37, 70, 131
			for f := range 9 {
				runIntGemm(t, s, f%3, f/3)
			}
			s.M, s.N, s.K = 3, 40, 2100 // several blocks of K
			runIntGemm(t, s, 1, 1)
			s.M, s.N, s.K = 150, 300, 9 // several tiles
			runIntGemm(t, s, 1, 2)
		}
		runIntGemm(t, IntGemmSpec{M: 5, N: 9, K: 0}, 1, 1)
		runIntGemm(t, IntGemmSpec{M: 5, N: 33, K: 12, LDA: 17, LDB: 40, LDC: 50, Batch: 3, StrideA: 100, StrideB: 500, StrideC: 300, BSigned: true}, 1, 1)
		runIntGemm(t, IntGemmSpec{M: 5, N: 33, K: 12, Batch: 2, StrideA: 60, StrideC: 165, ASigned: true}, 2, 2)
	})
}

func TestIntGemmErrors(t *testing.T) {
	var spec *SpecError
	var size *SizeError
	_, err := NewIntGemm(IntGemmSpec{M: -1})
	assert.ErrorAs(t, err, &spec)
	g, err := NewIntGemm(IntGemmSpec{M: 4, N: 4, K: 4})
	require.NoError(t, err)
	x, c, ws := make([]byte, 16), make([]int32, 16), make([]byte, g.Workspace(1))
	assert.NoError(t, g.Run(IntGemmArgs{A: x, B: x, C: c}, ws, 1))
	assert.ErrorAs(t, g.Run(IntGemmArgs{A: x[1:], B: x, C: c}, ws, 1), &size)
	assert.ErrorAs(t, g.Run(IntGemmArgs{A: x, B: x, C: c, ZB: c[:3]}, ws, 1), &size)
	assert.ErrorAs(t, g.Run(IntGemmArgs{A: x, B: x, C: c}, ws[1:], 1), &size)
}

func BenchmarkIntGemm(b *testing.B) {
	for _, l := range Levels() {
		for _, s := range []IntGemmSpec{
			{M: 128, N: 768, K: 768, ConstB: true, BSigned: true},
			{M: 128, N: 768, K: 3072, ConstB: true},
			{M: 1, N: 4096, K: 4096, ConstB: true, BSigned: true},
			{M: 128, N: 128, K: 64, TransB: true, Batch: 12, StrideA: 8192, StrideB: 8192, StrideC: 16384, ASigned: true, BSigned: true},
		} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", l, s.M, s.N, s.K), func(b *testing.B) {
				atLevel(b, l, func(b *testing.B) {
					g, err := NewIntGemm(s)
					require.NoError(b, err)
					a := IntGemmArgs{A: make([]byte, g.needA), B: make([]byte, g.needB), C: make([]int32, g.needC), ZA: []int32{128}}
					if s.ConstB {
						a.PackedB, _ = g.PackB(b.Context(), a.B)
					}
					ws := make([]byte, g.Workspace(1))
					sec := bestOf(b, func() { _ = g.Run(a, ws, 1) })
					b.ReportMetric(2*float64(g.s.Batch*s.M*s.N*s.K)/sec/1e9, "GOP/s")
				})
			})
		}
	}
}

func runIntConv(t *testing.T, s IntConvSpec, form int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.InC), uint64(s.OutC+s.In[2]*1000)))
	geo := geometryOf(t, s.ConvSpec)
	cs := geo.Spec()
	w, x := randomBytes(rng, geo.sourceLen()), randomBytes(rng, cs.Batch*cs.InC*geo.inN)
	zw := intZeros(rng, form, cs.OutC, s.WSigned)
	zx := asInt(byte(rng.Uint32()), s.XSigned)
	p, err := NewIntConv(s, zw)
	require.NoError(t, err)
	packed, err := p.PackW(t.Context(), w)
	require.NoError(t, err)
	// The definition, in float64 over values less their zero points: all exact.
	a := ConvArgs{X: make([]float32, len(x)), W: make([]float32, len(w))}
	for i, b := range x {
		a.X[i] = float32(asInt(b, s.XSigned) - zx)
	}
	for i, b := range w {
		a.W[i] = float32(asInt(b, s.WSigned) - zeroAt(zw, i/geo.icg/geo.taps))
	}
	want := conv64(geo, a)
	y := make([]int32, len(want)+64)
	for i := range y {
		y[i] = 12345
	}
	ws := make([]byte, p.Workspace(2))
	for i := range ws {
		ws[i] = 0xff
	}
	var bias []int32
	for i := range cs.OutC * min(form, 1) {
		bias = append(bias, int32(rng.Uint32())+int32(i))
	}
	require.NoError(t, p.Run(packed, x, zx, bias, y, ws, 2))
	for i := range want {
		sum := int32(want[i])
		if bias != nil {
			sum += bias[i/geo.outN%cs.OutC]
		}
		if sum != y[i] {
			require.Equal(t, sum, y[i], "element %d of %+v form %d", i, s, form)
		}
	}
	for _, v := range y[len(want):] {
		require.EqualValues(t, 12345, v, "wrote after the result")
	}
}

func TestIntConv(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for v := range 12 {
			spec := func(c ConvSpec) IntConvSpec { return IntConvSpec{c, v&1 != 0, v&2 != 0} }
			form := v / 4
			for w := 1; w <= 35; w += 3 {
				runIntConv(t, spec(conv2(1, 6, 7, 1, 4, w, 3, 1, 1)), form)
				runIntConv(t, spec(conv2(1, 3, 4, 1, 5, w+4, 5, 2, 2)), form)
				runIntConv(t, spec(conv2(2, 8, 6, 2, 3, w, 1, 1, 0)), form)
				runIntConv(t, spec(conv2(1, 3, 3, 3, 6, w+1, 3, 2, 1)), form) // depthwise
			}
			runIntConv(t, spec(conv2(1, 130, 40, 1, 5, 7, 3, 1, 1)), form)
			runIntConv(t, spec(conv2(1, 9, 5, 1, 3, 4, 3, 1, 5)), form)
		}
	})
}

func TestQuantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	eachLevel(t, func(t *testing.T) {
		for _, signed := range []bool{false, true} {
			for n := 0; n <= 67; n++ {
				const scale, zero = 0.25, 3
				x, sum := make([]float32, n), make([]int32, n)
				for i := range x {
					x[i] = float32(rng.IntN(1200)-600) / 8 // many halves
					sum[i] = int32(rng.IntN(1000) - 500)
				}
				specials := []float32{1e30, -1e30, 0.125, 0.375, -0.125}
				copy(x, specials)
				lo, hi := quantRange(signed)
				want := func(v float64) int32 {
					r := math.RoundToEven(v) + zero
					return int32(math.Max(float64(lo), math.Min(float64(hi), r)))
				}
				q, r := make([]byte, n+1), make([]byte, n+1)
				q[n], r[n] = 77, 77
				Quantize(q[:n], x, signed, scale, zero)
				Requantize(r[:n], sum, signed, 0.5, zero)
				back := make([]float32, n)
				Dequantize(back, q[:n], signed, scale, zero)
				for i := range x {
					require.Equal(t, want(float64(x[i])/scale), asInt(q[i], signed), "quantize %g", x[i])
					require.Equal(t, want(float64(sum[i])*0.5), asInt(r[i], signed), "requantize %d", sum[i])
					require.Equal(t, float32(asInt(q[i], signed)-zero)*scale, back[i])
				}
				require.EqualValues(t, 77, q[n])
				require.EqualValues(t, 77, r[n])
				IntToFloat(back, sum, 0.5)
				for i := range sum {
					require.Equal(t, float32(sum[i])*0.5, back[i])
				}
			}
		}
	})
}

func BenchmarkIntConv(b *testing.B) {
	for _, l := range Levels() {
		for _, c := range []ConvSpec{conv2(1, 64, 64, 1, 56, 56, 3, 1, 1), conv2(1, 256, 1024, 1, 14, 14, 1, 1, 0), conv2(1, 3, 64, 1, 224, 224, 7, 2, 3), conv2(1, 128, 128, 1, 56, 56, 3, 2, 1), conv2(1, 96, 96, 96, 56, 56, 3, 1, 1)} {
			b.Run(fmt.Sprintf("%s/%s", l, convName(c)), func(b *testing.B) {
				atLevel(b, l, func(b *testing.B) {
					s := IntConvSpec{c, false, true}
					geo := geometryOf(b, c)
					p, err := NewIntConv(s, nil)
					require.NoError(b, err)
					packed, err := p.PackW(b.Context(), make([]byte, geo.sourceLen()))
					require.NoError(b, err)
					x, y := make([]byte, c.InC*geo.inN), make([]int32, c.OutC*geo.outN)
					ws := make([]byte, p.Workspace(1))
					sec := bestOf(b, func() { _ = p.Run(packed, x, 128, nil, y, ws, 1) })
					b.ReportMetric(float64(geo.FLOPs())/sec/1e9, "GOP/s")
				})
			})
		}
	}
}
