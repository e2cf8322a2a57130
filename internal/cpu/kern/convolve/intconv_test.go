package convolve

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
)

func runIntConv(t *testing.T, s IntConvSpec, form int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.InC), uint64(s.OutC+s.In[2]*1000)))
	geo := geometryOf(t, s.ConvSpec)
	cs := geo.Spec()
	w, x := kerntest.RandomBytes(rng, geo.weightLen()), kerntest.RandomBytes(rng, cs.Batch*cs.InC*geo.inN)
	zw := kerntest.IntZeros(rng, form, cs.OutC, s.WSigned)
	zx := kerntest.AsInt(byte(rng.Uint32()), s.XSigned)
	p, err := NewIntConv(s, zw)
	require.NoError(t, err)
	packed, err := p.PackW(t.Context(), w)
	require.NoError(t, err)
	// The definition, in float64 over values less their zero points: all exact.
	a := ConvArgs{X: make([]float32, len(x)), W: make([]float32, len(w))}
	for i, b := range x {
		a.X[i] = float32(kerntest.AsInt(b, s.XSigned) - zx)
	}
	for i, b := range w {
		a.W[i] = float32(kerntest.AsInt(b, s.WSigned) - gemm.ZeroOf(zw, i/geo.icg/geo.taps))
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
	args := IntConvArgs{W: packed, X: x, ZX: zx, Bias: bias, Y: y}
	require.NoError(t, p.Run(args, ws, 2))
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
	for _, form := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		q := s
		q.InPixels, q.OutPixels = form[0], form[1]
		runQuantized(t, q, zw, args, w, len(want))
	}
}

// inPixels are images of planes as pixels whose channels lie side by side.
func inPixels(x []byte, images, channels int) []byte {
	y := make([]byte, len(x))
	plane := len(x) / (images * channels)
	for i, b := range x {
		image, c, p := i/plane/channels, i/plane%channels, i%plane
		y[(image*plane+p)*channels+c] = b
	}
	return y
}

// runQuantized expects of a convolution to bytes what quantizing its sums gives.
func runQuantized(t *testing.T, s IntConvSpec, zw []int32, a IntConvArgs, w []byte, n int) {
	t.Helper()
	s.Quantized = true
	p, err := NewIntConv(s, zw)
	if s.InPixels || s.OutPixels {
		q := p.pixels
		serves := q != nil && (!s.InPixels || q.depth != nil && p.s.InC%4 == 0 || q.depth == nil && p.icg%4 == 0) && (q.depth == nil || p.s.OutC%4 == 0)
		if require.Equal(t, serves, err == nil); !serves {
			return
		}
	}
	require.NoError(t, err)
	a.W, err = p.PackW(t.Context(), w)
	require.NoError(t, err)
	sums := a.Y[:n]
	a.Q = Quantization{Y: make([]byte, n+64), Signed: s.XSigned, Zero: 7, Factors: make([]float32, p.s.OutC)}
	for i := range a.Q.Factors {
		a.Q.Factors[i] = float32(i%5+1) / 1000
		if a.Bias != nil {
			a.Q.Factors[i] /= 1 << 22
		}
		if n%4 == 0 { // products beyond 32 bits
			a.Q.Factors[i] *= float32(i%3-1) * 1e12
		}
	}
	want := make([]byte, n)
	for i := 0; i < n; i += p.outN {
		vec.Requantize(want[i:i+p.outN], sums[i:i+p.outN], a.Q.Signed, a.Q.Factors[i/p.outN%p.s.OutC], a.Q.Zero)
	}
	if s.InPixels {
		a.X = inPixels(a.X, p.s.Batch, p.s.InC)
	}
	if s.OutPixels {
		want = inPixels(want, p.s.Batch, p.s.OutC)
	}
	ws := make([]byte, p.Workspace(2))
	for i := range ws {
		ws[i] = 0xff
	}
	require.NoError(t, p.Run(a, ws, 2))
	require.Equal(t, want, a.Q.Y[:n], "%+v", s)
	require.Equal(t, make([]byte, 64), a.Q.Y[n:], "wrote after the result")
}

