package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/borrow"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

type inspectFlags struct {
	node    string
	html    string
	text    bool
	backend string
}

func (a *app) inspectCmd() *cobra.Command {
	var f inspectFlags
	c := modelCommand("inspect MODEL", "Show what is in a model",
		"Inspect prints inputs, outputs, operators, weights, the memory timeline and what is dynamic and why.\n"+
			"It works on models that can not be run, too. --node shows one node; --html writes the memory map.\n"+
			"--backend cuda, or cuda-sim where there is no GPU, tells which nodes stay on the host, and what is copied for them.",
		"  berth inspect model.onnx --shape x=1x3x224x224 --html map.html\n  berth inspect builtin:lstm-loop --text",
		func(c *cobra.Command, model string) error { return a.inspect(c.Context(), model, f) })
	c.Flags().StringVar(&f.node, "node", "", "show one node, by name or by one of its results")
	c.Flags().StringVar(&f.html, "html", "", "write the memory map as a page")
	c.Flags().BoolVar(&f.text, "text", false, "print the graph as text")
	a.backendFlags(c, &f.backend)
	a.dataFlag(c)
	return c
}

// inspectJSON is the object printed by inspect.
type inspectJSON struct {
	Model     string           `json:"model"`
	Opsets    map[string]int   `json:"opsets"`
	Inputs    []portJSON       `json:"inputs"`
	Outputs   []portJSON       `json:"outputs"`
	Nodes     int              `json:"nodes"`
	Operators map[string]int   `json:"operators"`
	Weights   int64            `json:"weight_bytes"`
	FLOPs     int64            `json:"flops"`
	Arena     int64            `json:"arena_bytes"`
	Bound     int64            `json:"lower_bound_bytes"`
	Program   int64            `json:"program_bytes"` // arena of the compiled program: operators fused, kernels' workspace included
	Kernels   int              `json:"kernels"`       // distinct ones, of nodes with known shapes
	Compiled  int              `json:"kernel_nodes"`  // nodes that run them
	Copied    int64            `json:"loop_copy_bytes_per_iteration"`
	Unsized   int              `json:"dynamic_values"` // whose size is known only while running: in no figure
	Packed    map[string]int64 `json:"packed_bytes"`   // weights as kernels read them, by layout
	Dynamic   []dynamicJSON    `json:"dynamic"`
	Device    *placementJSON   `json:"device,omitempty"` // with --backend of a device
	Warnings  []string         `json:"warnings,omitempty"`
	advice    string           // on Unsized
}

type portJSON struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type dynamicJSON struct {
	Value string `json:"value"`
	Node  string `json:"node"`
	Type  string `json:"type"`
	Why   string `json:"why"`
}

// spaceBetween is by how much the heap may grow from one collection to the next where the budget is eight times that or more. What
// inspect makes of a large model is in use almost to the end: collections find little.
const spaceBetween = 2 << 30

func (a *app) inspect(ctx context.Context, model string, f inspectFlags) error {
	if n := f.node != ""; n && (f.text || f.html != "") || f.text && f.html != "" {
		return usagef("only one of --node, --text and --html can be shown")
	}
	if err := a.checkBackend(f.backend); err != nil {
		return err
	}
	a.collector.space(min(spaceBetween, a.memory.Bytes()/8))
	m, have, opts, err := a.opened(model, true, f.html)
	if err != nil {
		return err
	}
	defer m.Close()
	opts = append(shapesIn(have), opts...)
	if f.node != "" || f.text {
		return a.inspectGraph(ctx, m, f, opts)
	}
	res, err := a.described(ctx, model, m, opts)
	if err != nil {
		return err
	}
	if f.backend != "cpu" {
		p, err := m.Compile(ctx, append(slices.Clip(opts), a.on(f.backend)...)...)
		if err != nil {
			return err
		}
		res.Device = placement(p, f.backend)
	}
	if f.html != "" { // the same plan as Arena: no operators fused, no workspace
		p, err := m.Compile(ctx, append(opts, berth.WithoutPasses(), berth.WithBackend("reference"))...)
		if err != nil {
			return err
		}
		if err := safefile.Write(f.html, p.WriteMemoryMap); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(res)
	}
	res.advice = a.sizeAdvice(m, have)
	a.printInspect(res)
	return nil
}

// perNode is about how many bytes of graphs and plans there are for each node of a model while it is planned and compiled at the same time.
const perNode = 4 << 10

