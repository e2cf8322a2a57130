package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/program"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels/graphgen"
)

// TestCarriedCaches: a cache of fixed size that a loop updates in some rows lies in
// one place, and an update writes those rows only.
func TestCarriedCaches(t *testing.T) {
	const cacheBytes = 1 * 2 * 64 * 8 * 4
	for _, c := range []struct{ name, update string }{
		{"TensorScatter", `%at = Reshape(%i, %one) %n = TensorScatter(%c, %row, %at)`},
		{"ScatterND", `const %two: int64[2] = [0, 0] const %shape: int64[2] = [1, 3] const %eight: int64[2] = [1, 8]
			%a = Unsqueeze(%i, %zero) %at = Concat(%two, %a) [axis=0] %ix = Reshape(%at, %shape) %flat = Reshape(%r, %eight) %n = ScatterND(%c, %ix, %flat)`},
		{"ScatterElements", `const %ones: int64[4] = [1, 1, 1, 1] const %whole: int64[4] = [1, 2, 1, 8]
			%a = Reshape(%i, %ones) %at = Expand(%a, %whole) %n = ScatterElements(%c, %at, %row) [axis=2]`},
	} {
		text := `graph "g" { in %m: int64[] in %x: float32[1,2,64,8] in %y: float32[1,1,1,8] const %true: bool[] = true
		  %c2, %last = Loop(%m, %true, %x, %y) { body: graph "b" {
		    in %i: int64[] in %go: bool[] in %c: float32[1,2,64,8] in %r: float32[1,1,1,8]
		    const %one: int64[1] = [1] const %zero: int64[1] = [0] const %both: int64[4] = [1, 2, 1, 8]
		    %row = Expand(%r, %both) ` + c.update + ` %s = Tanh(%r) out %go, %n, %s } }
		  out %c2, %last }`
		for _, be := range []backend.Backend{backend.Reference{}, cpu.New()} {
			t.Run(c.name+" "+be.Name(), func(t *testing.T) {
				g, err := ssa.ParseGraph(text)
				require.NoError(t, err, text)
				require.NoError(t, ops.InferGraph(g))
				p, err := program.Compile(context.Background(), g, program.Options{Backend: be})
				require.NoError(t, err)
				assert.Less(t, p.ArenaBytes, int64(2*cacheBytes), "the cache has one place")
				assert.Zero(t, p.Report.CopiesPerTrip)
				s, err := p.NewSession()
				require.NoError(t, err)
				s.Poison = true
				var at []*byte
				s.Observe = func(in *program.Instr, out []ndarray.Value) {
					if in.Node.Op == c.name {
						at = append(at, &out[0].(*ndarray.Array).Data[0])
					}
				}
				x, y := ndarray.Must(ndarray.Float32, 1, 2, 64, 8), ndarray.Of([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 1, 1, 8)
				in := []ndarray.Value{ndarray.Scalar(int64(5)), x, y}
				want, err := ops.Interpret(context.Background(), g, in, nil)
				require.NoError(t, err)
				got, err := s.Run(context.Background(), in)
				require.NoError(t, err)
				require.Empty(t, graphgen.Noise.Diff(cloneAll(got), want))
				require.Len(t, at, 5)
				for _, p := range at {
					assert.Same(t, at[0], p, "every trip writes in the same place")
				}
			})
		}
	}
}
