package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// One wraps a single result type. It is called in so many places that they take 26 kB of a program where it is inlined.
//
//go:noinline
func One(t ssa.Type) []Inferred { return []Inferred{{Type: t}} }

// InType returns the type of operand i, the unknown type if it is absent.
//
//go:noinline
func InType(n *ssa.Node, i int) ssa.Type {
	if v := n.Input(i); v != nil {
		return v.Type
	}
	return ssa.Type{}
}

// SameAs is the rule of operators whose result 0 has the type of operand 0.
func SameAs(n *ssa.Node) (_ []Inferred, err error) {
	defer rescue.Into(&err)
	return One(InType(n, 0)), nil
}

// ContentOf returns the known elements of operand i: those of a constant or
// those tracked symbolically; nil if nothing is known.
func ContentOf(n *ssa.Node, i int) []ssa.Dim {
	if v := n.Input(i); v != nil {
		return v.Content
	}
	return nil
}

// TargetKnown reports that operand 1 of a Reshape, Squeeze, Unsqueeze or Expand, a shape or axes, is known before the run, or absent.
// If not, inference may still know the result's type, since elements neither come nor go or one shape alone broadcasts; whether the
// operand says so too is only known to a kernel that reads it.
func TargetKnown(n *ssa.Node) bool {
	v := n.Input(1)
	if v == nil || v.Const != nil {
		return true
	}
	size, known := v.Type.ByteSize()
	return v.Content != nil && !slices.ContainsFunc(v.Content, func(d ssa.Dim) bool { return !d.Known() }) || known && size == 0
}

// ConstInts returns the elements of operand i when every one is a known
// number. Large constants are read whole, up to 1<<20 elements.
func ConstInts(n *ssa.Node, i int) ([]int64, bool) {
	v := n.Input(i)
	if v == nil {
		return nil, false
	}
	if v.Const != nil {
		ints := v.Const.Ints(1 << 20)
		return ints, ints != nil || v.Const.Len() == 0 && v.Const.DType().IsInteger()
	}
	if v.Content == nil {
		size, known := v.Type.ByteSize()
		return nil, known && size == 0 && v.Type.DType.IsInteger()
	}
	out := make([]int64, len(v.Content))
	for k, d := range v.Content {
		x, ok := d.Const()
		if !ok {
			return nil, false
		}
		out[k] = x
	}
	return out, true
}

// ReducedAxes tells which axes of operand 0, which is of some rank, a reduction reduces; ok is false if that is not known.
func ReducedAxes(n *ssa.Node, rank int) (mask []bool, ok bool) {
	mask = make([]bool, rank)
	var axes []int64
	if n.Input(1) != nil {
		if axes, ok = ConstInts(n, 1); !ok {
			return nil, false
		}
	}
	if len(axes) == 0 && Int(n, "noop_with_empty_axes") == 0 {
		for i := range mask {
			mask[i] = true
		}
	}
	for _, a := range axes {
		k, err := NormAxis(a, rank)
		if err != nil {
			return nil, false
		}
		mask[k] = true
	}
	return mask, true
}

// NormAxis maps an axis in [-rank, rank) to [0, rank).
func NormAxis(axis int64, rank int) (int, error) {
	a, err := WrapIndex(axis, rank)
	if err != nil {
		return 0, fmt.Errorf("axis %d is out of range for rank %d", axis, rank)
	}
	return a, nil
}

// WrapIndex maps an index in [-n, n) to [0, n).
func WrapIndex(i int64, n int) (int, error) {
	k := i
	if k < 0 {
		k += int64(n)
	}
	if k < 0 || k >= int64(n) {
		return 0, fmt.Errorf("index %d is out of range for a dimension of %d", i, n)
	}
	return int(k), nil
}

// BroadcastDims combines dimensions by ONNX multidirectional broadcasting. Where
// one side is unknown or symbolic and the other a number above 1, the number wins.
func BroadcastDims(a, b []ssa.Dim) ([]ssa.Dim, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out, off := slices.Clip(a), len(a)-len(b)
	own := false // of the caller: mostly one operand has the shape of the result
	for i, y := range b {
		d, err := BroadcastDim(a[off+i], y)
		if err != nil {
			return nil, err
		}
		if d.Equal(out[off+i]) {
			continue
		}
		if !own {
			out, own = slices.Clone(a), true
		}
		out[off+i] = d
	}
	return out, nil
}

// BroadcastDim is what two dimensions broadcast to.
func BroadcastDim(x, y ssa.Dim) (ssa.Dim, error) {
	xn, xc := x.Const()
	yn, yc := y.Const()
	switch {
	case x.Equal(y), yc && yn == 1, y.CapOf(x):
		return x, nil
	case xc && xn == 1, x.CapOf(y):
		return y, nil
	case xc && yc:
		return ssa.Dim{}, fmt.Errorf("dimensions %d and %d do not broadcast", xn, yn)
	case xc:
		return x, nil
	case yc:
		return y, nil
	}
	return ssa.Dim{}, nil
}

// CheckBroadcast says whether an operand of type t broadcasts to a result of type to
// and leaves that type as it is (ONNX unidirectional broadcasting); dimensions that
// are not known yet may fit.
func CheckBroadcast(what string, t, to ssa.Type) error {
	if !t.Ranked || !to.Ranked {
		return nil
	}
	off := len(to.Shape) - len(t.Shape)
	if off < 0 {
		return fmt.Errorf("%s has rank %d and does not broadcast to rank %d", what, len(t.Shape), len(to.Shape))
	}
	for i, d := range t.Shape {
		n, known := d.Const()
		if m, ok := to.Shape[off+i].Const(); ok && known && n != 1 && n != m {
			return fmt.Errorf("%s of shape %v does not broadcast to %v", what, t.Shape, to.Shape)
		}
	}
	return nil
}

// BroadcastTypes gives the type of element type dt and of the shape that all types
// broadcast to; unranked if any of them is.
func BroadcastTypes(dt ndarray.DType, types ...ssa.Type) (_ ssa.Type, err error) {
	defer rescue.Into(&err)
	var shape []ssa.Dim
	for _, t := range types {
		if t.Kind != ssa.KindTensor || !t.Ranked {
			return ssa.UnrankedTensor(dt), nil
		}
		var err error
		if shape, err = BroadcastDims(shape, t.Shape); err != nil {
			return ssa.Type{}, err
		}
	}
	return ssa.TensorOf(dt, shape...), nil
}

// BroadcastShapes is BroadcastDims for numbers, at run time.
func BroadcastShapes(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		off := rank - len(s)
		for i, d := range s {
			switch {
			case d == out[off+i] || d == 1:
			case out[off+i] == 1:
				out[off+i] = d
			default:
				return nil, fmt.Errorf("shapes %v do not broadcast", shapes)
			}
		}
	}
	return out, nil
}

// BroadcastStrides returns the element strides with which an array of shape
// walks over out: 0 along broadcast dimensions.
func BroadcastStrides(shape, out []int) []int {
	st := make([]int, len(out))
	s := 1
	off := len(out) - len(shape)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			st[off+i] = s
		}
		s *= shape[i]
	}
	return st
}

// Strides returns row-major element strides.
func Strides(shape []int) []int {
	st := make([]int, len(shape))
	s := 1
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = s
		s *= shape[i]
	}
	return st
}
