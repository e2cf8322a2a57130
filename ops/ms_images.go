package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// CropAndResize cuts boxes [y1,x1,y2,x2], in parts of the image's height and width,
// out of images and scales each to one size, of the com.microsoft domain. Corners
// of a box are corners of its crop; what lies outside the image is a constant.
var CropAndResize = Op{
	Domain: microsoft, Name: "CropAndResize", Since: 1, Doc: "Y[r] = box rois[r] of image X[batch_indices[r]], scaled to crop_size",
	MinIn: 4, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatAttr("extrapolation_value", 0), strAttr("mode", "bilinear", "nearest")},
	Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		size := []ssa.Dim{{}, {}}
		if k := ContentOf(n, 3); len(k) == 2 {
			size = k
		}
		return One(ssa.TensorOf(x.DType, dimOf(InType(n, 1), 0), dimOf(x, 1), size[0], size[1]))
	}),
	Facts: Facts{Traits: general}, Eval: floatKernel(evalCropAndResize, nil),
}

func evalCropAndResize(c *Call) {
	x, rois, batches, size := c.Array(0), c.Array(1), c.Array(2), c.Array(3)
	for i, rank := range []int{4, 2, 1, 1} {
		wantRank([]string{"X", "rois", "batch_indices", "crop_size"}[i], c.Array(i), rank)
	}
	if rois.Shape[1] != 4 || batches.Len() != rois.Shape[0] || size.Len() != 2 || size.Int(0) < 1 || size.Int(1) < 1 {
		failf("rois %v, batch_indices %v and crop_size %v do not go together", rois.Shape, batches.Shape, size.Ints())
	}
	nearest := false
	switch mode := Str(c.Node, "mode"); mode {
	case "bilinear":
	case "nearest":
		nearest = true
	default:
		failf("mode=%q is neither bilinear nor nearest", mode)
	}
	h, w := int(size.Int(0)), int(size.Int(1))
	out := newResult[float32](c, 0, x.DType, rois.Shape[0], x.Shape[1], h, w)
	v, boxes := elements[float32](x), elements[float32](rois)
	outside, plane := Float(c.Node, "extrapolation_value"), x.Shape[2]*x.Shape[3]
	for r := range rois.Shape[0] {
		b := batches.Int(r)
		if b < 0 || b >= int64(x.Shape[0]) {
			failf("box %d is of image %d of %d", r, b, x.Shape[0])
		}
		for ch := range x.Shape[1] {
			image := v[(int(b)*x.Shape[1]+ch)*plane:][:plane]
			for i := range h {
				y := cropAt(boxes[4*r], boxes[4*r+2], x.Shape[2], i, h)
				for j := range w {
					at := cropAt(boxes[4*r+1], boxes[4*r+3], x.Shape[3], j, w)
					out.V[((r*x.Shape[1]+ch)*h+i)*w+j] = sampleAt(image, x.Shape[2], x.Shape[3], y, at, nearest, outside)
				}
			}
		}
	}
	out.store()
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
var ConvTransposeWithDynamicPads = Op{
	Domain: microsoft, Name: "ConvTransposeWithDynamicPads", Since: 1, Doc: "ConvTranspose(X, W, B) with pads from operand 2",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{autoPad, intsAttr("dilations").atLeast(1), intAttr("group", 1).atLeast(1),
		intsAttr("kernel_shape").atLeast(1), intsAttr("output_padding"), intsAttr("strides").atLeast(1)},
	Infer: rule(func(n *ssa.Node) []Inferred {
		pads, known := ConstInts(n, 2)
		facts := try(inferConvTranspose(withPads(n, pads)))
		if n.Input(2) != nil && !known && facts[0].Type.Ranked {
			for i := 2; i < facts[0].Type.Rank(); i++ {
				facts[0].Type.Shape[i] = ssa.Dim{}
			}
		}
		return facts
	}),
	Facts: Facts{Traits: general, Cost: convTransposeCost},
	Eval: kernel(func(c *Call) {
		inner := *c
		var pads []int64
		if p := c.Array(2); p != nil {
			pads = p.Ints()
		}
		inner.Node = withPads(c.Node, pads)
		inner.In = slices.Clone(c.In[:2])
		if c.Has(3) {
			inner.In = append(inner.In, c.In[3])
		}
		byFloat(&inner, evalConvTranspose[float32], evalConvTranspose[float64])
		c.Out = inner.Out
	}),
}

// withPads is the ConvTranspose a node stands for.
func withPads(n *ssa.Node, pads []int64) *ssa.Node {
	m := &ssa.Node{Op: "ConvTranspose", In: []*ssa.Value{n.Input(0), n.Input(1), n.Input(3)}, Out: n.Out, Attrs: slices.Clone(n.Attrs)}
	if len(pads) > 0 {
		m.Attrs = append(m.Attrs, ssa.IntsAttr("pads", pads...))
	}
	return m
}

// UnfoldTensor gives all windows of a length along an axis, as a new last axis.
var UnfoldTensor = Op{
	Domain: microsoft, Name: "UnfoldTensor", Since: 1, Doc: "output[…, i, …, j] = input[…, i*step + j, …] along dim",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("dim", -1), intAttr("size").required(), intAttr("step", 1)},
	Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		if !x.Ranked {
			return One(ssa.UnrankedTensor(x.DType))
		}
		axis, size, step := unfoldAttrs(n, x.Rank())
		out := slices.Clone(x.Shape)
		out[axis] = out[axis].AddN(-size).FloorDiv(ssa.D(step)).AddN(1)
		if k, ok := out[axis].Const(); ok && k < 1 {
			failf("windows of %d along dimension %d of %s", size, axis, x)
		}
		return One(ssa.TensorOf(x.DType, append(out, ssa.D(size))...))
	}),
	Facts: Facts{Traits: general, Cost: moveCost}, Eval: kernel(evalUnfold),
}

