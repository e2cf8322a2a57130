package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
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
var GatherBlockQuantized = Op{
	Domain: microsoft, Name: "GatherBlockQuantized", Since: 1, Doc: "output = dequantize(gather(data, indices))",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("bits", 4), intAttr("block_size", 128), intAttr("gather_axis", 0),
		intAttr("quantize_axis", 1)},
	Facts: Facts{Traits: general}, Infer: rule(inferGatherBlock), Eval: kernel(evalGatherBlock),
}

// packedBits is how many elements a byte of the data holds.
func packedBits(n *ssa.Node, dt ndarray.DType) (perByte, bits int) {
	if dt != ndarray.Uint8 {
		return 1, dt.FileBits()
	}
	bits = int(Int(n, "bits"))
	return 8 / max(1, bits), bits
}

func inferGatherBlock(n *ssa.Node) []Inferred {
	data, idx, dt := InType(n, 0), InType(n, 1), InType(n, 2).DType
	if !data.Ranked || !idx.Ranked {
		return One(ssa.UnrankedTensor(dt))
	}
	axis := try(NormAxis(Int(n, "gather_axis"), data.Rank()))
	shape := slices.Clone(data.Shape)
	per, _ := packedBits(n, data.DType)
	shape[len(shape)-1] = shape[len(shape)-1].MulN(int64(per))
	return One(ssa.TensorOf(dt, slices.Concat(shape[:axis], idx.Shape, shape[axis+1:])...))
}

// blockTable reads single elements of a block-quantized tensor.
type blockTable struct {
	data, scales, zeros *ndarray.Array
	shape               []int // of the elements
	bits                int
	axis, block         int // along which blocks lie, and their size
	zero                float64
}

func newBlockTable(c *Call) *blockTable {
	t := &blockTable{data: tensor(c, 0), scales: tensor(c, 2), zeros: c.Array(3)}
	dt := t.data.DType
	if !(typesOf(ndarray.Int4, ndarray.Uint4, ndarray.Uint8) | quantFloats).has(dt) {
		check(unsupportedType(dt))
	}
	t.shape = slices.Clone(t.data.Shape)
	if len(t.shape) == 0 || t.scales.Rank() != len(t.shape) {
		failf("data of shape %v and scales of shape %v", t.shape, t.scales.Shape)
	}
	per, bits := packedBits(c.Node, dt)
	if dt == ndarray.Uint8 && bits != 2 && bits != 4 && bits != 8 {
		failf("bits=%d: %w", bits, ErrUnsupported)
	}
	t.bits = bits
	t.shape[len(t.shape)-1] *= per
	t.axis = try(NormAxis(Int(c.Node, "quantize_axis"), len(t.shape)))
	t.block = int(Int(c.Node, "block_size"))
	if t.block == 0 {
		t.block = t.shape[t.axis]
	}
	if t.block < 1 {
		failf("block_size=%d", t.block)
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
			failf("scales have shape %v, expected %v", t.scales.Shape, want)
		}
	}
	if t.zeros == nil {
		return
	}
	if t.data.DType.IsFloat() || t.zeros.DType != t.data.DType {
		failf("data of %s with zero points of %s", t.data.DType, t.zeros.DType)
	}
	want = slices.Clone(t.scales.Shape)
	if t.data.DType == ndarray.Uint8 {
		last := len(want) - 1
		want[last] = (want[last]*t.bits + 7) / 8
	}
	wantShape("zero_points", t.zeros, want...)
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

func evalGatherBlock(c *Call) {
	t := newBlockTable(c)
	idx := tensor(c, 1)
	if !idx.DType.IsInteger() {
		check(unsupportedType(idx.DType))
	}
	axis := try(NormAxis(Int(c.Node, "gather_axis"), len(t.shape)))
	y := result(c, 0, t.scales.DType, slices.Concat(t.shape[:axis], idx.Shape, t.shape[axis+1:])...)
	rows, dim, inner := idx.Ints(), t.shape[axis], sizeOf(t.shape[axis+1:])
	at := make([]int, len(t.shape))
	for i := range y.Len() {
		outer, k, rest := i/inner/len(rows), rows[i/inner%len(rows)], i%inner
		if k < 0 {
			k += int64(dim)
		}
		if k < 0 || k >= int64(dim) {
			y.SetFloat(i, 0)
			continue
		}
		for d := len(at) - 1; d > axis; d-- {
			at[d], rest = rest%t.shape[d], rest/t.shape[d]
		}
		at[axis] = int(k)
		for d := axis - 1; d >= 0; d-- {
			at[d], outer = outer%t.shape[d], outer/t.shape[d]
		}
		y.SetFloat(i, t.at(at))
	}
}
