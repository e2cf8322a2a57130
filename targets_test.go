package berth_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestTargetsAreChecked: a shape or axes that an input gives is checked in every kind of run as by the reference kernels, also where
// the type of the result follows without it, so that a program could do without the node. x has 6 elements, 0 to 5.
func TestTargetsAreChecked(t *testing.T) {
	cases := []struct {
		name, graph string
		right       []int64
		wrong       [][]int64
	}{
		{"reshape to its own shape", "in %x: float32[6]\nin %s: int64[1]\n%y = Reshape(%x, %s)", []int64{6}, [][]int64{{7}, {3}, {-2}}},
		{"reshape of open size", "in %x: float32[N]\nin %s: int64[K]\n%y = Reshape(%x, %s)", []int64{-1}, [][]int64{{7}, {-1, -1}, {1 << 40, 1 << 40}}},
		{"reshape to a row", "in %x: float32[2,3]\nin %s: int64[1]\n%y = Reshape(%x, %s)", []int64{-1}, [][]int64{{7}, {5}}},
		{"reshape within arithmetic", "in %x: float32[2,3]\nin %s: int64[1]\n%a = Relu(%x)\n%b = Reshape(%a, %s)\n%y = Neg(%b)", []int64{6}, [][]int64{{7}, {0}}},
		{"reshape before another", "in %x: float32[2,3]\nin %s: int64[1]\nconst %k: int64[2] = [3, 2]\n%b = Reshape(%x, %s)\n%y = Reshape(%b, %k)", []int64{6}, [][]int64{{7}}},
		{"reshape to a shape joined", "in %x: float32[2,3]\nin %s: int64[1]\nconst %k: int64[1] = [2]\n%t = Concat(%k, %s) [axis=0]\n%b = Reshape(%x, %t)\n%y = Neg(%b)", []int64{3}, [][]int64{{4}, {-3}}},
		{"expand that keeps the shape", "in %x: float32[2,3]\nin %s: int64[2]\n%y = Expand(%x, %s)", []int64{1, 3}, [][]int64{{4, 3}, {-1, 3}}},
		{"expand by fewer dimensions", "in %x: float32[2,3]\nin %s: int64[1]\n%a = Relu(%x)\n%y = Expand(%a, %s)", []int64{1}, [][]int64{{2}}},
		{"squeeze to a scalar", "in %x: float32[6]\nin %s: int64[1]\n%y = Squeeze(%x, %s)", nil, [][]int64{{0}, {4}}},
		{"squeeze", "in %x: float32[1,6]\nin %s: int64[1]\n%y = Squeeze(%x, %s)", []int64{0}, [][]int64{{1}, {2}}},
		{"unsqueeze", "in %x: float32[6]\nin %s: int64[1]\n%y = Unsqueeze(%x, %s)", []int64{1}, [][]int64{{2}, {-3}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph("graph \"g\" {\n" + c.graph + "\nout %y\n}\n")
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			shape, ok := g.Params[0].Type.Static()
			if !ok {
				shape = []int{6}
			}
			m := berth.FromModule(&ssa.Module{Graph: g})
			p, err := m.Compile(t.Context())
			require.NoError(t, err)
			asked := c.wrong
			if c.right != nil {
				asked = append(asked, c.right)
			}
			for _, s := range asked {
				in := map[string]ndarray.Value{"x": ndarray.Of([]float32{0, 1, 2, 3, 4, 5}, shape...), "s": ndarray.Of(s, len(s))}
				want, wrong := ops.Interpret(t.Context(), g, []ndarray.Value{in["x"], in["s"]}, nil)
				assert.Equal(t, wrong == nil, slices.Equal(s, c.right))
				for kind, run := range map[string]func() (ndarray.Value, error){
					"Model.RunValues":   func() (ndarray.Value, error) { out, err := m.RunValues(t.Context(), in); return out["y"], err },
					"Program.RunValues": func() (ndarray.Value, error) { out, err := p.RunValues(t.Context(), in); return out["y"], err },
					"Trace": func() (ndarray.Value, error) {
						tr, err := m.Trace(t.Context(), in)
						if err != nil {
							return nil, err
						}
						return tr.Outputs[0].Data, nil
					},
				} {
					got, err := run()
					if wrong == nil {
						require.NoError(t, err, kind)
						assert.Equal(t, want[0].(*ndarray.Array).Floats32(), got.(*ndarray.Array).Floats32(), kind)
						continue
					}
					var node *ops.NodeError
					assert.True(t, errors.As(err, &node), "%s of %v: %v", kind, s, err)
				}
			}
		})
	}
}
