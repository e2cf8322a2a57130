package program

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// drawn makes a random graph with branches and loops in each other, bound to sizes.
func drawn(t *testing.T, seed uint64, c graphgen.Config) (*ssa.Graph, map[string]int64, *rand.Rand) {
	g, err := graphgen.New(seed, c)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(seed, 7))
	dims := map[string]int64{"N": 1 + int64(rng.IntN(4)), "M": 1 + int64(rng.IntN(4))}
	bound, err := ops.Bind(context.Background(), g, ops.Binding{Dims: dims})
	require.NoError(t, err)
	return bound, dims, rng
}

// shuffle brings a graph and its bodies into a random legal order.
func shuffle(g *ssa.Graph, rng *rand.Rand) {
	g.Walk(func(b *ssa.Graph) {
		left := append([]*ssa.Node(nil), b.Nodes...)
		b.Nodes = b.Nodes[:0:0]
		done := map[*ssa.Node]bool{}
		for len(left) > 0 {
			k := rng.IntN(len(left))
			for !ready(left[k], done) {
				k = (k + 1) % len(left)
			}
			done[left[k]] = true
			b.Nodes = append(b.Nodes, left[k])
			left = append(left[:k], left[k+1:]...)
		}
	})
}

func ready(n *ssa.Node, done map[*ssa.Node]bool) bool {
	for _, v := range n.In {
		if v != nil && v.Def != nil && !done[v.Def] {
			return false
		}
	}
	return true
}

// inThisOrder makes the program of a graph as its nodes stand now, its values where
// a plan without an order has them.
func inThisOrder(t *testing.T, g *ssa.Graph, f *inplace.Parallel, s *planner.Solution) *Program {
	tl, err := liveness.Build(context.Background(), g, liveness.Options{AnyOrder: true, Windows: f.Windows})
	require.NoError(t, err)
	offsets, inside, err := f.OffsetsIn(tl, s)
	require.NoError(t, err)
	return placed(t, g, tl, offsets, inside, s.ArenaBytes)
}

func placed(t *testing.T, g *ssa.Graph, tl *liveness.Timeline, offsets []int64, inside []bool, arena int64) *Program {
	o := Options{Backend: backend.Reference{}, Threads: 1}
	c := &compiler{ctx: t.Context(), opts: o, kernels: newKernels(o),
		offsets: offsets, inside: inside, p: &Program{Graph: g, stickyDigit: map[int]int{}, ArenaBytes: arena, Timeline: tl, threads: 1}}
	var err error
	c.p.Main, err = c.block(g, nil)
	require.NoError(t, err)
	return c.p
}

// TestParallelPlansHoldInEveryOrder plans random graphs without an order, under
// planners in turn, and brings their nodes, those of bodies too, into random legal
// orders. In each the values where the plan has them must pass the symbolic check and
// compute what the interpreter does. BERTH_RANDOM sets how many graphs.
func TestParallelPlansHoldInEveryOrder(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("BERTH_RANDOM"))
	if err != nil {
		count = 150
	}
	names := planner.Names()
	folds := 0
	for seed := range uint64(count) {
		g, dims, rng := drawn(t, seed, graphgen.Config{Nodes: 6 + int(seed%20), Depth: 3})
		pl, err := planner.Get(names[int(seed)%len(names)])
		require.NoError(t, err)
		f, err := inplace.LayParallel(context.Background(), g, liveness.Options{}, inplace.Options{})
		require.NoError(t, err)
		prob, err := f.Problem(t.Context(), "")
		require.NoError(t, err)
		s, err := pl.Plan(t.Context(), prob)
		require.NoError(t, err)
		require.NoError(t, planner.Validate(prob, s), "seed %d, planner %s", seed, pl.Name())
		folds += f.Folds + f.Concats + f.Merges
		for range 6 {
			p := inThisOrder(t, g, f, s)
			require.NoError(t, CheckParallel(context.Background(), p), "seed %d, planner %s", seed, pl.Name())
			require.NoError(t, compute(p, g, dims, rng), "seed %d, planner %s", seed, pl.Name())
			shuffle(g, rng)
		}
	}
	assert.Greater(t, folds, count, "little is shared: the test says nothing")
}

