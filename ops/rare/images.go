package rare

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// CropAndResize cuts boxes [y1,x1,y2,x2], in parts of the image's height and width,
// out of images and scales each to one size, of the com.microsoft domain. Corners
// of a box are corners of its crop; what lies outside the image is a constant.
var CropAndResize = ops.Op{
	Domain: contrib.Microsoft, Name: "CropAndResize", Since: 1, Doc: "Y[r] = box rois[r] of image X[batch_indices[r]], scaled to crop_size",
	MinIn: 4, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("extrapolation_value", 0), ops.StrAttr("mode", "bilinear", "nearest")},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		size := []ssa.Dim{{}, {}}
		if k := ops.ContentOf(n, 3); len(k) == 2 {
			size = k
		}
		return ops.One(ssa.TensorOf(x.DType, kit.DimOf(ops.InType(n, 1), 0), kit.DimOf(x, 1), size[0], size[1]))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Eval: kit.FloatKernel(evalCropAndResize, nil),
}

func evalCropAndResize(c *ops.Call) {
	x, rois, batches, size := c.Array(0), c.Array(1), c.Array(2), c.Array(3)
	for i, rank := range []int{4, 2, 1, 1} {
		kit.WantRank([]string{"X", "rois", "batch_indices", "crop_size"}[i], c.Array(i), rank)
	}
	if rois.Shape[1] != 4 || batches.Len() != rois.Shape[0] || size.Len() != 2 || size.Int(0) < 1 || size.Int(1) < 1 {
		kit.Failf("rois %v, batch_indices %v and crop_size %v do not go together", rois.Shape, batches.Shape, size.Ints())
	}
	nearest := ops.Str(c.Node, "mode") == "nearest"
	h, w := int(size.Int(0)), int(size.Int(1))
	out := kit.NewResult[float32](c, 0, x.DType, rois.Shape[0], x.Shape[1], h, w)
	v, boxes := kit.Elements[float32](c, x), kit.Elements[float32](c, rois)
	outside, plane := ops.Float(c.Node, "extrapolation_value"), x.Shape[2]*x.Shape[3]
	watch := kit.Watching(c)
	for r := range rois.Shape[0] {
		b := batches.Int(r)
		if b < 0 || b >= int64(x.Shape[0]) {
			kit.Failf("box %d is of image %d of %d", r, b, x.Shape[0])
		}
		for ch := range x.Shape[1] {
			image := v[(int(b)*x.Shape[1]+ch)*plane:][:plane]
			for i := range h {
				y := cropAt(boxes[4*r], boxes[4*r+2], x.Shape[2], i, h)
				for j := range w {
					watch.Did(1)
					at := cropAt(boxes[4*r+1], boxes[4*r+3], x.Shape[3], j, w)
					out.V[((r*x.Shape[1]+ch)*h+i)*w+j] = sampleAt(image, x.Shape[2], x.Shape[3], y, at, nearest, outside)
				}
			}
		}
	}
	out.Store()
}

// cropAt is where pixel i of size lies between from and to, parts of a length.
func cropAt(from, to float32, length, i, size int) float32 {
	last := float32(length - 1)
	switch {
	case size == 1:
		return 0.5 * (from + to) * last
	case i == 0:
		return from * last
	case i == size-1:
		return to * last
	}
	return from*last + float32(i)*((to-from)*last/float32(size-1))
}

// sampleAt reads an image at a point.
func sampleAt(image []float32, height, width int, y, x float32, nearest bool, outside float32) float32 {
	if !(y >= 0 && y <= float32(height-1) && x >= 0 && x <= float32(width-1)) {
		return outside
	}
	at := func(i, j float64) float32 { return image[int(i)*width+int(j)] }
	y64, x64 := float64(y), float64(x)
	if nearest {
		return at(math.Round(y64), math.Round(x64))
	}
	top, bottom, left, right := math.Floor(y64), math.Ceil(y64), math.Floor(x64), math.Ceil(x64)
	dy, dx := y-float32(top), x-float32(left)
	upper := at(top, left) + (at(top, right)-at(top, left))*dx
	lower := at(bottom, left) + (at(bottom, right)-at(bottom, left))*dx
	return upper + (lower-upper)*dy
}

