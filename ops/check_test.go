package ops_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestCheckComparesTypes(t *testing.T) {
	const head = `graph "g" {
		in %x: float32[N,4]
		in %k: float32[4]
		in %n: int64[]
		in %c: bool[]
	`
	for _, c := range []struct{ name, nodes, want string }{
		{"same", `%y: float32[N,4] = Add(%x, %k) out %y`, ""},
		{"stored says more", `%y: float32[8,4] = Add(%x, %k) out %y`, ""},
		{"stored says less", `%y: unknown = Add(%x, %k) out %y`, ""},
		{"dimension", `%y: float32[N,5] = Add(%x, %k) out %y`, "stored as float32[N,5]"},
		{"element type", `%y: int64[N,4] = Add(%x, %k) out %y`, "stored as int64"},
		{"rank", `%y: float32[4] = Add(%x, %k) out %y`, "stored as float32[4]"},
		{"rule refuses", `%y: float32[N,4] = Add(%x, %n) out %y`, "must be the same"},
		{"content", `const %a: int64[1] = [1] %y: int64[1]{3} = Add(%a, %a) out %y`, "stored as 3"},
		{"opaque", `%y: float32[77] = opaque Foo(%x) out %y`, ""},
		{"in a body", `%r: float32[N,4] = Loop(%n, %c, %x | %k) {
			body: graph "b" {
				in %i: int64[] in %c: bool[] in %a: float32[N,4] in %k: float32[4]
				%b: float32[N,5] = Add(%a, %k)
				out %c, %b
			}
		} out %r`, "Loop"},
		{"structure", `%y: float32[N,4] = Loop(%n, %c, %x) { body: graph "b" { out } } out %y`, "has 0 parameters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(head + c.nodes + "}")
			require.NoError(t, err)
			before := g.String()
			err = ops.Check(g)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			assert.Equal(t, before, g.String(), "checking changes nothing")
		})
	}
}

// TestErrorsNameTheModelsNodes: a node that passes made for execution is told of as the nodes of the model that it computes.
func TestErrorsNameTheModelsNodes(t *testing.T) {
	g := ssa.NewGraph("g")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2))
	n := g.NewNode("Fused", []*ssa.Value{x}, 1)
	n.Domain, n.Out[0].Name = ops.Private, "y"
	cause := errors.New("no memory")
	assert.EqualError(t, ops.AtNode("run", n, cause), `run: berth.internal.Fused "-> y"(float32[2]): no memory`)
	n.Sources = []ssa.NodeName{{Op: "Exp", Name: "first"}, {Domain: "com.microsoft", Op: "Gelu", Result: "b"}}
	assert.EqualError(t, ops.AtNode("run", n, cause), `run: Exp "first", com.microsoft.Gelu "-> b"(float32[2]), by berth.internal.Fused: no memory`)
	c, _ := g.Clone()
	assert.Equal(t, n.Sources, c.Nodes[0].Sources)
	for range 4 {
		n.Sources = append(n.Sources, ssa.NodeName{Op: "Neg"})
	}
	assert.ErrorContains(t, ops.AtNode("run", n, cause), `Neg "", Neg "" and 2 more(float32[2]), by berth.internal.Fused`)
}

// TestIncompatible: a node is incompatible if its operator refuses the operands and no result has a type, whichever result it is; absent ones have none.
func TestIncompatible(t *testing.T) {
	const (
		head    = `graph "g" { in %x: float32[5,2,3] in %b: float32[5,2,3,1] in %w: float32[1,16,3] in %r: float32[1,16,4] `
		refused = `%y: float32[5,1,2,4], %h: float32[1,2,4] = LSTM(%b, %w, %r) [hidden_size=4] out %y`
		absent  = `_, %h: float32[1,2,4] = LSTM(%b, %w, %r) [hidden_size=4] out %h`
	)
	for _, c := range []struct {
		name, node string
		untyped    []int // results whose types are taken away
		want       bool
	}{
		{"accepted", `%y, %h = LSTM(%x, %w, %r) [hidden_size=4] out %y`, nil, false},
		{"accepted, untyped", `%y, %h = LSTM(%x, %w, %r) [hidden_size=4] out %y`, []int{0, 1}, false},
		{"refused", refused, []int{0, 1}, true},
		{"refused, the first result typed", refused, []int{1}, false},
		{"refused, the second result typed", refused, []int{0}, false},
		{"refused, the first result absent", absent, []int{1}, true},
		{"refused, the first result absent, the second typed", absent, nil, false},
		{"refused, opaque", strings.Replace(refused, "= LSTM", "= opaque LSTM", 1), []int{0, 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(head + c.node + ` }`)
			require.NoError(t, err)
			n := g.Nodes[0]
			for _, i := range c.untyped {
				n.Out[i].Type = ssa.Type{}
			}
			assert.Equal(t, c.want, ops.Incompatible(n) != nil)
		})
	}
}
