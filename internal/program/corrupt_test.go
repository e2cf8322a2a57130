package program

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// harbour has everything a plan can get wrong: a value read after others came
// and went, a value captured by a branch and by a loop, two branch results, a
// loop value in two places, a stacked output, workspaces.
const harbour = `graph "harbour" {
  in %x: float32[16,16]
  in %c: bool[]
  in %n: int64[]
  const %w: float32[16,16] = splat 0.5
  const %t: bool[] = true
  %a: float32[16,16] = MatMul(%x, %w)
  %b: float32[16,16] = Exp(%a)
  %d: float32[16,16] = MatMul(%b, %w)
  %e: float32[16,16] = If(%c | %a, %d) {
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
  %f: float32[16,16], %g: float32[?,16,16] = Loop(%n, %t, %e | %b) {
    body: graph "body" {
      in %i: int64[]
      in %k: bool[]
      in %h: float32[16,16]
      in %m: float32[16,16]
      %y: float32[16,16] = MatMul(%h, %m)
      %z: float32[16,16] = Add(%y, %h)
      out %k, %y, %z
    }
  }
  %r: float32[16,16] = Add(%f, %b)
  out %r, %g
}`

// workspaces is a backend whose matrix products ask for workspace.
type workspaces struct{}

func (workspaces) Name() string { return "workspaces" }

func (workspaces) Prepare(_ context.Context, n *ssa.Node, _ int) (backend.Prepared, error) {
	if n.Op != "MatMul" {
		return backend.Prepared{}, nil
	}
	return backend.Prepared{Kernel: ops.KernelFunc(ops.Eval), Scratch: 256}, nil
}

// memoryless is a backend whose kernels get no memory.
type memoryless struct{ workspaces }

func (memoryless) Prepare(context.Context, *ssa.Node, int) (backend.Prepared, error) {
	return backend.Prepared{}, &ops.MemoryError{What: "packed weights"}
}

// TestWorkspacesWithoutMemory: a workspace that is not known for want of memory is not none.
func TestWorkspacesWithoutMemory(t *testing.T) {
	g, err := ssa.ParseGraph(harbour)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	_, err = Workspaces(t.Context(), g, memoryless{}, 1, 0)
	var full *ops.MemoryError
	require.ErrorAs(t, err, &full)
}

// saboteur plans well and then spoils the plan.
type saboteur struct {
	spoil func(p *planner.Problem, s *planner.Solution)
}

func (saboteur) Name() string { return "saboteur" }

func (v saboteur) Plan(ctx context.Context, p *planner.Problem) (*planner.Solution, error) {
	s, err := planner.Naive{}.Plan(ctx, p)
	if err == nil && v.spoil != nil {
		v.spoil(p, s)
	}
	return s, err
}

// berthOf finds the buffer that holds a value.
func berthOf(t *testing.T, p *planner.Problem, name string) int {
	i := slices.IndexFunc(p.Buffers, func(b planner.Buffer) bool { return b.Name == name })
	require.GreaterOrEqual(t, i, 0, "no buffer holds %q", name)
	return i
}

func workspaceOf(t *testing.T, p *planner.Problem) int {
	for i, b := range p.Buffers {
		if b.Size == 256 {
			return i
		}
	}
	t.Fatal("no workspace")
	return -1
}

func TestBothVerifiersFindEveryDamagedPlan(t *testing.T) {
	over := func(a, b string, by int64) func(*planner.Problem, *planner.Solution) {
		return func(p *planner.Problem, s *planner.Solution) {
			i, j := berthOf(t, p, a), berthOf(t, p, b)
			s.Offsets[i] = s.Offsets[j] + by
			s.ArenaBytes = max(s.ArenaBytes, s.Offsets[i]+p.Buffers[i].Size)
		}
	}
	at := func(a string, off func(p *planner.Problem, s *planner.Solution, i int) int64) func(*planner.Problem, *planner.Solution) {
		return func(p *planner.Problem, s *planner.Solution) {
			i := berthOf(t, p, a)
			s.Offsets[i] = off(p, s, i)
		}
	}
	cases := []struct {
		name  string
		spoil func(*planner.Problem, *planner.Solution)
	}{
		{"a result over an operand of the same node", over("b", "a", 0)},
		{"half over a value read later", over("d", "b", 512)},
		{"half over from below", over("b", "d", -512)},
		{"a branch's result over what the other operand needs", over("s", "d", 0)},
		{"a captured value, read after its last direct use", over("d", "a", 0)},
		{"a loop's two places (the second is the initial value's) on each other", over("y", "s", 0)},
		{"a loop's place over a captured value", over("y", "b", 0)},
		{"the iteration counter over a captured value", over("i", "b", 0)},
		{"below the arena", at("a", func(*planner.Problem, *planner.Solution, int) int64 { return -64 })},
		{"beyond the arena", at("a", func(_ *planner.Problem, s *planner.Solution, _ int) int64 { return s.ArenaBytes })},
		{"its end outside the arena", at("b", func(p *planner.Problem, s *planner.Solution, i int) int64 {
			return s.ArenaBytes - p.Buffers[i].Size + 64
		})},
		{"not aligned", at("a", func(_ *planner.Problem, s *planner.Solution, i int) int64 { return s.Offsets[i] + 32 })},
		{"a workspace over an operand", func(p *planner.Problem, s *planner.Solution) {
			s.Offsets[workspaceOf(t, p)] = s.Offsets[berthOf(t, p, "a")]
		}},
		{"everything at zero", func(p *planner.Problem, s *planner.Solution) { clear(s.Offsets) }},
	}
	ctx := context.Background()
	compile := func(spoil func(*planner.Problem, *planner.Solution), noValidate bool) error {
		g, err := ssa.ParseGraph(harbour)
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		_, err = Compile(ctx, g, Options{Planner: saboteur{spoil}, Backend: workspaces{}, noValidate: noValidate})
		return err
	}
	require.NoError(t, compile(nil, false), "the plan is sound before it is spoilt")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var fault *planner.Fault
			assert.True(t, errors.As(compile(c.spoil, false), &fault), "planner.Validate reports it")
			var check *CheckError
			err := compile(c.spoil, true)
			assert.True(t, errors.As(err, &check), "the symbolic check reports it, got %v", err)
		})
	}
}

// TestForPlanHasWorkspaces: a workspace over an operand of its node is a fault of a plan without kernels, too.
func TestForPlanHasWorkspaces(t *testing.T) {
	ctx := t.Context()
	g, err := ssa.ParseGraph(harbour)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	spaces, err := Workspaces(ctx, g, workspaces{}, 1, 0)
	require.NoError(t, err)
	require.Len(t, spaces, 5, "a workspace for every product")
	l, err := inplace.State(ctx, g, liveness.Options{Scratch: func(n *ssa.Node) int64 { return spaces[n] }}, inplace.Options{})
	require.NoError(t, err)
	s, err := planner.Naive{}.Plan(ctx, l.Problem)
	require.NoError(t, err)
	offsets, _, err := l.OffsetsOf(s)
	require.NoError(t, err)
	check := func() error {
		p, err := ForPlan(ctx, l.Timeline, offsets, s.ArenaBytes)
		require.NoError(t, err)
		return Check(ctx, p)
	}
	require.NoError(t, check())
	for _, step := range l.Timeline.Steps {
		if step.Scratch != liveness.None {
			sound := offsets[step.Scratch]
			offsets[step.Scratch] = offsets[step.Out[0]]
			var fault *CheckError
			assert.ErrorAs(t, check(), &fault, step.Node.String())
			offsets[step.Scratch] = sound
		}
	}
}
