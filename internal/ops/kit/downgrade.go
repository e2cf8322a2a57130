package kit

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// OperandToAttr is the inverse of [AttrToOperand].
func OperandToAttr(version int, attr string, operand int, form func(*ssa.Node) int) ops.Downgrade {
	return ops.Downgrade{Below: version, Form: form, Apply: func(u *ops.Upgrader, n *ssa.Node) error { return u.InputToAttr(n, operand, attr) }}
}

// PositiveAxes is the downgrade below operator set 11, which took negative axes: the
// attributes axis and axes count from the front. More is how many dimensions the result
// has that operand 0 has not.
//
//go:noinline
func PositiveAxes(more int, form func(*ssa.Node) int) ops.Downgrade {
	return ops.Downgrade{Below: 11, Form: form, Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
		for i := range n.Attrs {
			a := &n.Attrs[i]
			var err error
			switch a.Name {
			case "axis":
				a.I, err = positive(n, a.I, more)
			case "axes":
				a.Ints = slices.Clone(a.Ints)
				for k := range a.Ints {
					a.Ints[k], err = positive(n, a.Ints[k], more*len(a.Ints))
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

// positive counts an axis of operand 0, with more dimensions, from the front.
func positive(n *ssa.Node, axis int64, more int) (int64, error) {
	rank := ops.InType(n, 0).Rank()
	switch {
	case axis >= 0:
		return axis, nil
	case rank < 0:
		return 0, fmt.Errorf("axis %d can not be counted from the front, since the rank is not known", axis)
	}
	return axis + int64(rank+more), nil
}

// PositiveInts makes a constant operand of axes or indices count from the front, below
// dims; what is not known stays, as it was read.
func PositiveInts(u *ops.Upgrader, n *ssa.Node, operand int, dim ssa.Dim) error {
	v, known := ops.ConstInts(n, operand)
	if !known || !slices.ContainsFunc(v, func(k int64) bool { return k < 0 }) {
		return nil
	}
	length, ok := dim.Const()
	if !ok {
		return fmt.Errorf("operand %d holds negative numbers that count from an end that is not known", operand)
	}
	out := slices.Clone(v)
	for i, k := range out {
		if k < 0 {
			out[i] = k + length
		}
	}
	t := ops.InType(n, operand)
	shape, _ := t.Static()
	n.SetInput(operand, u.Const("indices", ssa.NewConstant(IntsArray(t.DType, out, shape))))
	return nil
}

// SameShapes fails unless all operands have one known shape, which operator sets without
// broadcasting ask for.
func SameShapes(_ *ops.Upgrader, n *ssa.Node) error {
	for i := range n.In {
		if !ops.SameLayout(ops.InType(n, 0), ops.InType(n, i)) {
			return fmt.Errorf("operands of shapes %s and %s are broadcast", ops.InType(n, 0), ops.InType(n, i))
		}
	}
	return nil
}

// IntsArray holds integers as elements of any type.
func IntsArray(dt ndarray.DType, v []int64, shape []int) *ndarray.Array {
	a := ndarray.Must(dt, shape...)
	for i, k := range v {
		if dt.IsFloat() {
			a.SetFloat(i, float64(k))
		} else {
			a.SetInt(i, k)
		}
	}
	return a
}

// FloatConst is the one element of a constant, as a float attribute can hold it.
func FloatConst(v *ssa.Value) (float32, error) {
	if v.Const == nil || v.Const.Len() != 1 || !v.Const.DType().IsFloat() {
		return 0, fmt.Errorf("is no constant of one float, as the attribute must be")
	}
	a, err := v.Const.Array()
	if err != nil {
		return 0, err
	}
	x := a.Float(0)
	if y := float64(float32(x)); y != x && x == x {
		return 0, fmt.Errorf("%g is no float32, as the attribute must be", x)
	}
	return float32(x), nil
}

// RankDim is the rank of an operand as a dimension, unknown if that is.
func RankDim(n *ssa.Node, operand int) ssa.Dim {
	if r := ops.InType(n, operand).Rank(); r >= 0 {
		return ssa.D(int64(r))
	}
	return ssa.Dim{}
}
