package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A body that is no control flow is never interpreted on the side: without the
// rewriting that lowers it, running the node is an error that names it.
func TestBodiesAreNotInterpreted(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %a: float32[2] %s = SequenceConstruct(%a, %a) %m = SequenceMap(%s) { body: graph "b" { in %x: float32[2] %z = Neg(%x) out %z } } out %m }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := program.Compile(context.Background(), g, program.Options{})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	_, err = s.Run(context.Background(), []ndarray.Value{ndarray.Of([]float32{1, 2}, 2)})
	require.ErrorIs(t, err, ops.ErrUnsupported)
	require.ErrorContains(t, err, "SequenceMap")
}
