package sysmem

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
)

func TestDiscardedBytesComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	want := bytes.Repeat([]byte("berth"), 40000)
	require.NoError(t, os.WriteFile(path, want, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data, err := MapFile(f, len(want))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system does not map files")
	}
	require.NoError(t, err)
	assert.True(t, IsMapped(data[7:99]))
	assert.False(t, IsMapped(want), "ordinary memory")
	assert.False(t, IsMapped(nil))
	for _, part := range [][]byte{data, data[1:20000], data[5000:5001]} {
		Discard(part)
		require.Equal(t, want, data)
	}
	Discard(want)
	assert.Equal(t, byte('b'), want[0], "ordinary memory is left alone")
	require.NoError(t, UnmapFile(data))
	assert.False(t, IsMapped(data[:1]))
}

func TestPrefaultKeepsBytes(t *testing.T) {
	data := bytes.Repeat([]byte("berth"), 80000)
	want := bytes.Clone(data)
	for _, part := range [][]byte{data, data[1:], data[5000 : 5000+prefaultBytes], data[:1], nil} {
		require.NoError(t, Prefault(t.Context(), part))
		require.Equal(t, want, data)
	}
	assert.Zero(t, bytes.Count(func() []byte { b := make([]byte, 4*prefaultBytes); _ = Prefault(t.Context(), b); return b }(), []byte{1}))
}

// TestLargePagesKeepBytes: memory of any address and length keeps what it holds.
func TestLargePagesKeepBytes(t *testing.T) {
	b := bytes.Repeat([]byte{1}, largeBytes+4096)
	for _, part := range [][]byte{b, b[1:], b[:largeBytes-1], b[4095 : len(b)-1], nil} {
		require.NoError(t, LargePages(t.Context(), part))
	}
	assert.Equal(t, len(b), bytes.Count(b, []byte{1}))
}

// TestLargeMemoryLooks: taking and clearing large memory looks at the context at least once for every 64 MB.
func TestLargeMemoryLooks(t *testing.T) {
	const most, n = 1 << 20, 160 << 20
	for name, f := range map[string]func(context.Context) error{
		"small pages": func(ctx context.Context) error { return Prefault(ctx, Uncleared(n)[1:]) },
		"large pages": func(ctx context.Context) error { return LargePages(ctx, Uncleared(n)[1:]) },
		"zeros":       func(ctx context.Context) error { _, err := Zeros(ctx, n); return err },
	} {
		t.Run(name, func(t *testing.T) {
			all := &looktest.Context{Left: most}
			require.NoError(t, f(all))
			assert.GreaterOrEqual(t, most-all.Left, 3)
			require.ErrorIs(t, f(&looktest.Context{Left: 2}), context.Canceled)
			require.NoError(t, f(nil))
		})
	}
}

// TestZeros: memory that was used before is cleared, that of any contents is aligned.
func TestZeros(t *testing.T) {
	for range 3 {
		for _, n := range []int{0, 1, 64, unclearedBytes - 1, unclearedBytes, clearedBytes + 5} {
			b := Uncleared(n)
			require.Len(t, b, n)
			require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64)
			for i := range b {
				b[i] = 0xA5
			}
			z, err := Zeros(t.Context(), n)
			require.NoError(t, err)
			require.Len(t, z, n)
			require.Equal(t, n, bytes.Count(z, []byte{0}))
		}
		runtime.GC()
	}
}
