package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

type inspectFlags struct {
	node string
	html string
	text bool
}

func (a *app) inspectCmd() *cobra.Command {
	var f inspectFlags
	c := &cobra.Command{Use: "inspect MODEL", Short: "Show what is in a model", Args: exactArgs(1, "one model"),
		Long: "Inspect prints inputs, outputs, operators, weights, the memory timeline and what is dynamic and why.\n" +
			"It works on models that can not be run, too. --node shows one node; --html writes the memory map.",
		Example: "  berth inspect model.onnx --shape x=1x3x224x224 --html map.html\n  berth inspect builtin:lstm-loop --text",
		RunE:    func(c *cobra.Command, args []string) error { return about(args[0], a.inspect(c.Context(), args[0], f)) }}
	c.Flags().StringVar(&f.node, "node", "", "show one node, by name or by one of its results")
	c.Flags().StringVar(&f.html, "html", "", "write the memory map as a page")
	c.Flags().BoolVar(&f.text, "text", false, "print the graph as text")
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
	Kernels   int              `json:"kernels"`      // distinct ones, of nodes with known shapes
	Compiled  int              `json:"kernel_nodes"` // nodes that run them
	Packed    map[string]int64 `json:"packed_bytes"` // weights as kernels read them, by layout
	Dynamic   []dynamicJSON    `json:"dynamic"`
	Warnings  []string         `json:"warnings,omitempty"`
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

func (a *app) inspect(ctx context.Context, model string, f inspectFlags) error {
	opts, err := a.options(f.html)
	if err != nil {
		return err
	}
	m, err := a.openLenient(model)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.checkNames(m); err != nil {
		return err
	}
	have, err := a.inputsOf(model)
	if err != nil {
		return err
	}
	opts = append(shapesIn(have), opts...)
	g, warnings, err := a.folded(ctx, m, opts)
	if err != nil {
		return err
	}
	if f.node != "" {
		return a.inspectNode(g, f.node)
	}
	if f.text {
		return a.printText(g)
	}
	res := a.describe(model, m, g)
	res.Warnings = warnings
	if row, ok := planOf(ctx, m, berth.DefaultPlanner(), cmp.Or(a.schedule, berth.Schedules()[0]), opts); ok {
		res.Arena, res.Bound = row.ArenaBytes, row.LowerBound
	}
	if p, err := m.Compile(ctx, opts...); err == nil {
		plan := p.Plan()
		res.Kernels, res.Compiled, res.Packed = plan.Kernels, plan.KernelNodes, plan.Packed
	}
	if f.html != "" {
		p, err := m.Compile(ctx, append(opts, berth.WithoutPasses())...)
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
	a.printInspect(res)
	return nil
}

// planOf is one planner's plan for one order of a model, if there is one.
func planOf(ctx context.Context, m *berth.Model, planner, order string, opts []berth.Option) (row berth.PlanRow, ok bool) {
	rows, err := m.Compare(ctx, berth.CompareOptions{Planners: []string{planner}, Schedules: []string{order}}, opts...)
	if err != nil || len(rows) != 1 {
		return row, false
	}
	return rows[0], rows[0].Err == nil
}

// folded works the shapes out; a model that does not allow it is shown as it is,
// with a warning. Shapes given by flags that do not fit are an error.
func (a *app) folded(ctx context.Context, m *berth.Model, opts []berth.Option) (*ssa.Graph, []string, error) {
	g, err := m.Folded(ctx, opts...)
	if err == nil {
		return g, m.Warnings(), nil
	}
	if ctx.Err() != nil || len(a.shapes) > 0 || len(a.dims) > 0 || a.data != "" {
		return nil, nil, err
	}
	why := err.Error()
	if pe := (*ops.PanicError)(nil); errors.As(err, &pe) {
		why = "its nodes do not fit together"
	}
	return m.Graph(), append(slices.Clip(m.Warnings()), "the model can not be run: "+why), nil
}

func (a *app) describe(model string, m *berth.Model, g *ssa.Graph) inspectJSON {
	st := berth.StatsOf(g)
	res := inspectJSON{Model: model, Opsets: map[string]int{}, Nodes: st.Nodes, Operators: st.Operators, Weights: st.WeightBytes,
		FLOPs: st.FLOPs, Inputs: portsOf(g.Params), Outputs: portsOf(g.Results), Dynamic: dynamicValues(g)}
	for _, o := range m.Opsets() {
		res.Opsets[o.Domain] = o.Version
	}
	return res
}

// dynamicValues lists values without a known size whose node's operands all have
// one: where being dynamic starts.
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
	fmt.Fprintf(a.out, "%s\n", r.Model)
	t := newTable(a.out, "port", "name", "type")
	for _, p := range r.Inputs {
		t.AppendRow([]any{"input", p.Name, p.Type})
	}
	for _, p := range r.Outputs {
		t.AppendRow([]any{"output", p.Name, p.Type})
	}
	t.Render()
	fmt.Fprintf(a.out, "\n%d nodes, weights %s, %s FLOPs, arena %s (lower bound %s)\n\n", r.Nodes, bytesText(r.Weights), countText(r.FLOPs), bytesText(r.Arena), bytesText(r.Bound))
	if r.Compiled > 0 {
		fmt.Fprintf(a.out, "compiled: %d nodes run %d distinct kernels; weights packed: %s\n\n", r.Compiled, r.Kernels, packedText(r.Packed))
	}
	byCount := func(x, y string) int { return cmp.Or(r.Operators[y]-r.Operators[x], cmp.Compare(x, y)) }
	t = newTable(a.out, "operator", "nodes")
	alignRight(t, 2)
	for _, k := range slices.SortedFunc(maps.Keys(r.Operators), byCount) {
		t.AppendRow([]any{k, r.Operators[k]})
	}
	t.Render()
	if len(r.Dynamic) > 0 {
		fmt.Fprintln(a.out, "\nsizes known only while running start at:")
		t = newTable(a.out, "value", "node", "type", "why")
		for _, d := range r.Dynamic {
			t.AppendRow([]any{d.Value, d.Node, d.Type, d.Why})
		}
		t.Render()
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(a.out, "warning:", w)
	}
}

// openLenient opens a model that may not be fit to run.
func (a *app) openLenient(model string) (*berth.Model, error) {
	if strings.HasPrefix(model, "builtin:") {
		return a.open(model)
	}
	m, err := berth.OpenLenient(model, a.openOptions()...)
	if err != nil {
		return nil, modelError(model, err)
	}
	return m, nil
}
