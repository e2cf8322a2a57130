package expr

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/schedule"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Assignments are compiled as models are: a graph, rewritten, ordered, its elementwise operators grouped
// into kernels, planned in one arena. What differs is the ends. Inputs are memory of tensors, and results
// are written into that of the destinations:
//
//	expression ─▶ graph ─▶ rewrite ─▶ order ─▶ groups ─▶ windows in groups ─▶ program
//	                                                      destinations          │
//	                                                      written in place ─────┘

// stage is a compiled list of assignments none of which reads what another one writes, except as
// the value that is written.
type stage struct {
	prog *program.Program

	mu   sync.Mutex
	idle []*program.Session
}

// task is what a stage is compiled from.
type task struct {
	jobs    []job
	sources []*node // memory that is read, each piece once
	indexOf map[*node]int
	meets   [][]meeting // by job and source
}

// job is one assignment.
type job struct{ dst, src *node }

// meeting says what memory of a source and of a destination have to do with each other.
type meeting uint8

const (
	apart    meeting = iota // nothing
	same                    // they are the same elements in the same places
	overlaps                // some bytes are of both
)

// compile makes a stage.
func (e *Engine) compile(ctx context.Context, t *task) (*stage, error) {
	ctx = e.memory.In(ctx)
	copied := make([]bool, len(t.jobs))
	for {
		g, err := e.graph(ctx, t, copied)
		if err != nil {
			return nil, err
		}
		if again := t.conflicts(g, copied); again {
			continue
		}
		p, err := program.CompilePlaced(ctx, g, program.Options{Backend: e.backend, Threads: e.threads, Memory: e.memory, OwnGraph: true})
		if err != nil {
			return nil, err
		}
		return &stage{prog: p}, nil
	}
}

// graph lowers a task to what is compiled. Results that are copied are computed in the arena, and
// copied to their destination behind everything else.
func (e *Engine) graph(ctx context.Context, t *task, copied []bool) (*ssa.Graph, error) {
	g, err := t.lower(ctx)
	if err != nil {
		return nil, err
	}
	m := &ssa.Module{Graph: g}
	if _, err := rewrite.Run(ctx, m, rewrite.Options{List: &rewrite.Runtime, MaxOpset: -1}); err != nil {
		return nil, err
	}
	if _, err := fuse.Epilogues(ctx, m.Graph, e.backend.Layouts()); err != nil {
		return nil, err
	}
	if _, err := schedule.Order(ctx, m.Graph, ""); err != nil {
		return nil, err
	}
	g, _, err = fuse.Apply(ctx, m.Graph, fuse.Options{Threads: e.threads, Peak: math.MaxInt64, Always: true, Singles: true})
	if err != nil {
		return nil, err
	}
	window.ReadWindows(g)
	for k, r := range g.Results {
		if copied[k] && (r.Def == nil || len(ops.Aliases(r.Def)) > 0) {
			g.Results[k] = window.Copied(g, r)
		}
	}
	mayPlace := func(k int) bool { return !copied[k] && program.CanPlace(g, k) }
	for _, late := range []bool{false, true} {
		for k, j := range t.jobs {
			if copied[k] != late {
				continue
			}
			if err := window.Place(g, k, j.dst.place.window, mayPlace); err != nil {
				return nil, err
			}
		}
	}
	return g, ops.InferGraph(g)
}

// lower makes the graph: a parameter for each source, a result for each job.
func (t *task) lower(ctx context.Context) (*ssa.Graph, error) {
	l := newLowering(ctx, windows)
	for i, s := range t.sources {
		l.params[s] = l.g.AddParam(fmt.Sprint("a", i), ssa.StaticTensor(s.dt, s.place.array.Shape...))
	}
	for n, i := range t.indexOf {
		l.params[n] = l.params[t.sources[i]]
	}
	for k, j := range t.jobs {
		x, err := l.shaped(j.src, j.dst.shape)
		if err != nil {
			return nil, err
		}
		l.g.Results = append(l.g.Results, x)
		for n, i := range t.indexOf {
			if t.meets[k][i] == same {
				l.write(n, x)
			}
		}
	}
	return l.g, nil
}

// conflicts looks for results that are written where something is still read; those will be copied.
func (t *task) conflicts(g *ssa.Graph, copied []bool) (found bool) {
	at := map[*ssa.Node]int{}
	for i, n := range g.Nodes {
		at[n] = i
	}
	for k := range t.jobs {
		if copied[k] {
			continue
		}
		for i, m := range t.meets[k] {
			if m != apart && !t.mayWrite(g, at, k, i, m) {
				copied[k], found = true, true
				break
			}
		}
	}
	return found
}

// mayWrite reports that nobody reads a source once result k is written, except the node that writes it, in place.
func (t *task) mayWrite(g *ssa.Graph, at map[*ssa.Node]int, k, source int, m meeting) bool {
	writer := g.Results[k].Def
	pairs := ops.InPlacePairs(writer)
	if fused.Is(writer) {
		pairs = fused.Overwrites(writer)
	}
	shows := map[*ssa.Value]bool{g.Params[source]: true} // the source, and views of it
	for _, n := range g.Nodes {
		for i, v := range n.In {
			switch {
			case !shows[v]:
			case len(ops.Aliases(n)) > 0:
				for _, o := range n.Out {
					shows[o] = true
				}
			case at[n] > at[writer]:
				return false
			case n == writer && (m != same || v != g.Params[source] || !slices.Contains(pairs, ops.Pair{In: i, Out: g.Results[k].DefIndex})):
				return false
			}
		}
	}
	return true
}

// run executes the stage on memory.
func (s *stage) run(ctx context.Context, inputs []ndarray.Value, places [][]byte) error {
	x, err := s.session(ctx)
	if err != nil {
		return err
	}
	if s.prog.SharesWork() {
		machine.Begin()
		defer machine.End()
	}
	defer s.keep(x)
	return x.RunPlaced(ctx, inputs, places)
}

func (s *stage) session(ctx context.Context) (*program.Session, error) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		x := s.idle[last]
		s.idle = s.idle[:last]
		s.mu.Unlock()
		return x, nil
	}
	s.mu.Unlock()
	x, err := s.prog.OpenSession(ctx)
	if err == nil {
		x.Poison = poisonSessions
	}
	return x, err
}

// poisonSessions fills arenas before each run, in tests.
var poisonSessions = false

// mostIdle is how many sessions of a stage wait for the next run.
const mostIdle = 4

func (s *stage) keep(x *program.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) < mostIdle {
		s.idle = append(s.idle, x)
	}
}

// kernels names what the stage runs, in order.
func (s *stage) kernels() (out []string) {
	for i := range s.prog.Main.Instrs {
		in := &s.prog.Main.Instrs[i]
		if in.Kind != program.Exec {
			continue
		}
		name := in.Node.Op
		switch {
		case fused.Is(in.Node):
			name = ""
			if p, err := fused.Of(in.Node); err == nil {
				name = p.Names()
			}
		case fused.HasEpilogue(in.Node):
			p, _ := fused.Epilogue(in.Node)
			name += " " + p.Names()
		}
		out = append(out, name)
	}
	return out
}