// described is what inspect says of a model: its contents, its memory plan and its compiled program. The program does not
// depend on the plan: with a second core both are made at the same time, unless memory for both is lacking.
func (a *app) described(ctx context.Context, model string, m *berth.Model, opts []berth.Option) (inspectJSON, error) {
	if runtime.GOMAXPROCS(0) == 1 || a.dump != nil || a.memory.Bytes() < perNode*int64(m.Contents().Nodes) {
		return a.describedInTurn(ctx, model, m, opts)
	}
	compiling, cancel := context.WithCancel(borrow.Describing(ctx))
	defer cancel()
	type outcome struct {
		p   *berth.Program
		err error
	}
	compiled := make(chan outcome, 1)
	go func() {
		p, err := m.Compile(compiling, opts...)
		compiled <- outcome{p, err}
	}()
	res, unplanned, err := a.planned(ctx, model, m, opts)
	if err != nil {
		cancel()
	}
	program := <-compiled
	if lacksMemory(unplanned) || lacksMemory(program.err) {
		return a.describedInTurn(ctx, model, m, opts)
	}
	res.compiled(program.p)
	return res, cmp.Or(err, cutShort(ctx, program.err))
}

// cutShort is the error of a context that has ended what gave another error. Other errors of compiling say that a model can not be run:
// it is described without.
func cutShort(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return ctx.Err()
}

// lacksMemory reports an error of the limit --max-memory.
func lacksMemory(err error) bool {
	full := (*ops.MemoryError)(nil)
	return errors.As(err, &full)
}

// describedInTurn is described with one thing done after the other.
func (a *app) describedInTurn(ctx context.Context, model string, m *berth.Model, opts []berth.Option) (inspectJSON, error) {
	res, unplanned, err := a.planned(ctx, model, m, opts)
	if err != nil {
		return res, err
	}
	p, uncompiled := m.Compile(borrow.Describing(ctx), opts...)
	res.compiled(p)
	if err := cutShort(ctx, uncompiled); err != nil {
		return res, err
	}
	if lacksMemory(unplanned) {
		res.Warnings = append(slices.Clip(res.Warnings), "the memory plan is left out: "+unplanned.Error())
	}
	if lacksMemory(uncompiled) {
		res.Warnings = append(slices.Clip(res.Warnings), "the compiled program is left out: "+uncompiled.Error())
	}
	return res, nil
}

// compiled adds what a compiled program tells, nil for a model that can not be run.
func (r *inspectJSON) compiled(p *berth.Program) {
	if p != nil {
		plan := p.Plan()
		r.Kernels, r.Compiled, r.Packed, r.Program = plan.Kernels, plan.KernelNodes, plan.Packed, plan.ArenaBytes
	}
}

// inspectGraph prints the graph, or one node of it, whose neighbours do not depend on the order.
func (a *app) inspectGraph(ctx context.Context, m *berth.Model, f inspectFlags, opts []berth.Option) error {
	if f.node != "" {
		opts = append(slices.Clip(opts), berth.WithSchedule("file"))
	}
	g, err := m.Folded(ctx, opts...)
	if err != nil {
		if g, _, err = a.unfolded(ctx, m, err); err != nil {
			return err
		}
	}
	if f.node != "" {
		return a.inspectNode(g, f.node)
	}
	return a.printText(ctx, g)
}

// planned describes the model and its memory plan, both from one lowering. unplanned says why there is no plan.
func (a *app) planned(ctx context.Context, model string, m *berth.Model, opts []berth.Option) (res inspectJSON, unplanned, err error) {
	shown := false
	row, unplanned := a.planOf(ctx, m, opts, func(g *ssa.Graph) { res, shown = a.describe(model, m, g), true })
	res.Warnings = m.Warnings()
	if ctx.Err() != nil { // the plan was cut short, not refused
		return res, unplanned, cmp.Or(unplanned, ctx.Err())
	}
	if !shown {
		g, warnings, err := a.unfolded(ctx, m, unplanned)
		if err != nil {
			return res, unplanned, err
		}
		res = a.describe(model, m, g)
		res.Warnings = warnings
	}
	if unplanned == nil {
		res.Arena, res.Bound, res.Copied, res.Unsized = row.ArenaBytes, row.LowerBound, row.LoopCopyBytes, row.Dynamic
	}
	return res, unplanned, nil
}

// planOf is the plan of the planner and order asked for, or else of the defaults, if there is one: the arena that every
// command means when it speaks of a model's. folded is given the graph that is planned.
func (a *app) planOf(ctx context.Context, m *berth.Model, opts []berth.Option, folded func(*ssa.Graph)) (berth.PlanRow, error) {
	co := berth.CompareOptions{Planners: []string{cmp.Or(a.planner, berth.DefaultPlanner())}, Schedules: []string{cmp.Or(a.schedule, berth.Schedules()[0])}, Folded: folded}
	rows, err := m.Compare(ctx, co, opts...)
	if err != nil {
		return berth.PlanRow{}, err
	}
	return rows[0], rows[0].Err
}

