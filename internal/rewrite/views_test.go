package rewrite

import "testing"

func TestViews(t *testing.T) {
	testRewrite(t, []*Pass{Views, Dead}, []rewriteCase{
		{name: "reshapes in a row", exact: true, before: `in %x: float32[2,3,4] const %s: int64[2] = [6, 4] const %r: int64[3] = [4, 3, 2] %a = Reshape(%x, %s) %y = Reshape(%a, %r) out %y`,
			after: `in %x: float32[2,3,4] const %r: int64[3] = [4, 3, 2] %y = Reshape(%x, %r) out %y`},
		{name: "squeeze and unsqueeze", exact: true, before: `in %x: float32[N,1,4] const %a: int64[1] = [1] %b = Squeeze(%x, %a) %c = Unsqueeze(%b, %a) %y = Neg(%c) out %y`,
			after: `in %x: float32[N,1,4] %y = Neg(%x) out %y`},
		{name: "back to an input at an output", exact: true, before: `in %x: float32[N,1,4] const %a: int64[1] = [1] %b = Squeeze(%x, %a) %y = Unsqueeze(%b, %a) out %y`,
			after: `in %x: float32[N,1,4] %y = Identity(%x) out %y`},
		{name: "flatten, reshape, unsqueeze with a symbol", exact: true, before: `in %x: float32[N,2,3] const %s: int64[3] = [0, 3, 2] const %a: int64[1] = [1]
			%b = Flatten(%x) %c = Reshape(%b, %s) %y = Unsqueeze(%c, %a) out %y`,
			after: `in %x: float32[N,2,3] const %s: int64[4] = [-1, 1, 3, 2] %y = Reshape(%x, %s) out %y`},
		{name: "two free dimensions: stays", exact: true, before: `in %x: float32[N,M,6] const %a: int64[1] = [1] const %i: int64[3] = [1, 0, 2] %s = Shape(%x) %u = Gather(%s, %i) [axis=0]
			%b = Reshape(%x, %u) %y = Unsqueeze(%b, %a) out %y`},
		{name: "transposes compose", exact: true, before: `in %x: float32[2,3,4] %a = Transpose(%x) [perm=[1, 2, 0]] %y = Transpose(%a) [perm=[1, 0, 2]] out %y`,
			after: `in %x: float32[2,3,4] %y = Transpose(%x) [perm=[2, 1, 0]] out %y`},
		{name: "transposes cancel", exact: true, before: `in %x: float32[2,3,4] %a = Transpose(%x) [perm=[1, 2, 0]] %b = Transpose(%a) [perm=[2, 0, 1]] %y = Neg(%b) out %y`,
			after: `in %x: float32[2,3,4] %y = Neg(%x) out %y`},
		{name: "transpose of ones is a reshape", exact: true, before: `in %x: float32[N,1,4] %y = Transpose(%x) [perm=[0, 2, 1]] out %y`,
			after: `in %x: float32[N,1,4] const %s: int64[3] = [-1, 4, 1] %y = Reshape(%x, %s) out %y`},
		{name: "cast there and back", exact: true, before: `in %x: float16[N] %a = Cast(%x) [to=1] %b = Cast(%a) [to=10] %c = Cast(%b) [to=1] %y = Neg(%c) out %y`,
			after: `in %x: float16[N] %a = Cast(%x) [to=1] %y = Neg(%a) out %y`},
		{name: "lossy cast stays", exact: true, before: `in %x: float32[N] %a = Cast(%x) [to=6] %y = Cast(%a) [to=1] out %y`},
		{name: "widening cast before another", exact: true, before: `in %x: uint8[N] %a = Cast(%x) [to=6] %y = Cast(%a) [to=1] out %y`,
			after: `in %x: uint8[N] %y = Cast(%x) [to=1] out %y`},
		{name: "concat of concat", exact: true, before: `in %x: float32[2,3] in %e: float32[2,0] %a = Concat(%x, %x) [axis=1] %y = Concat(%x, %a, %e) [axis=-1] out %y`,
			after: `in %x: float32[2,3] in %e: float32[2,0] %y = Concat(%x, %x, %x) [axis=-1] out %y`},
		{name: "concat on another axis stays", exact: true, before: `in %x: float32[2,2] %a = Concat(%x, %x) [axis=1] %y = Concat(%a, %a) [axis=0] out %y`},
		{name: "pad before conv", before: `in %x: float32[1,1,4,4] const %w: float32[1,1,2,2] = [1, 2, 3, 4] const %p: int64[8] = [0, 0, 1, 0, 0, 0, 2, 3]
			%a = Pad(%x, %p) %y = Conv(%a, %w) [pads=[1, 1, 0, 0]] out %y`,
			after: `in %x: float32[1,1,4,4] const %w: float32[1,1,2,2] = [1, 2, 3, 4] %y = Conv(%x, %w) [pads=[2, 1, 2, 3]] out %y`},
		{name: "pad of the batch, reflecting pad, pad with ones stay", before: `in %x: float32[1,1,4,4] const %w: float32[1,1,2,2] = [1, 2, 3, 4]
			const %p: int64[8] = [1, 0, 1, 0, 0, 0, 0, 0] const %q: int64[8] = [0, 0, 1, 0, 0, 0, 0, 0] const %one: float32[] = 1
			%a = Pad(%x, %p) %b = Conv(%a, %w) %c = Pad(%x, %q) [mode="reflect"] %d = Conv(%c, %w) %e = Pad(%x, %q, %one) %f = Conv(%e, %w) out %b, %d, %f`},
		{name: "reduction and its axes", before: `in %x: float32[N,3,4] const %a: int64[1] = [1] %b = ReduceMean(%x, %a) [keepdims=1] %y = Squeeze(%b, %a)
			%c = ReduceMax(%x, %a) [keepdims=0] %z = Unsqueeze(%c, %a) out %y, %z`,
			after: `in %x: float32[N,3,4] const %a: int64[1] = [1] %y = ReduceMean(%x, %a) [keepdims=0] %z = ReduceMax(%x, %a) [keepdims=1] out %y, %z`},
	})
}

