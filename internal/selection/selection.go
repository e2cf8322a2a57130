// Package selection compares two graphs whose nodes select: operators whose results say which numbers are larger, or round them to whole ones or steps. Where numbers are
// almost equal, rounding decides what such a node selects, and everything behind it differs, although neither graph is wrong.
//
//	scores ──▶ TopK ──▶ indices ──▶ Gather ──▶ …            as it is
//	scores ──▶ TopK      input ───▶ Gather ──▶ …            with the selection given
//	   └─ output  └─ output
//
// With all selections of one run given to the other graph, every value is computed under the same selections in both and can be compared: what is selected from, and
// what is computed behind. What a node selects then differs only as far as its operands do, if the nodes of both graphs compute the same function, which
// a graph of those nodes alone decides.
//
// A node in the body of a branch or loop selects any number of times; then what it has selected is a sequence (bodies.go). Nodes in the body of a Scan are left
// as they are. The package runs nothing.
package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/trial"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// selecting are the operators, with the result that is selected. Other results, as the values of TopK, change no more than the operands do.
var selecting = map[string]int{
	"ArgMax": 0, "ArgMin": 0, "Hardmax": 0, "MaxPool": 1, "NonMaxSuppression": 0, "NonZero": 0, "TopK": 1,
	"Equal": 0, "Greater": 0, "GreaterOrEqual": 0, "Less": 0, "LessOrEqual": 0,
	"Cast": 0, "Ceil": 0, "Floor": 0, "QuantizeLinear": 0, "Round": 0, "Sign": 0,
}

// selected is the result of a node that may depend on which floats are larger, nil for other nodes.
func selected(n *ssa.Node) *ssa.Value {
	k, ok := selecting[n.Op]
	if !ok || n.Domain != "" || n.Opaque {
		return nil
	}
	return n.Output(k)
}

// ofFloats reports that a value selected does.
func ofFloats(v *ssa.Value) bool {
	dt := v.Type.DType
	return slices.ContainsFunc(v.Def.In, isFloat) && (v.Def.Op != "Cast" || !dt.IsFloat() && dt != ndarray.String)
}

func isFloat(v *ssa.Value) bool {
	return v != nil && v.Type.Kind == ssa.KindTensor && v.Type.DType.IsFloat()
}

// Plan says which selections of a graph are given, and what inputs and outputs for them are called. A selection is named as the value selected.
type Plan struct {
	All   []string // of the original, in an order in which they can be computed
	Both  []string // those of which the other graph has a node of the same name and operator
	text  map[string]string
	named string          // begins no other name
	taped map[string]bool // those in bodies of the original, whose values are sequences
}

// Of lists the selections of a graph that depend on its inputs, and those that another graph has, too. The first graph may be folded: then it has the selections that
// shapes leave to its inputs, and the second is the one that it was made of.
func Of(folded, g, other *ssa.Graph) *Plan {
	p := &Plan{text: map[string]string{}, named: freeName(g, other), taped: map[string]bool{}}
	sources, own, others := trial.SourcesOf(folded), placesIn(g), placesIn(other)
	for _, at := range placesIn(folded).inOrder {
		v := at.value
		from := own.of(v.Name)
		if !ofFloats(v) || sources.Fixed(v) || from == nil {
			continue
		}
		p.All = append(p.All, v.Name)
		p.taped[v.Name] = len(from.chain) > 0
		p.text[v.Name] = fmt.Sprintf("%s %q", v.Def.Op, v.Name)
		to := others.of(v.Name)
		if to != nil && (p.taped[v.Name] || len(to.chain) == 0) && to.value.DefIndex == v.DefIndex && alike(v.Def, to.value.Def) {
			p.Both = append(p.Both, v.Name)
		}
	}
	return p
}

// freeName begins the name of no value.
func freeName(graphs ...*ssa.Graph) (name string) {
	isTaken := func(v *ssa.Value) bool {
		return slices.ContainsFunc([]string{"operand ", "selection ", "selected "}, func(of string) bool { return strings.HasPrefix(v.Name, name+of) })
	}
	for {
		taken := false
		for _, g := range graphs {
			g.Walk(func(b *ssa.Graph) { taken = taken || slices.ContainsFunc(b.Values(), isTaken) })
		}
		if !taken {
			return name
		}
		name += "_"
	}
}

// alike reports nodes of one operator with operands in the same places.
func alike(n, o *ssa.Node) bool {
	for i := range max(len(n.In), len(o.In)) {
		if (n.Input(i) == nil) != (o.Input(i) == nil) {
			return false
		}
	}
	return n.Op == o.Op && n.Domain == o.Domain
}

// Missing are the selections that the other graph has no node for, as texts.
func (p *Plan) Missing() (texts []string) {
	for _, name := range p.All {
		if !slices.Contains(p.Both, name) {
			texts = append(texts, p.text[name])
		}
	}
	return texts
}

// Text names a selection with its operator.
func (p *Plan) Text(name string) string { return p.text[name] }

