package nn

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// lossAttrs are the attributes of the class losses.
var lossAttrs = []*ops.AttrSpec{ops.IntAttr("ignore_index"), ops.StrAttr("reduction", "mean", "none", "sum")}

// inferLoss is the type of a class loss: the labels' shape, or a scalar.
func inferLoss(n *ssa.Node) ssa.Type {
	x, labels := ops.InType(n, 0), ops.InType(n, 1)
	switch {
	case ops.Str(n, "reduction") != "none":
		return ssa.TensorOf(x.DType)
	case labels.Ranked:
		return ssa.TensorOf(x.DType, labels.Shape...)
	case x.Rank() >= 2:
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
func classLoss(c *ops.Call, logp []float64) {
	x, labels := c.Array(0), c.Array(1)
	if x.Rank() < 2 || labels == nil || !labels.DType.IsInteger() {
		kit.Failf("operands %s and %v; expected [N,C,...] and integer labels [N,...]", x, labels)
	}
	kit.WantShape("labels", labels, slices.Delete(slices.Clone(x.Shape), 1, 2)...)
	classes, inner := x.Shape[1], kit.SizeOf(x.Shape[2:])
	kit.WantShape("weights", c.Array(2), classes)
	weights := kit.Elements[float64](c, c.Array(2))
	ignore, ignoring := ops.Int(c.Node, "ignore_index"), c.Node.Has("ignore_index")
	loss := kit.Make[float64](c, labels.Len())
	var total, weight float64
	watch := kit.Watching(c)
	for i := range loss {
		watch.Did(1)
		label := labels.Int(i)
		if ignoring && label == ignore {
			continue
		}
		if label < 0 || label >= int64(classes) {
			kit.Failf("label %d is not one of %d classes", label, classes)
		}
		w := 1.0
		if weights != nil {
			w = weights[label]
		}
		loss[i] = -logp[(i/inner*classes+int(label))*inner+i%inner] * w
		total += loss[i]
		weight += w
	}
	switch ops.Str(c.Node, "reduction") {
	case "none":
		kit.SetResult(c, 0, x.DType, labels.Shape, loss)
	case "mean":
		kit.SetResult(c, 0, x.DType, nil, []float64{total / weight})
	case "sum":
		kit.SetResult(c, 0, x.DType, nil, []float64{total})
	}
}

// lossScores returns operand 0 of a loss; operand 1 must be labels.
func lossScores(c *ops.Call) *ndarray.Array {
	if a := kit.Tensor(c, 1); a.DType != ndarray.Int64 && a.DType != ndarray.Int32 {
		kit.Failf("labels have element type %s, expected int32 or int64", a.DType)
	}
	x := kit.Tensor(c, 0)
	if !x.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	return x
}
