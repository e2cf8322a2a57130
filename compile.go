package berth

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/program"
	"github.com/berth-onnx/berth/rewrite"
	"github.com/berth-onnx/berth/schedule"
	"github.com/berth-onnx/berth/ssa"
)

// Program is a model compiled for one binding of its input shapes. It never
// changes and is safe for concurrent use.
type Program struct {
	prog     *program.Program
	defaults map[string]*ssa.Constant
	outputs  []string      // names of the results as callers know them
	idle     chan *Session // the session that the next run takes
	more     sync.Pool     // others, until the garbage collector takes them
	compile  time.Duration
}

// Schedules lists the execution orders.
func Schedules() []string { return schedule.Names() }

// Compile prepares the model to run. Dimensions left open by the model and not
// fixed by options make values dynamic: they are placed while running.
func (m *Model) Compile(ctx context.Context, opts ...Option) (*Program, error) {
	return m.compile(ctx, newConfig(opts))
}

func (m *Model) compile(ctx context.Context, c config) (*Program, error) {
	start := time.Now()
	c.weights = m.weights()
	if err := m.checkBounds(c.bounds); err != nil {
		return nil, err
	}
	g, err := m.lower(ctx, &c)
	if err != nil {
		return nil, err
	}
	pl, err := c.plannerOf()
	if err != nil {
		return nil, err
	}
	be, err := c.backendOf()
	if err != nil {
		return nil, err
	}
	p, err := program.Compile(ctx, g, program.Options{Backend: be, Planner: pl, Threads: c.threads,
		InPlace: inplace.Options{NoInPlace: c.noInPlace}, CopyViews: c.copyViews, Bounds: c.bounds, ParallelSafe: c.parallelSafe, Saved: m.savedPlans(&c),
		MaxMemory: c.maxMemory, OwnGraph: true})
	if err != nil {
		return nil, err
	}
	m.release(p)
	out := &Program{prog: p, defaults: m.module.Defaults, idle: make(chan *Session, 1)}
	for _, port := range m.Outputs() {
		out.outputs = append(out.outputs, port.Name)
	}
	out.compile = time.Since(start)
	return out, nil
}

// release gives back the memory that compiling took: copies of constants that the
// program does not read, and the heap, where much of it is free.
func (m *Model) release(p *program.Program) {
	read := p.Constants()
	m.module.Graph.Walk(func(g *ssa.Graph) {
		for _, v := range g.Values() {
			if v != nil && v.Const != nil && !read[v.Const] {
				v.Const.Release()
			}
		}
	})
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	if max(s.HeapAlloc, s.HeapIdle-s.HeapReleased) > heapSlack {
		debug.FreeOSMemory()
	}
}

// heapSlack is how much of the heap may be in use or free before compiling ends with a
// collection.
const heapSlack = 64 << 20

// foldingOnly are the passes that make shapes known and change nothing else.
var foldingOnly = []string{"shape-fold", "fold", "dead"}

// lower binds, rewrites and orders a copy of the graph for execution.
func (m *Model) lower(ctx context.Context, c *config) (*ssa.Graph, error) {
	bound, err := m.bind(c)
	if err != nil {
		return nil, err
	}
	o := rewrite.Options{List: &rewrite.Runtime, Check: c.check, Shuffle: c.check, Dump: c.dump, Off: c.off, MaxOpset: -1}
	if c.noPasses {
		o.Only = foldingOnly
	}
	if _, err := rewrite.Run(ctx, bound, o); err != nil {
		return nil, err
	}
	if _, err := schedule.Apply(ctx, bound.Graph, c.schedule); err != nil {
		return nil, err
	}
	return bound.Graph, nil
}

// Plan describes the memory plan of a program.
func (p *Program) Plan() PlanInfo { return planInfo(p.prog) }

// CompileTime is how long compiling took.
func (p *Program) CompileTime() time.Duration { return p.compile }

// Run executes the program. The result tensors are fresh memory, owned by the
// caller. Cancelling ctx ends the run at the next node or loop iteration.
func (p *Program) Run(ctx context.Context, inputs map[string]*tensor.Dense) (map[string]*tensor.Dense, error) {
	values, err := valuesOf(inputs)
	if err != nil {
		return nil, err
	}
	out, err := p.RunValues(ctx, values)
	if err != nil {
		return nil, err
	}
	res := make(map[string]*tensor.Dense, len(out))
	for _, name := range p.outputs {
		if res[name], err = DenseOf(out[name]); err != nil {
			return nil, fmt.Errorf("output %q: %w", name, err)
		}
	}
	return res, nil
}

