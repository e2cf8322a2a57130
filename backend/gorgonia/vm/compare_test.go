package vm_test

import (
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/graphs"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/internal/livebytes"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Gorgonia's group normalization prints gradients
	os.Exit(m.Run())
}

// held is how many bytes a machine and the values it binds keep alive after two passes:
// no more than its peak.
func held(t testing.TB, c graphs.Case, factor int, build func(b *graphs.Built) G.VM) int64 {
	b, err := c.Make(tensor.Float32, factor)
	require.NoError(t, err)
	before := livebytes.Now()
	m := build(b)
	for range 2 {
		require.NoError(t, m.RunAll())
		m.Reset()
	}
	n := livebytes.Now() - before
	runtime.KeepAlive(b)
	require.NoError(t, m.Close())
	return n
}

func newTape(b *graphs.Built) G.VM { return G.NewTapeMachine(b.Graph, G.BindDualValues(b.Learn...)) }

func newPlanned(t testing.TB) func(b *graphs.Built) G.VM {
	return func(b *graphs.Built) G.VM {
		m, err := vm.New(b.Graph)
		require.NoError(t, err)
		return m
	}
}

// memoryFactor scales the graphs so that the bytes of values are what counts.
const memoryFactor = 256

// TestMemory: a pass needs at most half of the bytes that Gorgonia's machine needs.
func TestMemory(t *testing.T) {
	for _, c := range graphs.Cases {
		t.Run(c.Name, func(t *testing.T) {
			tape, ours := held(t, c, memoryFactor, newTape), held(t, c, memoryFactor, newPlanned(t))
			t.Logf("%.2f: %d KiB of %d KiB", float64(ours)/float64(tape), ours>>10, tape>>10)
			assert.Positive(t, ours)
			assert.LessOrEqual(t, 2*ours, tape)
		})
	}
}

// TestAllocations: passes allocate nothing.
func TestAllocations(t *testing.T) {
	for _, c := range graphs.Cases {
		t.Run(c.Name, func(t *testing.T) {
			b, err := c.Make(tensor.Float32, 1)
			require.NoError(t, err)
			m, err := vm.New(b.Graph)
			require.NoError(t, err)
			require.NoError(t, m.RunAll())
			n := testing.AllocsPerRun(5, func() {
				if err := m.RunAll(); err != nil {
					t.Error(err)
				}
			})
			assert.Zero(t, n)
		})
	}
}

// BenchmarkGraphs compares passes of the two machines, one of each in turn. tape/planned
// is the ratio of the shortest ones.
func BenchmarkGraphs(b *testing.B) {
	for _, c := range graphs.Cases {
		b.Run(c.Name, func(b *testing.B) {
			tape, ours := benchmarked(b, c, newTape), benchmarked(b, c, newPlanned(b))
			var times [2][]time.Duration
			for range b.N {
				for i, m := range []G.VM{tape, ours} {
					start := time.Now()
					if err := m.RunAll(); err != nil {
						b.Fatal(err)
					}
					times[i] = append(times[i], time.Since(start))
					m.Reset()
				}
			}
			tapeTime, ourTime := float64(slices.Min(times[0])), float64(slices.Min(times[1]))
			b.ReportMetric(tapeTime/ourTime, "tape/planned")
			b.ReportMetric(ourTime, "planned-ns")
		})
	}
}

func benchmarked(t testing.TB, c graphs.Case, build func(*graphs.Built) G.VM) G.VM {
	b, err := c.Make(tensor.Float32, 8)
	require.NoError(t, err)
	m := build(b)
	require.NoError(t, m.RunAll(), fmt.Sprint(c.Name))
	m.Reset()
	return m
}
