package gradient

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func init() { rules["Resize"] = resizeGradient }

// resizeGradient: nearest neighbours only move elements. Linear and cubic interpolation are
// products with one matrix for each axis, which resizing an identity matrix gives:
//
//	y = A₁ x A₂ᵀ,  A = Resize(I) along the first axis    dx = A₁ᵀ d A₂
//
// Source: https://onnx.ai/onnx/operators/onnx__Resize.html, "separable" interpolation.
func resizeGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	if ops.Str(n, "coordinate_transformation_mode") == "tf_crop_and_resize" {
		g.fail(n, fmt.Errorf("tf_crop_and_resize: %w", ops.ErrUnsupported))
		return nil
	}
	if ops.Str(n, "mode") == "nearest" {
		return moveGradient(g, n, dy)
	}
	x, okX := n.In[0].Type.Static()
	y, okY := n.Out[0].Type.Static()
	if !okX || !okY || n.Has("axes") || ops.Str(n, "keep_aspect_ratio_policy") != "stretch" {
		g.fail(n, fmt.Errorf("sizes must be known, without axes and keep_aspect_ratio_policy: %w", ops.ErrUnsupported))
		return nil
	}
	d := dy[0]
	for axis := range x {
		if x[axis] != y[axis] {
			d = g.alongLast(d, axis, g.resizing(n, axis, x[axis], y[axis]))
		}
	}
	return []*ssa.Value{d}
}

// resizing is the matrix [to, from] by which a Resize maps one axis.
func (g *builder) resizing(n *ssa.Node, axis, from, to int) *ssa.Value {
	zeros := g.with("Expand", []*ssa.Value{g.number(n.In[0], 0), g.ints(int64(from), int64(from))})
	attrs := slices.Clone(n.Attrs)
	in := []*ssa.Value{g.op("EyeLike", zeros), nil, nil, nil}
	if scales := n.Input(2); scales != nil && scales.Const != nil {
		a, err := scales.Const.Array()
		if err != nil || axis >= a.Len() {
			g.fail(n, fmt.Errorf("scales of axis %d: %w", axis, ops.ErrUnsupported))
			return in[0]
		}
		in[2] = g.constant(ssa.NewConstant(ndarray.Of([]float32{float32(a.Float(axis)), 1}, 2)))
		in = in[:3]
	} else {
		in[3] = g.ints(int64(to), int64(from))
	}
	return g.with("Resize", in, attrs...)
}

// alongLast multiplies the elements along an axis of v with a matrix from the right.
func (g *builder) alongLast(v *ssa.Value, axis int, matrix *ssa.Value) *ssa.Value {
	perm := axesFrom(0, g.rank(v))
	last := len(perm) - 1
	perm[axis], perm[last] = perm[last], perm[axis]
	turn := func(v *ssa.Value) *ssa.Value {
		return g.with("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", perm...))
	}
	return turn(g.op("MatMul", turn(v), matrix))
}