// compute runs a program on random inputs and compares with the interpreter.
func compute(p *Program, g *ssa.Graph, dims map[string]int64, rng *rand.Rand) error {
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	s.Poison = true
	in, err := graphgen.Inputs(rng, g, dims)
	if err != nil {
		return err
	}
	ctx := context.Background()
	want, err := ops.Interpret(ctx, g, in, nil)
	if err != nil {
		return nil // an input this graph refuses: nothing to compare
	}
	got, err := s.Run(ctx, in)
	if err != nil {
		return err
	}
	for i, v := range got {
		got[i] = ndarray.CloneValue(v)
	}
	if d := graphgen.Noise.Diff(got, want); d != "" {
		return fmt.Errorf("differs: %s", d)
	}
	return nil
}

// everyOrder calls f with each legal order of a graph's nodes, in place, until f
// returns false; it reports whether all were seen.
func everyOrder(g *ssa.Graph, f func() bool) bool {
	nodes := append([]*ssa.Node(nil), g.Nodes...)
	defer func() { g.Nodes = nodes }()
	done := map[*ssa.Node]bool{}
	var order []*ssa.Node
	var extend func() bool
	extend = func() bool {
		if len(order) == len(nodes) {
			g.Nodes = append([]*ssa.Node(nil), order...)
			return f()
		}
		for _, n := range nodes {
			if done[n] || !ready(n, done) {
				continue
			}
			done[n] = true
			order = append(order, n)
			if !extend() {
				return false
			}
			order = order[:len(order)-1]
			done[n] = false
		}
		return true
	}
	return extend()
}

// TestParallelVerifierIsExact plans small random graphs for the order they stand in and
// asks the verifier whether the plan holds in every other. All orders are then tried:
// the symbolic check must pass in each exactly if the verifier said so.
func TestParallelVerifierIsExact(t *testing.T) {
	safe, unsafe, orders := 0, 0, 0
	for seed := range uint64(900) {
		g, _, _ := drawn(t, seed, graphgen.Config{Nodes: 4 + int(seed%5), Depth: 1})
		if hasBodies(g) {
			continue // bodies have orders of their own: the test above
		}
		// To the symbolic check, nodes that join the same operands write the same.
		_, err := rewrite.Run(t.Context(), &ssa.Module{Graph: g}, rewrite.Options{Only: []string{"dead", "cse"}, MaxOpset: -1})
		require.NoError(t, err)
		tl, f, err := inplace.Lay(context.Background(), g, liveness.Options{}, inplace.Options{})
		require.NoError(t, err)
		prob, ids, err := f.Problem(t.Context(), "")
		require.NoError(t, err)
		s, err := planner.Auto{}.Plan(t.Context(), prob)
		require.NoError(t, err)
		offsets, inside := f.OffsetsIn(ids, s)
		verdict := CheckParallel(context.Background(), placed(t, g, tl, offsets, inside, s.ArenaBytes))
		tried := 0
		all := everyOrder(g, func() bool {
			tried++
			return tried > 2000 || Check(context.Background(), placed(t, g, tl, offsets, inside, s.ArenaBytes)) == nil
		})
		if tried > 2000 {
			continue
		}
		orders += tried
		require.Equal(t, verdict == nil, all, "seed %d: verifier: %v\n%s", seed, verdict, g)
		if all && tried > 1 {
			safe++
		} else if !all {
			unsafe++
		}
	}
	t.Logf("%d plans hold in every order, %d do not, %d orders", safe, unsafe, orders)
	assert.Greater(t, safe, 100)
	assert.Greater(t, unsafe, 20)
}

func hasBodies(g *ssa.Graph) bool {
	for _, n := range g.Nodes {
		if len(n.Bodies) > 0 {
			return true
		}
	}
	return false
}

