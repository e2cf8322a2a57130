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
	slices  []lower.Slice
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
	c.lower.Outputs.As, c.lower.Freeze.As = "vm.Keep", "vm.Freeze"
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	c.ctx = c.memory.In(c.ctx)
	low, err := lower.Lower(g, c.lower)
	if err != nil {
		return nil, err
	}
	p, err := compile(low.SSA, &c)
	if err != nil {
		return nil, err
	}
	m := &VM{ctx: c.ctx, prog: p}
	if m.session, err = p.OpenSession(c.ctx); err != nil {
		return nil, err
	}
	m.session.Poison = c.poison
	m.wire(low)
	if err := setTraining(g, !c.lower.Eval); err != nil { // last: it clears the statistics of batch normalizations
		return nil, err
	}
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
	return program.Compile(c.ctx, mod.Graph, program.Options{Backend: cpu.New(), Threads: c.threads, Memory: c.memory, OwnGraph: true})
}

// setTraining tells the ops that differ between training and use which of them it is.
func setTraining(g *gorgonia.ExprGraph, training bool) error {
	for _, n := range g.AllNodes() {
		if op, ok := n.Op().(gorgonia.TrainModeOp); ok {
			if err := told(op, training); err != nil {
				return &GraphError{Node: lower.NameOf(n), Op: fmt.Sprintf("%T", op), Err: fmt.Errorf("SetTraining(%t): %w", training, err)}
			}
		}
	}
	return nil
}

// told tells one op, which may be the user's own.
func told(op gorgonia.TrainModeOp, training bool) (err error) {
	defer lower.Calling(&err)
	return op.SetTraining(training)
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
	if err := m.checkSlices(); err != nil {
		return err
	}
	defer func() {
		if err != nil { // a pass beyond the budget ends no other one
			m.ctx = ndarray.BudgetOf(m.ctx).In(m.ctx)
		}
	}()
	for i := range m.inputs {
		if err := m.inputs[i].read(m.ctx); err != nil {
			return err
		}
	}
	results, err := m.session.Run(m.ctx, m.args)
	if err != nil {
		return err
	}
	for i := range m.outputs {
		o := &m.outputs[i]
		if err := o.deliver(results[i]); err != nil {
			return o.failed(err)
		}
	}
	return nil
}

// checkSlices refuses a graph whose slices gorgonia.UnsafeLet has changed: they are part of the program.
func (m *VM) checkSlices() error {
	for _, s := range m.slices {
		if s.Changed() {
			return &GraphError{Node: lower.NameOf(s.Node), Op: fmt.Sprintf("%T", s.Node.Op()), Err: errors.New("its slice was changed after vm.New, which compiles slices; make a new machine")}
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
