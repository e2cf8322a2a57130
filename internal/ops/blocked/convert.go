package blocked

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ToBlocked brings a plain image into blocks of so many channels, the last one padded with
// zeros.
var ToBlocked = ops.Op{
	Domain: ops.Private, Name: "ToBlocked", Since: 1, Doc: "y[n,c/B,p,c%B] = x[n,c,p]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{blockAttr},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return ops.One(blockedType(n, ops.InType(n, 0))) }),
	Eval: kit.Kernel(func(c *ops.Call) {
		kit.Check(c.SetOutput(0, toBlocked(c, kit.Tensor(c, 0), int(ops.Int(c.Node, block)))))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MoveCost},
}

// FromBlocked brings a blocked image into the plain layout.
var FromBlocked = ops.Op{
	Domain: ops.Private, Name: "FromBlocked", Since: 1, Doc: "y[n,c,p] = x[n,c/B,p,c%B]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		if !x.IsBlocked() {
			kit.Failf("operand 0 of type %s is not blocked", x)
		}
		return ops.One(x.Plain())
	}),
	Eval: kit.Kernel(func(c *ops.Call) {
		kit.Check(c.SetOutput(0, fromBlocked(c, kit.Tensor(c, 0), ops.InType(c.Node, 0).Channels)))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MoveCost},
}

// block is the attribute that says in which blocks a result lies; 0 is the plain layout.
const block = "block"

var blockAttr = ops.IntAttr(block, 0)

// blockedType is a plain type in the blocks that a node asks for; 0 leaves it plain.
func blockedType(n *ssa.Node, t ssa.Type) ssa.Type {
	b := int(ops.Int(n, block))
	if b == 0 {
		return t
	}
	out, ok := t.Blocked(b)
	if !ok || t.DType != ndarray.Float32 {
		kit.Failf("a tensor of type %s can not be in blocks of %d channels", t, b)
	}
	return out
}

// toBlocked copies a plain array into blocks.
func toBlocked(c *ops.Call, x *ndarray.Array, b int) *ndarray.Array {
	if x.DType != ndarray.Float32 || x.Rank() < 3 || x.Shape[1] < 1 || b < 1 {
		kit.Failf("%s can not be in blocks of %d channels", x, b)
	}
	channels, pixels := x.Shape[1], kit.SizeOf(x.Shape[2:])
	blocks := (channels + b - 1) / b
	shape := append([]int{x.Shape[0], blocks}, x.Shape[2:]...)
	y := kit.Try(ndarray.NewIn(c.Memory, x.DType, append(shape, b)...))
	src, dst := ndarray.Slice[float32](x), ndarray.Slice[float32](y)
	clear(dst)
	for i, v := range src {
		n, ch, p := i/pixels/channels, i/pixels%channels, i%pixels
		dst[((n*blocks+ch/b)*pixels+p)*b+ch%b] = v
	}
	return y
}

// fromBlocked copies a blocked array of so many channels into the plain layout.
func fromBlocked(c *ops.Call, x *ndarray.Array, channels int) *ndarray.Array {
	last := x.Rank() - 1
	if x.DType != ndarray.Float32 || last < 3 || channels < 1 || channels > x.Shape[1]*x.Shape[last] {
		kit.Failf("%s is no image of %d channels in blocks", x, channels)
	}
	b, pixels := x.Shape[last], kit.SizeOf(x.Shape[2:last])
	shape := append([]int{x.Shape[0], channels}, x.Shape[2:last]...)
	y := kit.Try(ndarray.NewIn(c.Memory, x.DType, shape...))
	src, dst := ndarray.Slice[float32](x), ndarray.Slice[float32](y)
	for i := range dst {
		n, ch, p := i/pixels/channels, i/pixels%channels, i%pixels
		dst[i] = src[((n*x.Shape[1]+ch/b)*pixels+p)*b+ch%b]
	}
	return y
}