func TestIntConv(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for v := range 12 {
			spec := func(c ConvSpec) IntConvSpec { return IntConvSpec{ConvSpec: c, XSigned: v&1 != 0, WSigned: v&2 != 0} }
			form := v / 4
			for w := 1; w <= 35; w += 3 {
				runIntConv(t, spec(conv2(1, 6, 7, 1, 4, w, 3, 1, 1)), form)
				runIntConv(t, spec(conv2(1, 3, 4, 1, 5, w+4, 5, 2, 2)), form)
				runIntConv(t, spec(conv2(2, 8, 6, 2, 3, w, 1, 1, 0)), form)
				runIntConv(t, spec(conv2(1, 3, 3, 3, 6, w+1, 3, 2, 1)), form)  // depthwise
				runIntConv(t, spec(conv2(2, 2, 4, 2, 4, w+2, 3, 1, 1)), form)  // two of a channel
				runIntConv(t, spec(conv2(1, 2, 20, 1, 9, w+4, 7, 2, 3)), form) // rows of taps
			}
			for _, c := range []int{4, 16, 24, 32, 36, 64, 96, 100, 144, 192} { // depthwise, lanes that repeat in various ways
				runIntConv(t, spec(conv2(2, c, c, c, 5, 9, 3, 1, 1)), form)
				runIntConv(t, spec(conv2(1, c, c, c, 6, 11, 5, 2, 2)), form)
				runIntConv(t, spec(conv2(1, c, c, c, 3, 1, 1, 1, 0)), form)
			}
			runIntConv(t, spec(conv2(2, 24, 40, 2, 5, 7, 3, 2, 1)), form)
			runIntConv(t, spec(conv2(1, 40, 70, 1, 7, 9, 1, 2, 0)), form)
			wide := conv2(1, 3, 17, 1, 16, 90, 9, 3, -1) // cropped, several words of a row
			runIntConv(t, spec(wide), form)
			wide.Groups, wide.OutC, wide.Stride[2], wide.Dilation = 3, 3, 4, [3]int{1, 2, 1}
			wide.In[1] = 40
			runIntConv(t, spec(wide), form)
			runIntConv(t, spec(conv2(1, 3, 300, 1, 20, 31, 3, 2, 1)), form) // several tiles of channels
			runIntConv(t, spec(conv2(1, 130, 40, 1, 5, 7, 3, 1, 1)), form)
			runIntConv(t, spec(conv2(1, 9, 5, 1, 3, 4, 3, 1, 5)), form)
		}
	})
}

func BenchmarkIntConv(b *testing.B) {
	for _, l := range machine.Levels() {
		for _, c := range []ConvSpec{conv2(1, 64, 64, 1, 56, 56, 3, 1, 1), conv2(1, 256, 1024, 1, 14, 14, 1, 1, 0), conv2(1, 3, 64, 1, 224, 224, 7, 2, 3), conv2(1, 128, 128, 1, 56, 56, 3, 2, 1), conv2(1, 96, 96, 96, 56, 56, 3, 1, 1),
			conv2(1, 96, 96, 96, 112, 112, 3, 2, 1), conv2(1, 960, 960, 960, 7, 7, 3, 1, 1), conv2(1, 16, 96, 1, 112, 112, 1, 1, 0), conv2(1, 96, 24, 1, 56, 56, 1, 1, 0), conv2(1, 512, 512, 1, 7, 7, 3, 1, 1), conv2(1, 3, 32, 1, 224, 224, 3, 2, 1)} {
			b.Run(fmt.Sprintf("%s/%s", l, convName(c)), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) {
					s := IntConvSpec{ConvSpec: c, WSigned: true, Quantized: true, InPixels: HasPixels() && c.InC%4 == 0, OutPixels: HasPixels()}
					geo := geometryOf(b, c)
					p, err := NewIntConv(s, nil)
					require.NoError(b, err)
					packed, err := p.PackW(b.Context(), make([]byte, geo.weightLen()))
					require.NoError(b, err)
					a := IntConvArgs{W: packed, X: make([]byte, c.InC*geo.inN), ZX: 128, Q: Quantization{Y: make([]byte, c.OutC*geo.outN), Factors: make([]float32, c.OutC)}}
					ws := make([]byte, p.Workspace(1))
					sec := kerntest.BestOf(b, func() { _ = p.Run(a, ws, 1) })
					b.ReportMetric(float64(geo.FLOPs())/sec/1e9, "GOP/s")
				})
			})
		}
	}
}
