package movement

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Col2Im lays columns of blocks back into an image, adding where blocks overlap:
// https://onnx.ai/onnx/operators/onnx__Col2Im.html
//
//	input [N, C * product(block), L]  ->  output [N, C, image…]
//	output[n, c, l*stride - pad + k*dilation] += input[n, (c, k), l]
//
// for every block position l and offset k in the block (multi-indices).
func Col2Im() ops.Op {
	return ops.Op{
		Name: "Col2Im", Since: 18, Doc: "output = sum of the blocks of input at their places",
		MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntsAttr("dilations").Between(1, 1<<31), ops.IntsAttr("pads").Between(0, 1<<31), ops.IntsAttr("strides").Between(1, 1<<31)},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferCol2Im), Eval: kit.Kernel(evalCol2Im),
	}
}

func inferCol2Im(n *ssa.Node) []ops.Inferred {
	t, image, block := ops.InType(n, 0), ops.ContentOf(n, 1), ops.ContentOf(n, 2)
	k := kit.LenOf(n, 1)
	if k < 0 {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	dims := kit.UnknownDims(2 + k)
	copy(dims[2:], image)
	kit.CheckDims(image)
	if t.Ranked {
		if len(t.Shape) != 3 {
			kit.Failf("the operand has rank %d, it must be 3", len(t.Shape))
		}
		dims[0] = t.Shape[0]
		if block != nil {
			dims[1] = t.Shape[1].FloorDiv(ssa.TensorOf(t.DType, block...).NumElems())
		}
	}
	return ops.One(ssa.TensorOf(t.DType, dims...))
}

// blockLayout says where the blocks of an image lie.
type blockLayout struct {
	image, block          []int
	stride, dilation, pad []int
	grid                  []int // how many block positions per dimension
}

func blockLayoutOf(c *ops.Call) *blockLayout {
	b := &blockLayout{image: kit.ShapeOfInts(kit.Ints(c, 1)), block: kit.ShapeOfInts(kit.Ints(c, 2))}
	r := len(b.image)
	if len(b.block) != r {
		kit.Failf("image shape %v and block shape %v differ in rank", b.image, b.block)
	}
	list := func(name string, count int, def int64) []int {
		v := ops.Ints(c.Node, name)
		if !c.Node.Has(name) {
			v = slices.Repeat([]int64{def}, count)
		}
		if len(v) != count {
			kit.Check(kit.BadAttr(name, v, fmt.Sprintf("a list of %d", count)))
		}
		return kit.ShapeOfInts(v)
	}
	b.stride = list("strides", r, 1)
	b.dilation = list("dilations", r, 1)
	b.pad = list("pads", 2*r, 0)
	for i, d := range b.image {
		rest := d + b.pad[i] + b.pad[r+i] - b.dilation[i]*(b.block[i]-1) - 1
		if rest < 0 || b.block[i] < 1 {
			kit.Failf("a block of %v does not fit an image of %v", b.block, b.image)
		}
		b.grid = append(b.grid, rest/b.stride[i]+1)
	}
	return b
}

// targets calls f with the position in the image of every (offset, block position), in order, -1 in the padding.
func (b *blockLayout) targets(c *ops.Call, f func(at int)) {
	strides := ops.Strides(b.image)
	kit.EachIndex(c, b.block, func(k []int) {
		kit.EachIndex(c, b.grid, func(l []int) {
			at := 0
			for i := range k {
				x := l[i]*b.stride[i] - b.pad[i] + k[i]*b.dilation[i]
				if x < 0 || x >= b.image[i] {
					at = -1
					break
				}
				at += x * strides[i]
			}
			f(at)
		})
	})
}

func evalCol2Im(c *ops.Call) {
	a := kit.Tensor(c, 0)
	b := blockLayoutOf(c)
	offsets, _ := ndarray.NumElems(b.block)
	places, err := ndarray.NumElems(b.grid)
	if err != nil || a.Rank() != 3 || a.Shape[1]%offsets != 0 || a.Shape[2] != places {
		kit.Failf("the operand is %s, blocks of %v need [N, C*%d, %d]", a, b.block, offsets, places)
	}
	shape := slices.Concat([]int{a.Shape[0], a.Shape[1] / offsets}, b.image)
	switch dt := a.DType; {
	case dt.IsFloat():
		addBlocks[float64](c, a, b, shape)
	case dt.IsInteger():
		addBlocks[int64](c, a, b, shape)
	case dt.IsComplex():
		addBlocks[complex128](c, a, b, shape)
	default:
		kit.Check(kit.UnsupportedType(dt))
	}
}

// addBlocks adds every column element to its place in its plane.
func addBlocks[T kit.Number](c *ops.Call, a *ndarray.Array, b *blockLayout, shape []int) {
	y, cols := kit.NewResult[T](c, 0, a.DType, shape...), kit.Elements[T](c, a)
	kit.ClearSlice(c, y.V)
	plane, i := kit.SizeOf(shape[2:]), 0
	for n := range shape[0] * shape[1] {
		b.targets(c, func(at int) {
			if at >= 0 {
				y.V[n*plane+at] += cols[i]
			}
			i++
		})
	}
	y.Store()
}
