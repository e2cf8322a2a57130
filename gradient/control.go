package gradient

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The derivatives of If, Loop and Scan.
//
// A branch or body is cloned, its reverse is written behind it, and what the reverse does not need dies:
// the nodes of a body are computed again in the backward pass, from what entered it. For loops that is
// the carried values of each iteration, which the forward loop keeps as stacked outputs. The backward pass
// is a Scan over these, from the last iteration to the first:
//
//	forward   s0 ─▶ body ─▶ s1 ─▶ body ─▶ s2         stacked: [s0 s1]
//	back     ds0 ◀─ rev  ◀─ ds1 ◀─ rev  ◀─ ds2       carried: ds, and the sums of what
//	                 ▲               ▲                captured values get
//	                 s0              s1
//
// Memory between the two grows with the carried values alone, not with what a body computes.

func init() {
	rules["If"] = ifGradient
	rules["Loop"] = loopGradient
	rules["Scan"] = scanGradient
}

// ifGradient takes the reverse of the branch that ran.
func ifGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	given := slices.DeleteFunc(slices.Clone(dy), func(d *ssa.Value) bool { return d == nil })
	captured := n.Captured()
	var wanted []int
	for k := range captured {
		if g.wants(n, 1+k) {
			wanted = append(wanted, k)
		}
	}
	m := g.add("If", slices.Concat(n.In, given), len(wanted))
	m.Captures = n.Captures + len(given)
	for i, body := range n.Bodies {
		m.AddBody(n.BodyAttr[i], g.reverseBranch(n, body, dy, wanted))
	}
	if g.err != nil {
		return nil
	}
	g.infer(m)
	out := make([]*ssa.Value, len(n.In))
	for i, k := range wanted {
		out[1+k] = m.Out[i]
	}
	return out
}

// reverseBranch is a branch with its reverse, the adjoints of results as further parameters and those of the
// wanted captured values as results.
func (g *builder) reverseBranch(n *ssa.Node, branch *ssa.Graph, dy []*ssa.Value, wanted []int) *ssa.Graph {
	body := g.clone(branch)
	if body == nil {
		return nil
	}
	b := newBuilder(g.ctx, body, nil)
	b.last = g.last
	for _, k := range wanted {
		b.active[body.Params[k]] = true
	}
	path := slices.Clone(body.Nodes)
	b.markActive(path)
	captures := slices.Clone(body.Params)
	for i, d := range dy {
		if d == nil {
			continue
		}
		seed := parameter(body, fmt.Sprintf("adjoint of result %d", i), d.Type)
		if r := body.Results[i]; b.active[r] {
			b.send(r, seed)
		}
	}
	b.reverse(path)
	body.Results = nil
	for _, k := range wanted {
		body.Results = append(body.Results, b.adjointOr0(captures[k]))
	}
	g.failIn(n, b)
	return body
}

// clone copies a body; nil once the context has ended.
func (g *builder) clone(body *ssa.Graph) *ssa.Graph {
	c, _, err := body.CloneContext(g.ctx)
	if err != nil && g.err == nil {
		g.err = err
	}
	return c
}

// failIn takes over the failure of a body's builder.
func (g *builder) failIn(n *ssa.Node, b *builder) {
	if b.err != nil && g.err == nil {
		g.err = fmt.Errorf("in %s: %w", n, b.err)
	}
}

// iteration is one loop in the backward pass: a clone of its body with the values that enter it.
type iteration struct {
	of       *ssa.Node
	body     *ssa.Graph
	carried  []*ssa.Value // parameters of the body
	slices   []*ssa.Value // parameters of the body that are slices of the operands sliced
	sliced   []*ssa.Value
	axes     []int64 // of sliced
	back     []bool  // whether sliced is walked from its end in the forward pass
	captured []*ssa.Value
	next     []*ssa.Value // results of the body: the next carried values
	outs     []*ssa.Value // results of the body: the stacked outputs
	outAxes  []int64
	outBack  []bool
	operand  func(kind rune, i int) int // position among the node's operands: 'c'arried, 's'liced, 'x' captured
}

// scanGradient keeps the states of a Scan and walks back.
func scanGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	s, err := ops.ScanOf(n)
	if err != nil {
		g.fail(n, err)
		return nil
	}
	body := g.clone(s.Body)
	if body == nil {
		return nil
	}
	it := &iteration{of: n, body: body, carried: body.Params[:s.States:s.States], slices: body.Params[s.States : s.States+s.Ins : s.States+s.Ins],
		sliced: n.In[s.States : s.States+s.Ins : s.States+s.Ins], axes: s.InAxes, back: s.InReverse, captured: slices.Clone(body.Params[s.States+s.Ins:]),
		next: body.Results[:s.States:s.States], outs: slices.Clone(body.Results[s.States:]), outAxes: s.OutAxes, outBack: s.OutReverse}
	it.operand = func(kind rune, i int) int {
		return i + map[rune]int{'c': 0, 's': s.States, 'x': s.States + s.Ins}[kind]
	}
	if known := g.entered[n]; known != nil {
		return g.walkBack(it, known(g), dy)
	}
	return g.walkBack(it, g.stacked(n, s.Body, s.Body.Params[:s.States], s.States+s.Outs), dy)
}

