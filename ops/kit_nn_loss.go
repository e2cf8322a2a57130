package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// lossAttrs are the attributes of the class losses.
var lossAttrs = []AttrSpec{intAttr("ignore_index"), strAttr("reduction", "mean", "none", "sum")}

// inferLoss is the type of a class loss: the labels' shape, or a scalar.
func inferLoss(n *ssa.Node) (ssa.Type, error) {
	x, labels := InType(n, 0), InType(n, 1)
	switch Str(n, "reduction") {
	case "mean", "sum":
		return ssa.TensorOf(x.DType), nil
	case "none":
	default:
		return ssa.Type{}, fmt.Errorf("reduction=%q is not none, sum or mean", Str(n, "reduction"))
	}
	if labels.Ranked {
		return ssa.TensorOf(x.DType, labels.Shape...), nil
	}
	if x.Ranked && x.Rank() >= 2 {
		return ssa.TensorOf(x.DType, slices.Delete(slices.Clone(x.Shape), 1, 2)...), nil
	}
	return ssa.UnrankedTensor(x.DType), nil
}

// classLoss stores the negative log likelihood of labels [N,D...] under logp
// [N,C,D...] as result 0:
//
//	l[n,d] = -logp[n, label[n,d], d] * weight[label[n,d]]      0 where the label is ignored
//
// reduced as attribute reduction says; mean divides by the sum of the weights.
func classLoss[T realNum](c *Call, logp []T) error {
	x, labels := c.Array(0), c.Array(1)
	if x.Rank() < 2 || labels == nil || !labels.DType.IsInteger() {
		return fmt.Errorf("operands %s and %v; expected [N,C,...] and integer labels [N,...]", x, labels)
	}
	if err := wantShape("labels", labels, slices.Delete(slices.Clone(x.Shape), 1, 2)...); err != nil {
		return err
	}
	classes, inner := x.Shape[1], sizeOf(x.Shape[2:])
	if err := wantShape("weights", c.Array(2), classes); err != nil {
		return err
	}
	weights := reals[T](c.Array(2))
	ignore, ignoring := Int(c.Node, "ignore_index"), c.Node.Has("ignore_index")
	loss := make([]T, labels.Len())
	var total, weight float64
	for i := range loss {
		label := labels.Int(i)
		if ignoring && label == ignore {
			continue
		}
		if label < 0 || label >= int64(classes) {
			return fmt.Errorf("label %d is not one of %d classes", label, classes)
		}
		w := T(1)
		if weights != nil {
			w = weights[label]
		}
		loss[i] = -logp[(i/inner*classes+int(label))*inner+i%inner] * w
		total += float64(loss[i])
		weight += float64(w)
	}
	return reduceLoss(c, loss, labels.Shape, total, weight)
}

func reduceLoss[T realNum](c *Call, loss []T, shape []int, total, weight float64) error {
	switch reduction := Str(c.Node, "reduction"); reduction {
	case "none":
		y, err := newReal[T](c, 0, c.Array(0).DType, shape...)
		if err != nil {
			return err
		}
		copy(y.V, loss)
		return y.store()
	case "mean":
		total /= weight
	case "sum":
	default:
		return fmt.Errorf("reduction=%q is not none, sum or mean", reduction)
	}
	y, err := newReal[T](c, 0, c.Array(0).DType)
	if err != nil {
		return err
	}
	y.V[0] = T(total)
	return y.store()
}

// lossArrays checks that the first two operands of a loss are there and floats.
func lossArrays(c *Call) error {
	if err := wantArrays(c, 2); err != nil {
		return err
	}
	if a := c.Array(1); a.DType != ndarray.Int64 && a.DType != ndarray.Int32 {
		return fmt.Errorf("labels have element type %s, expected int32 or int64", a.DType)
	}
	return nil
}
