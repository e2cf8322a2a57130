package onnximport

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// function defines one of domain "f", operator set 13.
func function(name, in, out string, nodes ...*onnxwire.Node) *onnxwire.Function {
	return &onnxwire.Function{Domain: "f", Name: name, Inputs: namesOf(in), Outputs: namesOf(out), Nodes: nodes,
		OpsetImports: []*onnxwire.OperatorSetID{{Version: 13}, {Domain: "f", Version: 1}}}
}

func callModel(outs string, functions []*onnxwire.Function, nodes ...*onnxwire.Node) *onnxwire.Model {
	m := wmodel(outs, nodes...)
	m.Functions = functions
	m.OpsetImports = append(m.OpsetImports, &onnxwire.OperatorSetID{Domain: "f", Version: 1})
	return m
}

func TestFunctionsAreInlined(t *testing.T) {
	twice := function("Twice", "a", "r", wnode("Add", "a a", "t"), wnode("Relu", "t", "r"))
	four := function("Four", "a", "r", in("f", wnode("Twice", "a", "t")), in("f", wnode("Twice", "t", "r")))
	call := in("f", wnode("Four", "x", "o"))
	call.Name = "call"
	mod := load(t, callModel("o", []*onnxwire.Function{twice, four}, call))
	assert.Equal(t, "Add Relu Add Relu", opNames(mod.Graph))
	assert.Equal(t, "o", mod.Graph.Results[0].Name)
	assert.Equal(t, "call/Twice_2/t", mod.Graph.Nodes[0].Out[0].Name)

	x := ndarray.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	out, err := ops.Interpret(t.Context(), mod.Graph, []ndarray.Value{x, x, ndarray.Scalar(true)}, nil)
	require.NoError(t, err)
	assert.Equal(t, []float32{4, 8, 12, 16, 20, 24}, ndarray.Slice[float32](out[0].(*ndarray.Array)))
}

func TestFunctionAttributes(t *testing.T) {
	tests := []struct {
		name string
		call []*onnxwire.Attribute
		want int64
		has  bool
	}{
		{"given", []*onnxwire.Attribute{intAttr("k", 7), intAttr("d", 8)}, 7, true},
		{"default", []*onnxwire.Attribute{intAttr("k", 7)}, 7, true},
		{"left out", nil, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := function("F", "a", "r", in("my.own", wnode("G", "a", "r", refAttr("axis", "k", onnxwire.AttrInt), refAttr("d", "d", onnxwire.AttrInt))))
			f.Attributes = []string{"k"}
			f.AttributeProtos = []*onnxwire.Attribute{intAttr("d", 5)}
			n := load(t, callModel("o", []*onnxwire.Function{f}, in("f", wnode("F", "x", "o", tt.call...)))).Graph.Nodes[0]
			assert.Equal(t, tt.has, n.Has("axis"))
			assert.Equal(t, tt.want, ops.Int(n, "axis"))
			if len(tt.call) < 2 {
				assert.Equal(t, int64(5), ops.Int(n, "d"))
			}
		})
	}
}

func TestFunctionAttributePassedOn(t *testing.T) {
	inner := function("In", "a", "r", in("my.own", wnode("G", "a", "r", refAttr("axis", "p", onnxwire.AttrInt))))
	inner.Attributes = []string{"p"}
	outer := function("Out", "a", "r", in("f", wnode("In", "a", "r", refAttr("p", "q", onnxwire.AttrInt))))
	outer.Attributes = []string{"q"}
	n := load(t, callModel("o", []*onnxwire.Function{inner, outer}, in("f", wnode("Out", "x", "o", intAttr("q", 4))))).Graph.Nodes[0]
	assert.Equal(t, int64(4), ops.Int(n, "axis"))
}

func TestFunctionWithAbsentInput(t *testing.T) {
	f := function("F", "a b", "r", in("my.own", wnode("G", "a b", "r")))
	for _, args := range []string{"x", "x -"} {
		n := load(t, callModel("o", []*onnxwire.Function{f}, in("f", wnode("F", args, "o")))).Graph.Nodes[0]
		assert.Equal(t, "x -", valueNames(n.In))
	}
}