func TestTargets(t *testing.T) {
	const shapes = `%s = Shape(%x) const %i0: int64[1] = [0] const %i1: int64[1] = [1] %n = Gather(%s, %i0) [axis=0] %m = Gather(%s, %i1) [axis=0] `
	testRewrite(t, []*Pass{Targets, Dead}, []rewriteCase{
		{name: "statistics that enter only results nobody reads", before: `in %x: float32[1,2,4] in %s: float32[2] in %m: float32[2] %d = Mul(%m, %m)
			%y, %r, %v = BatchNormalization(%x, %s, %s, %m, %d) [training_mode=1] out %y`,
			after: `in %x: float32[1,2,4] in %s: float32[2] in %m: float32[2] const %k: float32[2] = splat 0.7861328125 const %l: float32[2] = splat 0.7861328125
			%y, %r, %v = BatchNormalization(%x, %s, %s, %k, %l) [training_mode=1] out %y`},
		{name: "statistics that are the scale", exact: true, before: `in %x: float32[1,2,4] in %s: float32[2] %y, %r, %v = BatchNormalization(%x, %s, %s, %s, %s) [training_mode=1] out %y`,
			after: `in %x: float32[1,2,4] in %s: float32[2] const %k: float32[2] = splat 0.7861328125 const %l: float32[2] = splat 0.7861328125
			%y, %r, %v = BatchNormalization(%x, %s, %s, %k, %l) [training_mode=1] out %y`},
		{name: "statistics of open shape", before: `in %x: float32[1,C,4] in %s: float32[C] in %m: float32[C] in %d: float32[C] %y, %r, %v = BatchNormalization(%x, %s, %s, %m, %d) [training_mode=1] out %y`},
		{name: "statistics of inference and running ones stay", before: `in %x: float32[1,2,4] in %s: float32[2] in %m: float32[2] %d = Mul(%m, %m)
			%y, %r, %v = BatchNormalization(%x, %s, %s, %m, %d) [training_mode=1] %z = BatchNormalization(%x, %s, %s, %m, %d) out %y, %v, %z`},
		{name: "one symbol", exact: true, before: `in %x: float32[N,3,4] ` + shapes + ` const %k: int64[1] = [12] %t = Concat(%n, %k) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[N,3,4] const %t: int64[2] = [-1, 12] %y = Reshape(%x, %t) out %y`},
		{name: "two symbols", exact: true, before: `in %x: float32[N,M,4] ` + shapes + ` const %k: int64[2] = [2, 2] %t = Concat(%n, %m, %k) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[N,M,4] const %t: int64[4] = [0, 0, 2, 2] %y = Reshape(%x, %t) out %y`},
		{name: "a product of symbols", exact: true, before: `in %x: float32[N,M,4] ` + shapes + ` const %k: int64[1] = [4] %nm = Mul(%n, %m) %t = Concat(%nm, %k) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[N,M,4] const %t: int64[2] = [-1, 4] %y = Reshape(%x, %t) out %y`},
		{name: "a symbol and -1", exact: true, before: `in %x: float32[N,M,4] ` + shapes + ` const %k: int64[1] = [-1] %t = Concat(%n, %k) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[N,M,4] const %t: int64[2] = [0, -1] %y = Reshape(%x, %t) out %y`},
		{name: "a multiple of a symbol and -1", exact: true, before: `in %x: float32[N,6,4] %s = Shape(%x) const %i0: int64[1] = [0] %n = Gather(%s, %i0) [axis=0] const %2: int64[1] = [2] %m = Mul(%n, %2) const %k: int64[2] = [3, -1] %t = Concat(%m, %k) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[N,6,4] const %t: int64[3] = [-1, 3, 4] %y = Reshape(%x, %t) out %y`},
		{name: "a product of symbols and -1 stays", exact: true, before: `in %x: float32[N,M,4] ` + shapes + ` const %k: int64[1] = [-1] %nm = Mul(%n, %m) %t = Concat(%nm, %k) [axis=0] %y = Reshape(%x, %t) out %y`},
		{name: "two free symbols stay", exact: true, before: `in %x: float32[N,M,4] ` + shapes + ` const %k: int64[1] = [4] %t = Concat(%m, %n, %k) [axis=0] %y = Reshape(%x, %t) out %y`},
		{name: "expand", exact: true, before: `in %x: float32[N,1] ` + shapes + ` const %k: int64[1] = [4] %t = Concat(%n, %k) [axis=0] %y = Expand(%x, %t) out %y`,
			after: `in %x: float32[N,1] const %t: int64[2] = [1, 4] %y = Expand(%x, %t) out %y`},
		{name: "expand to another tensor's dimension stays", exact: true, before: `in %x: float32[N,1] in %z: float32[1,1] %s = Shape(%x) const %i0: int64[1] = [0] %n = Gather(%s, %i0) [axis=0] const %k: int64[1] = [4] %t = Concat(%n, %k) [axis=0] %y = Expand(%z, %t) out %y`},
		{name: "slice to the end", exact: true, before: `in %x: float32[N,5] ` + shapes + ` %y = Slice(%x, %i1, %n, %i0) out %y`,
			after: `in %x: float32[N,5] const %i1: int64[1] = [1] const %e: int64[1] = [9223372036854775807] const %i0: int64[1] = [0] %y = Slice(%x, %i1, %e, %i0) out %y`},
		{name: "resize to twice the size", exact: true, before: `in %x: float32[1,1,N,3] ` + shapes + ` const %i2: int64[1] = [2] %h = Gather(%s, %i2) [axis=0] const %two: int64[1] = [2] %hh = Mul(%h, %two)
			const %w: int64[1] = [9] const %o: int64[2] = [1, 1] %t = Concat(%o, %hh, %w) [axis=0] %y = Resize(%x, _, _, %t) [mode="nearest"] out %y`,
			after: `in %x: float32[1,1,N,3] const %k: float32[4] = [1, 1, 2, 3] %y = Resize(%x, _, %k) [mode="nearest"] out %y`},
	})
}

