package onnxwire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// weighty returns a model with weights below and above what is written directly.
func weighty() *Model {
	g := filled[Graph](2)
	for i, size := range []int{0, 1, streamDirect - 1, streamDirect, streamBuffer, streamBuffer + 1, 3 * streamBuffer, 5} {
		raw := bytes.Repeat([]byte{byte(i + 1)}, size)
		g.Initializers = append(g.Initializers, &Tensor{DataType: TypeUint8, Dims: []int64{int64(size)}, RawData: raw})
	}
	long := &Tensor{Dims: []int64{50000}}
	for i := range 50000 {
		long.Int64Data = append(long.Int64Data, int64(i*i))
		long.FloatData = append(long.FloatData, float32(i))
		long.DoubleData = append(long.DoubleData, float64(i))
	}
	g.Initializers = append(g.Initializers, long)
	return &Model{IRVersion: 10, Graph: g}
}

func TestSizeIsExactAndWritingAllocatesOnce(t *testing.T) {
	m := weighty()
	size, err := Size(t.Context(), m)
	require.NoError(t, err)
	b, err := Marshal(m)
	require.NoError(t, err)
	assert.Len(t, b, size)

	assert.Equal(t, size, cap(b), "the buffer has the size and did not grow")
}

func TestStreamingWritesTheSame(t *testing.T) {
	m := weighty()
	want, err := Marshal(m)
	require.NoError(t, err)
	var got bytes.Buffer
	n, err := WriteTo(t.Context(), &got, m)
	require.NoError(t, err)
	assert.EqualValues(t, len(want), n)
	assert.True(t, bytes.Equal(want, got.Bytes()))
}

// lastWrites keeps the places of what it is given.
type lastWrites struct {
	from  map[*byte]bool
	large int
}

func (w *lastWrites) Write(b []byte) (int, error) {
	w.from[&b[0]] = true
	w.large = max(w.large, len(b))
	return len(b), nil
}

func TestLargeWeightsAreWrittenFromWhereTheyLie(t *testing.T) {
	m := &Model{Graph: &Graph{Initializers: []*Tensor{{RawData: make([]byte, 1<<20)}}}}
	w := &lastWrites{from: map[*byte]bool{}}
	_, err := WriteTo(t.Context(), w, m)
	require.NoError(t, err)
	assert.True(t, w.from[&m.Graph.Initializers[0].RawData[0]])
}

// failing takes a number of bytes and then answers with an error, or, without one, takes less than it was given.
type failing struct {
	room int
	err  error
}

func (w *failing) Write(b []byte) (int, error) {
	n := min(len(b), w.room)
	w.room -= n
	if n < len(b) {
		return n, w.err
	}
	return n, nil
}

func TestErrorsOfTheWriter(t *testing.T) {
	full := errors.New("disk full")
	n, err := WriteTo(t.Context(), &failing{room: 70000, err: full}, weighty())
	assert.ErrorIs(t, err, full)
	assert.EqualValues(t, 70000, n)
	_, err = WriteTo(t.Context(), &failing{room: 70000}, weighty())
	assert.ErrorIs(t, err, io.ErrShortWrite)
}

func TestOverTwoGiB(t *testing.T) {
	weight := &Tensor{RawData: make([]byte, 1<<20)}
	g := &Graph{}
	for range 2048 {
		g.Initializers = append(g.Initializers, weight)
	}
	var large *TooLargeError
	_, err := Marshal(&Model{Graph: g})
	require.ErrorAs(t, err, &large)
	assert.Greater(t, large.Size, int64(1<<31))
	assert.Contains(t, err.Error(), "external data")
	_, err = Size(t.Context(), &Model{Graph: g})
	assert.ErrorAs(t, err, &large)
	_, err = WriteTo(t.Context(), io.Discard, &Model{Graph: g})
	assert.ErrorAs(t, err, &large)
}

func TestNilMessages(t *testing.T) {
	for _, m := range []Message{nil, (*Model)(nil)} {
		b, err := Marshal(m)
		assert.NoError(t, err)
		assert.Empty(t, b)
	}
	b, err := Marshal(&Model{Graph: &Graph{Nodes: []*Node{nil, {Name: "n"}}}})
	require.NoError(t, err)
	m, err := Parse(b)
	require.NoError(t, err)
	assert.Equal(t, []*Node{{}, {Name: "n"}}, m.Graph.Nodes, "a nil element keeps its place")
}
