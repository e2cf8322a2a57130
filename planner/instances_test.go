package planner_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/planner"
)

// loadInstance reads an instance of the shared collection, or skips the test.
func loadInstance(t testing.TB, name string) *planner.Problem {
	t.Helper()
	f, err := os.Open(shareddata.Path(t, "planner-instances", name))
	require.NoError(t, err)
	defer f.Close()
	p, _, err := planner.ReadCSV(f)
	require.NoError(t, err)
	p.Name = name
	return p
}

// instances of the collection: the eleven challenging ones of MiniMalloc, one whose bound cannot be reached, and two large ones.
var instances = []struct {
	file   string
	bound  int64 // highest stack
	most   int64 // auto's arena is at most this
	proven bool
}{
	{"A.1048576.csv", 1048576, 1048576, true},
	{"B.1048576.csv", 1048576, 1048576, true},
	{"C.1048576.csv", 1039360, 1039360, true},
	{"D.1048576.csv", 986112, 1026048, false},
	{"E.1048576.csv", 1048576, 1048576, true},
	{"F.1048576.csv", 1048576, 1048576, true},
	{"G.1048576.csv", 1048576, 1048576, true},
	{"H.1048576.csv", 1048576, 1048576, true},
	{"I.1048576.csv", 1048576, 1048576, true},
	{"J.1048576.csv", 989184, 1032192, false},
	{"K.1048576.csv", 1048576, 1048576, true},
	{"frag7.csv", 6, 7, true},
	{"pangu_2.6B.csv", 5530099775, 5530099775 / 100 * 101, false},
	{"S_1.csv", 1498635932, 1498635932 / 100 * 101, false},
}

func TestAutoOnInstances(t *testing.T) {
	for _, c := range instances {
		t.Run(c.file, func(t *testing.T) {
			p := loadInstance(t, c.file)
			s := planWith(t, "auto", p)
			t.Logf("%d bytes, %.3f%% above the bound, by %s, %d positions", s.ArenaBytes, 100*s.Gap(), s.Stats.Winner, s.Stats.Nodes)
			assert.LessOrEqual(t, s.ArenaBytes, c.most)
			if c.proven {
				assert.True(t, s.Proven())
			}
		})
	}
}

// TestEveryPlannerOnInstances plans the smaller instances with all planners; none is below the bound or auto.
func TestEveryPlannerOnInstances(t *testing.T) {
	for _, c := range instances {
		p := loadInstance(t, c.file)
		if len(p.Buffers) > 1000 {
			continue
		}
		auto := planWith(t, "auto", p)
		for _, name := range planner.Names() {
			s := planWith(t, name, p)
			assert.GreaterOrEqual(t, s.ArenaBytes, auto.ArenaBytes, "%s %s", c.file, name)
			if s.Proof.Kind == planner.ProofWitness {
				assert.Equal(t, c.bound, s.LowerBound, "%s %s", c.file, name)
			}
			t.Logf("%-14s %-14s %9d  gap %6.1f%%", c.file, name, s.ArenaBytes, 100*s.Gap())
		}
	}
}

func BenchmarkAuto(b *testing.B) {
	for _, c := range instances {
		b.Run(c.file, func(b *testing.B) { benchmark(b, "auto", loadInstance(b, c.file)) })
	}
}

func BenchmarkPlanners(b *testing.B) {
	for _, name := range planner.Names() {
		b.Run(name, func(b *testing.B) { benchmark(b, name, loadInstance(b, "K.1048576.csv")) })
	}
}

func BenchmarkValidate(b *testing.B) {
	p := loadInstance(b, "S_1.csv")
	s := planWith(b, "greedy-size", p)
	for b.Loop() {
		require.NoError(b, planner.Validate(p, s))
	}
}

// benchmark reports the gap beside the time.
func benchmark(b *testing.B, name string, p *planner.Problem) {
	pl, err := planner.Get(name)
	require.NoError(b, err)
	var s *planner.Solution
	for b.Loop() {
		s, err = pl.Plan(context.Background(), p)
		require.NoError(b, err)
	}
	b.ReportMetric(100*s.Gap(), "gap-%")
	b.ReportMetric(float64(s.ArenaBytes), "arena-bytes")
}
