package rewrite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// TestDamagedModels turns every single bit of small models with control flow. What
// the importer still takes, as it is or only to be looked at, goes through both
// lists: a pass may find nothing to do, but must not fail.
func TestDamagedModels(t *testing.T) {
	for _, name := range []string{"if-nested", "capture-if"} {
		m, err := testmodels.Build(name)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), name+".onnx")
		require.NoError(t, onnxexport.Save(m, path, onnxexport.Options{}))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for at := range data {
			for bit := range 8 {
				data[at] ^= 1 << bit
				for _, lenient := range []bool{false, true} {
					if m, err := onnximport.FromBytes(data, path, onnximport.Options{Lenient: lenient}); err == nil {
						rewriteDamaged(t, m, name, at, bit)
					}
				}
				data[at] ^= 1 << bit
			}
		}
	}
}

func rewriteDamaged(t *testing.T, m *ssa.Module, name string, at, bit int) {
	for _, list := range []*List{&Portable, &Runtime} {
		g, _ := m.Graph.Clone()
		copied := *m
		copied.Graph = g
		_, err := Run(t.Context(), &copied, Options{List: list})
		var bug *ops.PanicError
		var failed *Error
		if errors.As(err, &bug) || errors.As(err, &failed) {
			require.NoError(t, err, "%s, byte %d, bit %d, list %s", name, at, bit, list.Name)
		}
	}
}