func unfoldAttrs(n *ssa.Node, rank int) (axis int, size, step int64) {
	size, step = Int(n, "size"), Int(n, "step")
	if size < 1 || step < 1 {
		failf("windows of %d every %d", size, step)
	}
	axis = try(NormAxis(Int(n, "dim"), rank))
	return axis, size, step
}

func evalUnfold(c *Call) {
	x := c.Array(0)
	axis, size64, step64 := unfoldAttrs(c.Node, x.Rank())
	length := x.Shape[axis]
	if size64 > int64(length) {
		failf("windows of %d along a dimension of %d", size64, length)
	}
	size, step := int(size64), int(min(step64, int64(length)))
	shape := slices.Clone(x.Shape)
	shape[axis] = (length-size)/step + 1
	if step64 > int64(length) {
		shape[axis] = 1
	}
	out := result(c, 0, x.DType, append(slices.Clone(shape), size)...)
	outer, inner, width := sizeOf(x.Shape[:axis]), sizeOf(x.Shape[axis+1:]), x.DType.Size()
	for o := range outer {
		for i := range shape[axis] {
			for k := range inner {
				for j := range size {
					from, to := (o*length+i*step+j)*inner+k, ((o*shape[axis]+i)*inner+k)*size+j
					if x.DType == ndarray.String {
						out.Str[to] = x.Str[from]
						continue
					}
					copy(out.Data[to*width:][:width], x.Data[from*width:][:width])
				}
			}
		}
	}
}

// SampleOp passes its operand on.
var SampleOp = Op{
	Domain: microsoft, Name: "SampleOp", Since: 1, Doc: "Y = X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Traits: elementwise, Alias: wholeView, Cost: freeCost},
	Eval: kernel(func(c *Call) {
		x := c.Array(0)
		y := result(c, 0, x.DType, x.Shape...)
		copy(y.Data, x.Data)
		copy(y.Str, x.Str)
	}),
}
