package onnxwire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestScanTensor: what stands beside the elements is found without reading them, wherever they are in the message.
func TestScanTensor(t *testing.T) {
	raw := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	field := func(num byte, content ...byte) []byte {
		return append([]byte{num<<3 | 2, byte(len(content))}, content...)
	}
	dims := []byte{1 << 3, 2, 1 << 3, 1, 2 << 3, 1}
	for _, c := range []struct {
		name    string
		data    []byte
		ok      bool
		at, len int64
	}{
		{"as written", bytes.Join([][]byte{dims, field(8, 'x'), field(9, raw...)}, nil), true, 11, 8},
		{"elements first", bytes.Join([][]byte{field(9, raw...), dims}, nil), true, 2, 8},
		{"typed", bytes.Join([][]byte{dims, field(4, raw...)}, nil), true, 0, 0},
		{"both", bytes.Join([][]byte{dims, field(9, raw...), field(4, raw...)}, nil), true, 0, 0},
		{"twice", bytes.Join([][]byte{dims, field(9, raw...), field(9, raw...)}, nil), true, 0, 0},
		{"no elements", dims, true, 0, 0},
		{"elements one by one", bytes.Join([][]byte{dims, {5 << 3, 1, 5 << 3, 2}}, nil), false, 0, 0},
		{"in another file", bytes.Join([][]byte{dims, {14 << 3, 1}}, nil), false, 0, 0},
		{"cut", bytes.Join([][]byte{dims, field(9, raw...)[:7]}, nil), false, 0, 0},
		{"no message", []byte("no message at all"), false, 0, 0},
		{"a large name", bytes.Join([][]byte{dims, {8<<3 | 2, 0x80, 0x80, 0x08}, make([]byte, 1<<17)}, nil), false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := ScanTensor(bytes.NewReader(c.data), int64(len(c.data)))
			require.Equal(t, c.ok, ok)
			if !ok {
				return
			}
			assert.Equal(t, []int64{2, 1}, got.Dims)
			assert.Equal(t, TypeFloat, got.DataType)
			assert.Equal(t, c.len, got.Len)
			if c.len > 0 {
				assert.Equal(t, c.at, got.At)
				whole, err := ParseTensor(c.data)
				require.NoError(t, err)
				assert.Equal(t, raw, whole.RawData)
			}
		})
	}
}
