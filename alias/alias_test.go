package alias_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// graphOf parses a graph and returns its values by name, those of bodies excluded.
func graphOf(t *testing.T, text string) (*ssa.Graph, map[string]*ssa.Value) {
	g, err := ssa.ParseGraph("graph \"g\" {\n" + text + "\n}\n")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	values := map[string]*ssa.Value{}
	for _, v := range g.Params {
		values[v.Name] = v
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			values[v.Name] = v
		}
	}
	return g, values
}

// TestBases follows views, parts and control flow to the values that own the bytes.
func TestBases(t *testing.T) {
	g, v := graphOf(t, `in %k: bool[] in %x: float32[4,4] const %s: int64[1] = [16] const %b: int64[1] = [1] const %e: int64[1] = [3]
		%a = Exp(%x) %r = Reshape(%a, %s) %c = Slice(%a, %b, %e) %y = Neg(%a)
		%d = If(%k | %r, %y) {
			then_branch: graph "t" { in %p: float32[16] in %q: float32[4,4] out %q }
			else_branch: graph "e" { in %u: float32[16] in %w: float32[4,4] %z = Neg(%w) out %z }
		}
		out %c, %d`)
	names := func(of string) (out []string) {
		for _, x := range alias.Bases(v[of]) {
			out = append(out, x.Name)
		}
		return out
	}
	assert.Equal(t, []string{"a"}, names("a"))
	assert.Equal(t, []string{"a"}, names("r"))
	assert.Equal(t, []string{"a", "c"}, names("c"))
	assert.Equal(t, []string{"y", "d"}, names("d"))
	assert.Equal(t, v["a"], alias.Shown(v["r"]))
	assert.Equal(t, v["c"], alias.Shown(v["c"]), "a part is not the whole")
	assert.True(t, alias.HasParts(g))
	w, ok := alias.WindowOf(v["c"])
	assert.True(t, ok)
	assert.Equal(t, int64(16), w.Offset)
	assert.True(t, alias.IsPointer(v["d"]))
	assert.False(t, alias.IsPointer(v["y"]))
}

// TestParts lists what could be made inside the result of a concatenation.
func TestParts(t *testing.T) {
	_, v := graphOf(t, `in %x: float32[2,4] %a = Exp(%x) %b = Neg(%x) %c = Concat(%a, %b) [axis=0] %d = Concat(%a, %b) [axis=1] out %c, %d`)
	assert.Equal(t, []alias.Part{{In: 0, Out: 0, Offset: 0}, {In: 1, Out: 0, Offset: 32}}, alias.Parts(v["c"].Def))
	assert.Empty(t, alias.Parts(v["d"].Def), "rows take turns")
	_, v = graphOf(t, `in %x: float32[N,4] %a = Exp(%x) %c = Concat(%a, %a) [axis=0] out %c`)
	assert.Empty(t, alias.Parts(v["c"].Def), "sizes are not known")
}

// TestUnpaired: a result goes over memory only if each operand that shows it may
// be written over.
func TestUnpaired(t *testing.T) {
	_, v := graphOf(t, `in %x: float32[4] in %w: float32[1] %a = Add(%x, %x) %b = Add(%x, %w) out %a, %b`)
	unpaired := func(result string, k int) []int {
		n := v[result].Def
		return alias.Unpaired(n, k, ops.InPlacePairs(n))
	}
	assert.Empty(t, unpaired("a", 0))
	assert.Equal(t, []int{1}, unpaired("b", 0), "it is read again for every element")
	assert.Equal(t, []int{0, 1}, unpaired("a", 1), "pairs of another result")
}
