package rewrite

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/berth-onnx/berth/ops/rare"
	"github.com/berth-onnx/berth/ssa"
)

// TestLower checks that no body but those of control flow is left, and that the
// lowered graph computes what the reference kernels of the operators do.
func TestLower(t *testing.T) {
	const sequences = `in %a: float32[2,3] in %b: float32[4] in %t: float32[] %s = SequenceConstruct(%a, %b) %r = SequenceConstruct(%b, %t) const %k: int64[] = 1 `
	const flex = `in %q: float32[1,4,N,8] in %k: float32[1,2,5,8] in %v: float32[1,2,5,6] in %w: float32[] `
	const score = `score_mod: graph "s" { in %p: float32[1,4,N,5] in %w: float32[] %x = Mul(%p, %w) %y = Tanh(%x) out %y }`
	const prob = `prob_mod: graph "m" { in %p: float32[1,4,N,5] in %w: float32[] %x = Add(%p, %w) out %x }`
	const projected = `in %x: float32[2,5,6] in %w: float32[6,24] in %b: float32[24] `
	const matrices = `in %a: uint8[N,6] in %b: int8[6,5] const %s: float32[] = 0.25 const %t: float32[5] = [0.5, 1, 2, 0.125, 0.25] const %z: uint8[] = 3 const %y: int8[5] = [1, -2, 3, 0, 7] `
	for _, c := range []struct {
		name, graph string
		has         []string // operators of the lowered graph
	}{
		{"a product of quantized matrices, zero points and scales of columns, a bias", matrices + `in %c: float32[5] %o = com.microsoft::MatMulIntegerToFloat(%a, %b, %s, %t, %z, %y, %c) out %o`, []string{"MatMulInteger", "Mul", "Add"}},
		{"a product of quantized matrices with no zero points", matrices + `%o = com.microsoft::MatMulIntegerToFloat(%a, %b, %s, %t) out %o`, []string{"MatMulInteger", "Mul"}},
		{"a scale for each row", `in %a: uint8[2,6] in %b: int8[6,5] in %s: float32[2] in %t: float32[] %o = com.microsoft::MatMulIntegerToFloat(%a, %b, %s, %t) out %o`, []string{"MatMulIntegerToFloat"}},
		{"a product that quantizes its rows, stacked", matrices + `in %x: float32[2,N,6] in %c: float32[5] %o = com.microsoft::DynamicQuantizeMatMul(%x, %b, %t, %y, %c) out %o`, []string{"DynamicQuantizeLinear", "MatMulInteger", "Add"}},
		{"a vector that is quantized", matrices + `in %x: float32[6] %o = com.microsoft::DynamicQuantizeMatMul(%x, %b, %t) out %o`, []string{"DynamicQuantizeMatMul"}},
		{"QGemm, turned operands, a bias and an odd zero point", `in %a: uint8[6,N] in %b: int8[5,6] in %c: int32[5] const %s: float32[] = 0.25 const %z: uint8[] = 3 const %y: int8[] = 1 const %u: float32[1] = 64 const %v: uint8[1] = 127
			%o = com.microsoft::QGemm(%a, %s, %z, %b, %s, %y, %c, %u, %v) [transA=1, transB=1, alpha=0.5] out %o`, []string{"MatMulInteger", "QuantizeLinear", "Transpose"}},
		{"QGemm to real numbers", matrices + `%o = com.microsoft::QGemm(%a, %s, %z, %b, %t, %y) out %o`, []string{"MatMulInteger", "Mul"}},
		{"quantized attention with its projection", `in %x: uint8[2,5,6] in %w: int8[6,24] in %b: float32[24] const %s: float32[] = 0.01 in %m: int32[2,5] const %z: uint8[] = 3
			%y = com.microsoft::QAttention(%x, %w, %b, %s, %s, %m, %z) [num_heads=2, unidirectional=1] out %y`, []string{"MatMulInteger", "MultiHeadAttention"}},
		{"members and a tensor", sequences + `%m = SequenceMap(%s, %t) { body: graph "b" { in %x: float32[] in %y: float32[] %z = Mul(%x, %y) out %z } } %o = SequenceAt(%m, %k) out %o`,
			[]string{"Loop"}},
		{"two sequences, two results, one of them the member itself", sequences + `%m, %n = SequenceMap(%s, %r) { body: graph "b" { in %x: float32[] in %y: float32[] %z = Add(%x, %x) out %z, %y } } %o = SequenceAt(%m, %k) %p = SequenceAt(%n, %k) out %o, %p`,
			[]string{"Loop"}},
		{"captures", sequences + `%m = SequenceMap(%s | %t) { body: graph "b" { in %x: float32[] in %c: float32[] %z = Sub(%x, %c) out %z } } %o = SequenceAt(%m, %k) out %o`,
			[]string{"Loop"}},
		{"in a branch", sequences + `const %yes: bool[] = true %c = Identity(%yes) %o = If(%c | %s, %k) {
			then_branch: graph "t" { in %s: seq(float32[...]) in %k: int64[] %m = SequenceMap(%s) { body: graph "b" { in %x: float32[...] %z = Neg(%x) out %z } } %o = SequenceAt(%m, %k) out %o }
			else_branch: graph "e" { in %s: seq(float32[...]) in %k: int64[] %o = SequenceAt(%s, %k) out %o } } out %o`, []string{"If"}},
		{"attention with both bodies and shared key heads", flex + `%y = ai.onnx.preview::FlexAttention(%q, %k, %v | %w) { ` + score + ` ` + prob + ` } out %y`,
			[]string{"MatMul", "Tanh", "Softmax"}},
		{"attention with a scale and a precision", flex + `%y = ai.onnx.preview::FlexAttention(%q, %k, %v | %w) [scale=0.5, softmax_precision=11] { score_mod: graph "s" { in %p: float64[1,4,N,5] in %w: float32[] %x = Abs(%p) out %x } } out %y`,
			[]string{"MatMul", "Abs", "Softmax"}},
		{"attention with its projection", projected + `%y = com.microsoft::Attention(%x, %w, %b) [num_heads=2] out %y`, []string{"MatMul", "MultiHeadAttention"}},
		{"attention with its projection, masks of keys", projected + `in %m: int32[2,5] %y = com.microsoft::Attention(%x, %w, _, %m) [num_heads=2, unidirectional=1, mask_filter_value=-3.0] out %y`, []string{"MultiHeadAttention"}},
		{"attention with its projection, sizes and a bias of scores", projected + `in %m: float32[2,2,5,5] %y = com.microsoft::Attention(%x, %w, %b, _, _, %m) [num_heads=2, scale=0.3, qkv_hidden_sizes=[4,4,16]] out %y`, []string{"MultiHeadAttention"}},
		{"attention that gives its keys", projected + `%y, %p = com.microsoft::Attention(%x, %w, %b) [num_heads=2] out %y, %p`, []string{"Attention"}},
		{"attention without bodies", flex + `%y = ai.onnx.preview::FlexAttention(%q, %k, %v) [scale=0.25] out %y`, []string{"Attention"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, m := parseCase(t, c.graph), &ssa.Module{Graph: parseCase(t, c.graph)}
			_, err := Run(t.Context(), m, Options{List: &List{Name: "lower", AnyOpset: true, Stages: []Stage{{Name: "lower", Passes: []*Pass{Lower}}}}, Check: true})
			require.NoError(t, err)
			ops := map[string]bool{}
			m.Graph.Walk(func(g *ssa.Graph) {
				for _, n := range g.Nodes {
					ops[n.Op] = true
				}
			})
			for _, op := range c.has {
				assert.Contains(t, ops, op)
			}
			assert.NotContains(t, ops, "SequenceMap")
			assert.NotContains(t, ops, "FlexAttention")
			sameResults(t, before, m.Graph, false)
		})
	}
}

