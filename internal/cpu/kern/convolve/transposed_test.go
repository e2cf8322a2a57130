package convolve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// transposed2 is a transposed convolution of images of h by w with a quadratic kernel and even padding, and extra rows and columns.
func transposed2(n, c, m, groups, h, w, k, stride, pad, extra int) ConvSpec {
	out := func(in int) int { return (in-1)*stride + k - 2*pad + extra }
	return ConvSpec{
		Batch: n, InC: c, OutC: m, Groups: groups, Transposed: true,
		In: [3]int{1, h, w}, Out: [3]int{1, out(h), out(w)}, Kernel: [3]int{1, k, k}, Stride: [3]int{1, stride, stride}, PadBegin: [3]int{0, pad, pad},
	}
}

// transposed64 is the transposed convolution in float64 from its definition, before the activation, and the sums of magnitudes.
func transposed64(g *geometry, a ConvArgs) (y, sums []float64) {
	s := &g.s
	y, sums = make([]float64, s.Batch*s.OutC*g.outN), make([]float64, s.Batch*s.OutC*g.outN)
	for i := range y {
		if s.Epilogue.Bias != simd.NoBias {
			y[i] = float64(a.Bias[i/g.outN%s.OutC])
		}
	}
	for i := range s.Batch * s.InC * g.inN {
		x := [3]int{i / (s.In[1] * s.In[2]) % s.In[0], i / s.In[2] % s.In[1], i % s.In[2]}
		n, c := i/g.inN/s.InC, i/g.inN%s.InC
		for m := range g.ocg {
			to := (n*s.OutC + c/g.icg*g.ocg + m) * g.outN
			for t := range g.taps {
				at, inside := 0, true
				for d, tap := range [3]int{t / (s.Kernel[1] * s.Kernel[2]), t / s.Kernel[2] % s.Kernel[1], t % s.Kernel[2]} {
					o := x[d]*s.Stride[d] + tap*s.Dilation[d] - s.PadBegin[d]
					inside = inside && o >= 0 && o < g.out[d]
					at = at*g.out[d] + o
				}
				if inside {
					v := float64(a.X[i]) * float64(a.W[(c*g.ocg+m)*g.taps+t])
					y[to+at] += v
					sums[to+at] += math.Abs(v)
				}
			}
		}
	}
	return y, sums
}

// transposedSpecs are cases: few and many pixels to a row, rows in parts, groups, several chains of products, a last block that is not full.
func transposedSpecs() []ConvSpec {
	list := []ConvSpec{
		transposed2(1, 100, 40, 1, 4, 4, 4, 2, 1, 0), transposed2(2, 24, 16, 1, 5, 19, 3, 2, 1, 1), transposed2(1, 32, 64, 2, 6, 7, 2, 2, 0, 0),
		transposed2(1, 17, 33, 1, 3, 5, 5, 3, 1, 0), transposed2(1, 9, 20, 1, 4, 9, 4, 4, 0, 0), transposed2(1, 300, 20, 1, 5, 6, 1, 1, 0, 0),
		transposed2(1, 20, 24, 1, 7, 8, 3, 1, 1, 0), transposed2(1, 16, 16, 1, 3, 300, 4, 2, 1, 0), transposed2(1, 40, 30, 1, 1, 1, 4, 2, 1, 2),
		transposed2(1, 16, 48, 1, 9, 33, 8, 4, 2, 3),
		transposed2(1, 20, 24, 1, 4, 0, 4, 2, 0, 1), transposed2(1, 20, 24, 1, 0, 4, 4, 2, 0, 1), transposed2(2, 16, 16, 2, 1, 0, 5, 1, 0, 0), // no pixel: the bias
	}
	dilated := transposed2(1, 20, 24, 1, 6, 9, 3, 1, 0, 0)
	dilated.Dilation, dilated.Stride, dilated.Out, dilated.PadBegin = [3]int{1, 3, 2}, [3]int{1, 2, 3}, [3]int{1, 13, 24}, [3]int{0, 4, -2}
	return append(list, dilated)
}

// TestTransposed compares phases, and columns where images are plain, with the definition within the stated bounds, at all levels and for all
// layouts of images.
func TestTransposed(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, s := range transposedSpecs() {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			s.ConstW, s.Epilogue.Bias = true, simd.BiasPerRow
			g := geometryOf(t, s)
			s = g.s
			for name, fill := range kerntest.HardInputs {
				a := ConvArgs{X: make([]float32, s.Batch*s.InC*g.inN), W: make([]float32, g.weightLen()), Bias: make([]float32, s.OutC)}
				fill(rng, a.X, a.W)
				want, sums := transposed64(g, a)
				checkColumns(t, fmt.Sprintf("%s, columns of case %d", name, i), s, a, want, sums)
				checkTurned(t, fmt.Sprintf("%s, case %d", name, i), s, a, want, sums)
				for _, ends := range append(blockedEnds, [2]bool{}) {
					if s.InBlocked, s.OutBlocked = ends[0], ends[1]; s.Groups > 1 && s.InC/s.Groups%Block() != 0 {
						continue
					}
					if _, fits := geometryOf(t, s).phased(); fits {
						checkPhases(t, fmt.Sprintf("%s, phases of case %d, blocked %v", name, i, ends), s, a, want, sums)
					}
				}
				s.InBlocked, s.OutBlocked = false, false
			}
		}
	})
}

