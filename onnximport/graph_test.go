package onnximport

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestBrokenGraphs(t *testing.T) {
	tests := []struct {
		name  string
		model *onnxwire.Model
		where string
		want  string
	}{
		{"no graph", &onnxwire.Model{}, "", "no graph"},
		{"undefined input", wmodel("o", wnode("Add", "x nowhere", "o")), `→"o"`, `input 1, "nowhere", is defined nowhere`},
		{"undefined output", wmodel("o"), "", `output "o" of graph "g" is defined nowhere`},
		{"defined twice", wmodel("o", wnode("Relu", "x", "o"), wnode("Relu", "y", "o")), `→"o"`, `"o" is defined twice`},
		{"input defined again", wmodel("x", wnode("Relu", "y", "x")), `→"x"`, `"x" is defined twice`},
		{"cycle", wmodel("b", wnode("Add", "x b", "a"), wnode("Relu", "a", "b")), `→"a"`, "in a circle"},
		{"own result", wmodel("a", wnode("Add", "x a", "a")), `→"a"`, "in a circle"},
		{"wrong arity", wmodel("a", wnode("Add", "x", "a")), `→"a"`, "has 1 operands, the operator takes 2"},
		{"types differ", wmodel("a", wnode("Add", "x c", "a")), `→"a"`, "element types float32 and bool"},
		{"constant without value", wmodel("a", wnode("Constant", "", "a")), `→"a"`, "0 value attributes"},
		{"reference outside functions", wmodel("a", wnode("Relu", "x", "a", refAttr("k", "k", onnxwire.AttrInt))), `→"a"`, "this is no function"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := refused(t, tt.model, Options{})
			assert.Contains(t, e.Reason, tt.want)
			assert.Equal(t, tt.where, e.Node)
		})
	}
}

func TestErrorNamesFileNodeAndRemedy(t *testing.T) {
	m := wmodel("o", wnode("If", "c", "o",
		graphAttr("then_branch", &onnxwire.Graph{Name: "t", Nodes: []*onnxwire.Node{wnode("Add", "x c", "a")}, Outputs: outputs("a")}),
		graphAttr("else_branch", &onnxwire.Graph{Name: "e", Nodes: []*onnxwire.Node{wnode("Relu", "x", "b")}, Outputs: outputs("b")})))
	m.Graph.Nodes[0].Name = "choose"
	_, err := FromModel(m, "dir/model.onnx", Options{})
	require.Error(t, err)
	assert.Regexp(t, `^dir/model\.onnx: node "choose" / →"a" \(Add\): shape inference failed for operands \(float32\[2,3\], bool\[\]\): `, err.Error())
}

func TestUnsortedNodesAreSorted(t *testing.T) {
	body := &onnxwire.Graph{Name: "t", Outputs: outputs("i"), Nodes: []*onnxwire.Node{wnode("Neg", "late", "i")}}
	m := wmodel("o", wnode("Add", "a b", "o"), wnode("Relu", "x", "a"),
		wnode("If", "c", "b", graphAttr("then_branch", body), graphAttr("else_branch", body)), wnode("Relu", "y", "late"))
	mod := load(t, m)
	assert.Equal(t, "Relu Relu If Add", opNames(mod.Graph))
}

func TestInitializersThatAreInputs(t *testing.T) {
	tests := []struct {
		name     string
		ir       int64
		mode     InitializerInputs
		params   string
		defaults int
	}{
		{"before IR 4 constants", 3, InitializersAuto, "x c", 0},
		{"from IR 4 defaults", 4, InitializersAuto, "x y c", 1},
		{"asked for constants", 8, InitializersConstant, "x c", 0},
		{"asked for defaults", 3, InitializersDefault, "x y c", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := wmodel("o", wnode("Add", "x y", "o"))
			m.IRVersion = tt.ir
			m.Graph.Initializers = []*onnxwire.Tensor{floats("y", 1, 2, 3)}
			mod, err := FromModel(m, "", Options{Initializers: tt.mode})
			require.NoError(t, err)
			assert.Equal(t, tt.params, valueNames(mod.Graph.Params))
			assert.Len(t, mod.Defaults, tt.defaults)
			assert.Equal(t, tt.defaults == 0, mod.Graph.Nodes[0].In[1].Const != nil)
		})
	}
}

