package berth_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/largegraphs"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// mostGrowth is how many times as many bytes a model of twice the size may allocate while it is compiled or saved: what takes them
// in proportion to the square takes four times as many.
const mostGrowth = 3

// TestMemoryGrowsWithTheModel compiles and saves. Two things are left out of compiling: the search for an order, whose work is
// bounded whatever the size, and planners that hold every pair of buffers that live together, which may be all pairs.
func TestMemoryGrowsWithTheModel(t *testing.T) {
	compile := func(m *berth.Model) error {
		_, err := m.Compile(context.Background(), berth.WithSchedule("file"), berth.WithPlanner("naive"))
		return err
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	save := func(m *berth.Model) error { return m.Save(path, berth.SaveOptions{}) }
	for _, f := range largegraphs.Families {
		t.Run(f.Name, func(t *testing.T) {
			for name, stage := range map[string]func(*berth.Model) error{"compiling": compile, "saving": save} {
				once, twice := allocated(t, f, 500, stage), allocated(t, f, 1000, stage)
				t.Logf("%s: 500 nodes %.1f MB, 1000 nodes %.1f MB", name, float64(once)/1e6, float64(twice)/1e6)
				require.Less(t, float64(twice), mostGrowth*float64(once), name)
			}
		})
	}
}

// allocated is how many bytes a stage allocates for a graph of a family, those given back included: the least of several
// runs, since buffers that the process keeps are made now and then.
func allocated(t *testing.T, f largegraphs.Family, n int, stage func(*berth.Model) error) (least uint64) {
	g, err := f.Of(n)
	require.NoError(t, err)
	m := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 21}}})
	least = math.MaxUint64
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, stage(m))
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// mostPerNode is how many bytes one more node of some families may have a comparison and a compilation, which is what inspect does,
// allocate: half as many again as when they were written. The system clears each page that is touched first, which is a third of the
// time that graphs of many nodes take.
var mostPerNode = map[string]float64{"chain": 12_000, "residuals": 11_500, "initializers": 14_500, "weights": 17_500, "convolutions": 18_700,
	"every-result": 13_000, "transposes": 10_100}

// TestMemoryPerNode compares and compiles graphs of two sizes.
func TestMemoryPerNode(t *testing.T) {
	inspect := func(m *berth.Model) error {
		ctx := context.Background()
		_, err := m.Compare(ctx, berth.CompareOptions{Planners: []string{berth.DefaultPlanner()}, Schedules: berth.Schedules()[:1]})
		if err == nil {
			_, err = m.Compile(ctx)
		}
		return err
	}
	for _, f := range largegraphs.Families {
		most, ok := mostPerNode[f.Name]
		if !ok {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			const once = 2000
			one, two := allocated(t, f, once, inspect), allocated(t, f, 2*once, inspect)
			per := (float64(two) - float64(one)) / once
			t.Logf("%.0f bytes per node", per)
			require.Less(t, per, most)
		})
	}
}

// TestFirstSessionsRarelyCollect: beside a large heap, programs that take little are not collected behind one by one.
func TestFirstSessionsRarelyCollect(t *testing.T) {
	const programs = 40
	held := make([]*[1 << 20]byte, 32)
	for i := range held {
		held[i] = new([1 << 20]byte)
	}
	m := modelOf(t, `graph "g" { in %x: float32[4] %y = Neg(%x) out %y }`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range programs {
		p, err := m.Compile(t.Context())
		require.NoError(t, err)
		_, err = p.NewSession()
		require.NoError(t, err)
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(held)
	assert.LessOrEqual(t, after.NumForcedGC-before.NumForcedGC, uint32(programs/8))
}

// TestOpenedFileIsGivenBack: what opening a model has read of its file does not stay resident, and running brings back what it reads.
func TestOpenedFileIsGivenBack(t *testing.T) {
	g := ssa.NewGraph("g")
	v := g.AddParam("x", ssa.TensorOf(ndarray.Float32, ssa.D(4)))
	for i := range 30_000 {
		n := g.NewNode("Neg", []*ssa.Value{v}, 1)
		n.Name = fmt.Sprintf("a name that takes room in the file %d", i)
		v = n.Out[0]
		v.Name, v.Type = fmt.Sprint("v", i), ssa.TensorOf(ndarray.Float32, ssa.D(4))
	}
	g.Results = []*ssa.Value{v}
	path := filepath.Join(t.TempDir(), "many.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 20}}, IR: 9}, path, onnxexport.Options{}))
	m, err := berth.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	size, resident := mappingOf(t, path)
	require.Greater(t, size, 1<<20)
	assert.Less(t, resident, size/4)
	assert.Equal(t, "x", m.Inputs()[0].Name)
}

// mappingOf is how many bytes of a file the process maps, and how many of these are resident.
func mappingOf(t *testing.T, path string) (size, resident int) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if os.IsNotExist(err) {
		t.Skip("this system does not tell what is mapped")
	}
	require.NoError(t, err)
	within := false
	for line := range strings.Lines(string(smaps)) {
		f := strings.Fields(line)
		if within = within && strings.HasSuffix(f[0], ":") || strings.HasSuffix(strings.TrimSpace(line), path); !within {
			continue
		}
		if kilobytes, err := strconv.Atoi(f[min(1, len(f)-1)]); err == nil {
			switch f[0] {
			case "Size:":
				size += kilobytes << 10
			case "Rss:":
				resident += kilobytes << 10
			}
		}
	}
	return size, resident
}
