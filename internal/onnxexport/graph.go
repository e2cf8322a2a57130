package onnxexport

import (
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// mainGraph writes the model's graph. Inputs and outputs are named before all other values.
func (x *exporter) mainGraph() (*onnxwire.Graph, error) {
	g, c := x.mod.Graph, x.carried.Graph
	out := &onnxwire.Graph{Name: c.Name, DocString: c.DocString, MetadataProps: c.MetadataProps, Extra: c.Extra}
	if out.Name == "" {
		out.Name = "main" // a graph must have a name
	}
	scope := newNames(nil)
	for _, p := range g.Params {
		if err := x.opts.Context.Err(); err != nil {
			return nil, err
		}
		x.names[p] = scope.fresh(p.Name)
	}
	outputs := x.outputNames()
	for _, name := range outputs {
		scope.taken[name] = true
	}
	x.nameResults(g, outputs)
	if err := x.opts.Context.Err(); err != nil {
		return nil, err
	}
	declared := map[string]*onnxwire.ValueInfo{}
	for _, in := range x.carried.Graph.Inputs {
		declared[in.Name] = in
	}
	for _, p := range g.Params {
		if err := x.opts.Context.Err(); err != nil {
			return nil, err
		}
		out.Inputs = append(out.Inputs, x.inputInfo(p, declared[p.Name]))
		if def := x.mod.Defaults[p.Name]; def != nil {
			t, err := x.tensor(x.names[p], def)
			if err != nil {
				return nil, err
			}
			out.Initializers = append(out.Initializers, t)
		}
	}
	if err := x.define(g, out, scope); err != nil {
		return nil, err
	}
	if err := x.fill(g, out, scope); err != nil {
		return nil, err
	}
	for i, r := range g.Results {
		if err := x.opts.Context.Err(); err != nil {
			return nil, err
		}
		out.Outputs = append(out.Outputs, x.outputInfo(i, outputs[i], r))
		if name := x.names[r]; name != outputs[i] {
			out.Nodes = append(out.Nodes, x.identity(r, name, outputs[i]))
		}
	}
	out.QuantizationAnnotations = keepAnnotations(c.QuantizationAnnotations, scope)
	return out, nil
}

// outputNames returns the names of the model's outputs, each once; fewer once the context has ended.
func (x *exporter) outputNames() []string {
	out := make([]string, len(x.mod.Graph.Results))
	free := newNames(nil)
	for i := range out {
		if ended(x.opts.Context, i) {
			break
		}
		out[i] = free.fresh(x.mod.OutputName(i))
	}
	return out
}

// nameResults gives the value of each output the output's name, unless it has one already or is a constant that another
// graph or value shares. It names no more of them once the context has ended.
func (x *exporter) nameResults(g *ssa.Graph, outputs []string) {
	var values map[*ssa.Constant]int
	for i, r := range g.Results {
		if x.opts.Context.Err() != nil {
			return
		}
		here := r.Const != nil && x.consts[r.Const].graph == g
		if here && values == nil {
			values = valuesOf(constantsOf(x.opts.Context, g))
		}
		if x.names[r] == "" && (r.Const == nil || here && values[r.Const] == 1) {
			x.names[r] = outputs[i]
		}
	}
}

// valuesOf counts the values that have each constant.
func valuesOf(constants []*ssa.Value) map[*ssa.Constant]int {
	n := make(map[*ssa.Constant]int, len(constants))
	for _, v := range constants {
		n[v.Const]++
	}
	return n
}

// checkedNodes is after how many nodes the memory that their messages take is measured.
const checkedNodes = 4096

// define names everything a graph defines and writes its constants. Names are taken before those of the bodies of its
// nodes are, which must differ from them.
func (x *exporter) define(g *ssa.Graph, out *onnxwire.Graph, scope *names) error {
	if err := x.constants(g, out, scope); err != nil {
		return err
	}
	for _, v := range constantsOf(x.opts.Context, g) {
		if err := x.opts.Context.Err(); err != nil {
			return err
		}
		x.names[v] = x.consts[v.Const].name
	}
	for _, n := range g.Nodes {
		if err := x.opts.Context.Err(); err != nil {
			return err
		}
		for i, v := range n.Out {
			if ended(x.opts.Context, i) {
				return x.opts.Context.Err()
			}
			if v != nil && x.names[v] == "" {
				x.names[v] = scope.fresh(v.Name)
			}
		}
	}
	return nil
}

// fill writes the nodes of a graph.
func (x *exporter) fill(g *ssa.Graph, out *onnxwire.Graph, scope *names) error {
	for i, n := range g.Nodes {
		err := x.opts.Context.Err()
		if err == nil && i%checkedNodes == checkedNodes-1 {
			err = ndarray.BudgetOf(x.opts.Context).CheckContext(x.opts.Context, "the messages of the nodes")
		}
		if err != nil {
			return err
		}
		w, err := x.node(n, scope)
		if err != nil {
			return err
		}
		out.Nodes = append(out.Nodes, w)
		out.ValueInfo = append(out.ValueInfo, x.valueInfo(g, n)...)
	}
	return nil
}

// body writes a body of node n. Loops need the shapes of their bodies' inputs
// and outputs; those of branches are left to the reader's own inference, which
// may differ in a branch that never runs.
func (x *exporter) body(n *ssa.Node, g *ssa.Graph, around *names) (*onnxwire.Graph, error) {
	x.path = append(x.path, n.String())
	defer func() { x.path = x.path[:len(x.path)-1] }()
	captured := n.Captured()
	out := &onnxwire.Graph{Name: g.Name, DocString: g.Doc}
	if out.Name == "" {
		out.Name = "body"
	}
	scope := newNames(around)
	formal := g.Params[:len(g.Params)-len(captured)]
	for _, p := range formal {
		if err := x.opts.Context.Err(); err != nil {
			return nil, err
		}
		x.names[p] = scope.fresh(p.Name)
		out.Inputs = append(out.Inputs, info(x.names[p], x.typeOf(p), p.Doc))
	}
	for i, p := range g.Params[len(formal):] {
		x.names[p] = x.names[captured[i]]
	}
	if err := x.define(g, out, scope); err != nil {
		return nil, err
	}
	results, err := x.resultNames(n, g, formal, scope)
	if err != nil {
		return nil, err
	}
	if err := x.fill(g, out, scope); err != nil {
		return nil, err
	}
	for i, r := range g.Results {
		if err := x.opts.Context.Err(); err != nil {
			return nil, err
		}
		name := results[i]
		if name != x.names[r] {
			out.Nodes = append(out.Nodes, x.identity(r, x.names[r], name))
		}
		t := x.typeOf(r)
		if n.Op == "If" {
			t = withoutShape(t)
		}
		w := info(name, t, r.Doc)
		if o := declaredResult(n, g, i); o != nil && !isTyped(t) {
			w.Type = o.Type
		}
		out.Outputs = append(out.Outputs, w)
	}
	return out, nil
}

// resultNames returns the names of a body's results: those of the values, or others, which an Identity gives, where a value
// is given twice, is not the body's own or passes a parameter on.
func (x *exporter) resultNames(n *ssa.Node, g *ssa.Graph, formal []*ssa.Value, scope *names) ([]string, error) {
	out, params := make([]string, len(g.Results)), map[*ssa.Value]int{}
	for i, p := range formal {
		params[p] = i
	}
	seen := map[string]bool{}
	for i, r := range g.Results {
		if err := x.opts.Context.Err(); err != nil {
			return nil, err
		}
		out[i] = x.names[r]
		k, given := params[r]
		if seen[out[i]] || !scope.taken[out[i]] || given && passes(n, k, i, len(formal)) {
			out[i] = scope.fresh(r.Name)
		}
		seen[out[i]] = true
	}
	return out, nil
}

// passes reports that parameter k, of some parameters, of a Loop's or Scan's body is its result i, but not as the state that
// it is. ONNX Runtime 1.32 delivers other values then, unless an Identity is between: it counts the number of the iteration up
// in place, and writes a state where the one before lies.
func passes(n *ssa.Node, k, i, params int) bool {
	switch {
	case n.Domain != "" || n.Opaque:
		return false
	case n.Op == "Loop":
		return k != i+1
	}
	return n.Op == "Scan" && (k != i || i >= params-int(ops.Int(n, "num_scan_inputs")))
}

// declaredResult is what the file said of result i of a body of an operator that
// is not known: what feeds such a body has no type to infer from.
func declaredResult(n *ssa.Node, g *ssa.Graph, i int) *onnxwire.ValueInfo {
	origin, _ := n.Origin.(*onnxwire.Node)
	if !n.Opaque || origin == nil {
		return nil
	}
	name, _, _ := strings.Cut(n.BodyAttr[slices.Index(n.Bodies, g)], "[")
	for _, a := range origin.Attributes {
		if a.Name == name && a.G != nil && i < len(a.G.Outputs) {
			return a.G.Outputs[i]
		}
	}
	return nil
}

// identity passes a value on under another name.
func (x *exporter) identity(v *ssa.Value, from, to string) *onnxwire.Node {
	since := 1
	switch v.Type.Kind {
	case ssa.KindSequence:
		since = 14
	case ssa.KindOptional:
		since = 16
	}
	x.opsets.require(since, "Identity")
	return &onnxwire.Node{OpType: "Identity", Inputs: []string{from}, Outputs: []string{to}}
}

// keepAnnotations drops quantization annotations of values that are gone.
func keepAnnotations(list []*onnxwire.TensorAnnotation, scope *names) []*onnxwire.TensorAnnotation {
	var out []*onnxwire.TensorAnnotation
	for _, a := range list {
		keep := scope.taken[a.TensorName]
		for _, p := range a.QuantParameterTensorNames {
			keep = keep && scope.taken[p.Value]
		}
		if keep {
			out = append(out, a)
		}
	}
	return out
}
