// Package machines runs a model as one of Gorgonia's expression graphs in the machine that
// comes with Gorgonia and in the planned one, and measures both: what planning saves while
// graph, kernels and inputs are the same.
package machines

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/internal/livebytes"
	"github.com/berth-onnx/berth/ndarray"
)

// A machine is measured on a graph of its own, so that nothing of another one's is alive:
//
//	Import, Bind ─▶ base ─▶ machine, first pass ─▶ timed passes ─▶ sampled passes ─▶ Close
//	                 │                                               │
//	                 └────────────── live = most − base ─────────────┘
//
// Inputs and weights lie in the nodes' values before the base is taken. What counts is the
// machine's own memory: values of nodes, an arena, packed weights.

// Row is what is known of one machine.
type Row struct {
	Name   string
	Live   int64         // bytes reachable at most during passes, beyond inputs and weights
	Arena  int64         // of these, what is planned; 0 for a machine without a plan
	Median time.Duration // of a pass
	Min    time.Duration
	Passes int     // that were timed
	Allocs float64 // per pass
	Err    error   // why the machine does not run the model

	// Results are copies of the outputs, in the model's order.
	Results []*ndarray.Array
}

// Options say how long and with what to run.
type Options struct {
	Seconds float64 // of timed passes; a fifth more, at least a tenth of a second, is run to measure memory
	Threads int     // of a kernel
}

// Names are the machines in the order of the rows: Gorgonia's own, the planned one with weights read where they lie as the
// first does, and with weights as constants, of which it keeps packed copies.
var Names = []string{"gorgonia:tapeMachine", "gorgonia:planned", "gorgonia:planned-constants"}

// Measure returns a row for each of [Names]. in are the model's inputs in their order, which give open dimensions their
// sizes; opts bound what making the graph may use. That a model has no expression graph, or that a machine does not run it, is the row's error; the only other error is
// the context's. While passes are timed, the process uses as many threads as the machine may.
func Measure(ctx context.Context, m *berth.Model, in []ndarray.Value, o Options, opts ...berth.Option) ([]Row, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(o.Threads, 1)))
	rows := make([]Row, len(Names))
	for i := range rows {
		rows[i].Name = Names[i]
		rows[i].Err = rows[i].measure(ctx, m, in, o, opts)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return rows, nil
}

// measure fills a row. Panics of Gorgonia are errors.
func (r *Row) measure(ctx context.Context, m *berth.Model, in []ndarray.Value, o Options, opts []berth.Option) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panics: %v", r.Name, p)
		}
	}()
	g, err := graphOf(ctx, m, in, opts)
	if err != nil {
		return err
	}
	base := livebytes.Now()
	machine, err := r.machine(ctx, g, o.Threads)
	if err != nil {
		return err
	}
	defer machine.Close()
	pass := func() error {
		machine.Reset()
		if err := ctx.Err(); err != nil {
			return err
		}
		return machine.RunAll()
	}
	if err := r.time(pass, o.Seconds); err != nil {
		return err
	}
	most, err := livebytes.Peak(time.Duration(max(0.1, o.Seconds/5)*float64(time.Second)), pass)
	if err != nil {
		return err
	}
	r.Live = most - base
	results, err := g.Results()
	for _, a := range results {
		r.Results = append(r.Results, a.Clone())
	}
	runtime.KeepAlive(in)
	return err
}

// graphOf is the model as an expression graph with its inputs bound.
func graphOf(ctx context.Context, m *berth.Model, in []ndarray.Value, opts []berth.Option) (*exprgraph.Graph, error) {
	ports := m.Inputs()
	if len(in) != len(ports) {
		return nil, fmt.Errorf("%d values for %d inputs", len(in), len(ports))
	}
	opts = slices.Clone(opts)
	for i, p := range ports {
		if a, ok := in[i].(*ndarray.Array); ok {
			opts = append(opts, berth.WithShape(p.Name, a.Shape...))
		}
	}
	g, err := exprgraph.Import(ctx, m, opts...)
	if err != nil {
		return nil, err
	}
	return g, g.Bind(in...)
}

// machine makes the row's machine.
func (r *Row) machine(ctx context.Context, g *exprgraph.Graph, threads int) (gorgonia.VM, error) {
	if r.Name == Names[0] {
		return gorgonia.NewTapeMachine(g.ExprGraph), nil
	}
	opts := []vm.Option{vm.Keep(g.Outputs...), vm.Threads(threads), vm.WithContext(ctx)}
	if r.Name == Names[2] {
		opts = append(opts, vm.Freeze(g.Weights...))
	}
	m, err := vm.New(g.ExprGraph, opts...)
	if err != nil {
		return nil, err
	}
	r.Arena = m.Memory().Arena
	return m, nil
}

// time runs passes for a time, five at least, after three that warm up.
func (r *Row) time(pass func() error, seconds float64) error {
	for range 3 {
		if err := pass(); err != nil {
			return err
		}
	}
	var took []time.Duration
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for len(took) < 5 || time.Now().Before(end) {
		begin := time.Now()
		if err := pass(); err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	runtime.ReadMemStats(&after)
	r.Passes = len(took)
	r.Allocs = float64((after.Mallocs - before.Mallocs) / uint64(len(took)))
	slices.Sort(took)
	r.Min, r.Median = took[0], took[len(took)/2]
	return nil
}