// withinSums compares results with those in float64: the bound of a sum of some terms.
func withinSums(t *testing.T, name string, terms int, y []float32, want, sums []float64) {
	t.Helper()
	for i, v := range y {
		if bound := float64(terms+3) / (1 << 24) * sums[i]; !(math.Abs(float64(v)-want[i]) <= bound+1e-30) {
			require.Fail(t, "beyond the bound", "%s: element %d is %v, not %v", name, i, v, want[i])
		}
	}
}

// checkTurned compares convolutions of weights that are turned around, by each algorithm, with the definition.
func checkTurned(t *testing.T, name string, s ConvSpec, a ConvArgs, want, sums []float64) {
	t.Helper()
	if s.ConstW = false; s.Stride != [3]int{1, 1, 1} {
		return
	}
	g := geometryOf(t, s.untranspose())
	for _, algo := range fitting(g) {
		if algo > ConvWinograd4 {
			continue
		}
		c, err := NewConv(s, ConvPlan{Algorithm: algo, turned: true})
		require.NoError(t, err)
		require.Equal(t, s.Out, c.Out())
		y, check := kerntest.Guarded(len(want))
		a.Y = y
		require.NoError(t, c.Run(a, poisoned(c.Workspace(2)), 2))
		check(t)
		if algo < ConvWinograd2 {
			withinSums(t, fmt.Sprintf("%s, %s", name, algo), g.icg*g.taps, y, want, sums)
		}
		same := a
		same.Y, same.W = make([]float32, len(y)), make([]float32, len(a.W))
		for i := range same.W {
			tap, ic, m := i%g.taps, i/g.taps%g.icg, i/g.taps/g.icg
			same.W[i] = a.W[((m/g.ocg*g.icg+ic)*g.ocg+m%g.ocg)*g.taps+g.taps-1-tap]
		}
		c, err = NewConv(g.s, ConvPlan{Algorithm: algo})
		require.NoError(t, err)
		require.NoError(t, c.Run(same, poisoned(c.Workspace(1)), 1))
		require.Equal(t, same.Y, y, "%s, %s", name, algo)
	}
}

func checkColumns(t *testing.T, name string, s ConvSpec, a ConvArgs, want, sums []float64) {
	t.Helper()
	for _, constant := range []bool{true, false} {
		s.ConstW = constant
		c, err := NewColumns(s)
		require.NoError(t, err)
		var packed []*gemm.Packed
		if product, right := c.Product(); constant {
			for g := range c.s.Groups {
				pack := product.PackA
				if right {
					pack = product.PackB
				}
				p, err := pack(t.Context(), gemm.Dense(a.W[g*c.GroupWeights():][:c.GroupWeights()]))
				require.NoError(t, err)
				packed = append(packed, p)
			}
		}
		var first []float32
		for threads := range 3 {
			y, check := kerntest.Guarded(len(want))
			a.Y = y
			require.NoError(t, c.Run(a, packed, poisoned(c.Workspace(threads+1)), threads+1))
			check(t)
			if first == nil {
				first = y
				withinSums(t, name, c.icg+c.taps, y, want, sums)
			}
			require.True(t, slices.Equal(first, y), "%s on %d threads", name, threads+1)
		}
	}
}

func checkPhases(t *testing.T, name string, s ConvSpec, a ConvArgs, want, sums []float64) {
	t.Helper()
	c, packed := packedConv(t, s, ConvPlan{Algorithm: ConvPhases}, gemm.Dense(a.W))
	if s.InBlocked {
		a.X = blocked(a.X, s.Batch, s.InC, c.inN)
	}
	a.Packed = packed
	var first []float32
	for threads := range 3 {
		y, check := kerntest.Guarded(s.Batch * c.outImage())
		a.Y = y
		require.NoError(t, c.Run(a, poisoned(c.Workspace(threads+1)), threads+1))
		check(t)
		if s.OutBlocked {
			y = plainOf(t, y, s.Batch, s.OutC, c.outN)
		}
		if first == nil {
			first = y
			terms := c.icg * c.taps
			withinSums(t, name, min(terms, 256+16*c.taps)+terms/256, y, want, sums)
		}
		require.True(t, slices.Equal(first, y), "%s on %d threads", name, threads+1)
	}
	if s.InBlocked || s.OutBlocked {
		return
	}
	s.ConstW = false
	c, err := NewConv(s, ConvPlan{Algorithm: ConvPhases})
	require.NoError(t, err)
	a.Y = make([]float32, len(first))
	require.NoError(t, c.Run(a, poisoned(c.Workspace(2)), 2))
	require.True(t, slices.Equal(first, a.Y), "%s, weights of the run", name)
}