// Given is the input for what a node selects.
func (p *Plan) Given(name string) string { return p.named + "selection of " + p.text[name] }

// Own is the output of what a node selects.
func (p *Plan) Own(name string) string { return p.named + "selected by " + p.text[name] }

// Operand is the output of an operand of a selection, and the input in a graph of selections alone.
func (p *Plan) Operand(name string, i int) string {
	return fmt.Sprintf("%soperand %d of %s", p.named, i, p.text[name])
}

// Observe adds outputs to the original: what is selected, and the operands of the selections that both graphs have.
func (p *Plan) Observe(g *ssa.Graph) error {
	all, err := values(g, p.All)
	if err != nil {
		return err
	}
	return cmp.Or(p.addOwn(g, all), p.addOperands(g, all))
}

// Give makes inputs of some selections, for those who read them, and outputs of the operands of those that both graphs have; own adds what the nodes themselves
// select, which nothing else reads.
func (p *Plan) Give(g *ssa.Graph, names []string, own bool) error {
	all, err := values(g, names)
	if err != nil {
		return err
	}
	for _, v := range all {
		give := p.give
		if p.taped[v.name] {
			give = p.giveTape
		}
		if err := give(g, v); err != nil {
			return err
		}
	}
	if err := p.addOperands(g, all); err != nil || !own {
		return err
	}
	return p.addOwn(g, all)
}

// give replaces a value by an input.
func (p *Plan) give(g *ssa.Graph, s namedValue) error {
	v, name := s.value, p.Given(s.name)
	in, isResult := g.AddParam(name, v.Type), g.IsResult(v)
	g.ReplaceUses(v, in)
	if !isResult {
		return nil
	}
	output := v.Name
	v.Name = name + ", its own"
	out, err := identity(g, in, output)
	g.ReplaceResult(in, out)
	return err
}

// Alone leaves of the original nothing but the nodes of the selections that both graphs have, those in bodies left out. Their operands are inputs but for constants, and
// what they select are the outputs.
func (p *Plan) Alone(g *ssa.Graph) error {
	all, err := values(g, p.Both)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(v namedValue) bool { return p.taped[v.name] })
	keep := map[*ssa.Node]bool{}
	for _, v := range all {
		n := v.value.Def
		keep[n] = true
		for i, x := range n.In {
			if x != nil && x.Const == nil {
				n.SetInput(i, g.AddParam(p.Operand(v.name, i), x.Type))
			}
		}
	}
	g.Results = nil
	if err := p.addOwn(g, all); err != nil {
		return err
	}
	for _, r := range g.Results {
		keep[r.Def] = true
	}
	g.RemoveNodes(func(n *ssa.Node) bool { return !keep[n] })
	return nil
}

// namedValue is what a node selects, in a graph or the body of the last of a chain of nodes. Its name is the one it had at first.
type namedValue struct {
	name  string
	value *ssa.Value
	chain []link
}

func values(g *ssa.Graph, names []string) (all []namedValue, err error) {
	places := placesIn(g)
	for _, name := range names {
		at := places.of(name)
		if at == nil {
			return nil, fmt.Errorf("no node computes %q", name)
		}
		all = append(all, *at)
	}
	return all, nil
}

func (p *Plan) addOwn(g *ssa.Graph, all []namedValue) error {
	for _, v := range all {
		out, err := p.output(g, v, v.value, p.Own(v.name))
		if err != nil {
			return err
		}
		g.Results = append(g.Results, out)
	}
	return nil
}

// addOperands puts the operands before other outputs, so that what differs first in the graph does so in the outputs.
func (p *Plan) addOperands(g *ssa.Graph, all []namedValue) error {
	var operands []*ssa.Value
	for _, v := range all {
		if !slices.Contains(p.Both, v.name) {
			continue
		}
		for i, x := range v.value.Def.In {
			if x == nil {
				continue
			}
			out, err := p.output(g, v, x, p.Operand(v.name, i))
			if err != nil {
				return err
			}
			operands = append(operands, out)
		}
	}
	g.Results = append(operands, g.Results...)
	return nil
}

// output makes a value of a name that is equal to another one, in the place of a selection; of one in a body it is the sequence of all values there.
func (p *Plan) output(g *ssa.Graph, at namedValue, v *ssa.Value, name string) (*ssa.Value, error) {
	if p.taped[at.name] {
		return tape(g, at.chain, v, name)
	}
	return identity(g, v, name)
}

// identity makes a value of a name that is equal to another one.
func identity(g *ssa.Graph, v *ssa.Value, name string) (*ssa.Value, error) {
	n := g.NewNode("Identity", []*ssa.Value{v}, 1)
	n.Out[0].Name = name
	return n.Out[0], ops.Infer(n)
}

// Selects reports a node whose result depends on which of the floats that it reads are larger, or on the whole numbers next to them. Quantization is left out:
// nearly every value of a quantized model is quantized, and none of them says what another node selects.
func Selects(n *ssa.Node) bool {
	v := selected(n)
	return v != nil && ofFloats(v) && n.Op != "QuantizeLinear"
}
