package ssa_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestConstantEnded: a context ends the making of a large constant's array, and another call makes it.
func TestConstantEnded(t *testing.T) {
	const n = 8 << 20
	unaligned := &ndarray.Array{DType: ndarray.Float32, Shape: []int{n}, Data: ndarray.AlignedBytes(4*n + 1)[1:]}
	copy(unaligned.Data[4*n-4:], ndarray.Scalar(float32(2)).Data)
	for name, c := range map[string]struct {
		constant *ssa.Constant
		last     *ndarray.Array
	}{
		"floats repeated":  {ssa.NewSplat(ndarray.Scalar(float32(0.5)), n), ndarray.Scalar(float32(0.5))},
		"bytes repeated":   {ssa.NewSplat(ndarray.Scalar(int8(3)), n), ndarray.Scalar(int8(3))},
		"strings repeated": {ssa.NewSplat(ndarray.Strings([]string{"a"}), n), ndarray.Strings([]string{"a"})},
		"not aligned":      {ssa.NewConstant(unaligned), ndarray.Scalar(float32(2))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.constant.ArrayContext(&looktest.Context{Context: t.Context(), Left: 3}, 0)
			require.ErrorIs(t, err, context.Canceled)
			a, err := c.constant.ArrayContext(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, n, a.Len())
			if a.DType == ndarray.String {
				assert.Equal(t, c.last.Str[0], a.Str[n-1])
			} else {
				assert.Equal(t, c.last.Float(0), a.Float(n-1))
			}
		})
	}
}

// TestFillBeside: other goroutines run while a large splat is filled out, also where no context ends that.
func TestFillBeside(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := ssa.NewSplat(ndarray.Scalar(float32(0.5)), 64<<20)
	var wait, took time.Duration
	for range 3 { // one that the system interrupts tells nothing
		var filled atomic.Bool
		begin, waited := time.Now(), make(chan time.Duration)
		go func() {
			var most time.Duration
			last := begin
			for done := false; !done; runtime.Gosched() {
				done = filled.Load()
				now := time.Now()
				most, last = max(most, now.Sub(last)), now
			}
			waited <- most
		}()
		_, err := c.Array()
		require.NoError(t, err)
		took = time.Since(begin)
		filled.Store(true)
		wait = <-waited
		c.Release()
		if wait < took/2 {
			return
		}
	}
	assert.Less(t, wait, took/2)
}

// TestConstantWait: who waits for another to make a constant's elements, or those of one that shares them, waits as long as its own
// context lasts, and has them when they are made.
func TestConstantWait(t *testing.T) {
	begun, made := make(chan struct{}), make(chan struct{})
	c := ssa.NewLazy(ndarray.Float32, []int{4}, func() (*ndarray.Array, error) {
		close(begun)
		<-made
		return ndarray.Of([]float32{1, 2, 3, 4}, 4), nil
	})
	maker := make(chan error)
	go func() {
		_, err := c.Array()
		maker <- err
	}()
	<-begun
	flat := c.Reshaped(2, 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, waits := range []*ssa.Constant{c, flat} {
		_, err := waits.ArrayContext(ended, 0)
		require.ErrorIs(t, err, context.Canceled)
		_, err = waits.BytesContext(ended, 0)
		require.ErrorIs(t, err, context.Canceled)
		_, err = waits.IdentityContext(ended, 0)
		require.ErrorIs(t, err, context.Canceled)
	}
	waiter := make(chan float64)
	go func() {
		a, err := flat.ArrayContext(t.Context(), 0)
		assert.NoError(t, err)
		waiter <- a.Float(3)
	}()
	close(made)
	require.NoError(t, <-maker)
	require.Equal(t, 4.0, <-waiter)
}

// TestIdentityEnded: a context ends the hashing of many elements, and another call hashes them.
func TestIdentityEnded(t *testing.T) {
	for name, c := range map[string]*ssa.Constant{
		"numbers": ssa.NewConstant(ndarray.Must(ndarray.Float32, 1<<20)),
		"strings": ssa.NewConstant(ndarray.Strings(make([]string, 20000), 20000)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.IdentityContext(&looktest.Context{Context: t.Context(), Left: 3}, 0)
			require.ErrorIs(t, err, context.Canceled)
			id, err := c.Identity(0)
			require.NoError(t, err)
			again, err := c.IdentityContext(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, id, again)
		})
	}
}
