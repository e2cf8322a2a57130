package rewrite

import "testing"

func TestIdentity(t *testing.T) {
	testRewrite(t, []*Pass{Identity, Dead}, []rewriteCase{
		{name: "identity inside", before: `in %x: float32[N,4]
			%a = Identity(%x) %y = Relu(%a) out %y`, after: `in %x: float32[N,4] %y = Relu(%x) out %y`},
		{name: "identity names an output", before: `in %x: float32[N,4] %a = Relu(%x) %y = Identity(%a) out %y`,
			after: `in %x: float32[N,4] %y = Relu(%x) out %y`},
		{name: "what is drawn depends on its name: stays", before: `%a = RandomNormal() [shape=[2, 3]] %y = Identity(%a) out %y`},
		{name: "drawn by a seed", before: `%a = RandomNormal() [seed=1.0, shape=[2, 3]] %y = Identity(%a) out %y`, after: `%y = RandomNormal() [seed=1.0, shape=[2, 3]] out %y`},
		{name: "output is an input: stays", before: `in %x: float32[N,4] %y = Identity(%x) out %y`},
		{name: "output is another output: stays", before: `in %x: float32[N,4] %a = Relu(%x) %y = Identity(%a) out %a, %y`},
		{name: "output is an input, other readers do not wait", before: `in %x: float32[N,4]
			%y = Identity(%x) %z = Relu(%y) out %y, %z`, after: `in %x: float32[N,4] %y = Identity(%x) %z = Relu(%x) out %y, %z`},
		{name: "reshape that changes nothing becomes identity at an output", before: `in %x: float32[2,4] const %s: int64[2] = [2, -1]
			%y = Reshape(%x, %s) out %y`, after: `in %x: float32[2,4] %y = Identity(%x) out %y`},
		{name: "cast to the same type", before: `in %x: float32[N] %a = Cast(%x) [to=1] %y = Neg(%a) out %y`,
			after: `in %x: float32[N] %y = Neg(%x) out %y`},
		{name: "cast to another type stays", before: `in %x: float32[N] %a = Cast(%x) [to=7] %y = Neg(%a) out %y`},
		{name: "symbolic reshape", before: `in %x: float32[N,4] %s = Shape(%x) %a = Reshape(%x, %s) %y = Neg(%a) out %y`,
			after: `in %x: float32[N,4] %y = Neg(%x) out %y`},
		{name: "transpose", before: `in %x: float32[N,4] %a = Transpose(%x) [perm=[0, 1]] %b = Transpose(%a) %y = Neg(%b) out %y`,
			after: `in %x: float32[N,4] %b = Transpose(%x) %y = Neg(%b) out %y`},
		{name: "expand, tile, pad, slice", before: `in %x: float32[2,4]
			const %s: int64[2] = [1, 4] %a = Expand(%x, %s)
			const %r: int64[2] = [1, 1] %b = Tile(%a, %r)
			const %p: int64[4] = [0, 0, 0, 0] %c = Pad(%b, %p)
			const %lo: int64[1] = [0] const %hi: int64[1] = [9] const %ax: int64[1] = [-1] %d = Slice(%c, %lo, %hi, %ax)
			%y = Neg(%d) out %y`, after: `in %x: float32[2,4] %y = Neg(%x) out %y`},
		{name: "reversing slice stays", before: `in %x: float32[4] const %lo: int64[1] = [-1] const %hi: int64[1] = [-9] const %ax: int64[1] = [0] const %st: int64[1] = [-1]
			%y = Slice(%x, %lo, %hi, %ax, %st) out %y`},
		{name: "concat, sum and max of one", before: `in %x: float32[2,4]
			%a = Concat(%x) [axis=0] %b = Sum(%a) %c = Max(%b, %b) %y = Neg(%c) out %y`, after: `in %x: float32[2,4] %y = Neg(%x) out %y`},
		{name: "times one, over one, to the one", before: `in %x: float32[N,4] const %k: float32[] = 1 const %v: float32[4] = [1, 1, 1, 1]
			%a = Mul(%k, %x) %b = Div(%a, %v) %c = Pow(%b, %k) %y = Neg(%c) out %y`, after: `in %x: float32[N,4] %y = Neg(%x) out %y`},
		{name: "one over x stays", before: `in %x: float32[N,4] const %k: float32[] = 1 %y = Div(%k, %x) out %y`},
		{name: "times one that broadcasts stays", before: `in %x: float32[N,1] const %v: float32[4] = [1, 1, 1, 1] %y = Mul(%x, %v) out %y`},
		{name: "plus zero turns -0 into 0: stays", before: `in %x: float32[N] const %z: float32[] = 0 %y = Add(%x, %z) out %y`},
		{name: "plus zero before a reader that loses the sign", before: `in %x: float32[N] const %z: float32[] = 0
			%a = Add(%x, %z) %b = Sigmoid(%a) %c = Mul(%a, %b) %y = Exp(%c) out %y`,
			after: `in %x: float32[N] %b = Sigmoid(%x) %c = Mul(%x, %b) %y = Exp(%c) out %y`},
		{name: "plus zero before one that does not stays", before: `in %x: float32[N] const %z: float32[] = 0
			%a = Add(%x, %z) %b = Tanh(%a) %c = Reciprocal(%b) %y = Exp(%a) out %y, %c`},
		{name: "plus minus zero, minus zero", before: `in %x: float32[N] const %m: float32[] = -0 const %z: float32[] = 0
			%a = Add(%x, %m) %b = Sub(%a, %z) %y = Neg(%b) out %y`, after: `in %x: float32[N] %y = Neg(%x) out %y`},
		{name: "plus zero after exp", before: `in %x: float32[N] const %z: float32[] = 0 %a = Exp(%x) %b = Add(%z, %a) %y = Neg(%b) out %y`,
			after: `in %x: float32[N] %a = Exp(%x) %y = Neg(%a) out %y`},
		{name: "integers plus zero", before: `in %x: int64[N] const %z: int64[1] = [0] %a = Add(%x, %z) %y = Neg(%a) out %y`,
			after: `in %x: int64[N] %y = Neg(%x) out %y`},
		{name: "twice is once", before: `in %x: float32[N] %a = Relu(%x) %b = Relu(%a) %c = Neg(%b) %d = Neg(%c) %y = Exp(%d) out %y`,
			after: `in %x: float32[N] %a = Relu(%x) %y = Exp(%a) out %y`},
		{name: "where", before: `in %x: float32[2] in %z: float32[2] in %c: bool[2] const %t: bool[] = true const %f: bool[] = false
			%a = Where(%t, %x, %z) %b = Where(%f, %x, %a) %d = Where(%c, %b, %b) %y = Neg(%d) out %y`, after: `in %x: float32[2] in %z: float32[2] in %c: bool[2] %y = Neg(%x) out %y`},
		{name: "max pool of one", before: `in %x: float32[1,2,5,5] %a = MaxPool(%x) [kernel_shape=[1, 1]] %y = Neg(%a) out %y`,
			after: `in %x: float32[1,2,5,5] %y = Neg(%x) out %y`},
		{name: "max pool of one with stride stays", before: `in %x: float32[1,2,5,5] %y = MaxPool(%x) [kernel_shape=[1, 1], strides=[2, 2]] out %y`},
		{name: "global pool of one", before: `in %x: float32[1,2,1,1] %a = GlobalAveragePool(%x) %y = Neg(%a) out %y`,
			after: `in %x: float32[1,2,1,1] %y = Neg(%x) out %y`},
		{name: "inside a body", before: `in %c: bool[] in %x: float32[N] %y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[N] %a = Identity(%p) %b = Neg(%a) out %b }
			else_branch: graph "e" { in %p: float32[N] %a = Identity(%p) out %a } } out %y`,
			after: `in %c: bool[] in %x: float32[N] %y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[N] %b = Neg(%p) out %b }
			else_branch: graph "e" { in %p: float32[N] out %p } } out %y`},
	})
}

