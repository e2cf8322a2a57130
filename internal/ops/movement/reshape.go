package movement

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Reshape gives the elements another shape: https://onnx.ai/onnx/operators/onnx__Reshape.html
//
// An entry -1 stands for what the number of elements leaves over; an entry 0
// copies the operand's dimension at that position, or is a zero with allowzero.
var Reshape = ops.Op{
	Name: "Reshape", Since: 25, Form: kit.TypeForm(5, kit.ViewVersions...), Doc: "reshaped = data with dimensions shape",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("allowzero", 0).From(14),
		kit.ConsumedInputs.Before(5), ops.IntsAttr("shape").Before(5)},
	Infer: kit.Rule(inferReshape), Eval: kit.Kernel(evalReshape),
	Facts:    ops.Facts{Traits: ops.ReshapingTraits, Alias: kit.KnownView, Cost: kit.FreeCost},
	Upgrades: []ops.Upgrade{kit.AttrToOperand("Reshape", 5, "shape", 1)},
	Downgrades: []ops.Downgrade{{Below: 14, Form: kit.TypeForm(5, 13), Apply: downgradeAllowZero},
		kit.OperandToAttr(5, "shape", 1, kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(5, kit.AnyType)))},
}

// downgradeAllowZero drops allowzero where no entry is 0.
func downgradeAllowZero(_ *ops.Upgrader, n *ssa.Node) error {
	zero := func(d ssa.Dim) bool { k, ok := d.Const(); return !ok || k == 0 }
	if want := kit.ShapeOperand(n, 1); ops.Int(n, "allowzero") != 0 && (want == nil || slices.ContainsFunc(want, zero)) {
		return errors.New("allowzero=1 for a shape that may hold zeros")
	}
	n.DropAttr("allowzero")
	return nil
}

func inferReshape(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	want := kit.ShapeOperand(n, 1)
	if want == nil {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	dims := reshapeDims(t, want, ops.Int(n, "allowzero") != 0)
	checkSolved(n, t, want)
	return kit.FactOf(ssa.TensorOf(t.DType, dims...), kit.Known(n, 0))
}

// reshapeDims turns the wanted dimensions into real ones. Dimensions that are
// equal on both sides (a 0 copies one) cancel before the rest is divided, which
// keeps a solved -1 simple:
//
//	[B, S, 768] -> [0, 0, 12, -1]:   -1 = 768 / 12 = 64
//	[N, 2*M]    -> [N, M, -1]:       -1 = 2*M / M = 2
//
// One unknown entry is solved like a -1, because the number of elements stays.
func reshapeDims(t ssa.Type, want []ssa.Dim, allowZero bool) []ssa.Dim {
	out := make([]ssa.Dim, len(want))
	copied := make([]bool, len(want))
	hole, holes, minus := -1, 0, 0
	for i, d := range want {
		k, known := d.Const()
		switch {
		case known && k < -1:
			kit.Failf("shape entry %d is %d", i, k)
		case known && k == -1:
			minus++
			hole, holes = i, holes+1
		case known && k == 0 && !allowZero:
			if !t.Ranked {
				continue
			}
			if i >= len(t.Shape) {
				kit.Failf("shape entry %d copies a dimension the operand of rank %d does not have", i, len(t.Shape))
			}
			out[i], copied[i] = t.Shape[i], true
		case d.Known():
			out[i] = d
		default:
			hole, holes = i, holes+1
		}
	}
	if minus > 1 {
		kit.Failf("shape %v has more than one -1", want)
	}
	if !t.Ranked || holes > 1 {
		return out
	}
	if err := solveHole(t.Shape, out, copied, hole, minus > 0); err != nil {
		kit.Failf("%v does not reshape to %v: %w", t.Shape, want, err)
	}
	return out
}

// solveHole computes out[hole] from the equality of element counts; with no hole
// (negative) it checks the counts. must says that the hole is a -1, which has to
// be solved; an unknown entry of an empty tensor may stay unknown.
func solveHole(in, out []ssa.Dim, copied []bool, hole int, must bool) error {
	if hole < 0 {
		a, ac := ssa.TensorOf(0, in...).NumElems().Const()
		b, bc := ssa.TensorOf(0, out...).NumElems().Const()
		if ac && bc && a != b {
			return fmt.Errorf("the element counts differ")
		}
		return nil
	}
	total, rest := cancelDims(in, out, copied, hole)
	tn, tc := total.Const()
	rn, rc := rest.Const()
	switch {
	case !must && tc && tn == 0 && rc && rn == 0:
		return nil
	case tc && rc && (rn == 0 || tn%rn != 0):
		return fmt.Errorf("no dimension makes the element counts equal")
	}
	out[hole] = total.FloorDiv(rest)
	return nil
}

// cancelDims returns the products of the dimensions that in and out (without its
// hole) do not have in common.
func cancelDims(in, out []ssa.Dim, copied []bool, hole int) (total, rest ssa.Dim) {
	total, rest = ssa.D(1), ssa.D(1)
	used := make([]bool, len(in))
	copy(used, copied)
	for i, d := range out {
		if copied[i] || i == hole {
			continue
		}
		k := 0
		for k < len(in) && (used[k] || !d.Equal(in[k]) || d.Is(0)) {
			k++
		}
		if k < len(in) {
			used[k] = true
		} else {
			rest = rest.Mul(d)
		}
	}
	for k, e := range in {
		if !used[k] {
			total = total.Mul(e)
		}
	}
	return total, rest
}

// checkSolved refuses a -1 beside a 0 that the model computes and that copies a length of 0: whether the 0 was meant to copy,
// and so what is left over, can not be told. ONNX Runtime refuses each -1 of an empty tensor beside a length of 0.
func checkSolved(n *ssa.Node, t ssa.Type, want []ssa.Dim) {
	if n.In[1].Const != nil || ops.Int(n, "allowzero") != 0 || !slices.ContainsFunc(want, func(d ssa.Dim) bool { return d.Is(-1) }) {
		return
	}
	for i, d := range want {
		if d.Is(0) && i < len(t.Shape) && t.Shape[i].Is(0) {
			kit.Failf("%v does not reshape to the computed shape %v: a -1 beside a length of 0", t.Shape, want)
		}
	}
}

func evalReshape(c *ops.Call) {
	a := kit.Tensor(c, 0)
	want := kit.DimsOf(kit.Ints(c, 1))
	checkSolved(c.Node, ssa.StaticTensor(a.DType, a.Shape...), want)
	dims := reshapeDims(ssa.StaticTensor(a.DType, a.Shape...), want, ops.Int(c.Node, "allowzero") != 0)
	shape, ok := ssa.TensorOf(a.DType, dims...).Static()
	if !ok {
		kit.Failf("%v does not reshape to %v", a.Shape, want)
	}
	kit.CopyReshaped(c, a, shape)
}
