package rewrite

import (
	"testing"

	"github.com/berth-onnx/berth/ops"
)

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
