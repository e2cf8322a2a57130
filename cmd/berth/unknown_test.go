package main

import (
	"bytes"
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
			Attributes: []*onnxwire.Attribute{{Name: "body", Type: onnxwire.AttrGraph, G: body}, {Name: "times", Type: onnxwire.AttrInt, I: 2}}},
		{Name: "fourth", OpType: "Kinds", Domain: "my.own", Inputs: []string{"h"}, Outputs: []string{"k"}, Attributes: everyKind(),
			MetadataProps: []*onnxwire.StringEntry{{Key: "from", Value: "elsewhere"}}, Extra: onnxwire.Extra{Unknown: []byte{0xd2, 0x3e, 2, 'h', 'i'}}},
		{Name: "fifth", OpType: "Warble", Domain: "ai.onnx", Inputs: []string{"k"}, Outputs: []string{"l"}},
	}
}

// everyKind is an attribute of each kind, some in forms that berth has no use for.
func everyKind() []*onnxwire.Attribute {
	tensor := func(name string, dt onnxwire.DataType) *onnxwire.Tensor {
		return &onnxwire.Tensor{Name: name, DataType: dt, Dims: []int64{2}, Int32Data: []int32{1, 2}, DocString: "two"}
	}
	sparse := &onnxwire.SparseTensor{Values: tensor("v", onnxwire.TypeInt32), Indices: &onnxwire.Tensor{DataType: onnxwire.TypeInt64, Dims: []int64{2}, Int64Data: []int64{0, 3}}, Dims: []int64{4}}
	sequence := &onnxwire.Type{Denotation: "WORDS", Sequence: &onnxwire.SequenceType{ElemType: floatType()}}
	return []*onnxwire.Attribute{
		{Name: "float", Type: onnxwire.AttrFloat}, {Name: "floats", Type: onnxwire.AttrFloats, Floats: []float32{1, 2}},
		{Name: "ints", Type: onnxwire.AttrInts, Ints: []int64{-1, 1 << 40}}, {Name: "string", Type: onnxwire.AttrString, S: []byte{0xff}},
		{Name: "tensor", Type: onnxwire.AttrTensor, T: tensor("named", onnxwire.TypeInt32)},
		{Name: "tensors", Type: onnxwire.AttrTensors, Tensors: []*onnxwire.Tensor{tensor("a", onnxwire.TypeInt32), tensor("b", onnxwire.TypeBool)}},
		{Name: "sparse", Type: onnxwire.AttrSparseTensor, SparseTensor: sparse},
		{Name: "sparses", Type: onnxwire.AttrSparseTensors, SparseTensors: []*onnxwire.SparseTensor{sparse}},
		{Name: "type", Type: onnxwire.AttrTypeProto, TP: sequence}, {Name: "types", Type: onnxwire.AttrTypeProtos, TypeProtos: []*onnxwire.Type{sequence, floatType()}},
		{Name: "of_the_future", Type: 99, Extra: onnxwire.Extra{Unknown: []byte{0xd2, 0x3e, 1, 7}}},
		{Name: "elements_of_the_future", Type: onnxwire.AttrTensor, T: tensor("", 99)},
		{Name: "old_file", I: 5}, {Name: "explained", Type: onnxwire.AttrInt, I: 1, DocString: "why"},
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
	return writeModel(t, m)
}

// TestUnknownOperatorsAreKept: what berth does not know goes through optimize as
// the very bytes it came in.
func TestUnknownOperatorsAreKept(t *testing.T) {
	nodes := strangeNodes()
	path := strangeModel(t, nodes, "l")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	ok(t, "inspect", path)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after, "inspect leaves the file alone")

	out := filepath.Join(t.TempDir(), "out.onnx")
	ok(t, "optimize", path, "-o", out, "--no-compare", "--allow-unverified")
	m := readModel(t, out)
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

// TestUnknownOperatorsInFunctions: a call becomes the function's nodes; those berth
// does not know keep all but their names, and references to the function's
// attributes become what the call gave.
func TestUnknownOperatorsInFunctions(t *testing.T) {
	inner := &onnxwire.Node{Name: "inside", OpType: "Kinds", Domain: "my.own", Inputs: []string{"p"}, Outputs: []string{"q"},
		Attributes: append([]*onnxwire.Attribute{{Name: "gain", Type: onnxwire.AttrFloat, RefAttrName: "level"}, {Name: "left_out", Type: onnxwire.AttrInt, RefAttrName: "nothing"}}, everyKind()...)}
	m := &onnxwire.Model{IRVersion: 9, OpsetImports: []*onnxwire.OperatorSetID{{Version: 20}, {Domain: "local", Version: 1}},
		Functions: []*onnxwire.Function{{Name: "Twice", Domain: "local", Inputs: []string{"p"}, Outputs: []string{"q"}, Attributes: []string{"level", "nothing"},
			Nodes: []*onnxwire.Node{inner}, OpsetImports: []*onnxwire.OperatorSetID{{Domain: "my.own", Version: 7}}}},
		Graph: &onnxwire.Graph{Name: "g", Inputs: []*onnxwire.ValueInfo{{Name: "in", Type: floatType()}}, Outputs: []*onnxwire.ValueInfo{{Name: "out", Type: floatType()}},
			Nodes: []*onnxwire.Node{{Name: "call", OpType: "Twice", Domain: "local", Inputs: []string{"in"}, Outputs: []string{"out"},
				Attributes: []*onnxwire.Attribute{{Name: "level", Type: onnxwire.AttrFloat, F: 0.25}}}}}}
	path := writeModel(t, m)
	assert.Contains(t, ok(t, "inspect", path), "Kinds")
	fails(t, exitModel, []string{"call/inside", "Kinds", "my.own", "7", path, "not supported"}, "run", path)

	out := filepath.Join(t.TempDir(), "out.onnx")
	ok(t, "optimize", path, "-o", out, "--no-compare", "--allow-unverified")
	got := readModel(t, out).Graph.Nodes
	require.Len(t, got, 1)
	want := *inner
	want.Name, want.Inputs, want.Outputs = "call/inside", []string{"in"}, []string{"out"}
	want.Attributes = append([]*onnxwire.Attribute{{Name: "gain", Type: onnxwire.AttrFloat, F: 0.25}}, everyKind()...)
	assert.Equal(t, nodeBytes(t, &want), nodeBytes(t, got[0]))
}

// TestDamagedOperatorNames: a byte of an operator's name changed, in the main graph
// and in a body, makes an operator that is not known and nothing else.
func TestDamagedOperatorNames(t *testing.T) {
	for _, c := range []struct{ model, op string }{{"scan", "Tanh"}, {"scan", "MatMul"}, {"scan", "Scan"}, {"loop-until", "Loop"}, {"if-nested", "If"}} {
		t.Run(c.model+" "+c.op, func(t *testing.T) {
			data, err := os.ReadFile(exported(t, c.model))
			require.NoError(t, err)
			at := bytes.Index(data, append([]byte{4<<3 | 2, byte(len(c.op))}, c.op...))
			require.GreaterOrEqual(t, at, 0)
			data[at+2] = 'Q'
			odd := "Q" + c.op[1:]
			path := filepath.Join(t.TempDir(), "damaged.onnx")
			require.NoError(t, os.WriteFile(path, data, 0o644))
			assert.Contains(t, ok(t, "inspect", path), odd)
			fails(t, exitModel, []string{path, odd, "ai.onnx", "not supported"}, "run", path)
			out := filepath.Join(t.TempDir(), "out.onnx")
			ok(t, "optimize", path, "-o", out, "--no-compare", "--allow-unverified")
			assert.Equal(t, operatorCount(readModel(t, path).Graph, odd), operatorCount(readModel(t, out).Graph, odd))
		})
	}
}

// operatorCount counts the nodes of an operator, in bodies too.
func operatorCount(g *onnxwire.Graph, op string) (n int) {
	for _, w := range g.Nodes {
		if w.OpType == op {
			n++
		}
		for _, a := range w.Attributes {
			if a.G != nil {
				n += operatorCount(a.G, op)
			}
		}
	}
	return n
}

// TestControlFlowWithoutBodies: a node that lacks a body is shown by inspect and is
// an error of the model everywhere else.
func TestControlFlowWithoutBodies(t *testing.T) {
	scalar := func(name string, elem onnxwire.DataType) *onnxwire.ValueInfo {
		return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: elem, Shape: &onnxwire.Shape{}}}}
	}
	full := func(name string) *onnxwire.Attribute {
		return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrGraph, G: &onnxwire.Graph{Name: name, Outputs: []*onnxwire.ValueInfo{{Name: name + "_r", Type: floatType()}},
			Nodes: []*onnxwire.Node{{OpType: "Relu", Inputs: []string{"in"}, Outputs: []string{name + "_r"}}}}}
	}
	hollow := func(name string) *onnxwire.Attribute {
		return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrGraph, G: &onnxwire.Graph{Name: name}}
	}
	width := &onnxwire.Attribute{Name: "num_scan_inputs", Type: onnxwire.AttrInt, I: 1}
	for _, c := range []struct {
		name, op, want string
		in             []string
		attrs          []*onnxwire.Attribute
	}{
		{"none", "If", `"then_branch" is missing`, []string{"c"}, nil},
		{"then only", "If", `"else_branch" is missing`, []string{"c"}, []*onnxwire.Attribute{full("then_branch")}},
		{"else only", "If", `"then_branch" is missing`, []string{"c"}, []*onnxwire.Attribute{full("else_branch")}},
		{"other names", "If", `has no attribute "yes"`, []string{"c"}, []*onnxwire.Attribute{full("yes"), full("no")}},
		{"hollow", "If", "gives 0 results", []string{"c"}, []*onnxwire.Attribute{hollow("then_branch"), hollow("else_branch")}},
		{"one hollow", "If", "gives 0 results", []string{"c"}, []*onnxwire.Attribute{full("then_branch"), hollow("else_branch")}},
		{"none", "Loop", `"body" is missing`, []string{"", "c", "in"}, nil},
		{"hollow", "Loop", "0 parameters", []string{"", "c", "in"}, []*onnxwire.Attribute{hollow("body")}},
		{"none", "Scan", `"body" is missing`, []string{"in"}, []*onnxwire.Attribute{width}},
		{"hollow", "Scan", "0 parameters", []string{"in"}, []*onnxwire.Attribute{width, hollow("body")}},
	} {
		t.Run(c.op+" "+c.name, func(t *testing.T) {
			m := &onnxwire.Model{IRVersion: 9, OpsetImports: []*onnxwire.OperatorSetID{{Version: 20}}, Graph: &onnxwire.Graph{Name: "g",
				Inputs:  []*onnxwire.ValueInfo{{Name: "in", Type: floatType()}, scalar("c", onnxwire.TypeBool)},
				Outputs: []*onnxwire.ValueInfo{{Name: "out", Type: floatType()}},
				Nodes:   []*onnxwire.Node{{Name: "control", OpType: c.op, Inputs: c.in, Outputs: []string{"out"}, Attributes: c.attrs}}}}
			path := writeModel(t, m)
			for _, args := range [][]string{{"inspect", path}, {"inspect", path, "--json"}, {"inspect", path, "--node", "control"}} {
				assert.Contains(t, ok(t, args...), c.op)
			}
			for _, args := range [][]string{{"run", path}, {"optimize", path, "-o", path + ".out"}, {"compare", path}, {"bench", path}, {"diff", path, path}} {
				fails(t, exitModel, []string{path + `: node "control" (` + c.op + ")", c.want}, args...)
			}
		})
	}
}

