package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// BatchNormalization normalizes every channel: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
//
//	Y = (X - mean) / sqrt(var + epsilon) * scale + B
//
// Mean and variance are operands; with training_mode=1 they are those of X
// itself, and results 1 and 2 are the running ones:
//
//	running = input * momentum + current * (1 - momentum)
//
// Up to operator set 13 nodes with more than one result were training, and nodes
// with one result were inference, whatever is_test said.
var BatchNormalization = ops.Op{
	Name: "BatchNormalization", Since: 15, Form: batchNormForm, Doc: "Y = (X - mean) / sqrt(var + epsilon) * scale + B",
	MinIn: 5, MaxIn: 5, MinOut: 1, MaxOut: 3,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-5), ops.FloatAttr("momentum", 0.9), ops.IntAttr("training_mode", 0).From(14),
		kit.ConsumedInputs.Mandatory(), ops.IntAttr("is_test", 0).WithoutEffect().Before(7), ops.IntAttr("spatial", 1).Before(9)},
	Infer: kit.Rule(inferBatchNorm),
	Eval:  kit.FloatKernel(evalBatchNorm[float32], evalBatchNorm[float64]),
	Facts: ops.Facts{Traits: ops.PassingTraits, Linear: ops.ChannelNormLinear, InPlace: batchNormInPlace, Cost: kit.NormCost, Whole: true},
	Upgrades: []ops.Upgrade{
		{Below: 9, Source: kit.Changelog("BatchNormalization", 9), Apply: upgradeBatchNormSpatial},
		{Below: 14, Source: kit.Changelog("BatchNormalization", 14), Apply: upgradeBatchNormTraining},
	},
	Downgrades: []ops.Downgrade{{Below: 14, Form: oldBatchNormForm, Apply: downgradeBatchNormTraining},
		{Below: 7, Form: oldBatchNormForm, Apply: func(u *ops.Upgrader, n *ssa.Node) error {
			n.SetAttr(ssa.IntAttr("is_test", int64(kit.Btoi(len(n.Out) == 1))))
			if u.Version < 6 {
				n.SetAttr(ssa.IntsAttr("consumed_inputs", 0, 0, 0, 1, 1))
			}
			return nil
		}}},
}

// oldBatchNormForm is the oldest version that takes the element types, which all were the same.
func oldBatchNormForm(n *ssa.Node) int {
	if batchNormForm(n) > 9 {
		return batchNormForm(n)
	}
	return 1
}

// downgradeBatchNormTraining drops training_mode: nodes with more than one result are training.
func downgradeBatchNormTraining(_ *ops.Upgrader, n *ssa.Node) error {
	training := ops.IntOr(n, "training_mode", 0) != 0
	n.DropAttr("training_mode")
	if !training {
		n.Out = n.Out[:1]
	} else if n.Output(1) == nil || n.Output(2) == nil {
		return fmt.Errorf("training without the running statistics as results")
	} else {
		n.Out = append(n.Out, nil, nil) // the statistics of the batch: these versions allow one result or five
	}
	return nil
}

func batchNormForm(n *ssa.Node) int {
	x, s, m := ops.InType(n, 0).DType, ops.InType(n, 1).DType, ops.InType(n, 3).DType
	switch {
	case x != s || m != s && m != x:
		return 15
	case kit.UsesType(n, ndarray.BFloat16) || m != x:
		return 14
	}
	return 9
}

func inferBatchNorm(n *ssa.Node) []ops.Inferred {
	if ops.Int(n, "training_mode") == 0 && (n.Output(1) != nil || n.Output(2) != nil) {
		kit.Failf("results 1 and 2 exist only with training_mode=1")
	}
	x, m := ops.InType(n, 0), ops.InType(n, 3)
	if x.Ranked && x.Rank() < 1 {
		kit.Failf("operand 0 is a scalar")
	}
	if x.Rank() == 1 { // one channel
		kit.MatchShapes(n, "_", "1", "1", "1", "1")
	} else {
		kit.MatchShapes(n, "_ C *", "C", "C", "C", "C")
	}
	stats := ssa.TensorOf(m.DType, channelDim(x))
	return []ops.Inferred{{Type: x}, {Type: stats}, {Type: stats}}
}

// channelDim is dimension 1; tensors of rank 1 have one channel.
func channelDim(x ssa.Type) ssa.Dim {
	switch {
	case !x.Ranked:
		return ssa.Dim{}
	case x.Rank() < 2:
		return ssa.D(1)
	}
	return x.Shape[1]
}

// batchNormInPlace: y over x, and running statistics over those before, channel by channel.
func batchNormInPlace(n *ssa.Node) []ops.Pair {
	pairs := kit.InPlaceFirst(n)
	for i := 1; i <= 2; i++ {
		if old, y := n.Input(2+i), n.Output(i); old != nil && y != nil && n.Input(3) != n.Input(4) && ops.SameLayout(old.Type, y.Type) {
			pairs = append(pairs, ops.Pair{In: 2 + i, Out: i})
		}
	}
	return pairs
}

