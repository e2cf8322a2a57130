package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// lossAttrs are the attributes of the class losses.
var lossAttrs = []AttrSpec{intAttr("ignore_index"), strAttr("reduction", "mean", "none", "sum")}

// inferLoss is the type of a class loss: the labels' shape, or a scalar.
func inferLoss(n *ssa.Node) ssa.Type {
	x, labels := InType(n, 0), InType(n, 1)
	switch Str(n, "reduction") {
	case "mean", "sum":
		return ssa.TensorOf(x.DType)
	case "none":
	default:
		failf("reduction=%q is not none, sum or mean", Str(n, "reduction"))
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
func classLoss(c *Call, logp []float64) {
	x, labels := c.Array(0), c.Array(1)
	if x.Rank() < 2 || labels == nil || !labels.DType.IsInteger() {
		failf("operands %s and %v; expected [N,C,...] and integer labels [N,...]", x, labels)
	}
	wantShape("labels", labels, slices.Delete(slices.Clone(x.Shape), 1, 2)...)
	classes, inner := x.Shape[1], sizeOf(x.Shape[2:])
	wantShape("weights", c.Array(2), classes)
	weights := elements[float64](c.Array(2))
	ignore, ignoring := Int(c.Node, "ignore_index"), c.Node.Has("ignore_index")
	loss := make([]float64, labels.Len())
	var total, weight float64
	for i := range loss {
		label := labels.Int(i)
		if ignoring && label == ignore {
			continue
		}
		if label < 0 || label >= int64(classes) {
			failf("label %d is not one of %d classes", label, classes)
		}
		w := 1.0
		if weights != nil {
			w = weights[label]
		}
		loss[i] = -logp[(i/inner*classes+int(label))*inner+i%inner] * w
		total += loss[i]
		weight += w
	}
	reduceLoss(c, loss, labels.Shape, total, weight)
}

func reduceLoss(c *Call, loss []float64, shape []int, total, weight float64) {
	dt := c.Array(0).DType
	switch reduction := Str(c.Node, "reduction"); reduction {
	case "none":
		setResult(c, 0, dt, shape, loss)
		return
	case "mean":
		total /= weight
	case "sum":
	default:
		failf("reduction=%q is not none, sum or mean", reduction)
	}
	setResult(c, 0, dt, nil, []float64{total})
}

// lossScores returns operand 0 of a loss; operand 1 must be labels.
func lossScores(c *Call) *ndarray.Array {
	if a := tensor(c, 1); a.DType != ndarray.Int64 && a.DType != ndarray.Int32 {
		failf("labels have element type %s, expected int32 or int64", a.DType)
	}
	x := tensor(c, 0)
	if !x.DType.IsFloat() {
		check(unsupportedType(x.DType))
	}
	return x
}