// poisoned is a workspace of NaNs.
func poisoned(n int) []byte {
	ws := make([]byte, n)
	for i := range ws {
		ws[i] = 0xff
	}
	return ws
}

// TestTransposedEpilogue: activations over phases and columns, and weights that are all alike.
func TestTransposedEpilogue(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, act := range []simd.UnaryOp{simd.Relu, simd.LeakyRelu, simd.Sigmoid, simd.Clip, simd.Tanh} {
			s := transposed2(2, 24, 20, 1, 5, 9, 4, 2, 1, 0)
			s.Epilogue = simd.Epilogue{Act: act, P0: 0.1, P1: 0.7}
			g := geometryOf(t, s)
			s, s.ConstW = g.s, true
			rng := rand.New(rand.NewPCG(uint64(i), 8))
			a := ConvArgs{X: kerntest.Noise(rng, s.Batch*s.InC*g.inN, 0)}
			src := gemm.Source{Data: kerntest.Noise(rng, g.weightLen(), 0)}
			if i%2 == 0 {
				src = gemm.Source{Data: []float32{0.3}, Splat: true}
			}
			var err error
			a.W, err = src.Elements(t.Context(), g.weightLen())
			require.NoError(t, err)
			want, _ := transposed64(g, a)
			y := make([]float32, len(want))
			a.Y = y
			check := func(name string) {
				for k, v := range want {
					x := []float32{float32(v)}
					simd.UnaryGeneric(act, x, x, s.Epilogue.P0, s.Epilogue.P1)
					if d := x[0] - y[k]; !(d < 1e-4 && d > -1e-4) {
						require.Fail(t, "differs", "%s, %v: element %d is %v, not %v", name, act, k, y[k], x[0])
					}
				}
				clear(y)
			}
			free := s
			free.ConstW = false
			c, err := NewColumns(free)
			require.NoError(t, err)
			require.NoError(t, c.Run(a, nil, poisoned(c.Workspace(2)), 2))
			check("columns")
			if _, fits := geometryOf(t, s).phased(); fits {
				c, packed := packedConv(t, s, ConvPlan{Algorithm: ConvPhases}, src)
				a.Packed = packed
				require.NoError(t, c.Run(a, poisoned(c.Workspace(2)), 2))
				check("phases")
			}
		}
	})
}

// TestPlanTransposed: which transposed convolutions are computed by phases.
func TestPlanTransposed(t *testing.T) {
	if geometryOf(t, transposed2(1, 1, 1, 1, 1, 1, 1, 1, 0, 0)).t.Block() < 8 {
		t.Skip("plain Go has no direct kernels")
	}
	strided := transposed2(1, 64, 64, 1, 16, 16, 3, 2, 1, 1)
	strided.Dilation = [3]int{1, 2, 2}
	volume := transposed2(1, 64, 64, 1, 16, 16, 4, 2, 1, 0)
	volume.In[0], volume.Out[0] = 3, 3
	for name, c := range map[string]struct {
		s    ConvSpec
		want ConvAlgorithm
	}{
		"generator":               {transposed2(1, 64, 64, 1, 16, 16, 4, 2, 1, 0), ConvPhases},
		"upsampling":              {transposed2(1, 64, 32, 1, 64, 64, 2, 2, 0, 0), ConvPhases},
		"three channels":          {transposed2(1, 64, 3, 1, 32, 32, 4, 2, 1, 0), ConvColumns},
		"one position":            {transposed2(1, 100, 512, 1, 1, 1, 4, 1, 0, 0), ConvColumns},
		"stride beyond kernel":    {transposed2(1, 64, 64, 1, 16, 16, 1, 2, 0, 0), ConvColumns},
		"common divisor":          {strided, ConvColumns},
		"volume":                  {volume, ConvColumns},
		"much padding of nothing": {transposed2(1, 64, 64, 1, 4, 4, 150, 2, 0, 0), ConvColumns},
	} {
		c.s.ConstW = true
		p, err := PlanConv(c.s, ConvPolicy{})
		require.NoError(t, err)
		assert.Equal(t, c.want, p.Algorithm, "%s: %s", name, p.Reason)
	}
	for name, c := range map[string]struct { // weights of a run
		s    ConvSpec
		want ConvAlgorithm
	}{
		"3x3 by one":   {transposed2(4, 16, 32, 1, 64, 64, 3, 1, 1, 0), ConvWinograd4},
		"1x1 by one":   {transposed2(4, 2, 16, 1, 64, 64, 1, 1, 0, 0), ConvPointwise},
		"depthwise":    {transposed2(2, 16, 16, 16, 30, 30, 3, 1, 1, 0), ConvDepthwise},
		"by two":       {transposed2(2, 64, 32, 1, 16, 16, 3, 2, 1, 1), ConvPhases},
		"few channels": {transposed2(4, 64, 3, 1, 32, 32, 5, 1, 2, 0), ConvColumns},
		"few uses":     {transposed2(1, 64, 64, 1, 8, 8, 4, 2, 1, 0), ConvPhases},
		"fewer uses":   {transposed2(1, 64, 64, 1, 4, 4, 4, 2, 1, 0), ConvColumns},
	} {
		p, err := PlanConv(c.s, ConvPolicy{Winograd: Winograd4})
		require.NoError(t, err)
		assert.Equal(t, c.want, p.Algorithm, "%s: %s", name, p.Reason)
	}
}