// RunValues is Run for values of any ONNX type; the results are copies.
func (p *Program) RunValues(ctx context.Context, inputs map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	if err := p.handedOver(inputs); err != nil {
		return nil, err
	}
	s, err := p.session()
	if err != nil {
		return nil, err
	}
	defer p.release(s)
	out, err := s.RunValues(ctx, inputs)
	if err != nil {
		return nil, err
	}
	for k, v := range out {
		out[k] = ndarray.CloneValue(v)
	}
	return out, nil
}

func (p *Program) session() (*Session, error) {
	select {
	case s := <-p.idle:
		return s, nil
	default:
	}
	if s, ok := p.more.Get().(*Session); ok {
		return s, nil
	}
	return p.NewSession()
}

func (p *Program) release(s *Session) {
	select {
	case p.idle <- s:
	default:
		p.more.Put(s)
	}
}

// Session runs a program in one arena of its own. It serves one run at a time
// and allocates nothing for values whose size is known.
type Session struct {
	p    *Program
	s    *program.Session
	args []ndarray.Value
}

// NewSession allocates an arena.
func (p *Program) NewSession() (*Session, error) { return p.wrap(p.prog.NewSession()) }

func (p *Program) wrap(s *program.Session, err error) (*Session, error) {
	if err != nil {
		return nil, err
	}
	return &Session{p: p, s: s, args: make([]ndarray.Value, len(p.prog.Main.Params))}, nil
}

// Arena is memory that sessions of several programs (other shapes, other models) take turns in: it is as large as the
// largest of them needs, not as all together. A run holds it; other runs wait. The results of a run are valid until the
// next run of any session in the arena.
type Arena = program.Arena

// NewArena returns an empty arena for [Program.NewSessionIn].
func NewArena() *Arena { return program.NewArena() }

// NewSessionIn makes a session that shares an arena with others: together they
// hold what the largest needs, not the sum. Runs in one arena exclude each other.
func (p *Program) NewSessionIn(a *Arena) (*Session, error) {
	return p.wrap(p.prog.NewSessionIn(a))
}

// Run executes the program on inputs in the model's order, reading them in
// place. The results, in the model's order, lie in the arena (or are the inputs
// and weights themselves) and are valid until the next run. Caches that the session
// keeps (see [Program.Caches]) are nil among the inputs, and nil among the results.
func (s *Session) Run(ctx context.Context, inputs []ndarray.Value) ([]ndarray.Value, error) {
	return s.s.Run(ctx, inputs)
}

// RunValues is Run by name; inputs with defaults may be left out, and those that
// the session keeps (see [Program.Caches]).
func (s *Session) RunValues(ctx context.Context, inputs map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	if err := s.p.arguments(s.args, inputs); err != nil {
		return nil, err
	}
	out, err := s.s.Run(ctx, s.args)
	if err != nil {
		return nil, err
	}
	res := make(map[string]ndarray.Value, len(out))
	for i, name := range s.p.outputs {
		if !s.s.Keeps(i) {
			res[name] = out[i]
		}
	}
	return res, nil
}

// Arguments lists inputs in the model's order, as [Session.Run] takes them, with defaults for those left out.
func (p *Program) Arguments(inputs map[string]ndarray.Value) ([]ndarray.Value, error) {
	args := make([]ndarray.Value, len(p.prog.Main.Params))
	return args, p.arguments(args, inputs)
}

func (p *Program) arguments(args []ndarray.Value, inputs map[string]ndarray.Value) error {
	params := p.prog.Graph.Params
	known := 0
	for i, prm := range params {
		v, ok := inputs[prm.Name]
		if ok {
			known++
		} else if d := p.defaults[prm.Name]; d != nil {
			a, err := d.Array()
			if err != nil {
				return err
			}
			v = a
		} else if prm.Type.Kind != ssa.KindOptional && !p.isCache(i) {
			return &program.InputError{Name: prm.Name, Want: prm.Type.String(), Got: "nothing; the inputs are " + portNames(params)}
		}
		args[i] = v
	}
	if known != len(inputs) {
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			if !slices.ContainsFunc(params, func(v *ssa.Value) bool { return v.Name == name }) {
				return &program.InputError{Name: name, Want: "one of " + portNames(params), Got: "an unknown name"}
			}
		}
	}
	return nil
}

func portNames(vs []*ssa.Value) string {
	s := ""
	for i, v := range vs {
		if i > 0 {
			s += ", "
		}
		s += v.Name + " " + v.Type.String()
	}
	return s
}
