package rewrite

import (
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFold(t *testing.T) {
	testRewrite(t, []*Pass{ShapeFold, Fold, Dead}, []rewriteCase{
		{name: "arithmetic", before: `in %x: float32[2] const %k: float32[2] = [1, 2] const %l: float32[] = 3
			%a = Add(%k, %l) %b = Mul(%a, %a) %y = Add(%x, %b) out %y`,
			after: `in %x: float32[2] const %b: float32[2] = [16, 25] %y = Add(%x, %b) out %y`},
		{name: "an output becomes a constant of its name", before: `in %x: float32[2] const %k: float32[2] = [1, 2] %y = Neg(%k) out %y`,
			after: `in %x: float32[2] const %y: float32[2] = [-1, -2] out %y`},
		{name: "constant of shape stays one element", before: `in %x: float32[1000,1000] const %s: int64[2] = [1000, 1000]
			%w = ConstantOfShape(%s) [value=tensor(float32[1] = [0.5])] %v = Transpose(%w) const %k: float32[] = 2 %u = Mul(%v, %k) %y = Add(%x, %u) out %y`,
			after: `in %x: float32[1000,1000] const %u: float32[1000,1000] = splat 1 %y = Add(%x, %u) out %y`},
		{name: "indices within one element repeated", before: `in %x: float32[1] const %d: float32[10] = splat 2 const %i: int64[1] = [9] const %j: int64[1,1] = [-10]
			%a = GatherElements(%d, %i) %b = GatherND(%d, %j) %s = Add(%a, %b) %y = Add(%x, %s) out %y`, after: `in %x: float32[1] const %s: float32[1] = [4] %y = Add(%x, %s) out %y`},
		{name: "expansion of different elements stays", before: `in %x: float32[1000,2] const %s: int64[2] = [1000, 2] const %k: float32[1,2] = [1, 2]
			%w = Expand(%k, %s) %y = Add(%x, %w) out %y`},
		{name: "small expansion folds", before: `in %x: float32[3,2] const %s: int64[2] = [3, 2] const %k: float32[1,2] = [1, 2]
			%w = Expand(%k, %s) %y = Add(%x, %w) out %y`,
			after: `in %x: float32[3,2] const %w: float32[3,2] = [1, 2, 1, 2, 1, 2] %y = Add(%x, %w) out %y`},
		{name: "inside a body, captured constant", before: `in %c: bool[] in %x: float32[2] const %k: float32[2] = [1, 2] %y = If(%c | %x, %k) {
			then_branch: graph "t" { in %p: float32[2] in %q: float32[2] const %l: float32[] = 3 %a = Add(%l, %l) %b = Add(%p, %a) out %b }
			else_branch: graph "e" { in %p: float32[2] in %q: float32[2] %b = Add(%p, %q) out %b } } out %y`,
			after: `in %c: bool[] in %x: float32[2] const %k: float32[2] = [1, 2] %y = If(%c | %x, %k) {
			then_branch: graph "t" { in %p: float32[2] in %q: float32[2] const %l: float32[] = 6 %b = Add(%p, %l) out %b }
			else_branch: graph "e" { in %p: float32[2] in %q: float32[2] %b = Add(%p, %q) out %b } } out %y`},
		{name: "a loop over constants", before: `in %x: float32[2] const %n: int64[] = 3 const %k: float32[2] = [1, 2]
			%a, %s = Loop(%n, _, %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] %q = Add(%p, %p) out %c, %q, %q } }
			%b = Add(%x, %a) %y = Add(%b, %s) out %y`,
			after: `in %x: float32[2] const %a: float32[2] = [8, 16] const %s: float32[3,2] = [2, 4, 4, 8, 8, 16] %b = Add(%x, %a) %y = Add(%b, %s) out %y`},
		{name: "a loop that never starts", before: `in %x: float32[2] const %n: int64[] = 9000000000000000000 const %k: float32[2] = [1, 2] const %f: bool[] = false
			%a = Loop(%n, %f, %k) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[2] %q = Add(%p, %p) %d = And(%c, %c) out %d, %q } }
			%y = Add(%x, %a) out %y`, after: `in %x: float32[2] const %a: float32[2] = [1, 2] %y = Add(%x, %a) out %y`},
		{name: "a chain that is larger inside", opts: Options{Growth: Growth{PerNode: -1}},
			before: `in %x: float32[8] const %k: float32[2,8,1] = [1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1] const %l: float32[2,1,8] = [1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1]
			const %ax: int64[2] = [0, 1] %a = Add(%k, %l) %b = Mul(%a, %a) %s = ReduceSum(%b, %ax) [keepdims=0] %y = Add(%x, %s) out %y`,
			after: `in %x: float32[8] const %s: float32[8] = [316, 412, 524, 652, 796, 956, 1132, 1324] %y = Add(%x, %s) out %y`},
		{name: "a chain whose constants are read elsewhere", opts: Options{Growth: Growth{PerNode: -1}},
			before: `in %x: float32[40] const %k: float32[40,1] = [1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
			const %l: float32[1,40] = [1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] const %ax: int64[1] = [0] 
			%a = Add(%k, %l) %s = ReduceSum(%a, %ax) %y = Add(%x, %s) %z = Mul(%x, %k) %u = Sub(%x, %l) out %y, %z, %u`},
		{name: "a chain to a result", opts: Options{Growth: Growth{PerNode: -1}}, before: `in %x: float32[2] const %k: float32[2] = [1, 2]
			const %s: int64[2] = [30, 2] %w = Expand(%k, %s) const %ax: int64[1] = [0] %y = ReduceSum(%w, %ax) [keepdims=0] %z = Neg(%x) out %y, %z`,
			after: `in %x: float32[2] const %y: float32[2] = [30, 60] %z = Neg(%x) out %y, %z`},
		{name: "shape chain of a static tensor", before: `in %x: float32[2,3,4] %s = Shape(%x) const %i: int64[1] = [0] %a = Gather(%s, %i) [axis=0]
			const %m: int64[1] = [-1] %t = Concat(%a, %m) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[2,3,4] const %t: int64[2] = [2, -1] %y = Reshape(%x, %t) out %y`},
		{name: "shape of the known part", before: `in %x: float32[N,3,4] %s = Shape(%x) const %i: int64[] = 2 %y = Gather(%s, %i) [axis=0] out %y`,
			after: `in %x: float32[N,3,4] const %y: int64[] = 4 out %y`},
		{name: "shape of the unknown part stays", before: `in %x: float32[N,3,4] %s = Shape(%x) const %i: int64[] = 0 %y = Gather(%s, %i) [axis=0] out %y`},
	})
}

// TestFoldKeepsErrors: nodes that refuse their constant operands stay, so that a run refuses them; also where the data is one element repeated.
func TestFoldKeepsErrors(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"GatherElements", `const %i: int64[1] = [10] %y = GatherElements(%d, %i)`},
		{"GatherND", `const %i: int64[1,1] = [-11] %y = GatherND(%d, %i)`},
		{"ReverseSequence", `const %l: int64[1] = [11] const %s: int64[2] = [10, 1] %e = Reshape(%d, %s) %y = ReverseSequence(%e, %l)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { const %d: float32[10] = splat 2 ` + c.text + ` out %y }`)
			require.NoError(t, err)
			m := &ssa.Module{Graph: g}
			_, err = Run(t.Context(), m, Options{MaxOpset: -1})
			require.NoError(t, err)
			require.Len(t, m.Graph.Nodes, 1)
			assert.Equal(t, c.name, m.Graph.Nodes[0].Op)
			_, err = ops.Interpret(t.Context(), m.Graph, nil, nil)
			var at *ops.NodeError
			assert.ErrorAs(t, err, &at)
		})
	}
}

