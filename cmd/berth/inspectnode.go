package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
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
func (a *app) printText(ctx context.Context, g *ssa.Graph) error {
	var text strings.Builder
	if err := (ssa.Format{}).WriteContext(a.memory.In(ctx), &text, g); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"graph": text.String()})
	}
	_, err := fmt.Fprintln(a.out, text.String()) // the text form quotes names
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
	a.printf("%s\n", res.Node)
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

// placementJSON says where the nodes of a program run that was compiled for a device. Bytes are those of one execution of each node; those that are
// known only while running are not among them, nor copies for nodes whose place is.
type placementJSON struct {
	Backend string         `json:"backend"`
	Arena   int64          `json:"arena_bytes"`
	Nodes   int            `json:"device_nodes"`
	Host    map[string]int `json:"host_nodes"`     // by operator
	Open    map[string]int `json:"run_time_nodes"` // by operator, of which the first run with sizes decides whether the device computes them
	Copies  []copyJSON     `json:"copies"`
}

// copyJSON is what is copied for one node of the host.
type copyJSON struct {
	Node     string `json:"node"`
	ToHost   int64  `json:"to_host_bytes"`
	ToDevice int64  `json:"to_device_bytes"`
}

// placement follows values from the steps that make them to those that read them; views lie where their operand does.
func placement(p *berth.Program, backend string) *placementJSON {
	res := &placementJSON{Backend: backend, Arena: p.Plan().ArenaBytes, Host: map[string]int{}, Open: map[string]int{}, Copies: []copyJSON{}}
	onDevice, bytes, read := map[string]bool{}, map[string]int64{}, map[string]bool{}
	isDevice := func(s berth.Step) bool { return s.IsJoin() || s.Choice().Algorithm == "device" }
	p.Steps(func(s berth.Step) {
		for i, name := range s.Results() {
			onDevice[name] = s.Kernel() && isDevice(s) || !s.Kernel() && len(s.Operands()) > 0 && onDevice[s.Operands()[0]]
			bytes[name] = s.ResultBytes()[i]
		}
		if s.Kernel() && isDevice(s) {
			res.Nodes++
			for _, name := range s.Operands() {
				read[name] = true
			}
		}
	})
	p.Steps(func(s berth.Step) {
		if !s.Kernel() || isDevice(s) {
			return
		}
		if s.IsOpen() {
			res.Open[s.Op()]++
			return
		}
		res.Host[s.Op()]++
		c := copyJSON{Node: s.Node()}
		for _, name := range s.Operands() {
			if onDevice[name] {
				c.ToHost += max(bytes[name], 0)
			}
		}
		for _, name := range s.Results() {
			if read[name] {
				c.ToDevice += max(bytes[name], 0)
			}
		}
		if c.ToHost+c.ToDevice > 0 {
			res.Copies = append(res.Copies, c)
		}
	})
	return res
}

func sum(counts map[string]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// printPlacement prints what stays on the host, and the copies.
func (a *app) printPlacement(p *placementJSON) {
	if p == nil {
		return
	}
	host, open := sum(p.Host), ""
	if n := sum(p.Open); n > 0 {
		open = fmt.Sprintf(", %d where the sizes of a run decide (--shape, --dim)", n)
	}
	fmt.Fprintf(a.out, "%s: %d nodes on the device, %d on the host%s; arena on the device %s\n\n", p.Backend, p.Nodes, host, open, bytesText(p.Arena))
	if host == 0 && open == "" {
		return
	}
	t := newTable(a.out, "operator not on the device", "on the host", "decided by sizes")
	alignRight(t, 2, 3)
	all := maps.Clone(p.Host)
	maps.Copy(all, p.Open)
	for _, op := range slices.Sorted(maps.Keys(all)) {
		t.AppendRow([]any{op, p.Host[op], p.Open[op]})
	}
	t.Render()
	if len(p.Copies) > 0 {
		fmt.Fprintln(a.out, "\ncopies for them, of one execution:")
		t = newTable(a.out, "node", "to the host", "to the device")
		alignRight(t, 2, 3)
		for _, c := range p.Copies {
			t.AppendRow([]any{c.Node, bytesText(c.ToHost), bytesText(c.ToDevice)})
		}
		t.Render()
	}
	fmt.Fprintln(a.out)
}
