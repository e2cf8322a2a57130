package contrib

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The size [N, K] of packed weights.
var (
	nbitsRows = ops.IntAttr("N").Mandatory().Between(1, math.MaxInt32)
	nbitsCols = ops.IntAttr("K").Mandatory().Between(1, math.MaxInt32)
)

// MatMulNBits multiplies by weights of 2, 4 or 8 bits with a scale per block, of
// the com.microsoft domain:
//
//	Y = A · Wᵀ + bias,   W[n,k] = (q[n,k] - zero[n,k/block_size]) * scale[n,k/block_size]
//
// B [N, blocks, bytes] packs q along K, low bits first. Zero points are packed
// the same way, or given as numbers; 2^(bits-1) if absent. g_idx, if present,
// names the block of every k.
var MatMulNBits = ops.Op{
	Domain: Microsoft, Name: "MatMulNBits", Since: 1, Doc: "Y = A · dequantize(B)ᵀ + bias",
	MinIn: 3, MaxIn: 6, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{nbitsRows, nbitsCols,
		ops.IntAttr("accuracy_level", 0), ops.IntAttr("bits", 4), ops.IntAttr("block_size").Mandatory(),
		ops.IntAttr("weight_prepacked", 0)},
	Infer: kit.Rule(inferLastTo("N")), Eval: kit.Kernel(evalMatMulNBits),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: weightedCost},
}

// inferLastTo is the type rule of operators that replace operand 0's last
// dimension by an attribute.
func inferLastTo(attr string) func(*ssa.Node) []ops.Inferred {
	return func(n *ssa.Node) []ops.Inferred {
		t := ops.InType(n, 0)
		if !t.Ranked || t.Rank() == 0 {
			return ops.One(ssa.UnrankedTensor(t.DType))
		}
		dims := slices.Clone(t.Shape)
		dims[len(dims)-1] = ssa.D(ops.Int(n, attr))
		return ops.One(ssa.TensorOf(t.DType, dims...))
	}
}

// weightedCost counts the product with weights [N,K].
func weightedCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	if k, ok := ops.InType(n, 0).NumElems().Const(); ok {
		c.FLOPs = 2 * k * ops.Int(n, "N")
	}
	return c
}

// weightSize reads the attributes N and K of packed weights.
func weightSize(n *ssa.Node) (rows, cols int) {
	rows, cols = int(ops.Int(n, "N")), int(ops.Int(n, "K"))
	kit.Try(ndarray.NumElems([]int{rows, cols}))
	return rows, cols
}

func evalMatMulNBits(c *ops.Call) {
	if ops.Int(c.Node, "weight_prepacked") != 0 {
		kit.Failf("weight_prepacked: %w", ops.ErrUnsupported)
	}
	w := unpackNBits(c)
	n, k := weightSize(c.Node)
	timesWeights(c, w, n, k, c.Array(5))
}

// timesWeights stores A · Wᵀ + bias for W [n,k].
func timesWeights(c *ops.Call, w []float32, n, k int, bias *ndarray.Array) {
	a := kit.Tensor(c, 0)
	if a.Rank() < 1 || a.Shape[a.Rank()-1] != k || !a.DType.IsFloat() {
		kit.Failf("A is %s, expected floats with a last dimension of %d", a, k)
	}
	kit.WantShape("bias", bias, n)
	shape := slices.Clone(a.Shape)
	shape[len(shape)-1] = n
	y := kit.NewResult[float32](c, 0, a.DType, shape...)
	kit.ClearSlice(c, y.V)
	kit.MatMulAddT(c, a.Len()/k, n, k, kit.Elements[float32](c, a), k, w, k, y.V, n)
	nn.ScaleShift(c, y.V, nil, kit.Elements[float32](c, bias))
	y.Store()
}

