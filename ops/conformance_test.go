package ops_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestConformance runs the recorded ONNX tests with the reference kernels:
// TestConformance/<archive>/<case>, the cases of an archive side by side.
func TestConformance(t *testing.T) {
	for _, path := range archives(t) {
		t.Run(archiveName(path), func(t *testing.T) {
			cases, err := conformance.Open(path)
			require.NoError(t, err)
			runCases(t, cases)
		})
	}
}

// archives lists the archives of recorded ONNX tests.
func archives(t testing.TB) []string {
	out, err := filepath.Glob(filepath.Join(shareddata.Path(t, "onnx-conformance"), "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

func archiveName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".tar.gz") }

// TestModels runs the recorded real models with the reference kernels.
func TestModels(t *testing.T) {
	cases, err := conformance.Open(shareddata.Path(t, "models"))
	require.NoError(t, err)
	runCases(t, cases)
}

// runCases runs each case as a parallel subtest.
func runCases(t *testing.T, cases []*conformance.Case) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, verifyCase(c))
		})
	}
}

// verifyCase runs a case with the reference kernels.
func verifyCase(c *conformance.Case) error {
	def := conformance.BackendTolerance
	if c.ModelPath() != "" {
		def.Atol = 1e-4 // real models: what the model zoo is checked with
	}
	return conformance.Verify(context.Background(), c, interpreted, def)
}

// interpreted prepares a case for the interpreter.
func interpreted(_ context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
	var mod *ssa.Module
	var err error
	if path := c.ModelPath(); path != "" {
		mod, err = onnximport.Load(path, onnximport.Options{})
	} else {
		var data []byte
		if data, err = c.ModelBytes(); err == nil {
			mod, err = onnximport.FromBytes(data, "", onnximport.Options{})
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
		return interpret(ctx, mod, in)
	}, mod.Close, nil
}

func interpret(ctx context.Context, mod *ssa.Module, in []conformance.Named) ([]conformance.Named, error) {
	given := map[string]ndarray.Value{}
	for _, v := range in {
		given[v.Name] = v.Value
	}
	args := make([]ndarray.Value, len(mod.Graph.Params))
	for i, p := range mod.Graph.Params {
		v, ok := given[p.Name]
		if !ok {
			def := mod.Defaults[p.Name]
			if def == nil {
				return nil, fmt.Errorf("the data set has nothing for input %q", p.Name)
			}
			a, err := def.Array()
			if err != nil {
				return nil, err
			}
			v = a
		}
		args[i] = v
	}
	res, err := ops.Interpret(ctx, mod.Graph, args, nil)
	if err != nil {
		return nil, err
	}
	out := make([]conformance.Named, len(res))
	for i, v := range res {
		out[i] = conformance.Named{Name: mod.OutputName(i), Value: v}
	}
	return out, nil
}