func TestInputDimensions(t *testing.T) {
	m := wmodel("o", wnode("Relu", "x", "o"))
	weird := "floor(height/2 - 1/2)"
	m.Graph.Inputs[0] = value("x", ndarray.Float32, "N", -1, 0, nil, "?", weird, 4)
	m.Graph.Inputs[1] = value("y", ndarray.Float32, "N", "x.3")
	m.Graph.Outputs = []*onnxwire.ValueInfo{value("o", ndarray.Float32, 1, 2)} // a lie
	mod := load(t, m)
	x := mod.Graph.Params[0].Type
	assert.Equal(t, `float32[N,x.1,0,x.3_,x.4,"floor(height/2 - 1/2)",4]`, x.String(), "0 is a size, as for ONNX Runtime")
	name, ok := x.Shape[5].SymbolName()
	assert.True(t, ok)
	assert.Equal(t, weird, name)
	assert.True(t, x.Equal(mod.Graph.Results[0].Type), "the declared shape of the output is not believed")
}

func TestSequenceInputKeepsUnknownMembers(t *testing.T) {
	m := wmodel("o", wnode("Identity", "s", "o"))
	m.OpsetImports[0].Version = 14
	m.Graph.Inputs = append(m.Graph.Inputs, &onnxwire.ValueInfo{Name: "s", Type: &onnxwire.Type{Sequence: &onnxwire.SequenceType{
		ElemType: value("", ndarray.Float32, nil, 3).Type}}})
	mod := load(t, m)
	assert.Equal(t, "seq(float32[?,3])", mod.Graph.Params[3].Type.String())
}

func TestConstantNodes(t *testing.T) {
	tests := []struct {
		attr *onnxwire.Attribute
		want string
	}{
		{tensorAttr("value", floats("", 1, 2)), "float32[2]"},
		{&onnxwire.Attribute{Name: "value_int", Type: onnxwire.AttrInt, I: 3}, "int64[]"},
		{&onnxwire.Attribute{Name: "value_ints", Type: onnxwire.AttrInts, Ints: []int64{1, 2}}, "int64[2]"},
		{&onnxwire.Attribute{Name: "value_ints", Type: onnxwire.AttrInts}, "int64[0]"},
		{&onnxwire.Attribute{Name: "value_float", Type: onnxwire.AttrFloat, F: 3}, "float32[]"},
		{&onnxwire.Attribute{Name: "value_floats", Type: onnxwire.AttrFloats, Floats: []float32{1}}, "float32[1]"},
		{&onnxwire.Attribute{Name: "value_string", Type: onnxwire.AttrString, S: []byte("s")}, "string[]"},
		{&onnxwire.Attribute{Name: "value_strings", Type: onnxwire.AttrStrings, Strings: [][]byte{[]byte("s")}}, "string[1]"},
		{&onnxwire.Attribute{Name: "sparse_value", Type: onnxwire.AttrSparseTensor,
			SparseTensor: &onnxwire.SparseTensor{Dims: []int64{4}, Values: floats("", 1), Indices: ints("", 3)}}, "float32[4]"},
	}
	for _, tt := range tests {
		t.Run(tt.attr.Name, func(t *testing.T) {
			mod := load(t, wmodel("k", wnode("Constant", "", "k", tt.attr)))
			assert.Empty(t, mod.Graph.Nodes)
			k := mod.Graph.Results[0]
			require.NotNil(t, k.Const)
			assert.True(t, k.Const.Literal())
			assert.Equal(t, "k", k.Name)
			assert.Equal(t, tt.want, k.Type.String())
		})
	}
}

func TestOpaqueNodes(t *testing.T) {
	w := in("my.own", wnode("Gadget", "x - y", "p q", intAttr("level", 3)))
	m := wmodel("q", w)
	m.OpsetImports = append(m.OpsetImports, &onnxwire.OperatorSetID{Domain: "my.own", Version: 7})
	m.Graph.ValueInfo = []*onnxwire.ValueInfo{value("p", ndarray.Int64, 5)}
	mod := load(t, m)
	n := mod.Graph.Nodes[0]
	assert.True(t, n.Opaque)
	assert.Same(t, w, n.Origin)
	assert.Equal(t, 7, n.Version)
	assert.Equal(t, "x - y", valueNames(n.In))
	assert.Equal(t, "int64[...]", n.Out[0].Type.String(), "a hint of the element type, none of the shape")
	assert.Equal(t, "unknown", n.Out[1].Type.String())

	_, err := ops.Interpret(t.Context(), mod.Graph, make([]ndarray.Value, 3), nil)
	assert.ErrorIs(t, err, ops.ErrUnsupported)
	assert.ErrorContains(t, err, "my.own")
}

