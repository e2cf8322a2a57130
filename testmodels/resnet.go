package testmodels

import "github.com/berth-onnx/berth/ssa"

var resnetModels = []Builtin{
	{Name: "resnet50", Doc: "ResNet-50 for 224 x 224 images, 1000 classes",
		Build: func() *ssa.Module { return resnet50(224) }, small: func() *ssa.Module { return resnet50(64) }},
}

// convNorm is a convolution followed by a normalization.
func (b *builder) convNorm(x *ssa.Value, in, out, k, stride int, gain float64) *ssa.Value {
	return b.batchNorm(b.convWith(x, b.weight("weight", in*k*k, out, in, k, k), k, stride), "bn", out, gain)
}

// resnet50 is the network of He et al., Deep residual learning for image
// recognition, 2015, table 1, with the stride in the 3 x 3 convolution.
func resnet50(size int) *ssa.Module {
	b := newBuilder("resnet50")
	x := b.op("Relu", b.at("stem").convNorm(b.static("image", 1, 3, size, size), 3, 64, 7, 2, 1))
	x = b.node("MaxPool", []*ssa.Value{x}, ssa.IntsAttr("kernel_shape", 3, 3), ssa.IntsAttr("strides", 2, 2), ssa.IntsAttr("pads", 1, 1, 1, 1))
	channels := 64
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := 64 << stage
		for i := range blocks {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			x = b.at("layer%d.%d", stage+1, i).bottleneck(x, channels, width, stride)
			channels = 4 * width
		}
	}
	return b.module([]string{"scores"}, b.classify(x, channels))
}

// bottleneck narrows, convolves, and widens to four times the width.
func (b *builder) bottleneck(x *ssa.Value, in, width, stride int) *ssa.Value {
	y := b.op("Relu", b.at("conv1").convNorm(x, in, width, 1, 1, 1))
	y = b.op("Relu", b.at("conv2").convNorm(y, width, width, 3, stride, 1))
	y = b.at("conv3").convNorm(y, width, 4*width, 1, 1, 0.5) // small, so that sums of many blocks stay in bounds
	if stride != 1 || in != 4*width {
		x = b.at("downsample").convNorm(x, in, 4*width, 1, stride, 1)
	}
	return b.op("Relu", b.op("Add", y, x))
}
