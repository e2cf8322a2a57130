package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// lossAttrs are the attributes of the class losses.
var lossAttrs = []AttrSpec{{Name: "ignore_index", Kind: ssa.AttrInt}, {Name: "reduction", Kind: ssa.AttrString}}

// inferLoss is the type of a class loss: the labels' shape, or a scalar.
func inferLoss(n *ssa.Node) ssa.Type {
	x, labels := InType(n, 0), InType(n, 1)
	switch n.Str("reduction", "mean") {
	case "mean", "sum":
		return ssa.TensorOf(x.DType)
	case "none":
	default:
		failf("reduction=%q is not none, sum or mean", n.Str("reduction", ""))
	}
	if labels.Ranked {
		return ssa.TensorOf(x.DType, labels.Shape...)
	}
	if x.Ranked && x.Rank() >= 2 {
		return ssa.TensorOf(x.DType, slices.Delete(slices.Clone(x.Shape), 1, 2)...)
	}
	return ssa.UnrankedTensor(x.DType)
}

// classLoss stores the negative log likelihood of labels [N,D...] under logp
// [N,C,D...] as result 0:
//
//	l[n,d] = -logp[n, label[n,d], d] * weight[label[n,d]]      0 where the label is ignored
//
// reduced as attribute reduction says; mean divides by the sum of the weights.
func classLoss[T realNum](c *Call, logp []T) {
	x, labels := c.Array(0), c.Array(1)
	if x.Rank() < 2 || labels == nil || !labels.DType.IsInteger() {
		failf("operands %s and %v; expected [N,C,...] and integer labels [N,...]", x, labels)
	}
	wantShape("labels", labels, slices.Delete(slices.Clone(x.Shape), 1, 2)...)
	classes, inner := x.Shape[1], sizeOf(x.Shape[2:])
	wantShape("weights", c.Array(2), classes)
	weights := reals[T](c.Array(2))
	ignore, ignoring := c.Node.Int("ignore_index", 0), c.Node.Has("ignore_index")
	loss := make([]T, labels.Len())
	var total, weight float64
	for i := range loss {
		label := labels.Int(i)
		if ignoring && label == ignore {
			continue
		}
		if label < 0 || label >= int64(classes) {
			failf("label %d is not one of %d classes", label, classes)
		}
		w := T(1)
		if weights != nil {
			w = weights[label]
		}
		loss[i] = -logp[(i/inner*classes+int(label))*inner+i%inner] * w
		total += float64(loss[i])
		weight += float64(w)
	}
	reduceLoss(c, loss, labels.Shape, total, weight)
}

func reduceLoss[T realNum](c *Call, loss []T, shape []int, total, weight float64) {
	switch reduction := c.Node.Str("reduction", "mean"); reduction {
	case "none":
		y := newReal[T](c, 0, c.Array(0).DType, shape...)
		copy(y.V, loss)
		y.store()
		return
	case "mean":
		total /= weight
	case "sum":
	default:
		failf("reduction=%q is not none, sum or mean", reduction)
	}
	y := newReal[T](c, 0, c.Array(0).DType)
	y.V[0] = T(total)
	y.store()
}

// lossArrays checks that the first two operands of a loss are there and floats.
func lossArrays(c *Call) {
	wantArrays(c, 2)
	if a := c.Array(1); a.DType != ndarray.Int64 && a.DType != ndarray.Int32 {
		failf("labels have element type %s, expected int32 or int64", a.DType)
	}
}