func TestUpgradePutsNodesBefore(t *testing.T) {
	m := wmodel("o", wnode("Add", "x v", "o", intAttr("axis", 0), intAttr("broadcast", 1)))
	m.OpsetImports[0].Version = 6
	m.Graph.Initializers = []*onnxwire.Tensor{floats("v", 1, 2)}
	mod := load(t, m)
	assert.Equal(t, "Unsqueeze Add", opNames(mod.Graph))
	assert.Equal(t, "float32[2,3]", mod.Graph.Results[0].Type.String())
	for _, n := range mod.Graph.Nodes {
		assert.Zero(t, n.Version)
	}
}

func TestNewerOperatorSetIsTriedWithAWarning(t *testing.T) {
	m := wmodel("o", wnode("Add", "x y", "o"))
	m.OpsetImports[0].Version = 99
	m.IRVersion = 77
	mod := load(t, m)
	require.Len(t, mod.Warnings, 2)
	assert.Contains(t, mod.Warnings[0], "IR version 77")
	assert.Contains(t, mod.Warnings[1], `version 99 of operator set "ai.onnx"`)
}

func TestOperatorSetsThatConflict(t *testing.T) {
	m := wmodel("o", wnode("Add", "x y", "o"))
	m.OpsetImports = append(m.OpsetImports, &onnxwire.OperatorSetID{Domain: "ai.onnx", Version: 9})
	assert.Contains(t, refused(t, m, Options{}).Reason, "twice, versions 13 and 9")
}

func TestLenient(t *testing.T) {
	m := wmodel("b", wnode("Add", "x c", "a"), wnode("Relu", "a", "b"))
	refused(t, m, Options{})
	mod, err := FromModel(m, "", Options{Lenient: true})
	require.NoError(t, err)
	assert.Equal(t, "unknown", mod.Graph.Nodes[0].Out[0].Type.String())
	require.NotEmpty(t, mod.Warnings)
	assert.Contains(t, mod.Warnings[0], "element types float32 and bool")
}

func TestLimits(t *testing.T) {
	deep := &onnxwire.Graph{Name: "leaf", Nodes: []*onnxwire.Node{wnode("Relu", "x", "leaf_o")}, Outputs: outputs("leaf_o")}
	for range 5 {
		deep = &onnxwire.Graph{Name: "b", Outputs: outputs("o"), Nodes: []*onnxwire.Node{
			wnode("If", "c", "o", graphAttr("then_branch", deep), graphAttr("else_branch", deep))}}
	}
	nested := wmodel("o", deep.Nodes...)
	many := wmodel("a", wnode("Relu", "x", "a"), wnode("Relu", "x", "b"), wnode("Relu", "x", "d"))
	long := wmodel("a", wnode("Relu", "x", "a"))
	long.Graph.Nodes[0].Name = string(make([]byte, 200))
	domain := wmodel("a", wnode("Relu", "x", "a"))
	domain.Graph.Nodes[0].Domain = string(make([]byte, 200))
	tests := []struct {
		name   string
		model  *onnxwire.Model
		limits Limits
		want   string
	}{
		{"domains", domain, Limits{NameBytes: 100}, "longer than 100 bytes"},
		{"depth", nested, Limits{Depth: 4}, "nest deeper than 4"},
		{"nodes", many, Limits{Nodes: 2}, "more than 2 nodes"},
		{"names", long, Limits{NameBytes: 100}, "longer than 100 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Contains(t, refused(t, tt.model, Options{Limits: tt.limits}).Reason, tt.want)
			_, err := FromModel(tt.model, "", Options{})
			assert.NoError(t, err)
		})
	}
}

func TestHeaderIsCarried(t *testing.T) {
	m := wmodel("o", wnode("Relu", "x", "o"))
	m.ProducerName, m.DocString, m.Graph.DocString = "maker", "model doc", "graph doc"
	m.Graph.Inputs[0].DocString = "the picture"
	m.MetadataProps = []*onnxwire.StringEntry{{Key: "k", Value: "v"}}
	mod := load(t, m)
	c := mod.Carried.(*onnxwire.Model)
	assert.Equal(t, "maker", c.ProducerName)
	assert.Equal(t, m.MetadataProps, c.MetadataProps)
	assert.Equal(t, "graph doc", mod.Graph.Doc)
	assert.Equal(t, "the picture", mod.Graph.Params[0].Doc)
	assert.Equal(t, []string{"o"}, mod.OutputNames)
	assert.Equal(t, []ssa.Opset{{Domain: "", Version: 13}}, mod.Opsets)
}
