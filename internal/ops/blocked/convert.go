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
	if !ok || !t.DType.InFloat32() && !(t.DType.IsByte() && b == out.Channels) {
		kit.Failf("a tensor of type %s can not be in blocks of %d channels", t, b)
	}
	return out
}

// toBlocked copies a plain array into blocks.
func toBlocked(c *ops.Call, x *ndarray.Array, b int) *ndarray.Array {
	if !x.DType.InFloat32() && !x.DType.IsByte() || x.Rank() < 3 || x.Shape[1] < 1 || b < 1 {
		kit.Failf("%s can not be in blocks of %d channels", x, b)
	}
	channels, pixels := x.Shape[1], kit.SizeOf(x.Shape[2:])
	blocks := (channels + b - 1) / b
	shape := append([]int{x.Shape[0], blocks}, x.Shape[2:]...)
	y := kit.Try(ndarray.NewContext(c.Ctx, c.Memory, x.DType, append(shape, b)...))
	clear(y.Data)
	exchange(y, x, func(i int) (to, from int) { return blockedAt(i, channels, pixels, b), i })
	return y
}

// fromBlocked copies a blocked array of so many channels into the plain layout.
func fromBlocked(c *ops.Call, x *ndarray.Array, channels int) *ndarray.Array {
	last := x.Rank() - 1
	if !x.DType.InFloat32() && !x.DType.IsByte() || last < 3 || channels < 1 || channels > x.Shape[1]*x.Shape[last] {
		kit.Failf("%s is no image of %d channels in blocks", x, channels)
	}
	b, pixels := x.Shape[last], kit.SizeOf(x.Shape[2:last])
	shape := append([]int{x.Shape[0], channels}, x.Shape[2:last]...)
	y := kit.Try(ndarray.NewContext(c.Ctx, c.Memory, x.DType, shape...))
	exchange(y, x, func(i int) (to, from int) { return i, blockedAt(i, channels, pixels, b) })
	return y
}

// exchange copies the elements of a plain image to or from blocks; at says where element i of the plain one lies.
func exchange(dst, src *ndarray.Array, at func(i int) (to, from int)) {
	size := dst.DType.Size()
	for i := range min(dst.Len(), src.Len()) {
		to, from := at(i)
		copy(dst.Data[to*size:][:size], src.Data[from*size:][:size])
	}
}

// blockedAt is where element i of a plain image lies in blocks of b channels.
func blockedAt(i, channels, pixels, b int) int {
	n, ch, p := i/pixels/channels, i/pixels%channels, i%pixels
	return ((n*((channels+b-1)/b)+ch/b)*pixels+p)*b + ch%b
}
