package convolve

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// rounded are floats as halves, and what they are then.
func rounded(h Half, x []float32) ([]uint16, []float32) {
	halves, floats := make([]uint16, len(x)), make([]float32, len(x))
	h.narrow(halves, x)
	h.widen(floats, halves)
	return halves, floats
}

// TestConvHalves compares images of half types with those of float32 whose result is rounded once: to the last bit.
func TestConvHalves(t *testing.T) {
	specs := []ConvSpec{
		conv2(2, 5, 32, 1, 4, 9, 3, 1, 1), conv2(1, 32, 96, 2, 5, 7, 1, 1, 0), conv2(2, 64, 40, 1, 9, 14, 1, 2, 0), conv2(1, 3, 30, 1, 9, 12, 5, 3, 2),
		conv2(2, 33, 70, 1, 30, 31, 1, 1, 0), conv2(1, 600, 20, 1, 5, 9, 1, 1, 0), conv2(1, 264, 600, 1, 5, 9, 1, 1, 0), conv2(1, 16, 16, 1, 40, 44, 3, 1, 1),
		conv2(2, 20, 20, 20, 5, 9, 3, 1, 1), conv2(1, 17, 17, 17, 60, 50, 3, 2, 1), conv2(1, 20, 20, 20, 7, 7, 7, 1, 3), conv2(1, 2, 2, 2, 3, 3, 3, 1, 9),
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, s := range specs {
			for j, ends := range append(blockedEnds, [2]bool{}) {
				s.InBlocked, s.OutBlocked = ends[0], ends[1]
				s.Epilogue = blockedEpilogues[(i+j)%len(blockedEpilogues)]
				plan := ConvPlan{Algorithm: blockedAlgorithms(geometryOf(t, s))[0]}
				s.ConstW = true
				if TakesHalves(s, plan) && (geometryOf(t, s).isBlocked() || geometryOf(t, s).directFits()) {
					for _, s.Half = range []Half{Binary16, Bfloat16} {
						compareHalves(t, s, plan)
					}
				}
			}
		}
	})
}

func compareHalves(t *testing.T, s ConvSpec, plan ConvPlan) {
	rng := rand.New(rand.NewPCG(uint64(s.InC), uint64(s.OutC)))
	half := s.Half
	s.Half = NoHalf
	g := geometryOf(t, s)
	src := gemm.Dense(kerntest.Noise(rng, g.weightLen(), 0))
	image := func(channels, n int, blocks bool) ([]uint16, []float32) {
		x := kerntest.Noise(rng, s.Batch*channels*n, 0)
		if blocks {
			x = blocked(x, s.Batch, channels, n)
		}
		return rounded(half, x)
	}
	c, p := packedConv(t, s, plan, src)
	a := ConvArgs{Packed: p, Bias: kerntest.Noise(rng, s.OutC, 0), Y: make([]float32, s.Batch*c.outImage())}
	a.Halves.X, a.X = image(s.InC, c.inN, s.InBlocked)
	a.Halves.Residual, a.Residual = image(s.OutC, c.outN, s.OutBlocked)
	require.NoError(t, c.Run(a, make([]byte, c.Workspace(2)), 2))
	want, _ := rounded(half, a.Y)

	s.Half = half
	c, a.Packed = packedConv(t, s, plan, src)
	ws := make([]byte, c.Workspace(3))
	for i := range ws {
		ws[i] = 0xff
	}
	a.X, a.Y, a.Residual = nil, nil, nil
	for _, threads := range []int{1, 3} {
		a := a
		a.Halves.Y = make([]uint16, len(want))
		if s.Epilogue.Residual && threads > 1 { // the residual may be the result
			copy(a.Halves.Y, a.Halves.Residual)
			a.Halves.Residual = a.Halves.Y
		}
		require.NoError(t, c.Run(a, ws, threads))
		require.Equal(t, want, a.Halves.Y, "%+v, %s, %d threads", s, plan.Algorithm, threads)
		require.Zero(t, testing.AllocsPerRun(2, func() { _ = c.Run(a, ws, threads) }))
	}
}

func TestConvHalvesRefuses(t *testing.T) {
	s := conv2(1, 16, 16, 1, 20, 20, 3, 1, 1)
	s.Half, s.ConstW, s.Epilogue = Binary16, true, simd.Epilogue{}
	_, err := NewConv(s, ConvPlan{Algorithm: ConvPatches})
	require.ErrorContains(t, err, "float32")
}

// TestPoolHalves compares blocked images of half types with those of float32 whose result is rounded once.
func TestPoolHalves(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, s := range []PoolSpec{
			{Batch: 2, Channels: 20, In: [2]int{9, 11}, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, PadBegin: [2]int{1, 1}, PadEnd: [2]int{1, 1}},
			{Batch: 1, Channels: 16, In: [2]int{90, 70}, Kernel: [2]int{2, 5}, Stride: [2]int{2, 1}, Ceil: true}, // several strips
			{Batch: 1, Channels: 5, In: [2]int{3, 4}, Kernel: [2]int{2, 2}, Stride: [2]int{5, 5}, PadBegin: [2]int{3, 3}},
		} {
			for kind := PoolMax; kind <= PoolAveragePad; kind++ {
				s.Kind, s.Blocked, s.Half = kind, true, NoHalf
				half := Binary16 + Half(i+int(kind))%2
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				x, floats := rounded(half, blocked(kerntest.Noise(rng, s.Batch*s.Channels*s.In[0]*s.In[1], 0), s.Batch, s.Channels, s.In[0]*s.In[1]))
				p, err := NewPool(s)
				require.NoError(t, err)
				y := make([]float32, s.Batch*imageLen(p.t, s.Channels, p.Out()[0]*p.Out()[1], true))
				require.NoError(t, p.Run(nil, floats, y, make([]byte, p.Workspace(1)), 1))
				want, _ := rounded(half, y)

				s.Half = half
				p, err = NewPool(s)
				require.NoError(t, err)
				got, ws := make([]uint16, len(y)), make([]byte, p.Workspace(2))
				for j := range ws {
					ws[j] = 0xff
				}
				require.NoError(t, p.RunHalves(nil, x, got, ws, 2))
				require.Equal(t, want, got, "%+v", s)
				require.Zero(t, testing.AllocsPerRun(2, func() { _ = p.RunHalves(nil, x, got, ws, 2) }))
			}
		}
	})
	_, err := NewPool(PoolSpec{Batch: 1, Channels: 1, In: [2]int{2, 2}, Kernel: [2]int{2, 2}, Half: Binary16})
	require.ErrorContains(t, err, "float32")
}