func TestIdentityByParameters(t *testing.T) {
	testRewrite(t, []*Pass{Identity, Dead}, []rewriteCase{
		{name: "plus zero before a normalization without bias that does not lose the sign stays", before: `in %x: float32[N,4] const %z: float32[] = 0
			const %s: float32[4] = [1, 2, 3, 4] %a = Add(%x, %z) %b = LayerNormalization(%a, %s) %y = Reciprocal(%b) out %y`},
		{name: "dropout", before: `in %x: float32[N,4] const %r: float32[] = 0.5 const %f: bool[] = false
			%a = Dropout(%x) %b = Dropout(%a, %r, %f) %y = Neg(%b) out %y`, after: `in %x: float32[N,4] %y = Neg(%x) out %y`},
		{name: "dropout whose mask is read stays", before: `in %x: float32[N,4] %y, %m = Dropout(%x) out %y, %m`},
		{name: "resize", before: `in %x: float32[1,2,4,4] const %s: float32[4] = [1, 1, 1, 1] const %n: int64[4] = [1, 2, 4, 4]
			%a = Resize(%x, _, %s) [mode="linear"] %b = Resize(%a, _, _, %n) %y = Neg(%b) out %y`,
			after: `in %x: float32[1,2,4,4] %y = Neg(%x) out %y`},
		{name: "resize to another size stays", before: `in %x: float32[1,2,4,4] const %n: int64[4] = [1, 2, 8, 4] %y = Resize(%x, _, _, %n) out %y`},
		{name: "split", before: `in %x: float32[4,2] %a = Split(%x) [axis=0, num_outputs=1] %y = Neg(%a) out %y`,
			after: `in %x: float32[4,2] %y = Neg(%x) out %y`},
		{name: "split into two stays", before: `in %x: float32[4,2] %y, %z = Split(%x) [axis=0, num_outputs=2] out %y, %z`},
		{name: "reductions", before: `in %x: float32[N,1] const %one: int64[1] = [-1]
			%a = ReduceMax(%x, %one) [keepdims=1] %b = ReduceMin(%a) [noop_with_empty_axes=1] %y = Neg(%b) out %y`,
			after: `in %x: float32[N,1] %y = Neg(%x) out %y`},
		{name: "reductions of more, or to fewer dimensions, stay", before: `in %x: float32[2,1] const %one: int64[1] = [-1] const %zero: int64[1] = [0]
			%y = ReduceMax(%x, %one) [keepdims=0] %z = ReduceMax(%x, %zero) [keepdims=1] out %y, %z`},
		{name: "an optional of a tensor", before: `in %x: float32[N] %a = OptionalGetElement(%x) %y = Neg(%a) out %y`,
			after: `in %x: float32[N] %y = Neg(%x) out %y`},
	})
}
