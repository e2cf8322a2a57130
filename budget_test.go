package berth_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestBudgetReachesEverything: with a default that allows nothing, whatever asks another budget than that of the call is
// found, in every step from the file to the results and in the kernels of all operators.
func TestBudgetReachesEverything(t *testing.T) {
	seeds, inputs := seedModels(t), map[string]map[string]ndarray.Value{}
	has := map[string]bool{} // operators and operand types
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		m, err := berth.Parse(seeds[name])
		if err != nil || len(m.Graph().Nodes) == 0 {
			continue
		}
		kind := m.Graph().Nodes[0].Op
		if ports := m.Inputs(); len(ports) > 0 {
			kind += ports[0].Type.DType.String()
		}
		if has[kind] {
			continue
		}
		has[kind] = true
		if in, err := graphgen.Inputs(rand.New(rand.NewPCG(1, 1)), m.Graph(), map[string]int64{}); err == nil {
			inputs[name] = byName(m, in)
		}
	}
	dir := t.TempDir()
	defer func(was func() int64) { sysmem.Default = was }(sysmem.Default)
	sysmem.Default = func() int64 { return 1 }
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		var full *berth.MemoryError
		if err := underBudget(t.Context(), seeds[name], inputs[name], filepath.Join(dir, "model.onnx")); errors.As(err, &full) {
			assert.Fail(t, err.Error(), name)
		}
	}
	t.Logf("%d models", len(inputs))
}

// underBudget opens, optimizes, runs and saves a model within a budget, by both backends.
func underBudget(ctx context.Context, data []byte, in map[string]ndarray.Value, path string) error {
	limit := berth.WithMaxMemory(4 << 30)
	m, err := berth.Parse(data, limit)
	if err != nil {
		return err
	}
	_, _, err = m.Optimize(ctx, limit)
	_, fast := m.RunValues(ctx, in, limit)
	_, slow := m.RunValues(ctx, in, limit, berth.WithoutPasses(), berth.WithBackend("reference"))
	p, open := m.Compile(ctx, limit, berth.WithoutPasses())
	if open == nil {
		_, open = p.RunValues(ctx, in)
	}
	_, rows := m.Compare(ctx, berth.CompareOptions{Planners: []string{"pool"}, Workspace: true}, limit)
	saved := m.Save(path, berth.SaveOptions{Context: ctx, MaxMemory: 4 << 30})
	return errors.Join(err, fast, slow, open, rows, saved)
}

// TestSavingHasABudget: what a model takes to be written is asked of the budget of the call.
func TestSavingHasABudget(t *testing.T) {
	narrow, err := ndarray.New(ndarray.Int4, 1<<20) // packed for the file
	require.NoError(t, err)
	g := ssa.NewGraph("g")
	g.Results = []*ssa.Value{g.AddConst("w", ssa.NewConstant(narrow))}
	narrow.SetInt(0, 1)
	m, path := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 21}}}), filepath.Join(t.TempDir(), "model.onnx")
	var full *berth.MemoryError
	require.ErrorAs(t, m.Save(path, berth.SaveOptions{MaxMemory: 256 << 10}), &full)
	require.NoFileExists(t, path)
	var option *berth.OptionError
	require.ErrorAs(t, m.Save(path, berth.SaveOptions{MaxMemory: -1}), &option)
	require.NoError(t, m.Save(path, berth.SaveOptions{}))
}
