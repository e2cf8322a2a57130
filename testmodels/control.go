package testmodels

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// body starts a body of a node: a builder for it, with one parameter per name.
func body(name string, params ...string) (*builder, []*ssa.Value) {
	b := newBuilder(name)
	for _, p := range params {
		b.g.AddParam(p, ssa.Type{})
	}
	return b, b.g.Params
}

// names returns prefix0, prefix1, … for n values.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}

// control adds a control-flow node without its bodies.
func (b *builder) control(op string, in, captured []*ssa.Value, outs int, attrs ...ssa.Attr) *ssa.Node {
	n := b.nodes(op, slices.Concat(in, captured), outs, attrs...)[0].Def
	n.Captures = len(captured)
	return n
}

// branchFunc builds a branch from the captured values as the branch knows them.
type branchFunc func(b *builder, captured []*ssa.Value) []*ssa.Value

// branch adds an If with the given captured values.
func (b *builder) branch(cond *ssa.Value, captured []*ssa.Value, then, otherwise branchFunc) []*ssa.Value {
	t, caps := body("then", names("capture", len(captured))...)
	t.g.Results = then(t, caps)
	e, caps := body("else", names("capture", len(captured))...)
	e.g.Results = otherwise(e, caps)
	n := b.control("If", []*ssa.Value{cond}, captured, len(t.g.Results))
	n.AddBody("then_branch", t.g)
	n.AddBody("else_branch", e.g)
	return n.Out
}

// repeated is a Loop's body while it is built.
type repeated struct {
	*builder
	iter, cond        *ssa.Value
	carried, captured []*ssa.Value

	while  *ssa.Value   // condition of the next iteration; nil passes cond on
	next   []*ssa.Value // what is carried into the next iteration
	slices []*ssa.Value // what is stacked
}

// loop adds a Loop; trips and cond may be nil. It returns the final carried
// values and then the stacked ones.
func (b *builder) loop(trips, cond *ssa.Value, carried, captured []*ssa.Value, build func(*repeated)) []*ssa.Value {
	params := append([]string{"iteration", "go_on"}, names("carried", len(carried))...)
	in, p := body("loop", append(params, names("capture", len(captured))...)...)
	r := &repeated{builder: in, iter: p[0], cond: p[1], carried: p[2 : 2+len(carried)], captured: p[2+len(carried):]}
	build(r)
	if r.while == nil {
		r.while = r.cond
	}
	in.g.Results = slices.Concat([]*ssa.Value{r.while}, r.next, r.slices)
	n := b.control("Loop", append([]*ssa.Value{trips, cond}, carried...), captured, len(r.next)+len(r.slices))
	n.AddBody("body", in.g)
	return n.Out
}

// scanned is a Scan's body while it is built.
type scanned struct {
	*builder
	states, slices, captured []*ssa.Value

	next, outs []*ssa.Value
}

// scan adds a Scan over the inputs and returns the final states and then the
// stacked outputs.
func (b *builder) scan(states, inputs, captured []*ssa.Value, build func(*scanned), attrs ...ssa.Attr) []*ssa.Value {
	params := append(names("state", len(states)), names("slice", len(inputs))...)
	in, p := body("scan", append(params, names("capture", len(captured))...)...)
	k := len(states) + len(inputs)
	s := &scanned{builder: in, states: p[:len(states)], slices: p[len(states):k], captured: p[k:]}
	build(s)
	in.g.Results = slices.Concat(s.next, s.outs)
	attrs = append(attrs, ssa.IntAttr("num_scan_inputs", int64(len(inputs))))
	n := b.control("Scan", slices.Concat(states, inputs), captured, len(in.g.Results), attrs...)
	n.AddBody("body", in.g)
	return n.Out
}
