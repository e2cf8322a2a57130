package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// strangeNodes are nodes berth does not know: an unknown operator of the default
// domain, one of an unknown domain, and one with a body and every kind of text.
func strangeNodes() []*onnxwire.Node {
	body := &onnxwire.Graph{Name: "inner", Outputs: []*onnxwire.ValueInfo{{Name: "b", Type: floatType()}},
		Nodes: []*onnxwire.Node{{OpType: "Relu", Inputs: []string{"a"}, Outputs: []string{"b"}}}}
	return []*onnxwire.Node{
		{Name: "first", OpType: "Warble", Inputs: []string{"x"}, Outputs: []string{"a"},
			Attributes: []*onnxwire.Attribute{{Name: "level", Type: onnxwire.AttrInt, I: 3}, {Name: "modes", Type: onnxwire.AttrStrings, Strings: [][]byte{[]byte("s"), {0xff, 0}}}}},
		{Name: "second", OpType: "Gadget", Domain: "my.own", DocString: "keeps the tune", Inputs: []string{"a", "", "x"}, Outputs: []string{"g", "h"},
			Attributes: []*onnxwire.Attribute{{Name: "gain", Type: onnxwire.AttrFloat, F: 0.1, DocString: "loudness"}}},
		{Name: "third", OpType: "Repeat", Domain: "my.own", Inputs: []string{"g"}, Outputs: []string{"y"},
			Attributes: []*onnxwire.Attribute{{Name: "body", Type: onnxwire.AttrGraph, G: body}}},
	}
}

func floatType() *onnxwire.Type {
	dims := []*onnxwire.Dim{{Kind: onnxwire.DimValue, Value: 2}}
	return &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat, Shape: &onnxwire.Shape{Dims: dims}}}
}

// strangeModel writes a model of the given nodes between two that berth knows.
func strangeModel(t *testing.T, nodes []*onnxwire.Node, out string) string {
	t.Helper()
	all := slices.Concat([]*onnxwire.Node{{Name: "known", OpType: "Relu", Inputs: []string{"in"}, Outputs: []string{"x"}}}, nodes,
		[]*onnxwire.Node{{Name: "last", OpType: "Relu", Inputs: []string{out}, Outputs: []string{"out"}}})
	m := &onnxwire.Model{IRVersion: 9, ProducerName: "strange", OpsetImports: []*onnxwire.OperatorSetID{{Version: 20}, {Domain: "my.own", Version: 7}},
		Graph: &onnxwire.Graph{Name: "g", Nodes: all, Inputs: []*onnxwire.ValueInfo{{Name: "in", Type: floatType()}}, Outputs: []*onnxwire.ValueInfo{{Name: "out", Type: floatType()}}}}
	data, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "strange.onnx")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

// TestUnknownOperatorsAreKept: what berth does not know goes through optimize as
// the very bytes it came in.
func TestUnknownOperatorsAreKept(t *testing.T) {
	nodes := strangeNodes()
	path := strangeModel(t, nodes, "y")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	ok(t, "inspect", path)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after, "inspect leaves the file alone")

	out := filepath.Join(t.TempDir(), "out.onnx")
	ok(t, "optimize", path, "-o", out, "--no-compare")
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	m, err := onnxwire.Parse(data)
	require.NoError(t, err)
	versions := map[string]int64{}
	for _, o := range m.OpsetImports {
		versions[o.Domain] = o.Version
	}
	assert.EqualValues(t, 7, versions["my.own"])
	assert.EqualValues(t, 20, versions[""], "an operator of the default domain that is not known keeps its version")
	for _, want := range nodes {
		i := slices.IndexFunc(m.Graph.Nodes, func(n *onnxwire.Node) bool { return n.Name == want.Name })
		require.GreaterOrEqual(t, i, 0, want.Name)
		assert.Equal(t, nodeBytes(t, want), nodeBytes(t, m.Graph.Nodes[i]), want.Name)
	}
}

// nodeBytes writes a node as it stands in a file.
func nodeBytes(t *testing.T, n *onnxwire.Node) []byte {
	t.Helper()
	m := &onnxwire.Model{Graph: &onnxwire.Graph{Nodes: []*onnxwire.Node{n}}}
	data, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	return data
}

// TestUnknownOperatorsDoNotRun: run says which node, operator, domain and version.
func TestUnknownOperatorsDoNotRun(t *testing.T) {
	nodes := strangeNodes()
	nodes[1].Inputs = []string{"x"}
	for _, c := range []struct {
		node *onnxwire.Node
		out  string
		want []string
	}{
		{nodes[0], "a", []string{"first", "Warble", "ai.onnx", "20"}},
		{nodes[1], "g", []string{"second", "Gadget", "my.own", "7"}},
	} {
		path := strangeModel(t, []*onnxwire.Node{c.node}, c.out)
		o := fails(t, exitModel, append(c.want, path, "not supported"), "run", path)
		assert.Equal(t, 1, len(o.err)-len(trimLines(o.err)), "one line: %q", o.err)
	}
}