// writeModel writes a model into a folder of its own.
func writeModel(t *testing.T, m *onnxwire.Model) string {
	t.Helper()
	data, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "strange.onnx")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

func readModel(t *testing.T, path string) *onnxwire.Model {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	m, err := onnxwire.Parse(data)
	require.NoError(t, err)
	return m
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
	nodes[1].Inputs, nodes[3].Inputs = []string{"x"}, []string{"x"}
	for _, c := range []struct {
		node *onnxwire.Node
		out  string
		want []string
	}{
		{nodes[0], "a", []string{"first", "Warble", "ai.onnx", "20"}},
		{nodes[1], "g", []string{"second", "Gadget", "my.own", "7"}},
		{nodes[3], "k", []string{"fourth", "Kinds", "my.own", "7"}},
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
	return writeModel(t, m)
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
			ok(t, "optimize", path, "-o", out, "--no-compare", "--allow-unverified")
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
	for _, n := range readModel(t, path).Graph.Nodes {
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

// TestChannelBlock: a file in another runtime's blocked layout runs once its block
// is known; the file is never guessed at.
func TestChannelBlock(t *testing.T) {
	path := filepath.Join("..", "..", "onnximport", "nchwc", "testdata", "silent.ort.onnx")
	fails(t, exitModel, []string{"--channel-block", "com.microsoft.nchwc", "not supported"}, "run", path)
	ok(t, "run", path, "--channel-block", "16")
	assert.NotContains(t, ok(t, "inspect", path, "--channel-block", "16", "--text"), "com.microsoft")
	fails(t, exitUsage, []string{"neither 8 nor 16"}, "run", path, "--channel-block", "12")
	out := filepath.Join(t.TempDir(), "out.onnx")
	ok(t, "optimize", path, "-o", out, "--channel-block", "16")
	for _, n := range readModel(t, out).Graph.Nodes {
		assert.Empty(t, n.Domain, n.OpType)
	}
}
