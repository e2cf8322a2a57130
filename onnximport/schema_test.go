package onnximport

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ops"
)

func floatAttr(name string, v float32) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrFloat, F: v}
}

func strAttr(name, v string) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrString, S: []byte(v)}
}

func intsAttr(name string, v ...int64) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInts, Ints: v}
}

// TestAttributesAreChecked imports attributes that do not keep to the schema of
// operator set 13. ONNX Runtime refuses each of these models, but for values outside
// a list, which it refuses when it runs them.
func TestAttributesAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name, reason, remedy string
		node                 *onnxwire.Node
	}{
		{"unknown", `Relu of operator set 13 has no attribute "foo"`, "remove it", wnode("Relu", "x", "o", intAttr("foo", 1))},
		{"near name", `Softmax of operator set 13 has no attribute "axes"`, `did you mean "axis"?`, wnode("Softmax", "x", "o", intAttr("axes", 1))},
		{"another operator's", `MatMul of operator set 13 has no attribute "alpha"`, "remove it", wnode("MatMul", "x y", "o", floatAttr("alpha", 2))},
		{"of an older version", `Relu of operator set 13 has no attribute "consumed_inputs"`, "remove it: operator set 6 did so", wnode("Relu", "x", "o", intsAttr("consumed_inputs", 0))},
		{"of a newer version", `CastLike of operator set 13 has no attribute "saturate"`, "import operator set 19, which has it, or remove it", wnode("CastLike", "x y", "o", intAttr("saturate", 1))},
		{"int for float", `attribute "alpha" is of type int, the operator takes float`, "write it with that type", wnode("LeakyRelu", "x", "o", intAttr("alpha", 1))},
		{"float for int", `attribute "axis" is of type float, the operator takes int`, "write it with that type", wnode("Softmax", "x", "o", floatAttr("axis", 1))},
		{"int for ints", `attribute "perm" is of type int, the operator takes ints`, "write it with that type", wnode("Transpose", "x", "o", intAttr("perm", 1))},
		{"graph for int", `attribute "axis" is of type graph, the operator takes int`, "write it with that type", wnode("Softmax", "x", "o", graphAttr("axis", &onnxwire.Graph{Name: "b", Nodes: []*onnxwire.Node{wnode("Relu", "x", "v")}, Outputs: outputs("v")}))},
		{"value outside a list", `attribute "mode" is "DRC"`, `set it to one of ["DCR" "CRD"]`, wnode("DepthToSpace", "x", "o", intAttr("blocksize", 2), strAttr("mode", "DRC"))},
		{"number outside a range", `attribute "blocksize" holds 0`, "set it to 1 up to 32768", wnode("DepthToSpace", "x", "o", intAttr("blocksize", 0))},
		{"element outside a range", `attribute "strides" holds 0`, "set it to at least 1", wnode("Conv", "x y", "o", intsAttr("strides", 1, 0))},
		{"missing", `required attribute "axis" is missing`, "set it", wnode("Concat", "x y", "o")},
		{"twice", `attribute "axis" is given twice`, "keep one of them", wnode("Softmax", "x", "o", intAttr("axis", 0), intAttr("axis", 1))},
		{"unknown, of a constant", `Constant of operator set 13 has no attribute "values"`, `did you mean "value"?`, wnode("Constant", "", "o", floatAttr("values", 1))},
		{"kind, of a constant", `attribute "value_int" is of type float, the operator takes int`, "write it with that type", wnode("Constant", "", "o", floatAttr("value_int", 1))},
		{"unknown, com.microsoft", `QuickGelu of operator set 1 has no attribute "alhpa"`, `did you mean "alpha"?`, in("com.microsoft", wnode("QuickGelu", "x", "o", floatAttr("alhpa", 1)))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := wmodel("o", tt.node)
			m.OpsetImports = append(m.OpsetImports, &onnxwire.OperatorSetID{Domain: "com.microsoft", Version: 1})
			e := refused(t, m, Options{})
			assert.Equal(t, tt.reason, e.Reason)
			assert.Equal(t, tt.remedy, e.Remedy)
			assert.Equal(t, `→"o"`, e.Node)
			var ae *ops.AttrError
			assert.ErrorAs(t, e, &ae)
		})
	}
}

// TestAttributesOfBodiesAreChecked looks into a branch and into a function.
func TestAttributesOfBodiesAreChecked(t *testing.T) {
	branch := &onnxwire.Graph{Name: "t", Nodes: []*onnxwire.Node{wnode("Relu", "x", "a", intAttr("foo", 1))}, Outputs: outputs("a")}
	m := wmodel("o", wnode("If", "c", "o", graphAttr("then_branch", branch), graphAttr("else_branch", branch)))
	assert.Equal(t, `→"o" / →"a"`, refused(t, m, Options{}).Node)

	f := &onnxwire.Function{Name: "F", Domain: "my.own", Inputs: []string{"p"}, Outputs: []string{"q"}, OpsetImports: []*onnxwire.OperatorSetID{{Version: 13}},
		Nodes: []*onnxwire.Node{wnode("LeakyRelu", "p", "q", intAttr("alpha", 1))}}
	m = wmodel("o", in("my.own", wnode("F", "x", "o")))
	m.Functions = []*onnxwire.Function{f}
	assert.Contains(t, refused(t, m, Options{}).Error(), `LeakyRelu): attribute "alpha" is of type int`)
}

// TestToleratedAttributes: names that begin with two underscores are dropped, and an
// empty list is a list, also where a file of IR version 1 does not say that it is one.
func TestToleratedAttributes(t *testing.T) {
	mod := load(t, wmodel("o", wnode("Transpose", "y", "z"), wnode("MatMul", "x z", "a", floatAttr("__alpha", 2)), wnode("ReduceMax", "a", "o", intsAttr("axes"))))
	assert.Empty(t, mod.Graph.Nodes[1].Attrs)

	old := wmodel("o", wnode("ReduceMax", "x", "o", &onnxwire.Attribute{Name: "axes"}))
	old.IRVersion = 1
	assert.Empty(t, load(t, old).Graph.Nodes[0].Attrs)
}

// TestLenientKeepsWrongAttributes: a lenient import warns and keeps the node as the
// file has it.
func TestLenientKeepsWrongAttributes(t *testing.T) {
	mod, err := FromModel(wmodel("o", wnode("Relu", "x", "o", intAttr("foo", 1))), "", Options{Lenient: true})
	require.NoError(t, err)
	require.Len(t, mod.Warnings, 1)
	assert.Contains(t, mod.Warnings[0], `has no attribute "foo"`)
	assert.True(t, mod.Graph.Nodes[0].Opaque)
	assert.True(t, mod.Graph.Nodes[0].Has("foo"))
}
