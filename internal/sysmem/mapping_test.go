package sysmem

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		Prefault(part)
		require.Equal(t, want, data)
	}
	assert.Zero(t, bytes.Count(func() []byte { b := make([]byte, 4*prefaultBytes); Prefault(b); return b }(), []byte{1}))
}

// TestLargePagesKeepBytes: memory of any address and length keeps what it holds.
func TestLargePagesKeepBytes(t *testing.T) {
	b := bytes.Repeat([]byte{1}, largeBytes+4096)
	for _, part := range [][]byte{b, b[1:], b[:largeBytes-1], b[4095 : len(b)-1], nil} {
		LargePages(part)
	}
	assert.Equal(t, len(b), bytes.Count(b, []byte{1}))
}
