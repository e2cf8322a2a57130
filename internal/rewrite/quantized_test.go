package rewrite

import "testing"

// The scales are powers of two and the numbers small, so that the real form is
// exact too and both forms must agree to the last step.
func TestQuantized(t *testing.T) {
	const params = `const %sx: float32[] = 0.5 const %zx: uint8[] = 3 const %sw: float32[] = 0.25 const %zw: int8[] = 0 const %sy: float32[] = 2 const %zy: uint8[] = 0 `
	const x = `in %x: uint8[1,2,4,4] %xf = DequantizeLinear(%x, %sx, %zx) `
	const w = `const %w: int8[2,2,1,1] = [1, -2, 3, 4] %wf = DequantizeLinear(%w, %sw, %zw) `
	testRewrite(t, []*Pass{Quantized, Dead}, []rewriteCase{
		{name: "convolution", before: params + x + w + `%c = Conv(%xf, %wf) %y = QuantizeLinear(%c, %sy, %zy) out %y`,
			after: params + `in %x: uint8[1,2,4,4] const %w: int8[2,2,1,1] = [1, -2, 3, 4] %y = QLinearConv(%x, %sx, %zx, %w, %sw, %zw, %sy, %zy) out %y`},
		{name: "bias, attributes, a Relu that saturation does", before: params + x + w + `const %b: int32[2] = [8, -8] const %sb: float32[] = 0.125
			%bf = DequantizeLinear(%b, %sb) %c = Conv(%xf, %wf, %bf) [strides=[2, 1]] %r = Relu(%c) %y = QuantizeLinear(%r, %sy, %zy) out %y`,
			after: params + `in %x: uint8[1,2,4,4] const %w: int8[2,2,1,1] = [1, -2, 3, 4] const %b: int32[2] = [8, -8]
			%y = QLinearConv(%x, %sx, %zx, %w, %sw, %zw, %sy, %zy, %b) [strides=[2, 1]] out %y`},
		{name: "bias in other steps, and in real numbers", before: params + x + w + `const %b: float32[2] = [1, -2.5] %c = Conv(%xf, %wf, %b) %y = QuantizeLinear(%c, %sy, %zy) out %y`,
			after: params + `in %x: uint8[1,2,4,4] const %w: int8[2,2,1,1] = [1, -2, 3, 4] const %b: int32[2] = [8, -20]
			%y = QLinearConv(%x, %sx, %zx, %w, %sw, %zw, %sy, %zy, %b) out %y`},
		{name: "scales of channels, no zero points", before: `const %sx: float32[] = 0.5 const %sw: float32[2] = [0.25, 0.5] const %sy: float32[] = 2 in %x: uint8[1,2,4,4]
			%xf = DequantizeLinear(%x, %sx) const %w: int8[2,2,1,1] = [1, -2, 3, 4] %wf = DequantizeLinear(%w, %sw) [axis=0] %c = Conv(%xf, %wf) %y = QuantizeLinear(%c, %sy) out %y`,
			after: `const %sx: float32[] = 0.5 const %sw: float32[2] = [0.25, 0.5] const %sy: float32[] = 2 const %zx: uint8[] = 0 const %zw: int8[2] = splat 0 const %zy: uint8[] = 0
			in %x: uint8[1,2,4,4] const %w: int8[2,2,1,1] = [1, -2, 3, 4] %y = QLinearConv(%x, %sx, %zx, %w, %sw, %zw, %sy, %zy) out %y`},
		{name: "a Clip narrower than the integers stays", before: params + x + w + `const %lo: float32[] = 0 const %hi: float32[] = 6
			%c = Conv(%xf, %wf) %r = Clip(%c, %lo, %hi) %y = QuantizeLinear(%r, %sy, %zy) out %y`},
		{name: "a convolution that others read stays", before: params + x + w + `%c = Conv(%xf, %wf) %y = QuantizeLinear(%c, %sy, %zy) out %y, %c`},
		{name: "scales along input channels stay", before: `const %sx: float32[] = 0.5 const %sw: float32[2] = [0.25, 0.5] in %x: uint8[1,2,4,4] %xf = DequantizeLinear(%x, %sx)
			const %w: int8[2,2,1,1] = [1, -2, 3, 4] %wf = DequantizeLinear(%w, %sw) [axis=1] %c = Conv(%xf, %wf) %y = QuantizeLinear(%c, %sx) out %y`},
		{name: "sum", before: params + `in %x: uint8[2,3] in %v: uint8[2,3] %xf = DequantizeLinear(%x, %sx, %zx) %vf = DequantizeLinear(%v, %sy, %zy)
			%c = Add(%xf, %vf) %r = Relu(%c) %y = QuantizeLinear(%r, %sy, %zy) out %y`,
			after: params + `in %x: uint8[2,3] in %v: uint8[2,3] %y = com.microsoft::QLinearAdd(%x, %sx, %zx, %v, %sy, %zy, %sy, %zy) out %y`},
		{name: "a sum of other shapes or types stays", before: params + `in %x: uint8[2,3] in %v: uint8[3] in %u: int8[2,3] %xf = DequantizeLinear(%x, %sx, %zx) %vf = DequantizeLinear(%v, %sy, %zy) %uf = DequantizeLinear(%u, %sy)
			%c = Add(%xf, %vf) %y = QuantizeLinear(%c, %sy, %zy) %d = Add(%xf, %uf) %w = QuantizeLinear(%d, %sy, %zy) out %y, %w`},
		{name: "product", before: params + `in %x: uint8[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] %xf = DequantizeLinear(%x, %sx, %zx) %wf = DequantizeLinear(%w, %sw, %zw)
			%c = MatMul(%xf, %wf) %y = QuantizeLinear(%c, %sy, %zy) out %y`,
			after: params + `in %x: uint8[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] %y = QLinearMatMul(%x, %sx, %zx, %w, %sw, %zw, %sy, %zy) out %y`},
		{name: "product of activations", before: params + `in %x: uint8[2,2,2] in %v: int8[2,2,3] %xf = DequantizeLinear(%x, %sx, %zx) %vf = DequantizeLinear(%v, %sw, %zw)
			%c = MatMul(%xf, %vf) %y = QuantizeLinear(%c, %sy, %zy) out %y`,
			after: params + `in %x: uint8[2,2,2] in %v: int8[2,2,3] %y = QLinearMatMul(%x, %sx, %zx, %v, %sw, %zw, %sy, %zy) out %y`},
		{name: "product wanted in real numbers", before: params + `in %x: uint8[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] const %s: float32[3] = [0.25, 0.5, 1] const %z: int8[3] = [0, 1, 0]
			%xf = DequantizeLinear(%x, %sx, %zx) %wf = DequantizeLinear(%w, %s, %z) [axis=1] %y = MatMul(%xf, %wf) out %y`,
			after: `const %zx: uint8[] = 3 in %x: uint8[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] const %z: int8[3] = [0, 1, 0] const %k: float32[3] = [0.125, 0.25, 0.5]
			%a = MatMulInteger(%x, %w, %zx, %z) %f = Cast(%a) [to=1] %y = Mul(%f, %k) out %y`},
		{name: "Gemm with a bias and transposed weights", before: params + `in %x: uint8[2,2] const %w: int8[3,2] = [1, 2, 3, 4, 5, -6] const %b: int32[3] = [8, -8, 0] const %sb: float32[] = 0.125
			%xf = DequantizeLinear(%x, %sx, %zx) %wf = DequantizeLinear(%w, %sw, %zw) %bf = DequantizeLinear(%b, %sb) %c = Gemm(%xf, %wf, %bf) [transB=1] %y = QuantizeLinear(%c, %sy, %zy) out %y`,
			after: params + `in %x: uint8[2,2] const %w: int8[3,2] = [1, 2, 3, 4, 5, -6] const %b: int32[3] = [8, -8, 0] const %k: float32[1] = [0.125]
			%t = Transpose(%w) [perm=[1, 0]] %a = MatMulInteger(%x, %t, %zx, %zw) %d = Add(%a, %b) %f = Cast(%d) [to=1] %c = Mul(%f, %k) %y = QuantizeLinear(%c, %sy, %zy) out %y`},
		{name: "sums beyond 32 bits stay", before: `const %sx: float32[] = 0.5 const %sy: float32[] = 2 in %x: uint8[1,40000] const %w: uint8[40000,1] = splat 255
			%xf = DequantizeLinear(%x, %sx) %wf = DequantizeLinear(%w, %sx) %c = MatMul(%xf, %wf) %d = MatMul(%xf, %wf) %y = QuantizeLinear(%c, %sy) out %y, %d`},
		{name: "sums of a convolution beyond 32 bits stay", before: `const %sx: float32[] = 0.5 const %sy: float32[] = 2 in %x: uint8[1,4000,3,3] const %w: uint8[1,4000,3,3] = splat 255
			%xf = DequantizeLinear(%x, %sx) %wf = DequantizeLinear(%w, %sx) %c = Conv(%xf, %wf) %y = QuantizeLinear(%c, %sy) out %y`},
		{name: "small weights keep sums below", before: `const %s: float32[] = 0.5 in %x: uint8[1,40000] const %w: uint8[40000,1] = splat 2
			%xf = DequantizeLinear(%x, %s) %wf = DequantizeLinear(%w, %s) %y = MatMul(%xf, %wf) out %y`,
			after: `in %x: uint8[1,40000] const %w: uint8[40000,1] = splat 2 const %z: uint8[] = 0 const %v: uint8[] = 0 const %k: float32[1] = [0.25] %a = MatMulInteger(%x, %w, %z, %v) %f = Cast(%a) [to=1] %y = Mul(%f, %k) out %y`},
		{name: "a bias between integers is added behind", before: params + `in %x: uint8[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] const %b: float32[3] = [0.3, 0.4, -0.45] const %one: float32[] = 1
			%xf = DequantizeLinear(%x, %one, %zx) %wf = DequantizeLinear(%w, %one, %zw) %y = Gemm(%xf, %wf, %b) out %y`,
			after: params + `in %x: uint8[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] const %b: float32[3] = [0.3, 0.4, -0.45] const %k: float32[1] = [1]
			%a = MatMulInteger(%x, %w, %zx, %zw) %f = Cast(%a) [to=1] %c = Mul(%f, %k) %y = Add(%c, %b) out %y`},
		{name: "a bias of rows", before: params + `in %x: uint8[3,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] const %b: float32[3,1] = [1, 2, 3]
			%xf = DequantizeLinear(%x, %sx, %zx) %wf = DequantizeLinear(%w, %sw, %zw) %y = Gemm(%xf, %wf, %b) out %y`,
			after: params + `in %x: uint8[3,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] const %b: float32[3,1] = [1, 2, 3] const %k: float32[1] = [0.125]
			%a = MatMulInteger(%x, %w, %zx, %zw) %f = Cast(%a) [to=1] %c = Mul(%f, %k) %y = Add(%c, %b) out %y`},
		{name: "a bias that is lost in a coarse result is kept in real numbers", before: params + `in %x: uint8[1,2,4,4] const %w: int8[2,2,1,1] = [1, -2, 3, 4] const %b: float32[2] = [0.3, 0.4] const %one: float32[] = 1
			%xf = DequantizeLinear(%x, %one, %zx) %wf = DequantizeLinear(%w, %one, %zw) %c = Conv(%xf, %wf, %b) %y = QuantizeLinear(%c, %one, %zy) out %y`},
		{name: "scales whose product vanishes stay", before: `const %s: float32[] = 1e-30 in %x: uint8[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] %xf = DequantizeLinear(%x, %s) %wf = DequantizeLinear(%w, %s) %y = MatMul(%xf, %wf) out %y`},
		{name: "moved", before: params + `in %x: uint8[2,3] %xf = DequantizeLinear(%x, %sx, %zx) %m = Transpose(%xf) [perm=[1, 0]] %y = QuantizeLinear(%m, %sx, %zx) out %y`,
			after: `in %x: uint8[2,3] %y = Transpose(%x) [perm=[1, 0]] out %y`},
		{name: "joined", before: params + `in %x: uint8[2,3] in %v: uint8[1,3] %xf = DequantizeLinear(%x, %sx, %zx) %vf = DequantizeLinear(%v, %sx, %zx) %m = Concat(%xf, %vf) [axis=0] %y = QuantizeLinear(%m, %sx, %zx) out %y`,
			after: `in %x: uint8[2,3] in %v: uint8[1,3] %y = Concat(%x, %v) [axis=0] out %y`},
		{name: "maxima", before: params + `in %x: uint8[1,1,3,3] %xf = DequantizeLinear(%x, %sx, %zx) %m = MaxPool(%xf) [kernel_shape=[2, 2]] %y = QuantizeLinear(%m, %sx, %zx) out %y`,
			after: `in %x: uint8[1,1,3,3] %y = MaxPool(%x) [kernel_shape=[2, 2]] out %y`, opts: Options{MaxOfBytes: true}},
		{name: "maxima without a kernel stay", before: params + `in %x: uint8[1,1,3,3] %xf = DequantizeLinear(%x, %sx, %zx) %m = MaxPool(%xf) [kernel_shape=[2, 2]] %y = QuantizeLinear(%m, %sx, %zx) out %y`},
		{name: "moved to another scale stays", before: params + `in %x: uint8[2,3] %xf = DequantizeLinear(%x, %sx, %zx) %m = Transpose(%xf) [perm=[1, 0]] %y = QuantizeLinear(%m, %sy, %zy) out %y`},
		{name: "there and back", before: params + `in %x: uint8[2,3] %xf = DequantizeLinear(%x, %sx, %zx) %q = QuantizeLinear(%xf, %sx, %zx) %y = Transpose(%q) [perm=[1, 0]] out %y`,
			after: `in %x: uint8[2,3] %y = Transpose(%x) [perm=[1, 0]] out %y`},
		{name: "a quantized input stays", before: params + `in %x: float32[2,3] %q = QuantizeLinear(%x, %sx, %zx) %y = Transpose(%q) [perm=[1, 0]] out %y`},
		{name: "rows of a table", before: params + `in %i: int64[2] const %w: int8[3,2] = [1, 2, 3, 4, 5, -6] %wf = DequantizeLinear(%w, %sw, %zw) const %three: int64[] = 3 %k = Mod(%i, %three) %y = Gather(%wf, %k) [axis=0] out %y`,
			after: `const %sw: float32[] = 0.25 const %zw: int8[] = 0 in %i: int64[2] const %w: int8[3,2] = [1, 2, 3, 4, 5, -6] const %three: int64[] = 3 %k = Mod(%i, %three) %g = Gather(%w, %k) [axis=0] %y = DequantizeLinear(%g, %sw, %zw) out %y`},
	})
}

func TestUnpack(t *testing.T) {
	testRewrite(t, []*Pass{Unpack, Dead}, []rewriteCase{
		{name: "weights", before: `in %x: float32[2,2] const %w: int8[2,3] = [1, 2, 3, 4, 5, -6] const %s: float32[3] = [0.25, 0.5, 1] %wf = DequantizeLinear(%w, %s) [axis=1] %y = MatMul(%x, %wf) out %y`,
			after: `in %x: float32[2,2] const %wf: float32[2,3] = [0.25, 1, 3, 1, 2.5, -6] %y = MatMul(%x, %wf) out %y`},
		{name: "more than may be added", before: `in %x: float32[1000,2] const %s: float32[2] = [0.25, 0.5] const %w: int8[1000,2] = splat 3 %wf = DequantizeLinear(%w, %s) [axis=1] %y = Add(%x, %wf) out %y`,
			opts: Options{Growth: Growth{PerNode: 100}}},
		{name: "activations stay", before: `in %x: uint8[2] const %s: float32[] = 0.5 %y = DequantizeLinear(%x, %s) out %y`},
	})
}