// trimLines drops line ends.
func trimLines(s string) string {
	return string(slices.DeleteFunc([]byte(s), func(b byte) bool { return b == '\n' }))
}

// bodyModel writes a model with one control-flow node whose bodies hold an unknown
// operator.
func bodyModel(t *testing.T, op string) string {
	t.Helper()
	strange := func(in, out string) *onnxwire.Node {
		return &onnxwire.Node{Name: "odd_" + out, OpType: "Gadget", Domain: "my.own", Inputs: []string{in}, Outputs: []string{out},
			Attributes: []*onnxwire.Attribute{{Name: "gain", Type: onnxwire.AttrFloat, F: 0.1}}}
	}
	scalar := func(name string, elem onnxwire.DataType) *onnxwire.ValueInfo {
		return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: elem, Shape: &onnxwire.Shape{}}}}
	}
	value := func(name string) *onnxwire.ValueInfo { return &onnxwire.ValueInfo{Name: name, Type: floatType()} }
	body := func(name string, in, out []*onnxwire.ValueInfo, nodes ...*onnxwire.Node) *onnxwire.Attribute {
		return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrGraph, G: &onnxwire.Graph{Name: name, Inputs: in, Outputs: out, Nodes: nodes}}
	}
	n := &onnxwire.Node{Name: "control", OpType: op, Inputs: []string{"x"}, Outputs: []string{"y"}}
	init := []*onnxwire.Tensor{{Name: "yes", DataType: onnxwire.TypeBool, RawData: []byte{1}}, {Name: "trips", DataType: onnxwire.TypeInt64, Int64Data: []int64{2}}}
	switch op {
	case "If":
		n.Inputs = []string{"cond"}
		n.Attributes = []*onnxwire.Attribute{
			body("then_branch", nil, []*onnxwire.ValueInfo{value("t")}, strange("x", "t")),
			body("else_branch", nil, []*onnxwire.ValueInfo{value("e")}, strange("x", "e"))}
	case "Loop":
		n.Inputs = []string{"trips", "yes", "x"}
		n.Attributes = []*onnxwire.Attribute{body("body", []*onnxwire.ValueInfo{scalar("i", onnxwire.TypeInt64), scalar("c", onnxwire.TypeBool), value("p")},
			[]*onnxwire.ValueInfo{scalar("c", onnxwire.TypeBool), value("q")}, strange("p", "q"))}
	case "Scan":
		n.Attributes = []*onnxwire.Attribute{{Name: "num_scan_inputs", Type: onnxwire.AttrInt, I: 1},
			body("body", []*onnxwire.ValueInfo{scalar("p", onnxwire.TypeFloat)}, []*onnxwire.ValueInfo{scalar("q", onnxwire.TypeFloat)}, strange("p", "q"))}
	}
	m := &onnxwire.Model{IRVersion: 9, OpsetImports: []*onnxwire.OperatorSetID{{Version: 20}, {Domain: "my.own", Version: 7}},
		Graph: &onnxwire.Graph{Name: "g", Initializers: init, Inputs: []*onnxwire.ValueInfo{value("in"), scalar("cond", onnxwire.TypeBool)}, Outputs: []*onnxwire.ValueInfo{value("out")},
			Nodes: []*onnxwire.Node{{Name: "known", OpType: "Relu", Inputs: []string{"in"}, Outputs: []string{"x"}}, n,
				{Name: "last", OpType: "Relu", Inputs: []string{"y"}, Outputs: []string{"out"}}}}}
	data, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "strange.onnx")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

// TestUnknownOperatorsInBodies: the bodies of control flow keep what berth does
// not know as it is, inspect shows it, and run says where it is.
func TestUnknownOperatorsInBodies(t *testing.T) {
	for _, op := range []string{"If", "Loop", "Scan"} {
		t.Run(op, func(t *testing.T) {
			path := bodyModel(t, op)
			assert.Contains(t, ok(t, "inspect", path), "Gadget")
			fails(t, exitModel, []string{"control", "odd_", "Gadget", "my.own", "7", path, "not supported"}, "run", path)
			out := filepath.Join(t.TempDir(), "out.onnx")
			ok(t, "optimize", path, "-o", out, "--no-compare")
			before, after := oddNodes(t, path), oddNodes(t, out)
			require.NotEmpty(t, before)
			require.Len(t, after, len(before))
			for i := range before { // names of operands may change; everything else is the same
				after[i].Inputs, after[i].Outputs = before[i].Inputs, before[i].Outputs
				assert.Equal(t, nodeBytes(t, before[i]), nodeBytes(t, after[i]))
			}
		})
	}
}

// oddNodes returns the nodes of the bodies in a model that berth does not know.
func oddNodes(t *testing.T, path string) (out []*onnxwire.Node) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	m, err := onnxwire.Parse(data)
	require.NoError(t, err)
	for _, n := range m.Graph.Nodes {
		for _, a := range n.Attributes {
			if a.G == nil {
				continue
			}
			for _, inner := range a.G.Nodes {
				if inner.Domain == "my.own" {
					out = append(out, inner)
				}
			}
		}
	}
	return out
}