// loopGradient does the same for a Loop: the number of the iteration is stacked as well, if the body reads
// it or nothing else tells how many there were.
func loopGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	s, err := ops.LoopOf(n)
	if err != nil {
		g.fail(n, err)
		return nil
	}
	body := g.clone(s.Body)
	if body == nil {
		return nil
	}
	if cond := body.Params[1]; len(cond.Uses()) > 0 || body.IsResult(cond) { // an iteration that runs was let in
		always := body.AddConst("always", ssa.ScalarConst(true))
		body.ReplaceUses(cond, always)
		body.ReplaceResult(cond, always)
	}
	kept := s.Body.Params[2 : 2+s.Carried : 2+s.Carried]
	it := &iteration{of: n, body: body, carried: slices.Clone(body.Params[2 : 2+s.Carried]), captured: slices.Clone(body.Params[2+s.Carried:]),
		next: body.Results[1 : 1+s.Carried : 1+s.Carried], outs: slices.Clone(body.Results[1+s.Carried:]), outAxes: make([]int64, s.Scans), outBack: make([]bool, s.Scans)}
	it.operand = func(kind rune, i int) int { return i + map[rune]int{'c': 2, 'x': 2 + s.Carried}[kind] }
	total := s.Carried + s.Scans
	if trip := body.Params[0]; len(trip.Uses()) > 0 || body.IsResult(trip) || s.Carried == 0 {
		numbers := g.stacked(n, s.Body, s.Body.Params[:1], total)
		it.slices, it.sliced, it.axes, it.back = []*ssa.Value{trip}, numbers, []int64{0}, []bool{false}
		total++
	}
	return g.walkBack(it, g.stacked(n, s.Body, kept, total), dy)
}

// stacked lets a loop stack parameters of its body; total is how many results the node has at most so far.
func (g *builder) stacked(n *ssa.Node, body *ssa.Graph, params []*ssa.Value, total int) []*ssa.Value {
	for len(n.Out) < total {
		n.Out = append(n.Out, nil)
	}
	var out []*ssa.Value
	for _, p := range params {
		same := body.NewNode("Identity", []*ssa.Value{p}, 1)
		same.Out[0].Type = p.Type
		body.Results = append(body.Results, same.Out[0])
		out = append(out, g.graph.AddOutput(n, fmt.Sprintf("%s_%d stacked %d", n.Op, n.ID, len(n.Out))))
	}
	for _, name := range []string{"scan_output_axes", "scan_output_directions"} {
		if list := ops.Ints(n, name); list != nil {
			n.SetAttr(ssa.IntsAttr(name, append(slices.Clone(list), make([]int64, len(params))...)...))
		}
	}
	g.infer(n)
	return out
}

// walkBack makes the Scan from the last iteration to the first. stacks are the carried values that entered each.
func (g *builder) walkBack(it *iteration, stacks, dy []*ssa.Value) []*ssa.Value {
	b := newBuilder(g.ctx, it.body, nil)
	b.last = g.last
	g.markBody(b, it)
	w := &wayBack{iteration: it, outer: g, b: b, path: slices.Clone(it.body.Nodes)}
	w.seeds(dy)
	b.reverse(w.path)
	w.collect()
	g.failIn(it.of, b)
	if g.err != nil {
		return nil
	}
	return w.scan(stacks, dy)
}

// markBody finds what varies in a body: what depends on active operands, carried values included
// that get active in some iteration.
func (g *builder) markBody(b *builder, it *iteration) {
	for kind, params := range map[rune][]*ssa.Value{'c': it.carried, 's': it.slices, 'x': it.captured} {
		for i, p := range params {
			if (kind != 's' || it.operandIsSliced()) && g.wants(it.of, it.operand(kind, i)) && isSmooth(p) {
				b.active[p] = true
			}
		}
	}
	for again := true; again; {
		again = false
		b.markActive(it.body.Nodes)
		for i, r := range it.next {
			if p := it.carried[i]; b.active[r] && !b.active[p] && isSmooth(p) {
				b.active[p], again = true, true
			}
		}
	}
}

// operandIsSliced reports whether slices are of operands of the node; those of a Loop are numbers of iterations.
func (it *iteration) operandIsSliced() bool { return it.of.Op == "Scan" }

// wayBack is the reverse of an iteration under construction.
type wayBack struct {
	*iteration
	outer *builder
	b     *builder
	path  []*ssa.Node

	states   []int        // carried values with adjoints
	stateIn  []*ssa.Value // their adjoints, parameters
	outSeeds []*ssa.Value // adjoints of slices of stacked outputs, parameters
	outIndex []int
	sums     []int        // captured values with adjoints
	sumIn    []*ssa.Value // their sums so far, parameters
	results  []*ssa.Value
	sliceOf  []int // sliced operands with adjoints
}