// fork has two branches without an order, a concatenation, a branch of an If and a
// loop that hands on a value which something else in its body may still read.
const fork = `graph "fork" {
  in %x: float32[16,16]
  in %c: bool[]
  in %n: int64[]
  const %w: float32[16,16] = splat 0.5
  const %t: bool[] = true
  %a: float32[16,16] = MatMul(%x, %w)
  %b: float32[16,16] = MatMul(%a, %w)
  %d: float32[16,16] = MatMul(%x, %a)
  %e: float32[16,16] = MatMul(%d, %w)
  %f: float32[16,16] = If(%c | %b, %a) {
    then_branch: graph "then" {
      in %p: float32[16,16]
      in %q: float32[16,16]
      %s: float32[16,16] = MatMul(%p, %q)
      out %s
    }
    else_branch: graph "else" {
      in %p2: float32[16,16]
      in %q2: float32[16,16]
      %u: float32[16,16] = MatMul(%q2, %p2)
      out %u
    }
  }
  %g: float32[16,16], %h: float32[16,16] = Loop(%n, %t, %f, %f | %e) {
    body: graph "body" {
      in %i: int64[]
      in %k: bool[]
      in %l: float32[16,16]
      in %j: float32[16,16]
      in %m: float32[16,16]
      %y: float32[16,16] = MatMul(%m, %m)
      %z: float32[16,16] = MatMul(%l, %j)
      out %k, %y, %z
    }
  }
  %r: float32[32,16] = Concat(%g, %h) [axis=0]
  out %r
}`

// TestParallelVerifierFindsDamagedPlans lays values over each other that no order of the
// nodes as they stand needs at once, but some other does: the verifiers of one order let
// it pass, those of all orders must not.
func TestParallelVerifierFindsDamagedPlans(t *testing.T) {
	over := func(a, b string) func(*planner.Problem, *planner.Solution) {
		return func(p *planner.Problem, s *planner.Solution) {
			s.Offsets[berthOf(t, p, a)] = s.Offsets[berthOf(t, p, b)]
		}
	}
	cases := []struct {
		name    string
		spoil   func(*planner.Problem, *planner.Solution)
		inOrder bool // right in the order the nodes stand in
	}{
		{"branches that only run one after the other in this order", over("e", "a"), false},
		{"a value over one that another branch has yet to read", over("d", "b"), false},
		{"an If's result over a branch beside it", over("s", "d"), true},
		{"a loop's value over the captured one", over("y", "e"), false},
		{"a loop's two values on each other", over("y", "z"), false},
		{"everything at zero", func(_ *planner.Problem, s *planner.Solution) { clear(s.Offsets) }, false},
	}
	compile := func(spoil func(*planner.Problem, *planner.Solution), noValidate, noCheck bool) (*Program, error) {
		g, err := ssa.ParseGraph(fork)
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		return Compile(t.Context(), g, Options{Planner: saboteur{spoil}, ParallelSafe: true, noValidate: noValidate, NoCheck: noCheck})
	}
	_, err := compile(nil, false, false)
	require.NoError(t, err, "the plan is sound before it is spoilt")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := compile(c.spoil, false, false)
			var fault *planner.Fault
			assert.ErrorAs(t, err, &fault, "planner.Validate reports it")
			_, err = compile(c.spoil, true, false)
			var check *CheckError
			assert.ErrorAs(t, err, &check, "the replay for all orders reports it")
			p, err := compile(c.spoil, true, true)
			require.NoError(t, err)
			assert.Equal(t, c.inOrder, Check(context.Background(), p) == nil, "the check of this order: %v", Check(context.Background(), p))
		})
	}
}

// TestParallelBuiltins plans the built-in models for every order under every planner.
func TestParallelBuiltins(t *testing.T) {
	for _, b := range testmodels.List() {
		m, err := testmodels.Build(b.Name)
		require.NoError(t, err)
		f, err := inplace.LayParallel(context.Background(), m.Graph, liveness.Options{}, inplace.Options{})
		require.NoError(t, err)
		prob, err := f.Problem(t.Context(), b.Name)
		require.NoError(t, err)
		for _, name := range planner.Names() {
			pl, err := planner.Get(name)
			require.NoError(t, err)
			s, err := pl.Plan(t.Context(), prob)
			require.NoError(t, err)
			require.NoError(t, planner.Validate(prob, s), "%s, planner %s", b.Name, name)
			require.NoError(t, CheckParallel(context.Background(), inThisOrder(t, m.Graph, f, s)), "%s, planner %s", b.Name, name)
		}
	}
}