// unfolded is for a model whose shapes can not be inferred: it is shown as it is, with a warning. Shapes given by flags that
// do not fit are an error, and so is a lack of memory for the graph.
func (a *app) unfolded(ctx context.Context, m *berth.Model, err error) (*ssa.Graph, []string, error) {
	if ctx.Err() != nil || lacksMemory(err) || len(a.shapes) > 0 || len(a.dims) > 0 || a.data != "" {
		return nil, nil, err
	}
	why := err.Error()
	if pe := (*ops.PanicError)(nil); errors.As(err, &pe) {
		why = "its nodes do not fit together"
	}
	return m.Graph(), append(slices.Clip(m.Warnings()), "the model can not be run: "+why), nil
}

func (a *app) describe(model string, m *berth.Model, g *ssa.Graph) inspectJSON {
	st := m.Contents()
	res := inspectJSON{Model: model, Opsets: map[string]int{}, Nodes: st.Nodes, Operators: st.Operators, Weights: st.WeightBytes,
		FLOPs: berth.StatsOf(g).FLOPs, Inputs: portsOf(g.Params), Outputs: portsOf(g.Results), Dynamic: dynamicValues(g)}
	for _, o := range m.Metadata().Opsets {
		res.Opsets[o.Domain] = o.Version
	}
	return res
}

// dynamicValues lists the values of unknown size that a node makes from operands of known size or from open inputs.
func dynamicValues(g *ssa.Graph) []dynamicJSON {
	out := []dynamicJSON{}
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			for _, v := range n.Out {
				if v == nil || v.Type.IsStatic() {
					continue
				}
				if why, starts := whyDynamic(n); starts {
					out = append(out, dynamicJSON{v.Name, n.String(), v.Type.String(), why})
				}
			}
		}
	})
	return out
}

func whyDynamic(n *ssa.Node) (why string, starts bool) {
	if n.Opaque {
		return "berth does not know this operator", true
	}
	var open []string
	for _, v := range n.In {
		if v != nil && !v.Type.IsStatic() {
			open = append(open, v.Name)
			if !v.IsParam() {
				return "", false
			}
		}
	}
	if len(open) > 0 {
		return "input " + strings.Join(open, ", ") + " has open dimensions", true
	}
	return "its size depends on the values of its operands", true
}

func (a *app) printInspect(r inspectJSON) {
	a.printf("%s\n", r.Model)
	t := newTable(a.out, "port", "name", "type")
	appendPorts(t, "input", r.Inputs)
	appendPorts(t, "output", r.Outputs)
	t.Render()
	a.printf("\n%d nodes, weights %s, %s FLOPs, arena %s (lower bound %s)\n\n", r.Nodes, bytesText(r.Weights), countText(r.FLOPs), bytesText(r.Arena), bytesText(r.Bound))
	if r.Unsized > 0 {
		a.printf("%s\n\n", unsizedText(r.Unsized, r.advice))
	}
	if r.Copied > 0 {
		a.printf("loops: one iteration copies up to %s\n\n", bytesText(r.Copied))
	}
	if r.Compiled > 0 {
		a.printf("compiled%s: %d nodes run %d distinct kernels; arena with workspace, operators fused, %s; weights packed: %s\n\n",
			word(r.Device == nil, "", " for the CPU"), r.Compiled, r.Kernels, bytesText(r.Program), packedText(r.Packed))
	}
	a.printPlacement(r.Device)
	byCount := func(x, y string) int { return cmp.Or(r.Operators[y]-r.Operators[x], cmp.Compare(x, y)) }
	t = newTable(a.out, "operator", "nodes")
	alignRight(t, 2)
	for _, k := range slices.SortedFunc(maps.Keys(r.Operators), byCount) {
		t.AppendRow([]any{k, r.Operators[k]})
	}
	t.Render()
	if len(r.Dynamic) > 0 {
		a.printf("\nsizes known only while running start at:\n")
		t = newTable(a.out, "value", "node", "type", "why")
		for _, d := range r.Dynamic {
			t.AppendRow([]any{d.Value, d.Node, d.Type, d.Why})
		}
		t.Render()
	}
	for _, w := range r.Warnings {
		a.printf("warning: %s\n", w)
	}
}
