package planner_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
)

// loadInstance reads an instance of the shared collection, or skips the test.
func loadInstance(t testing.TB, name string) *planner.Problem {
	t.Helper()
	shared := os.Getenv("BERTH_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "shared")
	}
	f, err := os.Open(filepath.Join(shared, "planner-instances", name))
	if err != nil {
		t.Skipf("planner instances are not here (set BERTH_SHARED): %v", err)
	}
	defer f.Close()
	p, _, err := planner.ReadCSV(f)
	require.NoError(t, err)
	p.Name = name
	return p
}

// challenging are the eleven MiniMalloc instances, with the max-live bound of each.
var challenging = []struct {
	file  string
	bound int64
}{
	{"A.1048576.csv", 1048576}, {"B.1048576.csv", 1048576}, {"C.1048576.csv", 1039360}, {"D.1048576.csv", 986112},
	{"E.1048576.csv", 1048576}, {"F.1048576.csv", 1048576}, {"G.1048576.csv", 1048576}, {"H.1048576.csv", 1048576},
	{"I.1048576.csv", 1048576}, {"J.1048576.csv", 989184}, {"K.1048576.csv", 1048576},
}

func TestInstancesAreValid(t *testing.T) {
	for _, c := range challenging {
		p := loadInstance(t, c.file)
		for _, name := range planner.Names() {
			pl, err := planner.Get(name)
			require.NoError(t, err)
			if name == "exact" || name == "auto" {
				continue // they have tests of their own
			}
			s, err := pl.Plan(context.Background(), p)
			require.NoError(t, err)
			require.NoError(t, planner.Validate(p, s), "%s %s", c.file, name)
			require.Equal(t, c.bound, s.LowerBound)
			t.Logf("%s %-14s %9d  gap %.1f%%", c.file, name, s.ArenaBytes, 100*s.Gap())
		}
	}
}
