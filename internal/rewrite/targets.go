package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Targets replaces computed shape operands by constants where the operator can
// express "as the data has it", so that models with symbolic dimensions lose the
// chains that compute them:
//
//	Reshape(x, [N, S, 12, 64])   [0, 0, 12, 64]     0 copies; -1 as reshapeTarget has it
//	Expand(x, [N, 4])            [1, 4]             1 keeps the operand's dimension
//	Slice(x, ends = [S])         [max int]          the whole rest of the axis
//	Resize(x, sizes = [N,C,2H,2W])  scales [1,1,2,2]
//	Tile, Pad ...                only with all elements known, by shape-fold
//
// Operands that decide about nothing are replaced in the same way, so that what computes them goes: a normalization in training
// has statistics of its own, and those before only enter the running ones.
var Targets = &Pass{
	Name: "targets", Doc: "shape operands that only repeat the data's dimensions -> constants, statistics that no result needs -> constants",
	rules: []rule{
		{"Reshape to dimensions of the data -> 0 and -1", named("Reshape"), reshapeOperand},
		{"Expand to dimensions of the data -> 1", named("Expand"), expandOperand},
		{"Slice up to the length of an axis -> to the end", named("Slice"), sliceOperand},
		{"Resize to multiples of the data's dimensions -> scales", named("Resize"), resizeOperand},
		{"statistics that only results nobody reads depend on -> a constant", named("BatchNormalization"), unusedStatistics},
	},
}

// setOperand replaces one operand by a constant; what computed it may die.
func (c *Context) setOperand(n *ssa.Node, i int, k *ssa.Constant) bool {
	old := n.In[i]
	n.SetInput(i, c.constant(old.Name, k))
	c.killIfUnread(old.Def)
	return true
}

// computed returns the known elements of an operand that is no constant yet.
func computed(n *ssa.Node, i int) []ssa.Dim {
	v := n.Input(i)
	if v == nil || v.Const != nil || len(v.Content) == 0 {
		return nil
	}
	return v.Content
}

// reshapeOperand keeps entries 0 and -1 of the target as they are: they mean the
// same in the constant. A -1 that is known to come out as a number gives way to it,
// so that another entry can be -1:
//
//	Reshape(x [N,256,16,16], [4*N, 64, -1])   [-1, 64, 256]
//
// Not so if an entry may come out as 0 where the dimension that a 0 copies is not: [N*T, -1] of [N,T,12] is [N, 0] for T = 0.
func reshapeOperand(c *Context, n *ssa.Node) bool {
	want := slices.Clone(computed(n, 1))
	in := n.In[0].Type
	if want == nil || !in.Ranked || ops.Int(n, "allowzero") != 0 || !ops.TargetKnown(n) {
		return false
	}
	for i, d := range want {
		if d.Is(-1) && areLengths(in, want) {
			want[i] = ssa.D(solved(n.Out[0].Type, i))
		}
	}
	target, ok := targetOf(in, want)
	return ok && c.setOperand(n, 1, ssa.Int64s(target...))
}

// areLengths reports that no computed entry of a target is 0 where the dimension of the data that a 0 copies is another.
func areLengths(in ssa.Type, want []ssa.Dim) bool {
	for i, d := range want {
		if _, known := d.Const(); known || i >= len(in.Shape) || d.AddN(-1).NonNegative() {
			continue
		}
		if q, ok := d.FloorDiv(in.Shape[i]).Const(); !ok || q < 1 || !in.Shape[i].MulN(q).Equal(d) {
			return false
		}
	}
	return true
}

// solved is dimension i of a type if it is a number above 0, else -1.
func solved(t ssa.Type, i int) int64 {
	if t.Ranked && i < len(t.Shape) {
		if k, ok := t.Shape[i].Const(); ok && k > 0 {
			return k
		}
	}
	return -1
}

func expandOperand(c *Context, n *ssa.Node) bool {
	want := computed(n, 1)
	in := n.In[0].Type
	if want == nil || !in.Ranked {
		return false
	}
	target := make([]int64, len(want))
	for i, d := range want {
		at := i - len(want) + len(in.Shape)
		if k, known := d.Const(); known {
			target[i] = k
		} else if at >= 0 && in.Shape[at].Equal(d) {
			target[i] = 1
		} else {
			return false
		}
	}
	return c.setOperand(n, 1, ssa.Int64s(target...))
}

// sliceOperand: an end that is the length of its axis is "to the end".
func sliceOperand(c *Context, n *ssa.Node) bool {
	want := computed(n, 2)
	in := n.In[0].Type
	if want == nil || !in.Ranked {
		return false
	}
	axes, ok := sliceAxes(n, len(want))
	if !ok || !hasPositiveSteps(n) {
		return false
	}
	ends := make([]int64, len(want))
	for i, d := range want {
		if k, known := d.Const(); known {
			ends[i] = k
		} else if in.Shape[axes[i]].Equal(d) {
			ends[i] = math.MaxInt64
		} else {
			return false
		}
	}
	k := ssa.Int64s(ends...)
	return n.In[2].Type.DType == k.DType() && c.setOperand(n, 2, k)
}

// resizeOperand: sizes that are whole multiples of the data's dimensions become
// scales. Both forms then compute the same positions, because scale = size/length
// is that multiple exactly.
func resizeOperand(c *Context, n *ssa.Node) bool {
	want := computed(n, 3)
	in := n.In[0].Type
	if want == nil || !in.Ranked || len(want) != len(in.Shape) || n.Has("axes") || n.Input(2) != nil ||
		ops.Str(n, "keep_aspect_ratio_policy") != "stretch" || ops.Str(n, "coordinate_transformation_mode") == "tf_crop_and_resize" {
		return false
	}
	scales := make([]float32, len(want))
	for i, d := range want {
		q, ok := d.FloorDiv(in.Shape[i]).Const()
		if !ok || q < 1 || !in.Shape[i].MulN(q).Equal(d) {
			return false
		}
		scales[i] = float32(q)
	}
	old := n.In[3]
	n.SetInputs([]*ssa.Value{n.In[0], nil, c.constant(old.Name+"_scales", float32s(scales...))})
	c.killIfUnread(old.Def)
	return true
}

// unusedStatistics: in training without running statistics as results, mean and variance may be any values of their type. They are no other operand
// of the node: ONNX Runtime writes the running ones over these two before it has read the scale.
func unusedStatistics(c *Context, n *ssa.Node) bool {
	if ops.Int(n, "training_mode") == 0 || !c.unreadResult(n, 1) || !c.unreadResult(n, 2) {
		return false
	}
	replaced := false
	for i := 3; i <= 4; i++ {
		shape, static := n.In[i].Type.Static()
		if n.In[i].Const != nil || !static {
			continue
		}
		v := ndarray.Must(n.In[i].Type.DType)
		v.SetFloat(0, anyStatistic)
		replaced = c.setOperand(n, i, ssa.NewSplat(v, shape...))
	}
	return replaced
}

// anyStatistic is a number that no scale and no bias consists of, so that equal constants do not become one.
const anyStatistic = 0.7861328125
