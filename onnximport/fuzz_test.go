package onnximport_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ssa"
)

// FuzzImport feeds damaged models: an import may fail, but only with an
// *ImportError; what it returns must be a sound graph, and must come through an
// export and another import.
func FuzzImport(f *testing.F) {
	for _, m := range onnximport.SeedModels() {
		data, err := onnxwire.Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
	for _, data := range sharedSeeds(f) {
		f.Add(data)
	}
	opts := onnximport.Options{Limits: onnximport.Limits{Nodes: 2000, Depth: 4, Expanded: 1 << 20}}
	f.Fuzz(func(t *testing.T, data []byte) {
		mod, err := onnximport.FromBytes(data, "", opts)
		if err != nil {
			var e *onnximport.ImportError
			require.ErrorAs(t, err, &e)
			require.NotContains(t, e.Reason, "internal error")
			return
		}
		require.NoError(t, ssa.Check(mod.Graph))
		w, err := onnxexport.Model(mod, onnxexport.Options{})
		if err != nil {
			var e *onnxexport.ExportError
			require.ErrorAs(t, err, &e)
			return
		}
		back, err := onnximport.FromModel(w, "", opts)
		require.NoError(t, err)
		require.NoError(t, ssa.Check(back.Graph))
	})
}

// sharedSeeds returns small models of the test data outside the repository, if
// it is there.
func sharedSeeds(f *testing.F) [][]byte {
	cases, err := conformance.Open(filepath.Join(shareddata.Root(), "onnx-conformance", "simple.tar.gz"))
	if err != nil {
		return nil
	}
	var out [][]byte
	for _, c := range cases {
		data, err := c.ModelBytes()
		require.NoError(f, err)
		out = append(out, data)
	}
	return out
}
