package movement

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Tile repeats a tensor along every axis: https://onnx.ai/onnx/operators/onnx__Tile.html
var Tile = ops.Op{
	Name: "Tile", Since: 13, Form: kit.TypeForm(6, 13), Doc: "output[i] = input[i mod input dimensions]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferTile), Eval: kit.Kernel(evalTile),
	Facts:    ops.Facts{Traits: ops.MovementTraits, Cost: kit.MoveCost},
	Upgrades: []ops.Upgrade{{Below: 6, Source: kit.Changelog("Tile", 6), Apply: upgradeTile}},

	Downgrades: []ops.Downgrade{{Below: 6, Form: kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(6, kit.AnyType)), Apply: downgradeTile}},
}

// downgradeTile gives Tile-1 how often it repeats along which one axis.
func downgradeTile(u *ops.Upgrader, n *ssa.Node) error {
	counts, known := ops.ConstInts(n, 1)
	if !known {
		return fmt.Errorf("Tile-1 needs constant repeats")
	}
	axis := 0
	for i, k := range counts {
		if k != 1 && slices.ContainsFunc(counts[:i], func(k int64) bool { return k != 1 }) {
			return fmt.Errorf("Tile-1 repeats along one axis, the repeats are %v", counts)
		} else if k != 1 {
			axis = i
		}
	}
	times := int64(1)
	if len(counts) > 0 {
		times = counts[axis]
	}
	dt := ops.InType(n, 0).DType // of all three operands
	for i, v := range []int64{times, int64(axis)} {
		u.SetOperand(n, i+1, u.Const([]string{"tiles", "axis"}[i], ssa.NewConstant(kit.IntsArray(dt, []int64{v}, []int{1}))))
	}
	return nil
}

// upgradeTile joins the two scalars of Tile-1, how often and along which axis,
// into one count per axis.
func upgradeTile(u *ops.Upgrader, n *ssa.Node) error {
	rank := ops.InType(n, 0).Rank()
	axes, known := ops.ConstInts(n, 2)
	if rank < 0 || !known || len(axes) != 1 {
		return fmt.Errorf("Tile-1 needs an operand of known rank and a constant axis")
	}
	axis, err := ops.NormAxis(axes[0], rank)
	if err != nil {
		return err
	}
	if times, known := ops.ConstInts(n, 1); known && len(times) == 1 {
		counts := slices.Repeat([]int64{1}, rank)
		counts[axis] = times[0]
		n.SetInput(1, u.Const("repeats", ssa.Int64s(counts...)))
	} else {
		times := u.Before(n, "Reshape", []*ssa.Value{n.In[1], u.Const("one", ssa.Int64s(1))}, 1)
		parts := []*ssa.Value{u.Const("ones", ssa.Int64s(slices.Repeat([]int64{1}, axis)...)), times.Out[0],
			u.Const("ones", ssa.Int64s(slices.Repeat([]int64{1}, rank-axis-1)...))}
		n.SetInput(1, u.Before(n, "Concat", parts, 1, ssa.IntAttr("axis", 0)).Out[0])
	}
	n.TruncateInputs(2)
	return nil
}

func inferTile(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(t)
	}
	times := ops.ContentOf(n, 1)
	if times == nil {
		return ops.One(kit.TensorOfRank(t.DType, len(t.Shape)))
	}
	if len(times) != len(t.Shape) {
		kit.Failf("%d repeats for rank %d", len(times), len(t.Shape))
	}
	dims := make([]ssa.Dim, len(times))
	for i, k := range times {
		if x, ok := k.Const(); ok && x < 0 {
			kit.Failf("repeat %d is %d", i, x)
		}
		dims[i] = t.Shape[i].Mul(k)
	}
	out := ssa.TensorOf(t.DType, dims...)
	data := kit.Known(n, 0)
	if data == nil || len(times) != 1 {
		return ops.One(out)
	}
	k, ok := times[0].Const()
	if !ok || k*int64(len(data)) > ssa.MaxContent {
		return ops.One(out)
	}
	return kit.FactOf(out, slices.Repeat(data, int(k)))
}

// evalTile walks a box with two dimensions per axis: the repeat, along which the
// source does not move, and the index.
func evalTile(c *ops.Call) {
	a := kit.Tensor(c, 0)
	times := kit.Ints(c, 1)
	if len(times) != a.Rank() {
		kit.Failf("%d repeats for %s", len(times), a)
	}
	dims := make([]int, len(times))
	for i, k := range times {
		if k < 0 {
			kit.Failf("repeat %d is %d", i, k)
		}
		dims[i] = kit.Try(ndarray.NumElems([]int{a.Shape[i], int(k)}))
	}
	out := kit.Result(c, 0, a.DType, dims...)
	os, as := ops.Strides(dims), ops.Strides(a.Shape)
	var b kit.Block
	for i, d := range a.Shape {
		b.Shape = append(b.Shape, int(times[i]), d)
		b.Dstr = append(b.Dstr, os[i]*d, os[i])
		b.Sstr = append(b.Sstr, 0, as[i])
	}
	kit.MoveBlock(c, out, a, b)
}
