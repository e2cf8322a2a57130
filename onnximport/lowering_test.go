package onnximport_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestLoweringNotLinked: the nodes of a domain stay where the program lacks its
// lowering, and a warning says what to import. These tests do not link it.
func TestLoweringNotLinked(t *testing.T) {
	mod, err := onnximport.Load("nchwc/testdata/silent.ort.onnx", onnximport.Options{ChannelBlock: 16})
	require.NoError(t, err)
	defer mod.Close()
	require.Len(t, mod.Warnings, 1)
	assert.Contains(t, mod.Warnings[0], `import _ "github.com/berth-onnx/berth/onnximport/nchwc"`)
	shape, ok := mod.Graph.Params[0].Type.Static()
	require.True(t, ok)
	_, err = ops.Interpret(t.Context(), mod.Graph, []ndarray.Value{ndarray.Must(ndarray.Float32, shape...)}, nil)
	require.ErrorIs(t, err, ops.ErrUnsupported)
}

// TestRegisterLoweringTwice: a domain has one lowering.
func TestRegisterLoweringTwice(t *testing.T) {
	f := func() {
		onnximport.RegisterLowering("test.twice", func(context.Context, *ssa.Graph, onnximport.Options) error { return nil })
	}
	f()
	assert.Panics(t, f)
}