// seeds adds the adjoints that enter an iteration.
func (w *wayBack) seeds(dy []*ssa.Value) {
	for i, p := range w.carried {
		if w.b.active[p] {
			d := parameter(w.body, fmt.Sprintf("adjoint of carried %d", i), p.Type)
			w.states, w.stateIn = append(w.states, i), append(w.stateIn, d)
		}
	}
	for k, r := range w.outs {
		if at := len(w.carried) + k; at < len(dy) && dy[at] != nil && w.b.active[r] {
			d := parameter(w.body, fmt.Sprintf("adjoint of output %d", k), r.Type)
			w.outSeeds, w.outIndex = append(w.outSeeds, d), append(w.outIndex, k)
			w.b.send(r, d)
		}
	}
	for j, i := range w.states {
		if r := w.next[i]; w.b.active[r] {
			w.b.send(r, w.stateIn[j])
		}
	}
}

// collect makes the adjoints of what entered the iteration the body's results.
func (w *wayBack) collect() {
	for _, i := range w.states {
		w.results = append(w.results, w.b.adjointOr0(w.carried[i]))
	}
	for k, p := range w.captured {
		d := w.b.adj[p]
		if d == nil {
			continue
		}
		sum := parameter(w.body, fmt.Sprintf("sum for captured %d", k), p.Type)
		w.sums, w.sumIn = append(w.sums, k), append(w.sumIn, sum)
		w.results = append(w.results, w.b.op("Add", sum, d))
	}
	for k, p := range w.slices {
		if w.b.adj[p] != nil {
			w.sliceOf = append(w.sliceOf, k)
			w.results = append(w.results, w.b.adj[p])
		}
	}
	w.body.Results = w.results
}

// scan makes the node.
func (w *wayBack) scan(stacks, dy []*ssa.Value) []*ssa.Value {
	g, n := w.outer, w.of
	w.body.Params = slices.Concat(w.stateIn, w.sumIn, w.carried, w.slices, w.outSeeds, w.captured)
	var in []*ssa.Value
	for _, i := range w.states {
		if i < len(dy) && dy[i] != nil {
			in = append(in, dy[i])
		} else {
			in = append(in, g.filled(n.In[w.operand('c', i)], 0))
		}
	}
	for _, k := range w.sums {
		in = append(in, g.filled(n.In[w.operand('x', k)], 0))
	}
	axes, dirs := make([]int64, len(stacks)), slices.Repeat([]int64{1}, len(stacks))
	in = slices.Concat(in, stacks, w.sliced)
	for k := range w.sliced {
		axes, dirs = append(axes, w.axes[k]), append(dirs, opposite(w.back[k]))
	}
	for _, k := range w.outIndex {
		in = append(in, dy[len(w.carried)+k])
		axes, dirs = append(axes, w.outAxes[k]), append(dirs, opposite(w.outBack[k]))
	}
	var outAxes, outDirs []int64
	for _, k := range w.sliceOf {
		outAxes, outDirs = append(outAxes, w.axes[k]), append(outDirs, opposite(w.back[k]))
	}
	if len(axes) == 0 {
		g.refuse(n, "no value of an iteration is known in the backward pass", "")
		return nil
	}
	m := g.add("Scan", append(in, n.Captured()...), len(w.results), ssa.IntAttr("num_scan_inputs", int64(len(axes))),
		ssa.IntsAttr("scan_input_axes", axes...), ssa.IntsAttr("scan_input_directions", dirs...))
	if len(outAxes) > 0 {
		m.SetAttr(ssa.IntsAttr("scan_output_axes", outAxes...))
		m.SetAttr(ssa.IntsAttr("scan_output_directions", outDirs...))
	}
	m.Captures = n.Captures
	nameApart(w.body)
	m.AddBody("body", w.body)
	g.infer(m)
	return w.distribute(m)
}

// nameApart renames results of nodes that are called as values before them: a body that computes an iteration again has the names of
// the first.
func nameApart(g *ssa.Graph) {
	seen := map[string]bool{}
	for _, v := range g.Values() {
		for v.Def != nil && seen[v.Name] {
			v.Name += fmt.Sprintf(" %d", v.ID)
		}
		seen[v.Name] = true
	}
}

// distribute gives the results of the Scan to the operands of the loop.
func (w *wayBack) distribute(m *ssa.Node) []*ssa.Value {
	out, r := make([]*ssa.Value, len(w.of.In)), m.Out
	for _, part := range []struct {
		kind rune
		of   []int
	}{{'c', w.states}, {'x', w.sums}, {'s', w.sliceOf}} {
		for j, i := range part.of {
			out[w.operand(part.kind, i)] = r[j]
		}
		r = r[len(part.of):]
	}
	return out
}

// opposite is the direction against one.
func opposite(back bool) int64 {
	if back {
		return 0
	}
	return 1
}

// parameter adds a parameter to a body, with a name that no value of it has: bodies of derivatives are differentiated, too.
func parameter(body *ssa.Graph, name string, t ssa.Type) *ssa.Value {
	for slices.ContainsFunc(body.Values(), func(v *ssa.Value) bool { return v != nil && v.Name == name }) {
		name += "'"
	}
	return body.AddParam(name, t)
}
