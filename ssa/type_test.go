package ssa

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

func mustType(t *testing.T, s string) Type {
	t.Helper()
	typ, err := ParseType(s)
	require.NoError(t, err, s)
	return typ
}

func TestTypeTextRoundTrip(t *testing.T) {
	for _, s := range []string{
		"unknown", "float32[]", "float32[N,3,224,224]", "float32[...]", "undefined[...]", "int4[2*N+1,?]",
		"seq(float32[N])", "opt(seq(int64[]))", "map(int64,float32[...])", "map(string,seq(float16[2]))",
		`sparse float32["batch size",4]`, "string[floor((W+1)/2)-1]", "seq(unknown)", "float8e4m3fn[1]",
	} {
		assert.Equal(t, s, mustType(t, s).String())
	}
	for _, s := range []string{"", "float33[]", "float32", "float32[2", "seq()", "float32[N] x", "float32[N,,2]"} {
		_, err := ParseType(s)
		assert.Error(t, err, s)
	}
}

func TestTypeRefine(t *testing.T) {
	for _, c := range []struct {
		a, b, want string
		ok         bool
	}{
		{"unknown", "float32[N]", "float32[N]", true},
		{"float32[...]", "float32[N,2]", "float32[N,2]", true},
		{"float32[N,?]", "float32[4,3]", "float32[4,3]", true},
		{"float32[N]", "float32[M]", "float32[N]", true},
		{"float32[4]", "float32[5]", "float32[4]", false},
		{"float32[4]", "int64[4]", "float32[4]", false},
		{"float32[4]", "float32[4,1]", "float32[4]", false},
		{"undefined[...]", "int8[?]", "int8[?]", true},
		{"seq(float32[...])", "seq(float32[2])", "seq(float32[2])", true},
		{"seq(float32[...])", "float32[2]", "seq(float32[...])", false},
	} {
		got, ok := mustType(t, c.a).Refine(mustType(t, c.b))
		assert.Equal(t, c.want, got.String(), "%s with %s", c.a, c.b)
		assert.Equal(t, c.ok, ok, "%s with %s", c.a, c.b)
	}
}

func TestTypeSizes(t *testing.T) {
	n, ok := mustType(t, "float16[3,5]").ByteSize()
	assert.True(t, ok)
	assert.Equal(t, 30, n)
	for _, s := range []string{"float32[N]", "float32[...]", "string[2]", "seq(float32[2])", "float32[4611686018427387904,4]"} {
		_, ok := mustType(t, s).ByteSize()
		assert.False(t, ok, s)
	}
	assert.Equal(t, "6*N", mustType(t, "int8[2,N,3]").NumElems().String())
	assert.Equal(t, "float32[4,8]", mustType(t, "float32[N,2*N]").Bind(map[string]int64{"N": 4}).String())
	assert.Equal(t, ndarray.Float32, mustType(t, "float32[N]").DType)
}
