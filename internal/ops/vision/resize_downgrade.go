package vision

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// oldResizeForm is the oldest version, from base on, that has element type and coordinates.
func oldResizeForm(base int) func(*ssa.Node) int {
	return func(n *ssa.Node) int { return max(base, kit.TypeForm(base, 13, 18, 19)(n)) }
}

// downgradeResize13 gives the operands roi and scales, which were required, no elements.
func downgradeResize13(u *ops.Upgrader, n *ssa.Node) error {
	if a := n.Attr("coordinate_transformation_mode"); a != nil && a.S == "half_pixel_symmetric" {
		return errors.New("has coordinates of version 19")
	}
	for i, name := range []string{1: "roi", 2: "scales"} {
		if i > 0 && n.Input(i) == nil {
			u.SetOperand(n, i, u.Const(name, ssa.NewConstant(ndarray.Must(ndarray.Float32, 0))))
		}
	}
	return nil
}

// downgradeResize11 leaves out what Resize-10 implies; see upgradeResize10.
func downgradeResize11(u *ops.Upgrader, n *ssa.Node) error {
	if ops.Str(n, "coordinate_transformation_mode") != "asymmetric" || n.Input(3) != nil || ops.Str(n, "mode") == "cubic" {
		return errors.New("only scales with asymmetric coordinates, nearest or linear")
	}
	if ops.Str(n, "mode") == "nearest" {
		grows, shrinks, known := scaleRange(n.In[2])
		shrinks = shrinks && (known || u.Version >= 10) // an Upsample that shrinks fails
		if m := ops.Str(n, "nearest_mode"); !(m == "floor" && !shrinks || m == "ceil" && !grows) {
			return errors.New("nearest takes the pixel below where it enlarges and the one above where it shrinks")
		}
	}
	n.DropAttr("coordinate_transformation_mode")
	n.DropAttr("nearest_mode")
	n.SetInputs([]*ssa.Value{n.In[0], n.In[2]})
	return nil
}

// scaleRange reports whether scales may be above and below 1, and whether that is known: of
// constants, and of results of Max and Min with 1.
func scaleRange(v *ssa.Value) (grows, shrinks, known bool) {
	if v.Const != nil {
		a, err := v.Const.Array()
		if err != nil || !a.DType.IsFloat() {
			return true, true, false
		}
		s := a.Floats32()
		return slices.ContainsFunc(s, func(k float32) bool { return k > 1 }), slices.ContainsFunc(s, func(k float32) bool { return k < 1 }), true
	}
	if v.Def == nil || v.Def.Domain != "" || len(v.Def.In) != 2 || v.Def.In[1].Const == nil {
		return true, true, false
	}
	grows, shrinks, known = scaleRange(v.Def.In[1])
	return grows || v.Def.Op != "Min", shrinks || v.Def.Op != "Max", known && (v.Def.Op == "Min" || v.Def.Op == "Max")
}

// downgradeResize10 makes an Upsample, which only enlarges.
func downgradeResize10(_ *ops.Upgrader, n *ssa.Node) error {
	if _, shrinks, known := scaleRange(n.In[1]); shrinks && known {
		return errors.New("Upsample does not shrink")
	}
	n.Op = "Upsample"
	return nil
}

// downgradeUpsample9 makes an attribute of the scales.
func downgradeUpsample9(_ *ops.Upgrader, n *ssa.Node) error {
	scales, known := constFloats(n, 1)
	if !known {
		return errors.New("scales are no constant")
	}
	n.SetAttr(ssa.FloatsAttr("scales", scales...))
	n.TruncateInputs(1)
	return nil
}

// downgradeUpsample7 keeps the scales of height and width only.
func downgradeUpsample7(_ *ops.Upgrader, n *ssa.Node) error {
	s := n.Attr("scales").Floats
	if len(s) != 4 || s[0] != 1 || s[1] != 1 {
		return fmt.Errorf("scales %v are not of height and width", s)
	}
	n.DropAttr("scales")
	n.SetAttr(ssa.FloatAttr("height_scale", s[2]))
	n.SetAttr(ssa.FloatAttr("width_scale", s[3]))
	if a := n.Attr("mode"); a != nil && a.S == "linear" {
		a.S = "bilinear"
	}
	return nil
}
