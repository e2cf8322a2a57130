package rewrite

import "testing"

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
		{name: "shape chain of a static tensor", before: `in %x: float32[2,3,4] %s = Shape(%x) const %i: int64[1] = [0] %a = Gather(%s, %i) [axis=0]
			const %m: int64[1] = [-1] %t = Concat(%a, %m) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[2,3,4] const %t: int64[2] = [2, -1] %y = Reshape(%x, %t) out %y`},
		{name: "shape of the known part", before: `in %x: float32[N,3,4] %s = Shape(%x) const %i: int64[] = 2 %y = Gather(%s, %i) [axis=0] out %y`,
			after: `in %x: float32[N,3,4] const %y: int64[] = 4 out %y`},
		{name: "shape of the unknown part stays", before: `in %x: float32[N,3,4] %s = Shape(%x) const %i: int64[] = 0 %y = Gather(%s, %i) [axis=0] out %y`},
	})
}
