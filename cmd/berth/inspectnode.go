package main

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// nodeJSON is the object printed by inspect --node.
type nodeJSON struct {
	Node       string     `json:"node"`
	Operands   []portJSON `json:"operands"`
	Results    []portJSON `json:"results"`
	Attributes []attrJSON `json:"attributes"`
}

type attrJSON struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// printText prints the graph as text.
func (a *app) printText(g *ssa.Graph) error {
	if a.json {
		return a.printJSON(map[string]string{"graph": g.String()})
	}
	_, err := fmt.Fprintln(a.out, g)
	return err
}

// inspectNode prints one node, found by its name or by one of its results'.
func (a *app) inspectNode(g *ssa.Graph, name string) error {
	n := findNode(g, name)
	if n == nil {
		return usagef("there is no node named %q and none that gives a value of that name%s", name, didYouMean(name, namesIn(g)))
	}
	res := nodeJSON{Node: n.String(), Operands: portsOf(n.In), Results: portsOf(n.Out), Attributes: []attrJSON{}}
	for _, at := range n.Attrs {
		res.Attributes = append(res.Attributes, attrJSON{at.Name, attrText(at)})
	}
	for i, b := range n.Bodies {
		res.Attributes = append(res.Attributes, attrJSON{n.BodyAttr[i], fmt.Sprintf("body of %d nodes", len(b.Nodes))})
	}
	if a.json {
		return a.printJSON(res)
	}
	fmt.Fprintln(a.out, res.Node)
	t := newTable(a.out, "", "value", "type")
	appendPorts(t, "operand %d", res.Operands)
	appendPorts(t, "result %d", res.Results)
	for _, at := range res.Attributes {
		t.AppendRow([]any{"attribute", at.Name, at.Value})
	}
	t.Render()
	return nil
}

// portsOf lists values; an absent one has no name.
func portsOf(vs []*ssa.Value) []portJSON {
	out := make([]portJSON, len(vs))
	for i, v := range vs {
		if v != nil {
			out[i] = portJSON{v.Name, v.Type.String()}
		}
	}
	return out
}

// namesIn lists the names of nodes and of their results.
func namesIn(g *ssa.Graph) (names []string) {
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			if n.Name != "" {
				names = append(names, n.Name)
			}
			for _, v := range n.Out {
				if v != nil {
					names = append(names, v.Name)
				}
			}
		}
	})
	return names
}

func findNode(g *ssa.Graph, name string) (found *ssa.Node) {
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			hit := n.Name == name
			for _, v := range n.Out {
				hit = hit || v != nil && v.Name == name
			}
			if hit && found == nil {
				found = n
			}
		}
	})
	return found
}

// attrText prints an attribute's value.
func attrText(at ssa.Attr) string {
	switch at.Kind {
	case ssa.AttrStrings:
		return fmt.Sprintf("%q", at.Strings)
	case ssa.AttrTensor:
		return at.Tensor.Type().String()
	case ssa.AttrTensors:
		return fmt.Sprintf("%d tensors", len(at.Tensors))
	case ssa.AttrOther:
		return "kept as it is"
	}
	return fmt.Sprint(map[ssa.AttrKind]any{ssa.AttrInt: at.I, ssa.AttrFloat: at.F, ssa.AttrString: at.S,
		ssa.AttrInts: at.Ints, ssa.AttrFloats: at.Floats, ssa.AttrType: at.Type}[at.Kind])
}
