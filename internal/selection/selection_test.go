package selection_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/selection"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

func parse(t *testing.T, text string) *ssa.Graph {
	t.Helper()
	g, err := ssa.ParseGraph(`graph "g" { ` + text + ` }`)
	require.NoError(t, err)
	bound, err := ops.Bind(t.Context(), g, ops.Binding{})
	require.NoError(t, err)
	return bound
}

// TestOf lists nodes that compare or round floats which depend on inputs, and those with a counterpart.
func TestOf(t *testing.T) {
	const top = `in %x: float32[4] const %k: int64[1] = [2] %v, %i = TopK(%x, %k) out %v, %i`
	const branch = `in %x: float32[4] in %on: bool[] %y = If(%on | %x) { then_branch: graph "t" { in %p: float32[4] const %k: int64[1] = [2] %v, %i = TopK(%p, %k) out %v }
		else_branch: graph "e" { in %q: float32[4] const %k2: int64[1] = [2] %n = Neg(%q) out %n } } out %y`
	const loop = `const %m: int64[] = 3 %v = Loop(%m, _, %p) { body: graph "b" { in %it: int64[] in %c: bool[] in %l: float32[4] %f = Floor(%l) out %c, %f } }`
	for _, c := range []struct{ name, graph, other, all, both string }{
		{"the same", top, top, "i", "i"},
		{"another name", top, strings.ReplaceAll(top, "%i", "%j"), "i", ""},
		{"another operator", `in %x: float32[4] %y = Floor(%x) out %y`, `in %x: float32[4] %y = Ceil(%x) out %y`, "y", ""},
		{"another number of operands", `in %x: float32[4] %y = Round(%x) out %y`, `in %x: float32[4] %y = Round(%x, %x) out %y`, "y", ""},
		{"another result", top, `in %x: float32[4] const %k: int64[1] = [2] %i, %v = TopK(%x, %k) out %v, %i`, "i", ""},
		{"an operand is constant", `in %x: float32[4] in %k: int64[1] %v, %i = TopK(%x, %k) out %i`, top, "i", "i"},
		{"integers", `in %x: int64[4] %y = Greater(%x, %x) out %y`, top, "", ""},
		{"the same in every run", `const %x: float32[4] = [1, 2, 3, 4] %y = Floor(%x) out %y`, top, "", ""},
		{"in a branch", branch, branch, "i", "i"},
		{"in a branch that is gone", branch, top, "i", "i"},
		{"in a branch that is new", top, branch, "i", ""},
		{"a name that two branches have", strings.Replace(branch, "%n = Neg(%q)", "%v, %i = TopK(%q, %k2) %n = Cast(%i) [to=1]", 1), branch, "", ""},
		{"in a loop of a branch", strings.Replace(branch, "%v, %i = TopK(%p, %k)", loop, 1), strings.Replace(branch, "%v, %i = TopK(%p, %k)", loop, 1), "f", "f"},
		{"casts", `in %x: float32[4] %y = Cast(%x) [to=7] %z = Cast(%x) [to=11] out %y, %z`, top, "y", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, err := ssa.ParseGraph(`graph "g" { ` + c.other + ` }`)
			require.NoError(t, err)
			p := selection.Of(parse(t, c.graph), parse(t, c.graph), other)
			assert.Equal(t, c.all, strings.Join(p.All, " "))
			assert.Equal(t, c.both, strings.Join(p.Both, " "))
			assert.Len(t, p.Missing(), len(p.All)-len(p.Both))
			if p.LeaveBodies(); strings.Contains(c.graph, "If(") {
				assert.Empty(t, p.All)
			}
		})
	}
}

// TestGraphs are the graphs made of one whose second selection reads the first one's, and is an output.
func TestGraphs(t *testing.T) {
	const graph = `in %x: float32[4] %f = Floor(%x) const %k: float32[] = 2 %y = Greater(%f, %k) out %y`
	for _, c := range []struct {
		name            string
		edit            func(p *selection.Plan, g *ssa.Graph) error
		inputs, outputs string
		reads           string // by the second
	}{
		{"observed", (*selection.Plan).Observe, `x`, `operand 0 of Floor "f", operand 0 of Greater "y", operand 1 of Greater "y", y, selected by Floor "f", selected by Greater "y"`, "f"},
		{"given", func(p *selection.Plan, g *ssa.Graph) error { return p.Give(g, p.All, true) }, `x, selection of Floor "f", selection of Greater "y"`,
			`operand 0 of Floor "f", operand 0 of Greater "y", operand 1 of Greater "y", y, selected by Floor "f", selected by Greater "y"`, `selection of Floor "f"`},
		{"one given", func(p *selection.Plan, g *ssa.Graph) error { return p.Give(g, p.All[1:], false) }, `x, selection of Greater "y"`,
			`operand 0 of Greater "y", operand 1 of Greater "y", y`, `f`},
		{"alone", (*selection.Plan).Alone, `x, operand 0 of Floor "f", operand 0 of Greater "y"`, `selected by Floor "f", selected by Greater "y"`, `operand 0 of Greater "y"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, graph)
			require.NoError(t, c.edit(selection.Of(g, g, g), g))
			require.NoError(t, g.Sort())
			require.NoError(t, ssa.Check(g))
			assert.Equal(t, c.inputs, names(g.Params))
			assert.Equal(t, c.outputs, names(g.Results))
			for _, n := range g.Nodes {
				if n.Op == "Greater" {
					assert.Equal(t, c.reads, n.In[0].Name)
				}
			}
		})
	}
	g := parse(t, graph)
	require.ErrorContains(t, selection.Of(g, g, g).Give(g, []string{"z"}, false), `no node computes "z"`)
}

// TestNames: inputs and outputs that are made have names of their own, whatever the order of those that the graphs have.
func TestNames(t *testing.T) {
	const first, second = `%"operand 0 of Floor \"f\""`, `%"_operand 0 of Floor \"f\""`
	for _, c := range []struct{ name, graph, want string }{
		{"one", `in ` + first + `: float32[4] %f = Floor(` + first + `) out %f`, `_operand 0 of Floor "f"`},
		{"two", `in ` + first + `: float32[4] in ` + second + `: float32[4] %f = Floor(` + first + `) out %f`, `__operand 0 of Floor "f"`},
		{"the longer first", `in ` + second + `: float32[4] in ` + first + `: float32[4] %f = Floor(` + first + `) out %f`, `__operand 0 of Floor "f"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := selection.Of(parse(t, c.graph), parse(t, c.graph), parse(t, `in %x: float32[4] %f = Floor(%x) out %f`))
			assert.Equal(t, c.want, p.Operand("f", 0))
		})
	}
}

func names(values []*ssa.Value) string {
	var all []string
	for _, v := range values {
		all = append(all, v.Name)
	}
	return strings.Join(all, ", ")
}
