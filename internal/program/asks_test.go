package program

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// started compiles a graph for the processor and makes a session.
func started(t *testing.T, text string) (*ssa.Graph, *Program, *Session) {
	t.Helper()
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := Compile(t.Context(), g, Options{Backend: cpu.New()})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	return g, p, s
}

// TestRunsOfKnownSizesAskForNothing: such a run succeeds when there is no memory left, one that takes new memory does not.
func TestRunsOfKnownSizesAskForNothing(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		full        bool
	}{
		{"known sizes", `in %x: float32[4] %a = Neg(%x) %b = Exp(%a) %y = Add(%a, %b) out %y, %a`, false},
		{"a loop", `in %x: float32[4] const %n: int64[] = 5 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4] %q = Neg(%p) out %c, %q } } out %y`, false},
		{"sizes that data decides", `in %x: float32[4] %y = NonZero(%x) out %y`, true},
	} {
		_, p, s := started(t, `graph "g" {`+c.graph+`}`)
		p.memory = 1
		s.wire(t.Context())
		_, err := s.Run(t.Context(), []ndarray.Value{ndarray.Of([]float32{1, 2, 3, 4}, 4)})
		var full *ops.MemoryError
		if c.full {
			require.ErrorAs(t, err, &full, c.name)
		} else {
			require.NoError(t, err, c.name)
		}
	}
}
