package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// InstanceNormalization normalizes every channel of every image by its own
// statistics: https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html
//
//	Y = scale * (X - mean(X[n,c])) / sqrt(var(X[n,c]) + epsilon) + B
var InstanceNormalization = ops.Op{
	Name: "InstanceNormalization", Since: 22, Form: bf16Since22(6), Doc: "Y = scale * (X - mean) / sqrt(var + epsilon) + B per image and channel",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-5), kit.ConsumedInputs},
	Infer: ops.SameAs,
	Eval:  kit.FloatKernel(evalInstanceNorm[float32], evalInstanceNorm[float64]),
	Facts: ops.Facts{Traits: ops.IgnoringTraits, Linear: ops.ChannelNormLinear, InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
}

// GroupNormalization normalizes groups of channels: https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
//
//	Y = scale * (X - mean) / sqrt(var + epsilon) + bias     mean, var over one image's group
var GroupNormalization = ops.Op{
	Name: "GroupNormalization", Since: 21, Doc: "Y = scale * (X - mean) / sqrt(var + epsilon) + bias per image and group of channels",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs:    []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-5), ops.IntAttr("num_groups").Mandatory().AtLeast(1), ops.IntAttr("stash_type", 1).From(21)},
	Infer:    ops.SameAs,
	Eval:     kit.FloatKernel(evalGroupNorm[float32], evalGroupNorm[float64]),
	Facts:    ops.Facts{Traits: ops.IgnoringTraits, Linear: ops.ChannelNormLinear, InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
	Upgrades: []ops.Upgrade{{Below: 21, Source: kit.Changelog("GroupNormalization", 21), Apply: upgradeGroupNorm}},
	// No downgrade: the form of operator sets 18 to 20 is deprecated, and ONNX's checker refuses files that hold it.
}

func evalInstanceNorm[T float32 | float64](c *ops.Call) {
	normalizeGroups[T](c, 0)
}

func evalGroupNorm[T float32 | float64](c *ops.Call) {
	normalizeGroups[T](c, int(ops.Int(c.Node, "num_groups")))
}

// normalizeGroups standardizes groups of channels; groups 0 means one per channel.
func normalizeGroups[T float32 | float64](c *ops.Call, groups int) {
	x := kit.Tensor(c, 0)
	if x.Rank() < 2 {
		kit.Failf("operand 0 has shape %v, without batch and channel dimensions", x.Shape)
	}
	ch, plane := x.Shape[1], kit.SizeOf(x.Shape[2:])
	if groups == 0 {
		groups = ch
	}
	if groups > 0 && ch%groups != 0 {
		kit.Failf("%d groups do not divide %d channels", groups, ch)
	}
	kit.WantShape("scale", kit.Tensor(c, 1), ch)
	kit.WantShape("bias", kit.Tensor(c, 2), ch)
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	if len(y.V) == 0 {
		return
	}
	v, scale, bias := kit.Elements[T](c, x), kit.Elements[T](c, c.Array(1)), kit.Elements[T](c, c.Array(2))
	size := ch / groups * plane
	w := kit.Watching(c)
	for r := range x.Shape[0] * groups {
		Standardize(&w, y.V[r*size:(r+1)*size], v[r*size:(r+1)*size], float64(ops.Float(c.Node, "epsilon")), true)
	}
	if c.Node.Has("num_groups") { // InstanceNormalization has no stash_type
		kit.RoundTo(c, y.V, stashType(c.Node))
	}
	for i := range x.Shape[0] * ch {
		s, b := scale[i%ch], bias[i%ch]
		row := y.V[i*plane : (i+1)*plane]
		for j := range row {
			w.Did(1)
			row[j] = row[j]*s + b
		}
	}
	y.Store()
}

// upgradeGroupNorm repeats the scale and bias of every group for its channels:
// [G] -> [G,1] -> [G,C/G] -> [C].
func upgradeGroupNorm(u *ops.Upgrader, n *ssa.Node) error {
	groups := ops.Int(n, "num_groups")
	var repeats *ssa.Value
	if ch, ok := channelDim(ops.InType(n, 0)).Const(); ok {
		repeats = u.Const("repeats", ssa.Int64s(1, ch/groups))
	} else {
		shape := u.Before(n, "Shape", []*ssa.Value{n.In[0]}, 1, ssa.IntAttr("start", 1), ssa.IntAttr("end", 2)).Out[0]
		per := u.Before(n, "Div", []*ssa.Value{shape, u.Const("groups", ssa.Int64s(groups))}, 1).Out[0]
		repeats = u.Before(n, "Concat", []*ssa.Value{u.Const("one", ssa.Int64s(1)), per}, 1, ssa.IntAttr("axis", 0)).Out[0]
	}
	column, flat := u.Const("column", ssa.Int64s(groups, 1)), u.Const("flat", ssa.Int64s(-1))
	for i := 1; i <= 2; i++ {
		v := u.Before(n, "Reshape", []*ssa.Value{n.In[i], column}, 1).Out[0]
		v = u.Before(n, "Expand", []*ssa.Value{v, repeats}, 1).Out[0]
		n.SetInput(i, u.Before(n, "Reshape", []*ssa.Value{v, flat}, 1).Out[0])
	}
	return nil
}
