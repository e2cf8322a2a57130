package nn

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MaxUnpool puts pooled maxima back where they came from: https://onnx.ai/onnx/operators/onnx__MaxUnpool.html
//
//	Y = 0;  Y.flat[I.flat[i]] = X.flat[i]
//
// The indices count in the shape the attributes describe,
//
//	(in-1)*stride + kernel - begin - end     per spatial dimension
//
// A larger output_shape (operand 2) moves every element to the same coordinates
// in the larger tensor.
var MaxUnpool = ops.Op{
	Name: "MaxUnpool", Since: 22, Form: bf16Since22(11), Doc: "Y.flat[I] = X, zero elsewhere",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("kernel_shape").AtLeast(1).Mandatory(), ops.IntsAttr("pads"), ops.IntsAttr("strides").AtLeast(1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferMaxUnpool), Eval: kit.Kernel(evalMaxUnpool),
}

// unpoolDim is the size a pooled dimension had.
func unpoolDim(w *Window, i int, in ssa.Dim) ssa.Dim {
	return in.AddN(-1).MulN(int64(w.strides[i])).AddN(int64(w.kernel[i] - w.begin[i] - w.end[i]))
}

func unpoolWindow(n *ssa.Node, rank int) Window {
	kernel := kit.Try(KernelAttr(n))
	if rank != len(kernel)+2 {
		kit.Failf("kernel_shape %v does not fit an operand of rank %d", kernel, rank)
	}
	return kit.Try(WindowOf(n, kernel))
}

func inferMaxUnpool(n *ssa.Node) []ops.Inferred {
	x := ops.InType(n, 0)
	if !x.Ranked {
		return ops.One(ssa.UnrankedTensor(x.DType))
	}
	w := unpoolWindow(n, x.Rank())
	out := make([]ssa.Dim, x.Rank())
	if n.Input(2) != nil {
		if c := ops.ContentOf(n, 2); len(c) == len(out) {
			copy(out, c)
		}
		return ops.One(ssa.TensorOf(x.DType, out...))
	}
	copy(out, x.Shape[:2])
	for i := range w.kernel {
		out[2+i] = unpoolDim(&w, i, x.Shape[2+i])
	}
	return ops.One(ssa.TensorOf(x.DType, out...))
}

func evalMaxUnpool(c *ops.Call) {
	x, idx := kit.Tensor(c, 0), kit.Tensor(c, 1)
	w := unpoolWindow(c.Node, x.Rank())
	if idx.DType != ndarray.Int64 {
		kit.Failf("the indices have element type %s, expected int64", idx.DType)
	}
	kit.WantShape("indices", idx, x.Shape...)
	pooled := slices.Clone(x.Shape)
	for i := range w.kernel {
		d, _ := unpoolDim(&w, i, ssa.D(int64(x.Shape[2+i]))).Const()
		pooled[2+i] = int(d)
	}
	shape := pooled
	if c.Has(2) {
		shape = unpoolShape(c, pooled)
	}
	y := kit.Result(c, 0, x.DType, shape...)
	kit.ClearSlice(c, y.Data)
	total := kit.Try(ndarray.NumElems(pooled))
	strides := ops.Strides(shape)
	watch := kit.Watching(c)
	for i, at := range ndarray.Slice[int64](idx) {
		if at < 0 || at >= int64(total) {
			kit.Failf("index %d is outside the unpooled shape %v", at, pooled)
		}
		kit.CopyElems(&watch, y, relocate(int(at), pooled, strides), x, i, 1)
	}
}

// unpoolShape reads output_shape, which must hold at least the pooled shape.
func unpoolShape(c *ops.Call, pooled []int) []int {
	a := c.Array(2)
	if a == nil || a.Len() != len(pooled) {
		kit.Failf("output_shape does not have %d elements", len(pooled))
	}
	shape := kit.ShapeOfInts(a.Ints())
	for i, d := range shape {
		if d < pooled[i] {
			kit.Failf("output_shape %v is smaller than the unpooled shape %v", shape, pooled)
		}
	}
	return shape
}

// relocate maps a flat index of one shape to the same coordinates under strides.
func relocate(at int, shape, strides []int) int {
	pos := 0
	for d := len(shape) - 1; d >= 0; d-- {
		pos += at % shape[d] * strides[d]
		at /= shape[d]
	}
	return pos
}
