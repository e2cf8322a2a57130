package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// MatMulNBits multiplies by weights of 2, 4 or 8 bits with a scale per block, of
// the com.microsoft domain:
//
//	Y = A · Wᵀ + bias,   W[n,k] = (q[n,k] - zero[n,k/block_size]) * scale[n,k/block_size]
//
// B [N, blocks, bytes] packs q along K, low bits first. Zero points are packed
// the same way, or given as numbers; 2^(bits-1) if absent. g_idx, if present,
// names the block of every k.
var MatMulNBits = Op{
	Domain: microsoft, Name: "MatMulNBits", Since: 1, Doc: "Y = A · dequantize(B)ᵀ + bias",
	MinIn: 3, MaxIn: 6, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("K").required(), intAttr("N").required(),
		intAttr("accuracy_level", 0), intAttr("bits", 4), intAttr("block_size").required(),
		intAttr("weight_prepacked", 0)},
	Infer: rule(inferLastTo("N")), Eval: kernel(evalMatMulNBits),
	Facts: Facts{Traits: general, Cost: weightedCost},
}

// inferLastTo is the type rule of operators that replace operand 0's last
// dimension by an attribute.
func inferLastTo(attr string) func(*ssa.Node) []Inferred {
	return func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		if !t.Ranked || t.Rank() == 0 {
			return One(ssa.UnrankedTensor(t.DType))
		}
		dims := append([]ssa.Dim(nil), t.Shape...)
		dims[len(dims)-1] = ssa.D(Int(n, attr))
		return One(ssa.TensorOf(t.DType, dims...))
	}
}

// weightedCost counts the product with weights [N,K].
func weightedCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	if k, ok := InType(n, 0).NumElems().Const(); ok {
		c.FLOPs = 2 * k * Int(n, "N")
	}
	return c
}

// weightSize reads the attributes N and K of packed weights.
func weightSize(n *ssa.Node) (rows, cols int) {
	r, k := Int(n, "N"), Int(n, "K")
	if r < 1 || k < 1 || r > math.MaxInt32 || k > math.MaxInt32 {
		failf("weights of N=%d and K=%d", r, k)
	}
	try(ndarray.NumElems([]int{int(r), int(k)}))
	return int(r), int(k)
}

func evalMatMulNBits(c *Call) {
	if Int(c.Node, "weight_prepacked") != 0 {
		failf("weight_prepacked: %w", ErrUnsupported)
	}
	w := unpackNBits(c)
	n, k := weightSize(c.Node)
	timesWeights(c, w, n, k, c.Array(5))
}

// timesWeights stores A · Wᵀ + bias for W [n,k].
func timesWeights(c *Call, w []float32, n, k int, bias *ndarray.Array) {
	a := tensor(c, 0)
	if a.Rank() < 1 || a.Shape[a.Rank()-1] != k || !a.DType.IsFloat() {
		failf("A is %s, expected floats with a last dimension of %d", a, k)
	}
	wantShape("bias", bias, n)
	shape := append([]int(nil), a.Shape...)
	shape[len(shape)-1] = n
	y := newResult[float32](c, 0, a.DType, shape...)
	clear(y.V)
	matMulAddT(a.Len()/k, n, k, elements[float32](a), k, w, k, y.V, n)
	scaleShift(y.V, nil, elements[float32](bias))
	y.store()
}

// unpackNBits dequantizes B to [N,K].
func unpackNBits(c *Call) []float32 {
	n, k := weightSize(c.Node)
	bits, block := int(Int(c.Node, "bits")), int(Int(c.Node, "block_size"))
	if bits != 2 && bits != 4 && bits != 8 || block < 16 || block > math.MaxInt32 || block&(block-1) != 0 {
		failf("bits=%d and block_size=%d: %w", bits, block, ErrUnsupported)
	}
	blocks := (k + block - 1) / block
	b, scales := tensor(c, 1), tensor(c, 2)
	if b.DType != ndarray.Uint8 {
		check(unsupportedType(b.DType))
	}
	wantLen("B", b, n*blocks*block*bits/8)
	wantLen("scales", scales, n*blocks)
	zero := nbitZeros(c.Array(3), n, blocks, bits)
	group := groupOf(c.Array(4), k, block, blocks)
	w, s := make([]float32, n*k), elements[float32](scales)
	for i := range n {
		row := b.Data[i*blocks*block*bits/8:]
		for j := range k {
			g := i*blocks + group(j)
			w[i*k+j] = (float32(bitField(row, j, bits)) - zero[g]) * s[g]
		}
	}
	return w
}