func TestShapeVectors(t *testing.T) {
	testRewrite(t, []*Pass{ShapeVectors, CSE, Dead}, []rewriteCase{
		{name: "a detour", exact: true, before: `in %x: float32[N,3] in %k: float32[1,4] const %i: int64[] = 0 const %a: int64[1] = [0] const %m: int64[1] = [-1] const %mm: int64[2] = [-1, -1] const %o: int64[2] = [1, 1]
			%s = Shape(%x) %g = Gather(%s, %i) [axis=0] %u = Unsqueeze(%g, %a) %t = Concat(%u, %m) [axis=0] %e = Equal(%t, %mm) %w = Where(%e, %o, %t) %y = Expand(%k, %w) out %y`,
			after: `in %x: float32[N,3] in %k: float32[1,4] const %a: int64[1] = [0] const %o: int64[1] = [1] %s = Shape(%x) %g = Gather(%s, %a) [axis=0] %w = Concat(%g, %o) [axis=0] %y = Expand(%k, %w) out %y`},
		{name: "a whole shape", exact: true, before: `in %x: float32[N,M] in %k: float32[1,1] const %i: int64[] = 0 const %j: int64[] = 1 const %a: int64[1] = [0]
			%s = Shape(%x) %g = Gather(%s, %i) [axis=0] %h = Gather(%s, %j) [axis=0] %u = Unsqueeze(%g, %a) %v = Unsqueeze(%h, %a) %t = Concat(%u, %v) [axis=0] %y = Expand(%k, %t) out %y`,
			after: `in %x: float32[N,M] in %k: float32[1,1] %s = Shape(%x) %y = Expand(%k, %s) out %y`},
		{name: "short already", exact: true, before: `in %x: float32[N,3] in %k: float32[1,4] const %a: int64[1] = [0] const %o: int64[1] = [1] %s = Shape(%x) %g = Gather(%s, %a) [axis=0] %w = Concat(%g, %o) [axis=0] %y = Expand(%k, %w) out %y`},
		{name: "not the dimension of a parameter", exact: true, before: `in %x: float32[N,3] in %k: float32[1] const %a: int64[1] = [0] const %two: int64[1] = [2] %s = Shape(%x) %g = Gather(%s, %a) [axis=0] %w = Mul(%g, %two) %v = Add(%w, %two) %y = Expand(%k, %v) out %y`},
	})
}