// TestLowerLeavesNothing: a node that stays has no other nodes made for it.
func TestLowerLeavesNothing(t *testing.T) {
	m := &ssa.Module{Graph: parseCase(t, `in %a: uint8[6,N] in %b: int8[5,6] in %c: int32[1,5] const %s: float32[] = 0.25 const %z: uint8[] = 3 const %y: int8[] = 1
		%o = com.microsoft::QGemm(%a, %s, %z, %b, %s, %y, %c) [transA=1, transB=1] out %o`)}
	_, err := Run(t.Context(), m, Options{List: &List{Name: "lower", AnyOpset: true, Stages: []Stage{{Name: "lower", Passes: []*Pass{Lower}}}}, Check: true})
	require.NoError(t, err)
	require.Len(t, m.Graph.Nodes, 1)
}

// TestLowerIsRequired: the executor can not do without it, whatever is switched
// off.
func TestLowerIsRequired(t *testing.T) {
	m := &ssa.Module{Graph: parseCase(t, `in %a: float32[2] %s = SequenceConstruct(%a, %a) const %k: int64[] = 1 %m = SequenceMap(%s) { body: graph "b" { in %x: float32[2] %z = Neg(%x) out %z } } %o = SequenceAt(%m, %k) out %o`)}
	_, err := Run(t.Context(), m, Options{List: &Runtime, Only: []string{"dead"}, Off: []string{"lower"}})
	require.NoError(t, err)
	for _, n := range m.Graph.Nodes {
		assert.NotEqual(t, "SequenceMap", n.Op)
	}
}
