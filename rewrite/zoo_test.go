package rewrite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/testmodels/conformance"
)

// zooCases returns the recorded models of the shared test data.
func zooCases(t *testing.T) []*conformance.Case {
	t.Helper()
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = "../../shared"
	}
	cases, err := conformance.Open(filepath.Join(root, "models"))
	if err != nil {
		t.Skipf("no recorded models: set BERTH_SHARED to the folder that holds models/ (%v)", err)
	}
	return cases
}

// TestZoo rewrites every recorded model with both lists, under check, and
// compares what the result computes with the recorded outputs.
func TestZoo(t *testing.T) {
	if testing.Short() {
		t.Skip("reference kernels on whole models take a while")
	}
	for _, c := range zooCases(t) {
		for _, list := range []*List{&Portable, &Runtime} {
			t.Run(c.Name+"/"+list.Name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				err := conformance.Verify(ctx, c, rewritten(t, list), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4})
				assert.NoError(t, err)
			})
		}
	}
}

// rewritten prepares a case for the interpreter, rewritten.
func rewritten(t *testing.T, list *List) conformance.Prepare {
	return func(ctx context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		m, err := onnximport.Load(c.ModelPath(), onnximport.Options{})
		if err != nil {
			return nil, nil, err
		}
		report, err := Run(ctx, m, Options{List: list, Check: true, Shuffle: true, Seed: 1})
		if err != nil {
			return nil, nil, err
		}
		t.Logf("%d -> %d nodes, %d -> %d bytes of constants, %d patches, rounds %v", report.Before.Nodes, report.After.Nodes,
			report.Before.ConstBytes, report.After.ConstBytes, len(report.Patches), report.Rounds)
		require.LessOrEqual(t, report.After.Nodes, report.Before.Nodes)
		run := func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			args := make([]ndarray.Value, len(m.Graph.Params))
			for i, p := range m.Graph.Params {
				for _, n := range in {
					if n.Name == p.Name {
						args[i] = n.Value
					}
				}
			}
			out, err := ops.Interpret(ctx, m.Graph, args, nil)
			if err != nil {
				return nil, err
			}
			named := make([]conformance.Named, len(out))
			for i, v := range out {
				named[i] = conformance.Named{Name: m.Graph.Results[i].Name, Value: v}
			}
			return named, nil
		}
		return run, m.Close, nil
	}
}
