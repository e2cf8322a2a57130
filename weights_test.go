package berth_test

import (
	"context"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
)

// sumOf adds up bytes by layout.
func sumOf(packed map[string]int64) (n int64) {
	for _, b := range packed {
		n += b
	}
	return n
}

// openReader opens a model whose input has an open width.
func openReader(t testing.TB) *berth.Model {
	m, err := berth.Open(shareddata.Path(t, "models", "ppocr_rec", "model.onnx"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// line is an image of a line of text; widths are numbered from 0.
func line(width int) []ndarray.Value {
	return []ndarray.Value{ndarray.Must(ndarray.Float32, 1, 3, 48, 64+8*width)}
}

// TestProgramsShareWeights: a second program of a model, for another shape, packs what
// its layouts do not share, no more; weights go with the last program.
func TestProgramsShareWeights(t *testing.T) {
	m := openReader(t)
	var programs []*berth.Program
	var first, all int64
	for w := range 10 {
		p, err := m.Compile(t.Context(), berth.WithShape("x", 1, 3, 48, 320+8*w), berth.WithThreads(1+w%2))
		require.NoError(t, err)
		programs = append(programs, p)
		all = sumOf(m.PackedBytes())
		if w == 0 {
			first = all
			assert.Equal(t, all, sumOf(p.Plan().Packed))
		}
	}
	assert.Less(t, all, first*5/4, "ten programs hold about the weights of one")
	runtime.KeepAlive(programs)
	programs = nil
	runtime.GC()
	assert.Zero(t, sumOf(m.PackedBytes()), "nobody holds them")
}

// TestWidthsShareWeights: a program with an open width packs each weight once for each
// layout, not for each width.
func TestWidthsShareWeights(t *testing.T) {
	m := openReader(t)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	weights := berth.StatsOf(m.Graph()).WeightBytes
	for w := range 60 {
		_, err := s.Run(t.Context(), line(w))
		require.NoError(t, err)
	}
	assert.Less(t, sumOf(m.PackedBytes()), 2*weights)
	runtime.KeepAlive(s)
}

// TestOptimizeForMemory: no layout takes more than the weights do.
func TestOptimizeForMemory(t *testing.T) {
	m, err := berth.Open(shareddata.Path(t, "models", "nudenet_320n", "model.onnx"))
	require.NoError(t, err)
	defer m.Close()
	shape := berth.WithShape(m.Inputs()[0].Name, 1, 3, 320, 320)
	fast, err := m.Compile(t.Context(), shape)
	require.NoError(t, err)
	small, err := m.Compile(t.Context(), shape, berth.WithOptimizeFor(berth.Memory))
	require.NoError(t, err)
	assert.Contains(t, fast.Plan().Packed, "winograd 4x4")
	assert.NotContains(t, small.Plan().Packed, "winograd 4x4")
	assert.LessOrEqual(t, small.Plan().PackedBytes, berth.StatsOf(m.Graph()).WeightBytes)
	assert.Less(t, small.Plan().PackedBytes, fast.Plan().PackedBytes)
	assert.Less(t, fast.Plan().Kernels, fast.Plan().KernelNodes, "like nodes share a kernel")
}

// TestStrictAccuracy: no convolution is transformed.
func TestStrictAccuracy(t *testing.T) {
	m, err := berth.Open(shareddata.Path(t, "models", "nudenet_320n", "model.onnx"))
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(t.Context(), berth.WithShape(m.Inputs()[0].Name, 1, 3, 320, 320), berth.WithAccuracy(berth.Strict))
	require.NoError(t, err)
	for layout := range p.Plan().Packed {
		assert.NotContains(t, layout, "winograd")
	}
}

// TestStrictNormalization: the mean is subtracted before anything is multiplied, so that a large one does not cancel.
func TestStrictNormalization(t *testing.T) {
	m := parsed(t, `graph "g" { in %x: float32[1,32,9,9] const %s: float32[32] = splat 0.7 const %b: float32[32] = splat 0.25 const %m: float32[32] = splat 1e5
		const %v: float32[32] = splat 1 %y = BatchNormalization(%x, %s, %b, %m, %v) [epsilon=0.0] out %y }`)
	x := drawn(m.Inputs()[0].Type, 1).(*ndarray.Array)
	for i := range x.Len() {
		x.SetFloat(i, 1e5+x.Float(i))
	}
	worst := func(a berth.Accuracy) (most float64) { // error by the bound of a difference, a product and a sum
		p, err := m.Compile(t.Context(), berth.WithAccuracy(a))
		require.NoError(t, err)
		out, err := p.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
		require.NoError(t, err)
		for i := range x.Len() {
			scaled := (x.Float(i) - 1e5) * float64(float32(0.7))
			off := math.Abs(out["y"].(*ndarray.Array).Float(i) - (scaled + 0.25))
			most = max(most, off/(4*0x1p-24*(math.Abs(scaled)+0.25)))
		}
		return most
	}
	assert.LessOrEqual(t, worst(berth.Strict), 1.0)
	assert.Greater(t, worst(berth.Fast), 100.0, "scale and shift were folded")
}

// TestCompileEndsWithItsContext: packing is given up.
func TestCompileEndsWithItsContext(t *testing.T) {
	m := openReader(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Compile(ctx, berth.WithShape("x", 1, 3, 48, 320))
	require.ErrorIs(t, err, context.Canceled)
}

// BenchmarkOpenWidths runs 60 widths in one program, one after the other, and reports
// the weights that are held and the heap in use after that.
func BenchmarkOpenWidths(b *testing.B) {
	m := openReader(b)
	p, err := m.Compile(b.Context())
	require.NoError(b, err)
	s, err := p.NewSession()
	require.NoError(b, err)
	for i := 0; b.Loop(); i++ {
		if _, err := s.Run(b.Context(), line(i%60)); err != nil {
			b.Fatal(err)
		}
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(sumOf(m.PackedBytes()))/1e6, "packed-MB")
	b.ReportMetric(float64(mem.HeapSys-mem.HeapReleased)/1e6, "heap-MB")
}

// TestFurtherProgramsCostNoWeights: a further program of a model takes memory for its own
// structure alone. What it folds into weights is packed already or, where kernels are prepared
// while running, equal to what the first one reads.
func TestFurtherProgramsCostNoWeights(t *testing.T) {
	for name, options := range map[string]func(n int) []berth.Option{
		"known widths": func(n int) []berth.Option { return []berth.Option{berth.WithShape("x", 1, 3, 48, 320+8*n)} },
		"open widths":  func(int) []berth.Option { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			m := openReader(t)
			var programs []*berth.Program
			compile := func(n int) {
				for range n {
					p, err := m.Compile(t.Context(), options(len(programs))...)
					require.NoError(t, err)
					programs = append(programs, p)
				}
			}
			inUse := func() int64 {
				var mem runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&mem)
				return int64(mem.HeapAlloc)
			}
			compile(2)
			before := inUse()
			compile(8)
			further := (inUse() - before) / 8
			t.Logf("%d bytes of the heap for each further program", further)
			assert.Less(t, further, int64(1<<20))
			runtime.KeepAlive(programs)
		})
	}
}
