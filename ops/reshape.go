package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// Reshape gives the elements another shape: https://onnx.ai/onnx/operators/onnx__Reshape.html
//
// An entry -1 stands for what the number of elements leaves over; an entry 0
// copies the operand's dimension at that position, or is a zero with allowzero.
var Reshape = Op{
	Name: "Reshape", Since: 25, Form: typeForm(5, viewVersions...), Doc: "reshaped = data with dimensions shape",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("allowzero", 0).since(14),
		consumedInputs.until(5), intsAttr("shape").until(5)},
	Infer: rule(inferReshape), Eval: kernel(evalReshape),
	Facts: Facts{Traits: reshaping, Alias: wholeView, Cost: freeCost},
	Upgrades: []Upgrade{{Below: 5, Source: "https://onnx.ai/onnx/operators/onnx__Reshape.html#reshape-5",
		Apply: func(u *Upgrader, n *ssa.Node) error {
			u.AttrToInput(n, "shape", 1)
			return nil
		}}},
}

func inferReshape(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	want := ContentOf(n, 1)
	if want == nil {
		k := lenOf(n, 1)
		if k < 0 {
			return One(ssa.UnrankedTensor(t.DType))
		}
		want = unknownDims(k)
	}
	dims := reshapeDims(t, want, Int(n, "allowzero") != 0)
	return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0))
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
			failf("shape entry %d is %d", i, k)
		case known && k == -1:
			minus++
			hole, holes = i, holes+1
		case known && k == 0 && !allowZero:
			if !t.Ranked {
				continue
			}
			if i >= len(t.Shape) {
				failf("shape entry %d copies a dimension the operand of rank %d does not have", i, len(t.Shape))
			}
			out[i], copied[i] = t.Shape[i], true
		case d.Known():
			out[i] = d
		default:
			hole, holes = i, holes+1
		}
	}
	if minus > 1 {
		failf("shape %v has more than one -1", want)
	}
	if !t.Ranked || holes > 1 {
		return out
	}
	if err := solveHole(t.Shape, out, copied, hole, minus > 0); err != nil {
		failf("%v does not reshape to %v: %w", t.Shape, want, err)
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
	for i := range out {
		if copied[i] {
			used[i] = true
		}
	}
	for i, d := range out {
		if copied[i] || i == hole {
			continue
		}
		cancelled := false
		for k, e := range in {
			if !used[k] && d.Equal(e) && !d.Is(0) {
				used[k], cancelled = true, true
				break
			}
		}
		if !cancelled {
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

func evalReshape(c *Call) {
	a := tensor(c, 0)
	want := ints(c, 1)
	wantDims := make([]ssa.Dim, len(want))
	for i, d := range want {
		wantDims[i] = ssa.D(d)
	}
	dims := reshapeDims(ssa.StaticTensor(a.DType, a.Shape...), wantDims, Int(c.Node, "allowzero") != 0)
	shape, ok := ssa.TensorOf(a.DType, dims...).Static()
	if !ok {
		failf("%v does not reshape to %v", a.Shape, want)
	}
	copyReshaped(c, a, shape)
}
