package vm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/schedule"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// VM runs one expression graph. It serves one pass at a time; concurrent calls wait.
type VM struct {
	mu      sync.Mutex
	ctx     context.Context
	prog    *program.Program
	session *program.Session
	inputs  []input
	args    []ndarray.Value
	outputs []output
}

var _ gorgonia.VM = (*VM)(nil)

// GraphError says which node of an expression graph can not run, and why.
type GraphError = lower.Error

// InputError reports an input without a value, or with one that does not fit its node.
type InputError = program.InputError

// ErrClosed is the error of a pass after Close.
var ErrClosed = errors.New("the machine is closed")

// New compiles a graph. Nodes added to the graph later are not part of it: gorgonia.Grad comes first.
// A node that can not be compiled is a [*GraphError].
func New(g *gorgonia.ExprGraph, opts ...Option) (_ *VM, err error) {
	defer rescue.Into(&err)
	c := config{threads: runtime.GOMAXPROCS(0), ctx: context.Background()}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	c.ctx = c.memory.In(c.ctx)
	if g != nil {
		setTraining(g, !c.lower.Eval)
	}
	low, err := lower.Lower(g, c.lower)
	if err != nil {
		return nil, err
	}
	p, err := compile(low.SSA, &c)
	if err != nil {
		return nil, err
	}
	m := &VM{ctx: c.ctx, prog: p}
	if m.session, err = p.NewSession(); err != nil {
		return nil, err
	}
	m.session.Poison = c.poison
	m.wire(low)
	return m, nil
}

// compile optimizes, orders and plans a graph.
func compile(g *ssa.Graph, c *config) (*program.Program, error) {
	mod := &ssa.Module{Graph: g}
	if _, err := rewrite.Run(c.ctx, mod, rewrite.Options{List: &rewrite.Runtime, MaxOpset: -1}); err != nil {
		return nil, err
	}
	if _, err := schedule.Order(c.ctx, mod.Graph, ""); err != nil {
		return nil, err
	}
	return program.Compile(c.ctx, mod.Graph, program.Options{Backend: cpu.New(), Threads: c.threads, OwnGraph: true})
}

// setTraining tells the ops that differ between training and use which of them it is.
func setTraining(g *gorgonia.ExprGraph, training bool) {
	for _, n := range g.AllNodes() {
		if op, ok := n.Op().(gorgonia.TrainModeOp); ok {
			_ = op.SetTraining(training) // Gorgonia's own never fail
		}
	}
}

// RunAll runs one pass.
func (m *VM) RunAll() (err error) {
	defer rescue.Into(&err)
	if m == nil {
		return ErrClosed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return ErrClosed
	}
	for i := range m.inputs {
		if err := m.inputs[i].read(); err != nil {
			return err
		}
	}
	results, err := m.session.Run(m.ctx, m.args)
	if err != nil {
		return err
	}
	for i := range m.outputs {
		a, ok := results[i].(*ndarray.Array)
		if !ok {
			return fmt.Errorf("result %d is %s, no tensor", i, ndarray.Describe(results[i]))
		}
		if err := m.outputs[i].deliver(a); err != nil {
			return err
		}
	}
	return nil
}

// Reset is part of gorgonia.VM. A pass leaves nothing to reset.
func (m *VM) Reset() {}

// Close lets go of the arena. Values of nodes stay readable as long as they are bound.
func (m *VM) Close() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = nil
	return nil
}

// Memory describes the plan of a graph.
type Memory struct {
	Arena      int64 // bytes of all values but inputs, workspace included
	LowerBound int64 // no plan of the same order needs less
	Apart      int64 // what the values would take without sharing bytes
	Stock      int   // nodes that call an op of Gorgonia, which may allocate
	Nodes      int
}

// Memory returns the plan's figures; zeros if the machine is not made by New.
func (m *VM) Memory() Memory {
	if m == nil || m.prog == nil {
		return Memory{}
	}
	r := m.prog.Report
	out := Memory{Arena: r.ArenaBytes, LowerBound: r.LowerBound, Apart: r.NaiveBytes, Nodes: len(m.prog.Graph.Nodes)}
	for _, n := range m.prog.Graph.Nodes {
		if n.Domain == lower.Stock.Domain && n.Op == lower.Stock.Name {
			out.Stock++
		}
	}
	return out
}
