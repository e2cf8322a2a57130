package weights

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/ssa"
)

// TestWeightsArePackedOnce: of several who ask for one constant at once, one packs it;
// who waits stops when its context ends.
func TestWeightsArePackedOnce(t *testing.T) {
	w := New()
	form := Form{Layout: gemm.Layout{Kind: "test"}}
	begun, end := make(chan struct{}), make(chan struct{})
	var packed atomic.Int32
	pack := func() (*gemm.Packed, error) {
		if packed.Add(1) == 1 {
			close(begun)
			<-end
		}
		return &gemm.Packed{}, nil
	}
	var wg sync.WaitGroup
	var got [4]*gemm.Packed
	ask := func(i int) {
		p, err := w.Of(t.Context(), ssa.Identity{}, form, pack)
		assert.NoError(t, err)
		got[i] = p
	}
	wg.Go(func() { ask(0) })
	<-begun
	for i := range 3 {
		wg.Go(func() { ask(i + 1) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Of(ctx, ssa.Identity{}, form, pack)
	require.ErrorIs(t, err, context.Canceled)
	close(end)
	wg.Wait()
	assert.EqualValues(t, 1, packed.Load())
	for _, p := range got {
		assert.Same(t, got[0], p)
	}
	_, err = w.Of(t.Context(), ssa.Identity{}, Form{}, func() (*gemm.Packed, error) { return nil, errors.New("no") })
	require.Error(t, err)
	p, err := w.Of(t.Context(), ssa.Identity{}, Form{}, pack)
	require.NoError(t, err, "a failure is not kept")
	assert.NotNil(t, p)
}

// TestForgotten: entries whose packed weights nobody holds are swept out.
func TestForgotten(t *testing.T) {
	w := New()
	for i := range 200 {
		_, err := w.Of(t.Context(), ssa.Identity{}, Form{Arrangement: i}, func() (*gemm.Packed, error) { return &gemm.Packed{}, nil })
		require.NoError(t, err)
		if len(w.made) == 63 {
			runtime.GC()
		}
	}
	assert.Less(t, len(w.made), 200)
	runtime.GC()
	assert.Empty(t, w.Bytes())
}

// TestShared: what was made from a key is made once, among the newest; a failure is not kept.
func TestShared(t *testing.T) {
	s := &Shared{}
	for i := range 3 * mostShared {
		made, err := s.Get(i, func() (any, error) { return new(int), nil })
		require.NoError(t, err)
		again, err := s.Get(i, func() (any, error) { return nil, errors.New("made twice") })
		require.NoError(t, err)
		assert.Same(t, made, again)
		assert.LessOrEqual(t, len(s.made), mostShared)
	}
	_, err := s.Get(-1, func() (any, error) { return nil, errors.New("no") })
	require.Error(t, err)
	assert.NotContains(t, s.made, -1)
}
