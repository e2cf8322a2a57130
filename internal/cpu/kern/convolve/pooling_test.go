package convolve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// pool64 is one window of a pooling, straight from its definition.
func pool64(p *Pool, x []float32, oy, ox int) float64 {
	s := p.s
	best, sum, n := math.Inf(-1), 0.0, 0
	for ky := range s.Kernel[0] {
		for kx := range s.Kernel[1] {
			y := oy*s.Stride[0] - s.PadBegin[0] + ky*s.Dilation[0]
			c := ox*s.Stride[1] - s.PadBegin[1] + kx*s.Dilation[1]
			if y >= 0 && y < s.In[0] && c >= 0 && c < s.In[1] {
				v := float64(x[y*s.In[1]+c])
				best, sum = math.Max(best, v), sum+v
				n++
			} else if s.Kind == PoolAveragePad && y < s.In[0]+s.PadEnd[0] && c < s.In[1]+s.PadEnd[1] {
				n++
			}
		}
	}
	if s.Kind == PoolMax {
		return best
	}
	return sum / float64(n)
}

func runPool(t *testing.T, s PoolSpec) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.In[1]), 1))
	p, err := NewPool(s)
	require.NoError(t, err)
	n := s.Batch * s.Channels
	in, out := s.In[0]*s.In[1], p.Out()
	x := kerntest.Noise(rng, n*in, 1)
	y, check := kerntest.Guarded(n * out[0] * out[1])
	ws := make([]byte, p.Workspace(2))
	for i := range ws {
		ws[i] = 0xff
	}
	require.NoError(t, p.Run(nil, x, y, ws, 2))
	check(t)
	for i := range y {
		c, oy, ox := i/out[1]/out[0], i/out[1]%out[0], i%out[1]
		want := pool64(p, x[c*in:][:in], oy, ox)
		if d := math.Abs(want - float64(y[i])); !(d < 1e-5) {
			require.InDelta(t, want, y[i], 1e-5, "%+v at %d %d", s, oy, ox)
		}
	}
}

func TestPool(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for kind := PoolMax; kind <= PoolAveragePad; kind++ {
			for w := 3; w <= 67; w++ {
				runPool(t, PoolSpec{Kind: kind, Batch: 1, Channels: 2, In: [2]int{5, w}, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, PadBegin: [2]int{1, 1}, PadEnd: [2]int{1, 1}, Ceil: w%2 == 0})
				runPool(t, PoolSpec{Kind: kind, Batch: 2, Channels: 1, In: [2]int{4, w}, Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}})
				runPool(t, PoolSpec{Kind: kind, Batch: 1, Channels: 1, In: [2]int{7, w}, Kernel: [2]int{3, 2}, Stride: [2]int{1, 3}, Dilation: [2]int{2, 2}, PadEnd: [2]int{2, 1}})
			}
			runPool(t, PoolSpec{Kind: kind, Batch: 1, Channels: 40, In: [2]int{9, 9}, Kernel: [2]int{3, 3}, PadBegin: [2]int{1, 1}, PadEnd: [2]int{1, 1}})
			runPool(t, PoolSpec{Kind: kind, Batch: 1, Channels: 3, In: [2]int{130, 140}, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}})
			runPool(t, PoolSpec{Kind: kind, Batch: 2, Channels: 3, In: [2]int{1, 50}, Kernel: [2]int{1, 7}, Stride: [2]int{1, 4}, Ceil: true})
		}
	})
}

func TestPoolMaxNaN(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for at := range 4 {
			p, err := NewPool(PoolSpec{Batch: 1, Channels: 1, In: [2]int{2, 2}, Kernel: [2]int{2, 2}})
			require.NoError(t, err)
			x, y := []float32{1, 2, 3, 4}, make([]float32, 1)
			x[at] = float32(math.NaN())
			require.NoError(t, p.Run(nil, x, y, make([]byte, p.Workspace(1)), 1))
			assert.True(t, y[0] != y[0], "NaN at %d", at)
		}
	})
}

func TestPoolErrors(t *testing.T) {
	var spec *machine.SpecError
	for _, s := range []PoolSpec{
		{Kind: 9, Batch: 1, Channels: 1, In: [2]int{4, 4}, Kernel: [2]int{2, 2}},
		{Batch: 1, Channels: 1, In: [2]int{4, 4}, Kernel: [2]int{5, 2}},
		{Batch: 1, Channels: 1, In: [2]int{4, 4}, Kernel: [2]int{0, 2}},
		{Batch: 1, Channels: 1, In: [2]int{4, 4}, Kernel: [2]int{2, 2}, PadBegin: [2]int{-1, 0}},
		{Batch: 1 << 30, Channels: 1 << 30, In: [2]int{4, 4}, Kernel: [2]int{2, 2}},
	} {
		_, err := NewPool(s)
		assert.ErrorAs(t, err, &spec, "%+v", s)
	}
}

func BenchmarkPool(b *testing.B) {
	for _, l := range machine.Levels() {
		for _, kind := range []PoolKind{PoolMax, PoolAverage} {
			for _, s := range []PoolSpec{
				{Kind: kind, Batch: 1, Channels: 64, In: [2]int{112, 112}, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, PadBegin: [2]int{1, 1}, PadEnd: [2]int{1, 1}},
				{Kind: kind, Batch: 1, Channels: 256, In: [2]int{28, 28}, Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, PadBegin: [2]int{1, 1}, PadEnd: [2]int{1, 1}},
			} {
				b.Run(fmt.Sprintf("%s/kind%d/%dx%d s%d", l, kind, s.Channels, s.In[0], s.Stride[0]), func(b *testing.B) {
					kerntest.AtLevel(b, l, func(b *testing.B) {
						p, err := NewPool(s)
						require.NoError(b, err)
						x := make([]float32, s.Channels*s.In[0]*s.In[1])
						y := make([]float32, s.Channels*p.Out()[0]*p.Out()[1])
						ws := make([]byte, p.Workspace(1))
						sec := kerntest.BestOf(b, func() { _ = p.Run(nil, x, y, ws, 1) })
						b.ReportMetric(float64(4*(len(x)+len(y)))/sec/1e9, "GB/s")
					})
				})
			}
		}
	}
}
