package berth_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/largegraphs"
	"github.com/berth-onnx/berth/ssa"
)

// mostGrowth is how many times as many bytes a model of twice the size may allocate while it is compiled: what takes them
// in proportion to the square takes four times as many.
const mostGrowth = 3

func TestMemoryOfCompilingGrowsWithTheModel(t *testing.T) {
	for _, f := range largegraphs.Families {
		t.Run(f.Name, func(t *testing.T) {
			once, twice := allocatedByCompiling(t, f, 500), allocatedByCompiling(t, f, 1000)
			t.Logf("500 nodes %.1f MB, 1000 nodes %.1f MB", float64(once)/1e6, float64(twice)/1e6)
			require.Less(t, float64(twice), mostGrowth*float64(once))
		})
	}
}

// allocatedByCompiling is how many bytes compiling a graph of a family allocates, those given back included. Two things
// are left out: the search for an order, whose work is bounded whatever the size, and planners that hold every pair of
// buffers that live together, which may be all pairs.
func allocatedByCompiling(t *testing.T, f largegraphs.Family, n int) uint64 {
	g, err := f.Of(n)
	require.NoError(t, err)
	m := berth.FromModule(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 21}}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = m.Compile(context.Background(), berth.WithSchedule("file"), berth.WithPlanner("naive"))
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
