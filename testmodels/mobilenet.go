package testmodels

import "github.com/berth-onnx/berth/ssa"

var mobilenetModels = []Builtin{
	{Name: "mobilenetv2", Doc: "MobileNetV2 for 224 x 224 images, 1000 classes",
		Build: func() *ssa.Module { return mobilenet(224) }, small: func() *ssa.Module { return mobilenet(64) }},
}

// inverted are MobileNetV2's groups of blocks (Sandler et al., MobileNetV2, 2018,
// table 2): expansion, channels, repetitions, stride of the first.
var inverted = []struct{ expand, channels, repeat, stride int }{
	{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
}

// convNorm6 is a convolution, a normalization and a clip to 0…6.
func (b *builder) convNorm6(x *ssa.Value, in, out, k, stride, groups int) *ssa.Value {
	fan := in / groups * k * k
	w := b.weight("weight", fan, out, in/groups, k, k)
	y := b.batchNorm(b.convWith(x, w, k, stride, ssa.IntAttr("group", int64(groups))), "bn", out, 1)
	return b.op("Clip", y, b.float(0), b.float(6))
}

func mobilenet(size int) *ssa.Module {
	b := newBuilder("mobilenetv2")
	x := b.at("stem").convNorm6(b.static("image", 1, 3, size, size), 3, 32, 3, 2, 1)
	channels := 32
	for g, s := range inverted {
		for i := range s.repeat {
			stride := s.stride
			if i > 0 {
				stride = 1
			}
			x = b.at("group%d.%d", g, i).invertedResidual(x, channels, s.channels, s.expand, stride)
			channels = s.channels
		}
	}
	x = b.at("head").convNorm6(x, channels, 1280, 1, 1, 1)
	return b.module([]string{"scores"}, b.classify(x, 1280))
}

// invertedResidual widens, filters each channel alone, and narrows again.
func (b *builder) invertedResidual(x *ssa.Value, in, out, expand, stride int) *ssa.Value {
	wide, y := in*expand, x
	if expand > 1 {
		y = b.at("expand").convNorm6(y, in, wide, 1, 1, 1)
	}
	y = b.at("depthwise").convNorm6(y, wide, wide, 3, stride, wide)
	same := stride == 1 && in == out
	gain := 1.0
	if same {
		gain = 0.5 // keeps the sum of many blocks in bounds
	}
	p := b.at("project")
	y = p.batchNorm(p.convWith(y, p.linear("weight", wide, out, wide, 1, 1), 1, 1), "bn", out, gain)
	if same {
		return b.op("Add", y, x)
	}
	return y
}

// classify averages over the image and adds the last layer.
func (b *builder) classify(x *ssa.Value, channels int) *ssa.Value {
	return b.dense(b.op("Flatten", b.op("GlobalAveragePool", x)), "classifier", channels, 1000)
}