// TestViewResults: a constant under another shape has the elements that the reference kernel gives, and the bytes of the first.
func TestViewResults(t *testing.T) {
	for _, c := range []struct {
		name, node string
		shares     bool
	}{
		{"another axis", `const %k: float32[2,3] = [1, 2, 3, 4, 5, 6] const %a: int64[2] = [0, 2] %y = Unsqueeze(%k, %a)`, true},
		{"an axis less", `const %k: float32[1,3] = [1, 2, 3] const %a: int64[1] = [0] %y = Squeeze(%k, %a)`, true},
		{"another shape", `const %k: int64[2,3] = [1, 2, 3, 4, 5, 6] const %s: int64[2] = [3, -1] %y = Reshape(%k, %s)`, true},
		{"axes of one element trade places", `const %k: float32[1,3] = [1, 2, 3] %y = Transpose(%k) [perm=[1, 0]]`, true},
		{"elements move", `const %k: float32[2,2] = [1, 2, 3, 4] %y = Transpose(%k) [perm=[1, 0]]`, false},
		{"a part", `const %k: float32[4] = [1, 2, 3, 4] const %b: int64[1] = [1] const %e: int64[1] = [3] %y = Slice(%k, %b, %e)`, false},
		{"equal elements", `const %k: float32[2,2] = [7, 7, 7, 7] const %s: int64[1] = [4] %y = Reshape(%k, %s)`, false},
		{"no elements", `const %k: float32[0,2] = [] const %s: int64[2] = [2, 0] %y = Reshape(%k, %s) [allowzero=1]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parseCase(t, c.node+" out %y")
			n := g.Nodes[0]
			k := viewResult(t.Context(), n)
			if !c.shares {
				assert.Nil(t, k)
				return
			}
			require.NotNil(t, k)
			want, ok := (&Context{ctx: t.Context()}).eval(n, nil)
			require.True(t, ok)
			got, err := k.Array()
			require.NoError(t, err)
			assert.Equal(t, want[0], got)
			assert.Same(t, &n.In[0].Const.Packed()[0], &k.Packed()[0])
		})
	}
}

func TestTables(t *testing.T) {
	const index = `in %s: float32[N,3] %i = ArgMax(%s) [axis=1, keepdims=0] `
	const head = index + `const %e: float32[3,2] = [1, 2, 3, 4, 5, 6] const %w: float32[2,2] = [1, 2, 3, 5] `
	const loop = `in %n: int64[] in %s: float32[1,3] in %h: float32[1,2] %r = Loop(%n, _, %h | %s) { body: graph "b" { in %k: int64[] in %c: bool[] in %g: float32[1,2] in %s: float32[1,3]
		%i = ArgMax(%s) [axis=1, keepdims=0] `
	opts := Options{Compute: ops.Eval}
	testRewrite(t, []*Pass{Tables, Dead}, []rewriteCase{
		{name: "rows times weights", opts: opts, before: head + `%r = Gather(%e, %i) %y = MatMul(%r, %w) out %y`,
			after: index + `const %t: float32[3,2] = [7, 12, 15, 26, 23, 40] %y = Gather(%t, %i) [axis=0] out %y`},
		{name: "in a body, with a bias", opts: opts, before: loop + `const %e: float32[3,2] = [1, 2, 3, 4, 5, 6] const %w: float32[2,2] = [1, 2, 3, 5] const %b: float32[2] = [10, 20]
			%x = Gather(%e, %i) %p = Gemm(%x, %w, %b) [transB=1] %q = Add(%g, %p) out %c, %q } } out %r`,
			after: loop + `const %t: float32[3,2] = [15, 33, 21, 49, 27, 65] %p = Gather(%t, %i) [axis=0] %q = Add(%g, %p) out %c, %q } } out %r`},
		{name: "rows that others read: stay", opts: opts, before: head + `%r = Gather(%e, %i) %y = MatMul(%r, %w) out %y, %r`},
		{name: "columns: stay", opts: opts, before: `in %s: float32[2,2] %i = ArgMax(%s) [axis=1, keepdims=0] const %e: float32[2,2] = [1, 2, 3, 4] const %w: float32[2,2] = [1, 2, 3, 5]
			%r = Gather(%e, %i) [axis=1] %y = MatMul(%r, %w) out %y`},
		{name: "a bias of its own for each row: stays", opts: opts, before: `in %s: float32[2,3] %i = ArgMax(%s) [axis=1, keepdims=0] const %e: float32[3,2] = [1, 2, 3, 4, 5, 6]
			const %w: float32[2,2] = [1, 2, 3, 5] const %c: float32[2,2] = [1, 2, 3, 4] %r = Gather(%e, %i) %y = Gemm(%r, %w, %c) out %y`},
		{name: "a table that would grow too much: stays", opts: opts, before: `in %s: float32[N,9] %i = ArgMax(%s) [axis=1, keepdims=0] const %e: float32[9,1] = [1, 2, 3, 4, 5, 6, 7, 8, 9] const %w: float32[1,4] = [1, 2, 3, 5] %r = Gather(%e, %i) %y = MatMul(%r, %w) out %y`},
		{name: "without a kernel: stays", before: head + `%r = Gather(%e, %i) %y = MatMul(%r, %w) out %y`},
	})
}

// TestLongProducts has nodes that the program's kernel computes ahead, and others.
func TestLongProducts(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		fast        bool
	}{
		{"a long product", `in %x: float32[128,64] in %w: float32[64,128] %y = MatMul(%x, %w) out %y`, true},
		{"a short one", `in %x: float32[8,64] in %w: float32[64,8] %y = MatMul(%x, %w) out %y`, false},
		{"of another type", `in %x: float64[128,64] in %w: float64[64,128] %y = MatMul(%x, %w) out %y`, false},
		{"no product", `in %x: float32[1024,1024] in %w: float32[1024,1024] %y = Add(%x, %w) out %y`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.graph + ` }`)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			fast, made := false, map[*ssa.Value]*ndarray.Array{}
			for _, p := range g.Params {
				shape, _ := p.Type.Static()
				made[p] = ndarray.Must(p.Type.DType, shape...)
				made[p].SetFloat(1, 2)
			}
			want, ok := (&Context{ctx: t.Context()}).eval(g.Nodes[0], made)
			require.True(t, ok)
			got, ok := (&Context{ctx: t.Context(), opts: Options{Compute: func(call *ops.Call) error { fast = true; return ops.Eval(call) }}}).eval(g.Nodes[0], made)
			require.True(t, ok)
			assert.Equal(t, want, got)
			assert.Equal(t, c.fast, fast)
		})
	}
}