// bitField is element i of a packing of 2, 4 or 8 bits, low bits first.
func bitField(data []byte, i, bits int) byte {
	at := i * bits
	return data[at/8] >> (at % 8) & byte(1<<bits-1)
}

// nbitZeros returns the zero point of every block.
func nbitZeros(a *ndarray.Array, n, blocks, bits int) []float32 {
	out := make([]float32, n*blocks)
	if a == nil {
		for i := range out {
			out[i] = float32(int(1) << (bits - 1))
		}
		return out
	}
	if a.DType != ndarray.Uint8 {
		wantLen("zero_points", a, n*blocks)
		return elements[float32](a)
	}
	width := (blocks*bits + 7) / 8
	wantLen("zero_points", a, n*width)
	for i := range out {
		out[i] = float32(bitField(a.Data[i/blocks*width:], i%blocks, bits))
	}
	return out
}

// groupOf returns the block of every k.
func groupOf(idx *ndarray.Array, k, block, blocks int) func(int) int {
	if idx == nil {
		return func(j int) int { return j / block }
	}
	v := idx.Ints()
	if len(v) < k {
		failf("g_idx has %d elements for K=%d", len(v), k)
	}
	for _, g := range v[:k] {
		if g < 0 || g >= int64(blocks) {
			failf("g_idx names block %d of %d", g, blocks)
		}
	}
	return func(j int) int { return int(v[j]) }
}

// MatMulBnb4 multiplies by weights of 4-bit floats, FP4 or NF4, with a scale per
// block of the flattened weights:
//
//	Y = A · Wᵀ (transB=1) or A · W,   W [N,K] = table[q] * absmax[i/block_size]
//
// B packs two values a byte, the first in the high bits. Source of the tables:
// https://arxiv.org/abs/2305.14314, appendix E (NF4).
var MatMulBnb4 = Op{
	Domain: microsoft, Name: "MatMulBnb4", Since: 1, Doc: "Y = A · dequantize(B)ᵀ, 4-bit floats",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("K").required(), intAttr("N").required(),
		intAttr("block_size").required(), intAttr("quant_type").required(),
		intAttr("training_mode", 0), intAttr("transB", 1)},
	Infer: rule(func(n *ssa.Node) []Inferred {
		if Int(n, "transB") == 0 {
			return inferLastTo("K")(n)
		}
		return inferLastTo("N")(n)
	}),
	Eval: kernel(evalMatMulBnb4), Facts: Facts{Traits: general, Cost: weightedCost},
}

// bnb4Tables are the values of FP4 and NF4.
var bnb4Tables = [2][16]float32{
	{0, 0.0052083333, 0.6666667, 1, 0.33333334, 0.5, 0.16666667, 0.25,
		0, -0.0052083333, -0.6666667, -1, -0.33333334, -0.5, -0.16666667, -0.25},
	{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
		0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1},
}

func evalMatMulBnb4(c *Call) {
	n, k := weightSize(c.Node)
	kind, block := Int(c.Node, "quant_type"), int(Int(c.Node, "block_size"))
	if kind != 0 && kind != 1 || block < 1 || block > math.MaxInt32 {
		failf("quant_type=%d and block_size=%d: %w", kind, block, ErrUnsupported)
	}
	if dt := tensor(c, 1).DType; dt != ndarray.Uint8 {
		check(unsupportedType(dt))
	}
	wantLen("B", c.Array(1), (n*k+1)/2)
	wantLen("absmax", tensor(c, 2), (n*k+block-1)/block)
	w, scale := make([]float32, n*k), elements[float32](c.Array(2))
	for i := range w {
		q := c.Array(1).Data[i/2]
		if i%2 == 0 {
			q >>= 4
		}
		w[i] = bnb4Tables[kind][q&15] * scale[i/block]
	}
	if Int(c.Node, "transB") == 0 {
		timesWeights(c, transposed(n, k, w), k, n, nil)
		return
	}
	timesWeights(c, w, n, k, nil)
}
