package typecheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// Corrected lists what a file violates and the file made of it does not, by whatever rewriting did to the nodes. Types are those of values that the first
// file does not declare, by name. The error is that of the context.
func Corrected(ctx context.Context, before, after *onnxwire.Model, types map[string]onnxwire.DataType) (all []string, err error) {
	if before.Graph == nil || after.Graph == nil {
		return nil, nil
	}
	if len(before.OpsetImports) == 0 && len(after.OpsetImports) > 0 {
		all = append(all, fmt.Sprintf("the file imports no operator set, it is written for version %d", after.OpsetImports[0].Version))
	}
	all = append(append(all, unsorted(before.Graph)...), outputs(before.Graph, after.Graph)...)
	c := checker{ctx: ctx, versions: map[string]int64{}, known: types}
	for _, o := range before.OpsetImports {
		c.versions[domainOf(o.Domain)] = o.Version
	}
	c.graph(before.Graph, nil)
	left, err := Check(ctx, after)
	if err != nil {
		return nil, err
	}
	for _, v := range c.found {
		if !slices.ContainsFunc(left, v.SameKind) {
			all = append(all, v.String())
		}
	}
	return append(all, c.forms(before.Graph)...), nil
}

// unsorted names the first node that reads a result of a later one.
func unsorted(g *onnxwire.Graph) []string {
	place := map[string]int{}
	for i, n := range g.Nodes {
		for _, name := range n.Outputs {
			place[name] = i
		}
	}
	for i, n := range g.Nodes {
		for _, name := range n.Inputs {
			if at, ok := place[name]; ok && at > i && name != "" {
				return []string{fmt.Sprintf("node %s: stands before node %s, whose result it reads", nodeText(n), nodeText(g.Nodes[at]))}
			}
		}
	}
	return nil
}

// outputs lists the outputs whose declared type no value of theirs has.
func outputs(before, after *onnxwire.Graph) (all []string) {
	for i, b := range before.Outputs {
		if i >= len(after.Outputs) || b.Name != after.Outputs[i].Name {
			continue
		}
		if said, is := b.Type, after.Outputs[i].Type; contradict(said, is) {
			all = append(all, fmt.Sprintf("output %q is declared as %s, it is %s", b.Name, shapedText(said), shapedText(is)))
		}
	}
	return all
}

// contradict reports types that no value has both of: of other elements, ranks or lengths. What one of them does not say contradicts nothing.
func contradict(x, y *onnxwire.Type) bool {
	if a, b := typeText(x), typeText(y); a != b && a != "" && b != "" {
		return true
	}
	if x == nil || y == nil || x.Tensor == nil || y.Tensor == nil || x.Tensor.Shape == nil || y.Tensor.Shape == nil {
		return false
	}
	a, b := x.Tensor.Shape.Dims, y.Tensor.Shape.Dims
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		if a[i].Kind == onnxwire.DimValue && b[i].Kind == onnxwire.DimValue && a[i].Value != b[i].Value {
			return true
		}
	}
	return false
}

// shapedText names a type with its shape.
func shapedText(t *onnxwire.Type) string {
	if t.Tensor == nil || t.Tensor.Shape == nil {
		return typeText(t)
	}
	var dims []string
	for _, d := range t.Tensor.Shape.Dims {
		switch d.Kind {
		case onnxwire.DimValue:
			dims = append(dims, fmt.Sprint(d.Value))
		case onnxwire.DimParam:
			dims = append(dims, d.Param)
		default:
			dims = append(dims, "?")
		}
	}
	return typeText(t) + "[" + strings.Join(dims, ",") + "]"
}

// forms lists nodes in a form that the version of the operator set which a file imports does not have: berth writes each in a form that the version of the
// result has.
func (c *checker) forms(g *onnxwire.Graph) (all []string) {
	for _, n := range g.Nodes {
		domain := domainOf(n.Domain)
		version, imported := c.versions[domain]
		versions := table()[domain+"."+n.OpType]
		o := find(domain, n.OpType, version)
		switch {
		case !imported || len(versions) == 0:
		case o == nil:
			all = append(all, fmt.Sprintf("node %s: version %d of the operator set has no %s, version %d has", nodeText(n), version, n.OpType, versions[0].version))
		default:
			for i, name := range n.Inputs {
				if name != "" && at(o.operands, i) == nil {
					all = append(all, fmt.Sprintf("node %s: has %d operands, version %d of the operator set allows %d", nodeText(n), len(n.Inputs), version, len(o.operands)))
					break
				}
			}
		}
		for _, a := range n.Attributes {
			for _, body := range append(slices.Clone(a.Graphs), a.G) {
				if body != nil {
					all = append(all, c.forms(body)...)
				}
			}
		}
	}
	return all
}