// TestFunctionWithBodies: bodies inside a function see the function's names and
// attributes, not those around the call.
func TestFunctionWithBodies(t *testing.T) {
	f := function("F", "p x", "r", wnode("Neg", "x", "y"),
		wnode("If", "p", "r", graphAttr("then_branch", branch("a", in("my.own", wnode("G", "y", "a", refAttr("k", "k", onnxwire.AttrInt))))),
			graphAttr("else_branch", branch("b", wnode("Relu", "x", "b")))))
	f.Attributes = []string{"k"}
	mod := load(t, callModel("o", []*onnxwire.Function{f}, in("f", wnode("F", "c y", "o", intAttr("k", 9)))))
	n := mod.Graph.Nodes[1]
	assert.Equal(t, "c F_1/y y", valueNames(n.In))
	assert.Equal(t, int64(9), ops.Int(n.Bodies[0].Nodes[0], "k"))
	assert.Equal(t, "y", mod.Graph.Nodes[0].In[0].Name)
}

func TestFunctionHasOperatorSetsOfItsOwn(t *testing.T) {
	f := function("F", "a v", "r", wnode("Add", "a v", "r", intAttr("axis", 0), intAttr("broadcast", 1)))
	f.OpsetImports[0].Version = 6
	m := callModel("o", []*onnxwire.Function{f}, in("f", wnode("F", "x v", "o")))
	m.Graph.Initializers = []*onnxwire.Tensor{floats("v", 1, 2)}
	assert.Equal(t, "Unsqueeze Add", opNames(load(t, m).Graph))
}

func TestFunctionOutputThatIsAnInput(t *testing.T) {
	f := function("F", "a", "a")
	mod := load(t, callModel("o", []*onnxwire.Function{f}, in("f", wnode("F", "x", "o"))))
	assert.Same(t, mod.Graph.Params[0], mod.Graph.Results[0])
	assert.Equal(t, "o", mod.OutputName(0))
}

func TestFunctionOverloads(t *testing.T) {
	a := function("F", "a", "r", wnode("Relu", "a", "r"))
	b := function("F", "a", "r", wnode("Neg", "a", "r"))
	b.Overload = "negative"
	call := in("f", wnode("F", "x", "o"))
	call.Overload = "negative"
	assert.Equal(t, "Neg", opNames(load(t, callModel("o", []*onnxwire.Function{a, b}, call)).Graph))
}

func TestFunctionsRefused(t *testing.T) {
	loop := function("Loop", "a", "r", in("f", wnode("Loop", "a", "r")))
	f := function("F", "a", "r", wnode("Relu", "a", "r"))
	bomb := []*onnxwire.Function{function("F0", "a", "r", wnode("Relu", "a", "r"))}
	for i := 1; i < 30; i++ {
		callee := string(rune('F')) + string(rune('0'+(i-1)%10)) + string(rune('a'+(i-1)/10))
		if i == 1 {
			callee = "F0"
		}
		name := string(rune('F')) + string(rune('0'+i%10)) + string(rune('a'+i/10))
		bomb = append(bomb, function(name, "a", "r", in("f", wnode(callee, "a", "t")), in("f", wnode(callee, "t", "r"))))
	}
	last := bomb[len(bomb)-1].Name
	tests := []struct {
		name      string
		functions []*onnxwire.Function
		call      *onnxwire.Node
		want      string
	}{
		{"calls itself", []*onnxwire.Function{loop}, wnode("Loop", "x", "o"), "nest deeper than"},
		{"defined twice", []*onnxwire.Function{f, f}, wnode("F", "x", "o"), "defined twice"},
		{"too many inputs", []*onnxwire.Function{f}, wnode("F", "x y", "o"), "2 inputs, the function 1"},
		{"too many outputs", []*onnxwire.Function{f}, wnode("F", "x", "o p"), "2 outputs, the function 1"},
		{"unknown attribute", []*onnxwire.Function{f}, wnode("F", "x", "o", intAttr("k", 1)), `no attribute "k"`},
		{"output missing", []*onnxwire.Function{function("F", "a", "r")}, wnode("F", "x", "o"), `"r" of the function is defined nowhere`},
		{"sees the caller's names", []*onnxwire.Function{function("F", "a", "r", wnode("Add", "a y", "r"))}, wnode("F", "x", "o"), `"y", is defined nowhere`},
		{"grows without end", bomb, wnode(last, "x", "o"), "more than 20000 nodes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := refused(t, callModel("o", tt.functions, in("f", tt.call)), Options{Limits: Limits{Nodes: 20000}})
			assert.Contains(t, e.Reason, tt.want)
		})
	}
}
