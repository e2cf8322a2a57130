package vision

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// upsampleMode maps the names that old files use for N-linear interpolation.
func upsampleMode(mode string) string {
	switch mode {
	case "bilinear", "trilinear":
		return "linear"
	}
	return mode
}

// upgradeUpsample makes a Resize of Upsample: version 1 has two scales as
// attributes, version 7 all of them, version 9 an operand.
func upgradeUpsample(u *ops.Upgrader, n *ssa.Node) error {
	if len(n.In) < 2 {
		scales := slices.Clone(ops.Floats(n, "scales"))
		if n.Has("height_scale") {
			scales = []float32{1, 1, ops.Float(n, "height_scale"), ops.Float(n, "width_scale")}
		}
		if scales == nil {
			return fmt.Errorf("operand scales is missing")
		}
		n.AddInput(u.Const("scales", ssa.NewConstant(ndarray.Of(scales, len(scales)))))
	}
	for _, name := range []string{"scales", "height_scale", "width_scale"} {
		n.DropAttr(name)
	}
	n.Op = "Resize"
	n.SetAttr(ssa.StringAttr("mode", upsampleMode(ops.Str(n, "mode"))))
	return asymmetric(u, n, false)
}

// upgradeResize10 sets as attributes what Resize-10 implies: coordinates are
// asymmetric; nearest takes the pixel below when it enlarges and the one above
// when it shrinks. A node that does both along different axes, or whose scales are
// not known, becomes two: the first enlarges by max(scales, 1), the second shrinks by
// min(scales, 1).
func upgradeResize10(u *ops.Upgrader, n *ssa.Node) error { return asymmetric(u, n, true) }

// asymmetric is upgradeResize10, also for Upsample, whose scales are not below 1.
func asymmetric(u *ops.Upgrader, n *ssa.Node, mayShrink bool) error {
	if len(n.In) != 2 {
		return fmt.Errorf("has %d operands, needs X and scales", len(n.In))
	}
	scales := n.In[1]
	n.SetInputs([]*ssa.Value{n.In[0], nil, scales})
	n.SetAttr(ssa.StringAttr("coordinate_transformation_mode", "asymmetric"))
	if ops.Str(n, "mode") != "nearest" {
		return nil
	}
	n.SetAttr(ssa.StringAttr("nearest_mode", "floor"))
	if _, known := constFloats(n, 2); !known && !mayShrink {
		return nil
	}
	grow, shrink, grows, shrinks := resizeParts(u, n)
	if !shrinks {
		return nil
	}
	if grows {
		first := u.Before(n, "Resize", []*ssa.Value{n.In[0], nil, grow}, 1, n.Attrs...)
		n.SetInput(0, first.Out[0])
		n.SetInput(2, shrink)
	}
	n.SetAttr(ssa.StringAttr("nearest_mode", "ceil"))
	return nil
}

// resizeParts returns max(scales, 1) and min(scales, 1), and whether there may be
// scales above and below 1.
func resizeParts(u *ops.Upgrader, n *ssa.Node) (grow, shrink *ssa.Value, grows, shrinks bool) {
	v, known := constFloats(n, 2)
	if !known {
		one := u.Const("one", ssa.NewConstant(ndarray.Of([]float32{1}, 1)))
		in := []*ssa.Value{n.In[2], one}
		return u.Before(n, "Max", in, 1).Out[0], u.Before(n, "Min", in, 1).Out[0], true, true
	}
	up, down := make([]float32, len(v)), make([]float32, len(v))
	for i, s := range v {
		up[i], down[i] = max(s, 1), min(s, 1)
		grows, shrinks = grows || s > 1, shrinks || s < 1
	}
	if !grows || !shrinks {
		return nil, nil, grows, shrinks
	}
	constant := func(v []float32) *ssa.Value {
		return u.Const("scales", ssa.NewConstant(ndarray.Of(v, len(v))))
	}
	return constant(up), constant(down), true, true
}

// upgradeResize11 replaces the coordinates tf_half_pixel_for_nn, dropped in
// version 13, where their pixels are those of another mode:
//
//	floor((x+0.5)/scale) = floor(half_pixel(x) + 0.5)
//	ceil((x+0.5)/scale - 0.5) = ceil(half_pixel(x))
//
// The kernel knows them for the other nearest modes.
func upgradeResize11(_ *ops.Upgrader, n *ssa.Node) error {
	if ops.Str(n, "coordinate_transformation_mode") != "tf_half_pixel_for_nn" || ops.Str(n, "mode") != "nearest" {
		return nil
	}
	same := map[string]string{"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
	if m, ok := same[ops.Str(n, "nearest_mode")]; ok {
		n.SetAttr(ssa.StringAttr("coordinate_transformation_mode", "half_pixel"))
		n.SetAttr(ssa.StringAttr("nearest_mode", m))
	}
	return nil
}
