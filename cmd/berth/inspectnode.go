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
		return usagef("there is no node named %q and none that gives a value of that name", name)
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
	for i, p := range res.Operands {
		t.AppendRow([]any{fmt.Sprintf("operand %d", i), p.Name, p.Type})
	}
	for i, p := range res.Results {
		t.AppendRow([]any{fmt.Sprintf("result %d", i), p.Name, p.Type})
	}
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
	case ssa.AttrInt:
		return fmt.Sprint(at.I)
	case ssa.AttrFloat:
		return fmt.Sprint(at.F)
	case ssa.AttrString:
		return at.S
	case ssa.AttrInts:
		return fmt.Sprint(at.Ints)
	case ssa.AttrFloats:
		return fmt.Sprint(at.Floats)
	case ssa.AttrStrings:
		return fmt.Sprintf("%q", at.Strings)
	case ssa.AttrTensor:
		return at.Tensor.Type().String()
	case ssa.AttrTensors:
		return fmt.Sprintf("%d tensors", len(at.Tensors))
	case ssa.AttrType:
		return at.Type.String()
	}
	return "kept as it is"
}
