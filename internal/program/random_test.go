package program_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// Random graphs, with branches and loops in each other, run as programs under
// planners in turn, and must compute what the interpreter does. BERTH_RANDOM sets
// how many; the arena is full of garbage before every run, and each session runs
// twice, on different inputs.
func TestRandomGraphs(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("BERTH_RANDOM"))
	if err != nil {
		count = 300
	}
	names := planner.Names()
	for seed := range uint64(count) {
		g, err := graphgen.New(seed, graphgen.Config{Nodes: 6 + int(seed%20), Depth: 3})
		require.NoError(t, err)
		pl, err := planner.Get(names[int(seed)%len(names)])
		require.NoError(t, err)
		var be backend.Backend = backend.Reference{}
		if seed%2 == 1 {
			be = cpu.New()
		}
		if err := runRandom(g, seed, pl, be); err != nil {
			t.Errorf("seed %d, planner %s, backend %s: %v", seed, pl.Name(), be.Name(), err)
		}
	}
}

// runRandom compiles a graph for one binding and runs it on two sets of inputs.
func runRandom(g *ssa.Graph, seed uint64, pl planner.Planner, be backend.Backend) error {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 7))
	bind := map[string]int64{"N": 1 + int64(rng.IntN(4)), "M": 1 + int64(rng.IntN(4))}
	bound, err := ops.Bind(context.Background(), g, ops.Binding{Dims: bind})
	if err != nil {
		return err
	}
	p, err := program.Compile(ctx, bound, program.Options{Planner: pl, Backend: be, Threads: 1 + int(seed%2)})
	if err != nil {
		return err
	}
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	s.Poison = true
	for range 2 {
		in, err := graphgen.Inputs(rng, bound, bind)
		if err != nil {
			return err
		}
		want, err := ops.Interpret(ctx, bound, in, nil)
		if err != nil {
			continue // an input this graph refuses: nothing to compare
		}
		got, err := s.Run(ctx, in)
		if err != nil {
			return err
		}
		if d := graphgen.Noise.Diff(cloneAll(got), want); len(d) > 0 {
			return fmt.Errorf("differs: %v", d)
		}
	}
	return nil
}

func cloneAll(vs []ndarray.Value) []ndarray.Value {
	out := make([]ndarray.Value, len(vs))
	for i, v := range vs {
		out[i] = ndarray.CloneValue(v)
	}
	return out
}