// TestTurnedColumns: convolutions of stride one as the transposes of others, with padding, dilations, epilogues and residuals, within the stated
// bounds.
func TestTurnedColumns(t *testing.T) {
	dilated := conv2(1, 17, 3, 1, 14, 13, 3, 1, 0)
	dilated.Dilation, dilated.PadBegin, dilated.PadEnd = [3]int{1, 3, 2}, [3]int{0, 1, 4}, [3]int{0, 5, -1}
	volume := conv2(1, 9, 2, 1, 7, 8, 3, 1, 1)
	volume.In[0], volume.Kernel[0], volume.PadBegin[0], volume.PadEnd[0] = 5, 3, 1, 1
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, s := range []ConvSpec{conv2(2, 32, 3, 1, 19, 21, 3, 1, 1), conv2(1, 16, 1, 1, 90, 70, 5, 1, 0), conv2(1, 40, 4, 1, 1, 2, 3, 1, 2), dilated, volume} {
			for name, fill := range kerntest.HardInputs {
				s.ConstW, s.Epilogue = true, simd.Epilogue{}
				g := geometryOf(t, s)
				rng := rand.New(rand.NewPCG(uint64(i), 21))
				a := ConvArgs{X: make([]float32, s.Batch*s.InC*g.inN), W: make([]float32, g.weightLen()),
					Bias: kerntest.Noise(rng, s.OutC, 0), Residual: kerntest.Noise(rng, s.Batch*s.OutC*g.outN, 0)}
				fill(rng, a.X, a.W)
				want, sums := conv64(g, a), magnitudes64(g, a)
				withinSums(t, fmt.Sprintf("%s, case %d", name, i), g.icg+g.taps, runTurned(t, s, a), want, sums)
			}
			s.Epilogue = simd.Epilogue{Bias: simd.BiasPerRow, Residual: true, Act: simd.Tanh}
			g := geometryOf(t, s)
			rng := rand.New(rand.NewPCG(uint64(i), 22))
			a := ConvArgs{X: kerntest.Noise(rng, s.Batch*s.InC*g.inN, 0), W: kerntest.Noise(rng, g.weightLen(), 0),
				Bias: kerntest.Noise(rng, s.OutC, 0), Residual: kerntest.Noise(rng, s.Batch*s.OutC*g.outN, 0)}
			want, y := conv64(g, a), runTurned(t, s, a)
			for k := range want {
				if d := want[k] - float64(y[k]); !(math.Abs(d) < 1e-4) {
					require.Fail(t, "differs", "case %d: element %d is %v, not %v", i, k, y[k], want[k])
				}
			}
		}
	})
}

// runTurned computes a convolution by columns, the same bytes on any number of threads, over its residual if it has one.
func runTurned(t *testing.T, s ConvSpec, a ConvArgs) (first []float32) {
	t.Helper()
	s.ConstW = true
	c, err := NewColumns(s)
	require.NoError(t, err)
	require.True(t, c.Turned())
	w, err := c.Turn(t.Context(), gemm.Dense(a.W))
	require.NoError(t, err)
	product, right := c.Product()
	pack := product.PackA
	if right {
		pack = product.PackB
	}
	p, err := pack(t.Context(), w)
	require.NoError(t, err)
	residual := a.Residual
	for threads := 1; threads <= 3; threads++ {
		y, check := kerntest.Guarded(s.Batch * s.OutC * c.outN)
		a.Y = y
		if s.Epilogue.Residual {
			copy(y, residual)
			a.Residual = y
		}
		require.NoError(t, c.Run(a, []*gemm.Packed{p}, poisoned(c.Workspace(threads)), threads))
		check(t)
		if first == nil {
			first = y
		}
		require.True(t, slices.Equal(first, y), "%d threads", threads)
	}
	return first
}
