package ssa

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

func TestBlockedTypes(t *testing.T) {
	for _, c := range []struct {
		plain, blocked string
		block          int
	}{
		{"float32[1,30,7,7]", "float32[1,4,7,7,8|30]", 8},
		{"float32[N,16,2*W+1,7]", "float32[N,1,2*W+1,7,16|16]", 16},
		{"float32[2,3,9]", "float32[2,1,9,4|3]", 4},
	} {
		plain, err := ParseType(c.plain)
		require.NoError(t, err)
		blocked, ok := plain.Blocked(c.block)
		require.True(t, ok)
		assert.Equal(t, c.blocked, blocked.String())
		assert.Equal(t, c.block, blocked.Block())
		assert.Equal(t, c.plain, blocked.Plain().String())
		assert.Equal(t, c.plain, plain.String(), "the plain type is left alone")
		parsed, err := ParseType(c.blocked)
		require.NoError(t, err)
		assert.True(t, parsed.Equal(blocked))
		_, ok = blocked.Refine(plain)
		assert.False(t, ok)
	}
	big, _ := StaticTensor(ndarray.Float32, 2, 30, 7, 7).Blocked(16)
	n, _ := big.ByteSize()
	assert.Equal(t, 2*32*7*7*4, n, "padding counts")
}

func TestNotBlocked(t *testing.T) {
	for _, text := range []string{"float32[2,3]", "float32[2,C,9]", "float32[2,0,9]", "float32[...]", "seq(float32[1,2,3])", "float32[1,4,7,7,8|30]"} {
		typ, err := ParseType(text)
		require.NoError(t, err)
		_, ok := typ.Blocked(8)
		assert.False(t, ok, text)
	}
	for _, text := range []string{"float32[1,4,7,7,8|33]", "float32[1,4,7,7,8|24]", "float32[1,4,7,7,8|0]", "float32[1,4,7,7,N|30]", "float32[4,8|30]"} {
		_, err := ParseType(text)
		assert.Error(t, err, text)
	}
}

func TestCheckLayouts(t *testing.T) {
	blocked, _ := StaticTensor(ndarray.Float32, 1, 30, 7, 7).Blocked(8)
	g := NewGraph("g")
	x := g.AddParam("x", StaticTensor(ndarray.Float32, 1, 30, 7, 7))
	n := g.NewNode("Relu", []*Value{x}, 1)
	n.Out[0].Type = blocked
	require.NoError(t, Check(g))
	g.Results = []*Value{n.Out[0]}
	assert.ErrorContains(t, Check(g), "results are plain")
	g.Results = nil
	n.Out[0].Type.Channels = 40
	assert.ErrorContains(t, Check(g), "no channel-blocked tensor")
	n.Out[0].Type = x.Type
	x.Type = blocked
	assert.ErrorContains(t, Check(g), "parameters are plain")
}
