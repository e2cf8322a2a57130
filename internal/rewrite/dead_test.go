package rewrite

import (
	"testing"
)

func TestDead(t *testing.T) {
	testRewrite(t, []*Pass{Dead}, []rewriteCase{
		{name: "chain", before: `in %x: float32[N] %a = Neg(%x) %b = Exp(%a) %y = Relu(%x) out %y`, after: `in %x: float32[N] %y = Relu(%x) out %y`},
		{name: "opaque stays", before: `in %x: float32[N] %y = Relu(%x) out %y`},
		{name: "optional result", before: `in %x: float32[1,1,4,4] %y, %i = MaxPool(%x) [kernel_shape=[2, 2]] out %y`,
			after: `in %x: float32[1,1,4,4] %y = MaxPool(%x) [kernel_shape=[2, 2]] out %y`},
		{name: "results of a normalization in training are all there or the node is refused", before: `in %x: float32[1,2,4] in %v: float32[2]
			%y, %m, %s = BatchNormalization(%x, %v, %v, %v, %v) [training_mode=1] %z = BatchNormalization(%y, %v, %v, %v, %m) out %z`},
		{name: "results that other tools ask for", before: `in %s: string[N] %y, %n = StringSplit(%s) [delimiter="a"] out %y`},
		{name: "split keeps its number of results", before: `in %x: float32[4] %y, %z = Split(%x) [axis=0, num_outputs=2] out %y`},
		{name: "if: results, captures", before: `in %c: bool[] in %x: float32[N] in %k: float32[N]
			%y, %z = If(%c | %x, %k, %x) {
			then_branch: graph "t" { in %p: float32[N] in %q: float32[N] in %r: float32[N] %a = Neg(%p) %b = Neg(%q) out %a, %b }
			else_branch: graph "e" { in %p: float32[N] in %q: float32[N] in %r: float32[N] %b = Exp(%q) out %r, %b } } out %y`,
			after: `in %c: bool[] in %x: float32[N] in %k: float32[N] %y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[N] %a = Neg(%p) out %a }
			else_branch: graph "e" { in %p: float32[N] out %p } } out %y`},
		{name: "if that passes a capture through", before: `in %c: bool[] in %x: float32[N] %z, %w = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[N] %a = Neg(%p) out %p, %a }
			else_branch: graph "e" { in %p: float32[N] %a = Exp(%p) out %p, %a } } %y = Neg(%z) out %y, %w`,
			after: `in %c: bool[] in %x: float32[N] %y = Neg(%x) %w = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[N] %a = Neg(%p) out %a }
			else_branch: graph "e" { in %p: float32[N] %a = Exp(%p) out %a } } out %y, %w`},
		{name: "loop: dead carried pair, invariant, stacked", before: `in %n: int64[] in %x: float32[2] in %k: float32[2]
			%a, %b, %y, %inv, %st, %su = Loop(%n, _, %x, %x, %x, %k | %k) { body: graph "b" {
				in %i: int64[] in %c: bool[] in %p: float32[2] in %q: float32[2] in %r: float32[2] in %s: float32[2] in %cap: float32[2]
				%p2 = Add(%q, %cap) %q2 = Add(%p, %cap) %r2 = Add(%r, %s) %d = Neg(%r)
				out %c, %p2, %q2, %r2, %s, %d, %r2 } }
			%z = Neg(%inv) out %y, %z, %su`,
			after: `in %n: int64[] in %x: float32[2] in %k: float32[2]
			%y, %su = Loop(%n, _, %x | %k) { body: graph "b" {
				in %i: int64[] in %c: bool[] in %r: float32[2] in %s: float32[2]
				%r2 = Add(%r, %s) out %c, %r2, %r2 } }
			%z = Neg(%k) out %y, %z, %su`},
		{name: "loop: carried value read by the condition stays", before: `in %n: int64[] in %x: float32[] in %k: float32[]
			%a, %y = Loop(%n, _, %x, %k) { body: graph "b" {
				in %i: int64[] in %c: bool[] in %p: float32[] in %r: float32[]
				%p2 = Add(%p, %p) %c2 = Less(%p2, %p) %r2 = Neg(%r)
				out %c2, %p2, %r2 } }
			out %y`},
		{name: "scan: states, operands, results", before: `in %x: float32[3,2] in %w: float32[3,5] in %s: float32[2]
			%t, %u, %y, %v = Scan(%s, %s, %x, %w) [num_scan_inputs=2, scan_input_axes=[0, 0], scan_output_axes=[0, 1]] { body: graph "b" {
				in %p: float32[2] in %q: float32[2] in %a: float32[2] in %b: float32[5]
				%p2 = Add(%p, %a) %q2 = Add(%q, %a) %c = Neg(%a) out %p2, %q2, %p2, %c } }
			out %y`,
			after: `in %x: float32[3,2] in %w: float32[3,5] in %s: float32[2]
			%t, %y = Scan(%s, %x) [num_scan_inputs=1, scan_input_axes=[0], scan_output_axes=[0]] { body: graph "b" {
				in %p: float32[2] in %a: float32[2]
				%p2 = Add(%p, %a) out %p2, %p2 } }
			out %y`},
	})
}

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