func TestTransposes(t *testing.T) {
	testRewrite(t, []*Pass{Transposes, Views, Dead}, []rewriteCase{
		{name: "around elementwise nodes", exact: true, before: `in %x: float32[2,3,4] const %k: float32[] = 3 %a = Transpose(%x) [perm=[1, 2, 0]] %b = Relu(%a) %c = Mul(%k, %b) %d = Add(%c, %c) %y = Transpose(%d) [perm=[2, 0, 1]] out %y`,
			after: `in %x: float32[2,3,4] const %k: float32[] = 3 %b = Relu(%x) %c = Mul(%k, %b) %y = Add(%c, %c) out %y`},
		{name: "a vector in between stays", exact: true, before: `in %x: float32[3,2] const %k: float32[3] = [1, 2, 3] %a = Transpose(%x) %c = Mul(%k, %a) %y = Transpose(%c) out %y`},
		{name: "another reader stays", exact: true, before: `in %x: float32[3,2] %a = Transpose(%x) %c = Neg(%a) %y = Transpose(%c) out %y, %c`},
		{name: "both operands", exact: true, before: `in %x: float32[3,2] in %z: float32[3,2] %a = Transpose(%x) %b = Transpose(%z) %y = Mul(%a, %b) out %y`,
			after: `in %x: float32[3,2] in %z: float32[3,2] %a = Mul(%x, %z) %y = Transpose(%a) [perm=[1, 0]] out %y`},
		{name: "concat", exact: true, before: `in %x: float32[3,2,4] in %z: float32[3,5,4] %a = Transpose(%x) [perm=[2, 0, 1]] %b = Transpose(%z) [perm=[2, 0, 1]] %y = Concat(%a, %b) [axis=-1] out %y`,
			after: `in %x: float32[3,2,4] in %z: float32[3,5,4] %a = Concat(%x, %z) [axis=1] %y = Transpose(%a) [perm=[2, 0, 1]] out %y`},
	})
}

func TestMergeSlice(t *testing.T) {
	const head = `in %x: float32[2,8,9] const %0: int64[1] = [0] const %1: int64[1] = [1] const %2: int64[1] = [2] const %end: int64[1] = [9223372036854775807] const %m: int64[1] = [-1] `
	testRewrite(t, []*Pass{Views, CSE, Dead}, []rewriteCase{
		{name: "every second pixel, four times", exact: true, before: head + `%a = Slice(%x, %0, %end, %1, %2) %b = Slice(%a, %1, %end, %m, %2) %c = Slice(%a, %0, %end, %m, %2) %y = Add(%b, %b) %z = Neg(%c) out %y, %z`,
			after: `in %x: float32[2,8,9] const %s: int64[2] = [0, 1] const %e: int64[2] = [9223372036854775807, 9223372036854775807] const %a: int64[2] = [1, 2] const %t: int64[2] = [2, 2] const %o: int64[2] = [0, 0]
				%b = Slice(%x, %s, %e, %a, %t) %c = Slice(%x, %o, %e, %a, %t) %y = Add(%b, %b) %z = Neg(%c) out %y, %z`},
		{name: "without axes and steps", before: head + `const %s: int64[2] = [1, 2] const %e: int64[2] = [2, 7] %a = Slice(%x, %s, %e) %b = Slice(%a, %m, %0, %2, %m) out %b`,
			after: `in %x: float32[2,8,9] const %s: int64[3] = [1, 2, -1] const %e: int64[3] = [2, 7, 0] const %a: int64[3] = [0, 1, 2] const %t: int64[3] = [1, 1, -1] %b = Slice(%x, %s, %e, %a, %t) out %b`},
		{name: "one axis twice stays", exact: true, before: head + `%a = Slice(%x, %1, %end, %1, %2) %b = Slice(%a, %1, %end, %1, %2) out %b`},
		{name: "another reader needs the first", exact: true, before: head + `%a = Slice(%x, %1, %end, %1, %2) %b = Slice(%a, %1, %end, %2, %2) %y = Neg(%a) out %b, %y`},
		{name: "the first is a result", exact: true, before: head + `%a = Slice(%x, %1, %end, %1, %2) %b = Slice(%a, %1, %end, %2, %2) out %a, %b`},
	})
}