// unpackNBits dequantizes B to [N,K].
func unpackNBits(c *ops.Call) []float32 {
	watch := kit.Watching(c)
	n, k := weightSize(c.Node)
	bits, block := int(ops.Int(c.Node, "bits")), int(ops.Int(c.Node, "block_size"))
	if bits != 2 && bits != 4 && bits != 8 || block < 16 || block > math.MaxInt32 || block&(block-1) != 0 {
		kit.Failf("bits=%d and block_size=%d: %w", bits, block, ops.ErrUnsupported)
	}
	blocks := (k + block - 1) / block
	b, scales := kit.Tensor(c, 1), kit.Tensor(c, 2)
	if b.DType != ndarray.Uint8 {
		kit.Check(kit.UnsupportedType(b.DType))
	}
	kit.WantLen("B", b, n*blocks*block*bits/8)
	kit.WantLen("scales", scales, n*blocks)
	zero := nbitZeros(c, c.Array(3), n, blocks, bits)
	group := groupOf(c, c.Array(4), k, block, blocks)
	w, s := kit.Make[float32](c, n*k), kit.Elements[float32](c, scales)
	for i := range n {
		row := b.Data[i*blocks*block*bits/8:]
		for j := range k {
			watch.Did(1)
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
func nbitZeros(c *ops.Call, a *ndarray.Array, n, blocks, bits int) []float32 {
	watch := kit.Watching(c)
	out := kit.Make[float32](c, n*blocks)
	if a == nil {
		for i := range out {
			watch.Did(1)
			out[i] = float32(int(1) << (bits - 1))
		}
		return out
	}
	if a.DType != ndarray.Uint8 {
		kit.WantLen("zero_points", a, n*blocks)
		return kit.Elements[float32](c, a)
	}
	width := (blocks*bits + 7) / 8
	kit.WantLen("zero_points", a, n*width)
	for i := range out {
		watch.Did(1)
		out[i] = float32(bitField(a.Data[i/blocks*width:], i%blocks, bits))
	}
	return out
}

// groupOf returns the block of every k.
func groupOf(c *ops.Call, idx *ndarray.Array, k, block, blocks int) func(int) int {
	watch := kit.Watching(c)
	if idx == nil {
		return func(j int) int { return j / block }
	}
	v := kit.Elements[int64](c, idx)
	if len(v) < k {
		kit.Failf("g_idx has %d elements for K=%d", len(v), k)
	}
	for _, g := range v[:k] {
		watch.Did(1)
		if g < 0 || g >= int64(blocks) {
			kit.Failf("g_idx names block %d of %d", g, blocks)
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
func MatMulBnb4() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "MatMulBnb4", Since: 1, Doc: "Y = A · dequantize(B)ᵀ, 4-bit floats",
		MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{nbitsRows, nbitsCols,
			ops.IntAttr("block_size").Mandatory().Between(1, math.MaxInt32), ops.IntAttr("quant_type").Mandatory().Between(0, 1),
			ops.IntAttr("training_mode", 0), ops.IntAttr("transB", 1)},
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			if ops.Int(n, "transB") == 0 {
				return inferLastTo("K")(n)
			}
			return inferLastTo("N")(n)
		}),
		Eval: kit.Kernel(evalMatMulBnb4), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: weightedCost},
	}
}

// bnb4Tables are the values of FP4 and NF4.
var bnb4Tables = [2][16]float32{
	{0, 0.0052083333, 0.6666667, 1, 0.33333334, 0.5, 0.16666667, 0.25,
		0, -0.0052083333, -0.6666667, -1, -0.33333334, -0.5, -0.16666667, -0.25},
	{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
		0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1},
}

func evalMatMulBnb4(c *ops.Call) {
	watch := kit.Watching(c)
	n, k := weightSize(c.Node)
	kind, block := ops.Int(c.Node, "quant_type"), int(ops.Int(c.Node, "block_size"))
	if dt := kit.Tensor(c, 1).DType; dt != ndarray.Uint8 {
		kit.Check(kit.UnsupportedType(dt))
	}
	kit.WantLen("B", c.Array(1), (n*k+1)/2)
	kit.WantLen("absmax", kit.Tensor(c, 2), (n*k+block-1)/block)
	w, scale := kit.Make[float32](c, n*k), kit.Elements[float32](c, c.Array(2))
	for i := range w {
		watch.Did(1)
		q := c.Array(1).Data[i/2]
		if i%2 == 0 {
			q >>= 4
		}
		w[i] = bnb4Tables[kind][q&15] * scale[i/block]
	}
	if ops.Int(c.Node, "transB") == 0 {
		timesWeights(c, kit.Transposed(c, n, k, w), k, n, nil)
		return
	}
	timesWeights(c, w, n, k, nil)
}