// ConvTransposeWithDynamicPads is ConvTranspose with the padding as an operand, of
// the com.microsoft domain.
var ConvTransposeWithDynamicPads = ops.Op{
	Domain: contrib.Microsoft, Name: "ConvTransposeWithDynamicPads", Since: 1, Doc: "ConvTranspose(X, W, B) with pads from operand 2",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{nn.AutoPad, ops.IntsAttr("dilations").AtLeast(1), ops.IntAttr("group", 1).AtLeast(1),
		ops.IntsAttr("kernel_shape").AtLeast(1), ops.IntsAttr("output_padding").AtLeast(0), ops.IntsAttr("strides").AtLeast(1)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		pads, known := ops.ConstInts(n, 2)
		facts := nn.InferConvTranspose(withPads(n, pads))
		if n.Input(2) != nil && !known && facts[0].Type.Ranked {
			for i := 2; i < facts[0].Type.Rank(); i++ {
				facts[0].Type.Shape[i] = ssa.Dim{}
			}
		}
		return facts
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ConvTransposeCost},
	Eval: kit.Kernel(func(c *ops.Call) {
		inner := *c
		inner.Node = withPads(c.Node, kit.OptionalInts(c, 2))
		inner.In = slices.Clone(c.In[:2])
		if c.Has(3) {
			inner.In = append(inner.In, c.In[3])
		}
		kit.ByFloat(&inner, nn.EvalConvTranspose[float32], nn.EvalConvTranspose[float64])
		c.Out = inner.Out
	}),
}

// withPads is the ConvTranspose of the same meaning with pads as an attribute.
func withPads(n *ssa.Node, pads []int64) *ssa.Node {
	m := &ssa.Node{Op: "ConvTranspose", In: []*ssa.Value{n.Input(0), n.Input(1), n.Input(3)}, Out: n.Out, Attrs: slices.Clone(n.Attrs)}
	if len(pads) > 0 {
		m.Attrs = append(m.Attrs, ssa.IntsAttr("pads", pads...))
	}
	return m
}

// UnfoldTensor gives all windows of a length along an axis, as a new last axis.
var UnfoldTensor = ops.Op{
	Domain: contrib.Microsoft, Name: "UnfoldTensor", Since: 1, Doc: "output[…, i, …, j] = input[…, i*step + j, …] along dim",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("dim", -1), ops.IntAttr("size").Mandatory().AtLeast(1), ops.IntAttr("step", 1).AtLeast(1)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		if !x.Ranked {
			return ops.One(ssa.UnrankedTensor(x.DType))
		}
		axis, size := kit.Try(ops.NormAxis(ops.Int(n, "dim"), x.Rank())), ops.Int(n, "size")
		out := slices.Clone(x.Shape)
		out[axis] = out[axis].AddN(-size).FloorDiv(ssa.D(ops.Int(n, "step"))).AddN(1)
		if k, ok := out[axis].Const(); ok && k < 1 {
			kit.Failf("windows of %d along dimension %d of %s", size, axis, x)
		}
		return ops.One(ssa.TensorOf(x.DType, append(out, ssa.D(size))...))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MoveCost}, Eval: kit.Kernel(evalUnfold),
}

func evalUnfold(c *ops.Call) {
	x := c.Array(0)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "dim"), x.Rank()))
	length, size, step := x.Shape[axis], int(ops.Int(c.Node, "size")), int(ops.Int(c.Node, "step"))
	if size > length {
		kit.Failf("windows of %d along a dimension of %d", size, length)
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = (length-size)/step + 1
	out := kit.Result(c, 0, x.DType, append(slices.Clone(shape), size)...)
	outer, inner := kit.SizeOf(x.Shape[:axis]), kit.SizeOf(x.Shape[axis+1:])
	w := kit.Watching(c)
	for o := range outer {
		for i := range shape[axis] {
			for k := range inner {
				for j := range size {
					from, to := (o*length+i*step+j)*inner+k, ((o*shape[axis]+i)*inner+k)*size+j
					kit.CopyElems(&w, out, to, x, from, 1)
				}
			}
		}
	}
}

// SampleOp passes its operand on.
var SampleOp = ops.Op{
	Domain: contrib.Microsoft, Name: "SampleOp", Since: 1, Doc: "Y = X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.ElementwiseTraits, Alias: kit.WholeView, Cost: kit.FreeCost},
	Eval: kit.Kernel(func(c *ops.Call) {
		x := c.Array(0)
		y := kit.Result(c, 0, x.DType, x.Shape...)
		kit.CopyWhole(c, y, x)
	}),
}
