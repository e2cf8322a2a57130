package program

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestPreparedTables runs a tree whose labels are strings and whose number of
// samples is open: its table is read when the program is made, not in every run.
func TestPreparedTables(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[N,2] %l, %s = ai.onnx.ml::TreeEnsembleClassifier(%x) [classlabels_strings=["no", "yes"],
		nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_featureids=[1, 0, 0], nodes_values=[0.5, 0.0, 0.0],
		nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 1.0]] out %l, %s }`)
	require.NoError(t, err)
	for _, c := range []struct {
		backend  backend.Backend
		prepared bool
	}{{cpu.New(), true}, {backend.Reference{}, false}} {
		t.Run(c.backend.Name(), func(t *testing.T) {
			_, each := newDynamicKernel(t.Context(), g.Nodes[0], newKernels(Options{Backend: c.backend})).(*dynamicKernel)
			assert.Equal(t, c.prepared, !each)
			p, err := Compile(t.Context(), g, Options{Backend: c.backend})
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			for _, x := range [][]float32{{9, 0}, {9, 1, 0, 0.5, 0, 2}} {
				out, err := s.Run(t.Context(), []ndarray.Value{ndarray.Of(x, len(x)/2, 2)})
				require.NoError(t, err)
				want := []string{}
				for i := 1; i < len(x); i += 2 {
					want = append(want, map[bool]string{true: "no", false: "yes"}[x[i] <= 0.5])
				}
				assert.Equal(t, want, out[0].(*ndarray.Array).Str)
			}
		})
	}
}