func evalBatchNorm[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	if x.Rank() < 1 {
		kit.Failf("operand 0 is a scalar")
	}
	b := channels{n: x.Shape[0], c: 1, plane: 1}
	if x.Rank() > 1 {
		b.c, b.plane = x.Shape[1], kit.SizeOf(x.Shape[2:])
	}
	for i, what := range []string{"scale", "B", "mean", "var"} {
		kit.WantShape(what, c.Array(1+i), b.c)
	}
	mean, variance := kit.Elements[float64](c, kit.Tensor(c, 3)), kit.Elements[float64](c, kit.Tensor(c, 4))
	v := kit.Elements[T](c, x)
	if ops.Int(c.Node, "training_mode") != 0 {
		m, s := channelMoments(c, b, v)
		storeRunning(c, 1, mean, m)
		storeRunning(c, 2, variance, s)
		mean, variance = m, s
	}
	scale, bias := kit.Elements[float64](c, kit.Tensor(c, 1)), kit.Elements[float64](c, kit.Tensor(c, 2))
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	eps := float64(ops.Float(c.Node, "epsilon"))
	w := kit.Watching(c)
	for i := range b.n * b.c {
		ch := i % b.c
		m, f, o := T(mean[ch]), T(scale[ch]/math.Sqrt(variance[ch]+eps)), T(bias[ch])
		for from, to := range w.Pieces(b.plane) {
			out := y.V[i*b.plane:][from:to]
			for j, e := range v[i*b.plane:][from:to] {
				out[j] = (e-m)*f + o
			}
		}
	}
	y.Store()
}

// channels is a tensor seen as n images of c channels of plane elements.
type channels struct{ n, c, plane int }

// channelMoments returns mean and population variance of every channel.
func channelMoments[T kit.RealNum](c *ops.Call, b channels, x []T) (mean, variance []float64) {
	mean, variance = kit.Make[float64](c, b.c), kit.Make[float64](c, b.c)
	w := kit.Watching(c)
	count := float64(b.n) * float64(b.plane)
	for i := range b.n * b.c {
		for from, to := range w.Pieces(b.plane) {
			mean[i%b.c] += kit.SumOf(x[i*b.plane:][from:to])
		}
	}
	for i := range mean {
		mean[i] /= count
	}
	for i := range b.n * b.c {
		for from, to := range w.Pieces(b.plane) {
			variance[i%b.c] += kit.DeviationOf(x[i*b.plane:][from:to], mean[i%b.c])
		}
	}
	for i := range variance {
		variance[i] /= count
	}
	return mean, variance
}

// storeRunning writes running statistics to result i if it is wanted.
func storeRunning(c *ops.Call, i int, old, now []float64) {
	if !c.Wants(i) {
		return
	}
	out := kit.Result(c, i, c.Array(3).DType, len(old))
	momentum := float64(ops.Float(c.Node, "momentum"))
	for k := range old {
		out.SetFloat(k, old[k]*momentum+now[k]*(1-momentum))
	}
}

// upgradeBatchNormSpatial replaces spatial=0, statistics per element of
// [C,D1,...], by the elementwise formula.
func upgradeBatchNormSpatial(u *ops.Upgrader, n *ssa.Node) error {
	spatial := ops.Int(n, "spatial")
	n.DropAttr("spatial")
	if r := ops.InType(n, 0).Rank(); spatial != 0 || r >= 0 && r <= 2 {
		return nil
	}
	if slices.ContainsFunc(n.Out[1:], func(v *ssa.Value) bool { return v != nil }) {
		return fmt.Errorf("spatial=0 in training mode: %w", ops.ErrUnsupported)
	}
	eps := u.Const("epsilon", scalarOf(ops.InType(n, 0).DType, float64(ops.Float(n, "epsilon"))))
	x, scale, bias, mean, variance := n.In[0], n.In[1], n.In[2], n.In[3], n.In[4]
	centered := u.Before(n, "Sub", []*ssa.Value{x, mean}, 1).Out[0]
	shifted := u.Before(n, "Add", []*ssa.Value{variance, eps}, 1).Out[0]
	deviation := u.Before(n, "Sqrt", []*ssa.Value{shifted}, 1).Out[0]
	normal := u.Before(n, "Div", []*ssa.Value{centered, deviation}, 1).Out[0]
	scaled := u.Before(n, "Mul", []*ssa.Value{normal, scale}, 1).Out[0]
	n.Op, n.Attrs, n.Out = "Add", nil, n.Out[:1]
	n.SetInputs([]*ssa.Value{scaled, bias})
	return nil
}

// scalarOf is a rank-0 constant of any real element type.
func scalarOf(dt ndarray.DType, v float64) *ssa.Constant {
	a := ndarray.Must(dt)
	a.SetFloat(0, v)
	return ssa.NewConstant(a)
}

// upgradeBatchNormTraining turns the five results of training into three.
func upgradeBatchNormTraining(u *ops.Upgrader, n *ssa.Node) error {
	training := false
	for i, v := range n.Out[1:] {
		if training = training || v != nil; i >= 2 && v != nil && (len(v.Uses()) > 0 || u.Graph.IsResult(v)) {
			return fmt.Errorf("result %d (saved statistics) is used: %w", 1+i, ops.ErrUnsupported)
		}
	}
	n.Out = n.Out[:min(len(n.Out), 3)]
	if training {
		n.SetAttr(ssa.IntAttr("training_mode", 1))
	}
	return nil
}
