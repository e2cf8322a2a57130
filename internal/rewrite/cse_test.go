package rewrite

import "testing"

func TestCSE(t *testing.T) {
	testRewrite(t, []*Pass{CSE, Dead}, []rewriteCase{
		{name: "equal nodes, then their readers", before: `in %x: float32[N] %a = Neg(%x) %b = Neg(%x) %c = Exp(%a) %d = Exp(%b) %y = Add(%c, %d) out %y`,
			after: `in %x: float32[N] %a = Neg(%x) %c = Exp(%a) %y = Add(%c, %c) out %y`},
		{name: "commutative", before: `in %x: float32[N] in %z: float32[N] %a = Add(%x, %z) %b = Add(%z, %x) %c = Sub(%x, %z) %d = Sub(%z, %x)
			%e = Mul(%a, %b) %f = Mul(%c, %d) %y = Mul(%e, %f) out %y`,
			after: `in %x: float32[N] in %z: float32[N] %a = Add(%x, %z) %c = Sub(%x, %z) %d = Sub(%z, %x)
			%e = Mul(%a, %a) %f = Mul(%c, %d) %y = Mul(%e, %f) out %y`},
		{name: "attributes differ", before: `in %x: float32[2,2] %a = Concat(%x, %x) [axis=0] %b = Concat(%x, %x) [axis=1] out %a, %b`},
		{name: "absent attributes are their defaults", before: `in %x: float32[2,2] %a = Softmax(%x) %b = Softmax(%x) [axis=-1] %c = Softmax(%x) [axis=0] %y = Add(%a, %b) %z = Add(%y, %c) out %z`,
			after: `in %x: float32[2,2] %a = Softmax(%x) %c = Softmax(%x) [axis=0] %y = Add(%a, %a) %z = Add(%y, %c) out %z`},
		{name: "two outputs with one value", before: `in %x: float32[N] %a = Neg(%x) %b = Neg(%x) out %a, %b`,
			after: `in %x: float32[N] %a = Neg(%x) %b = Identity(%a) out %a, %b`},
		{name: "constants", before: `in %x: float32[2] const %k: float32[2] = [1, 2] const %l: float32[2] = [1, 2] const %m: float32[2] = [1, 3]
			%a = Add(%x, %k) %b = Add(%x, %l) %c = Add(%x, %m) %d = Mul(%a, %b) %y = Mul(%d, %c) out %y`,
			after: `in %x: float32[2] const %k: float32[2] = [1, 2] const %m: float32[2] = [1, 3]
			%a = Add(%x, %k) %c = Add(%x, %m) %d = Mul(%a, %a) %y = Mul(%d, %c) out %y`},
		{name: "splits with other numbers of results", before: `in %x: float32[4] %a, %b = Split(%x) [axis=0, num_outputs=2] %c, %d, %e, %f = Split(%x) [axis=0, num_outputs=4] out %a, %b, %c, %d, %e, %f`},
		{name: "bodies", before: `in %c: bool[] in %x: float32[N]
			%a = If(%c | %x) { then_branch: graph "t" { in %p: float32[N] %v = Neg(%p) out %v } else_branch: graph "e" { in %p: float32[N] out %p } }
			%b = If(%c | %x) { then_branch: graph "t2" { in %q: float32[N] %w = Neg(%q) out %w } else_branch: graph "e2" { in %q: float32[N] out %q } }
			%d = If(%c | %x) { then_branch: graph "t" { in %p: float32[N] %v = Exp(%p) out %v } else_branch: graph "e" { in %p: float32[N] out %p } }
			%e = Add(%a, %b) %y = Add(%e, %d) out %y`,
			after: `in %c: bool[] in %x: float32[N]
			%a = If(%c | %x) { then_branch: graph "t" { in %p: float32[N] %v = Neg(%p) out %v } else_branch: graph "e" { in %p: float32[N] out %p } }
			%d = If(%c | %x) { then_branch: graph "t" { in %p: float32[N] %v = Exp(%p) out %v } else_branch: graph "e" { in %p: float32[N] out %p } }
			%e = Add(%a, %a) %y = Add(%e, %d) out %y`},
	})
}
