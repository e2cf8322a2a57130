package testmodels

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var unetModels = []Builtin{
	{Name: "unet", Doc: "a small U-Net: two levels down, two up, skips by Concat", Build: unet},
}

// twice adds two convolutions, each normalized and followed by Relu.
func (b *builder) twice(x *ssa.Value, in, out int) *ssa.Value {
	for i, channels := range []int{in, out} {
		c := b.at("conv%d", i)
		w := c.weight("weight", channels*9, out, channels, 3, 3)
		x = c.op("Relu", c.batchNorm(c.convWith(x, w, 3, 1), "bn", out, 1))
	}
	return x
}

// unet:
//
//	x ─ 8 ────────────────────────── join ─ 8 ─ mask
//	    └─ 16 ──────────── join ─ 16 ─┘
//	        └─ 32 ─ upsampled ┘
func unet() *ssa.Module {
	b := newBuilder("unet")
	x := b.static("x", 1, 3, 64, 64)
	pool := []ssa.Attr{ssa.IntsAttr("kernel_shape", 2, 2), ssa.IntsAttr("strides", 2, 2)}
	a := b.at("down1").twice(x, 3, 8)
	c := b.at("down2").twice(b.node("MaxPool", []*ssa.Value{a}, pool...), 8, 16)
	low := b.at("bottom").twice(b.node("MaxPool", []*ssa.Value{c}, pool...), 16, 32)

	up := b.node("ConvTranspose", []*ssa.Value{low, b.weight("up2", 32, 32, 16, 2, 2), b.vector("up2.bias", 0, 0.05, 16)}, pool...)
	y := b.at("up2").twice(b.join(up, c), 32, 16)
	wide := b.node("Resize", []*ssa.Value{y, nil, b.constant("scales", doubled)},
		ssa.StringAttr("mode", "nearest"), ssa.StringAttr("nearest_mode", "floor"), ssa.StringAttr("coordinate_transformation_mode", "asymmetric"))
	y = b.at("up1").twice(b.join(wide, a), 24, 8)
	return b.module([]string{"mask"}, b.op("Sigmoid", b.conv(y, "out", 8, 1, 1, 1)))
}

// doubled is the scale of a 2 x 2 upsampling.
func doubled() *ssa.Constant { return ssa.NewConstant(ndarray.Of([]float32{1, 1, 2, 2}, 4)) }
