package contrib

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// GatherBlockQuantized gathers slices of a quantized table and dequantizes them,
// of the com.microsoft domain:
//
//	output = (data - zero_points) * scales   of the rows that indices name along gather_axis
//
// scales has one element per block_size elements along quantize_axis. uint8 data
// packs elements of bits bits along the last dimension, low bits first. Indices
// outside the table give zeros.
var GatherBlockQuantized = ops.Op{
	Domain: Microsoft, Name: "GatherBlockQuantized", Since: 1, Doc: "output = dequantize(gather(data, indices))",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("bits", 4), ops.IntAttr("block_size", 128), ops.IntAttr("gather_axis", 0),
		ops.IntAttr("quantize_axis", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferGatherBlock), Eval: kit.Kernel(evalGatherBlock),
}

// packedBits is how many elements a byte of the data holds.
func packedBits(n *ssa.Node, dt ndarray.DType) (perByte, bits int) {
	if dt != ndarray.Uint8 {
		return 1, dt.FileBits()
	}
	bits = int(ops.Int(n, "bits"))
	return 8 / max(1, bits), bits
}

func inferGatherBlock(n *ssa.Node) []ops.Inferred {
	data, idx, dt := ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 2).DType
	if !data.Ranked || !idx.Ranked {
		return ops.One(ssa.UnrankedTensor(dt))
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "gather_axis"), data.Rank()))
	shape := slices.Clone(data.Shape)
	per, _ := packedBits(n, data.DType)
	shape[len(shape)-1] = shape[len(shape)-1].MulN(int64(per))
	return ops.One(ssa.TensorOf(dt, slices.Concat(shape[:axis], idx.Shape, shape[axis+1:])...))
}

// blockTable reads single elements of a block-quantized tensor.
type blockTable struct {
	data, scales, zeros *ndarray.Array
	shape               []int // of the elements
	bits                int
	axis, block         int // along which blocks lie, and their size
	zero                float64
}

func newBlockTable(c *ops.Call) *blockTable {
	t := &blockTable{data: kit.Tensor(c, 0), scales: kit.Tensor(c, 2), zeros: c.Array(3)}
	dt := t.data.DType
	if !(kit.TypesOf(ndarray.Int4, ndarray.Uint4, ndarray.Uint8) | quant.QuantFloats).Has(dt) {
		kit.Check(kit.UnsupportedType(dt))
	}
	t.shape = slices.Clone(t.data.Shape)
	if len(t.shape) == 0 || t.scales.Rank() != len(t.shape) {
		kit.Failf("data of shape %v and scales of shape %v", t.shape, t.scales.Shape)
	}
	per, bits := packedBits(c.Node, dt)
	if dt == ndarray.Uint8 && bits != 2 && bits != 4 && bits != 8 {
		kit.Failf("bits=%d: %w", bits, ops.ErrUnsupported)
	}
	t.bits = bits
	t.shape[len(t.shape)-1] *= per
	t.axis = kit.Try(ops.NormAxis(ops.Int(c.Node, "quantize_axis"), len(t.shape)))
	t.block = int(ops.Int(c.Node, "block_size"))
	if t.block == 0 {
		t.block = t.shape[t.axis]
	}
	if t.block < 1 {
		kit.Failf("block_size=%d", t.block)
	}
	if dt == ndarray.Uint8 {
		t.zero = float64(int(1) << (bits - 1))
	}
	t.checkScales()
	return t
}

func (t *blockTable) checkScales() {
	want := slices.Clone(t.shape)
	want[t.axis] = (want[t.axis] + t.block - 1) / t.block
	for i, d := range t.scales.Shape {
		if d != want[i] && (i == t.axis || d != 1) {
			kit.Failf("scales have shape %v, expected %v", t.scales.Shape, want)
		}
	}
	if t.zeros == nil {
		return
	}
	if t.data.DType.IsFloat() || t.zeros.DType != t.data.DType {
		kit.Failf("data of %s with zero points of %s", t.data.DType, t.zeros.DType)
	}
	want = slices.Clone(t.scales.Shape)
	if t.data.DType == ndarray.Uint8 {
		last := len(want) - 1
		want[last] = (want[last]*t.bits + 7) / 8
	}
	kit.WantShape("zero_points", t.zeros, want...)
}

// at is the real value of the element at an index.
func (t *blockTable) at(idx []int) float64 {
	pos, block := 0, 0
	for i, k := range idx {
		pos = pos*t.shape[i] + k
		if i == t.axis {
			k /= t.block
		}
		if t.scales.Shape[i] == 1 {
			k = 0
		}
		block = block*t.scales.Shape[i] + k
	}
	zero := t.zero
	if t.zeros != nil {
		zero = t.read(t.zeros, block, t.scales.Shape[len(t.scales.Shape)-1])
	}
	return (t.read(t.data, pos, t.shape[len(t.shape)-1]) - zero) * t.scales.Float(block)
}

// read is element i of a tensor whose rows of width elements may be packed.
func (t *blockTable) read(a *ndarray.Array, i, width int) float64 {
	if a.DType != ndarray.Uint8 {
		return a.Float(i)
	}
	rowBytes := (width*t.bits + 7) / 8
	return float64(bitField(a.Data[i/width*rowBytes:], i%width, t.bits))
}

func evalGatherBlock(c *ops.Call) {
	watch := kit.Watching(c)
	t := newBlockTable(c)
	idx := kit.Tensor(c, 1)
	if !idx.DType.IsInteger() {
		kit.Check(kit.UnsupportedType(idx.DType))
	}
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "gather_axis"), len(t.shape)))
	y := kit.Result(c, 0, t.scales.DType, slices.Concat(t.shape[:axis], idx.Shape, t.shape[axis+1:])...)
	rows, dim, inner := kit.Elements[int64](c, idx), t.shape[axis], kit.SizeOf(t.shape[axis+1:])
	at := make([]int, len(t.shape))
	for i := range y.Len() {
		watch.Did(4)
		outer, rest := i/inner/len(rows), i%inner
		k, err := ops.WrapIndex(rows[i/inner%len(rows)], dim)
		if err != nil { // outside the table
			y.SetFloat(i, 0)
			continue
		}
		for d := len(at) - 1; d > axis; d-- {
			at[d], rest = rest%t.shape[d], rest/t.shape[d]
		}
		at[axis] = k
		for d := axis - 1; d >= 0; d-- {
			at[d], outer = outer%t.shape[d], outer/t.shape[d]
		}
		y.SetFloat(i, t.at(at))
	}
}
