package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
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
var BatchNormalization = Op{
	Name: "BatchNormalization", Since: 15, Form: batchNormForm, Doc: "Y = (X - mean) / sqrt(var + epsilon) * scale + B",
	MinIn: 5, MaxIn: 5, MinOut: 1, MaxOut: 3,
	Attrs: []AttrSpec{floatAttr("epsilon", 1e-5), floatAttr("momentum", 0.9), intAttr("training_mode", 0).since(14),
		consumedInputs.required(), intAttr("is_test", 0).ignored().until(7), intAttr("spatial", 1).until(9)},
	Infer: rule(inferBatchNorm),
	Eval:  floatKernel(evalBatchNorm[float32], evalBatchNorm[float64]),
	Facts: Facts{Traits: passing, Linear: channelNormLinear, InPlace: inPlaceFirst, Cost: normCost},
	Upgrades: []Upgrade{
		{Below: 9, Source: changelog("BatchNormalization", 9), Apply: upgradeBatchNormSpatial},
		{Below: 14, Source: changelog("BatchNormalization", 14), Apply: upgradeBatchNormTraining},
	},
}

func batchNormForm(n *ssa.Node) int {
	x, s, m := InType(n, 0).DType, InType(n, 1).DType, InType(n, 3).DType
	switch {
	case x != s || m != s && m != x:
		return 15
	case usesType(n, ndarray.BFloat16) || m != x:
		return 14
	}
	return 9
}

func inferBatchNorm(n *ssa.Node) []Inferred {
	if Int(n, "training_mode") == 0 && (n.Output(1) != nil || n.Output(2) != nil) {
		failf("results 1 and 2 exist only with training_mode=1")
	}
	x, m := InType(n, 0), InType(n, 3)
	if x.Ranked && x.Rank() < 1 {
		failf("operand 0 is a scalar")
	}
	stats := ssa.TensorOf(m.DType, channelDim(x))
	return []Inferred{{Type: x}, {Type: stats}, {Type: stats}}
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

func evalBatchNorm[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	if x.Rank() < 1 {
		failf("operand 0 is a scalar")
	}
	b := channels{n: x.Shape[0], c: 1, plane: 1}
	if x.Rank() > 1 {
		b.c, b.plane = x.Shape[1], sizeOf(x.Shape[2:])
	}
	for i, what := range []string{"scale", "B", "mean", "var"} {
		wantShape(what, c.Array(1+i), b.c)
	}
	mean, variance := elements[float64](tensor(c, 3)), elements[float64](tensor(c, 4))
	v := elements[T](x)
	if Int(c.Node, "training_mode") != 0 {
		m, s := channelMoments(b, v)
		storeRunning(c, 1, mean, m)
		storeRunning(c, 2, variance, s)
		mean, variance = m, s
	}
	scale, bias := elements[float64](tensor(c, 1)), elements[float64](tensor(c, 2))
	y := newResult[T](c, 0, x.DType, x.Shape...)
	eps := float64(Float(c.Node, "epsilon"))
	for i := range b.n * b.c {
		ch := i % b.c
		m, f, o := T(mean[ch]), T(scale[ch]/math.Sqrt(variance[ch]+eps)), T(bias[ch])
		out := y.V[i*b.plane : (i+1)*b.plane]
		for j, e := range v[i*b.plane : (i+1)*b.plane] {
			out[j] = (e-m)*f + o
		}
	}
	y.store()
}

// channels is a tensor seen as n images of c channels of plane elements.
type channels struct{ n, c, plane int }

// channelMoments returns mean and population variance of every channel.
func channelMoments[T realNum](b channels, x []T) (mean, variance []float64) {
	mean, variance = make([]float64, b.c), make([]float64, b.c)
	count := float64(b.n) * float64(b.plane)
	for i := range b.n * b.c {
		for _, v := range x[i*b.plane : (i+1)*b.plane] {
			mean[i%b.c] += float64(v)
		}
	}
	for i := range mean {
		mean[i] /= count
	}
	for i := range b.n * b.c {
		m := mean[i%b.c]
		for _, v := range x[i*b.plane : (i+1)*b.plane] {
			d := float64(v) - m
			variance[i%b.c] += d * d
		}
	}
	for i := range variance {
		variance[i] /= count
	}
	return mean, variance
}

// storeRunning writes running statistics to result i if anyone wants them.
func storeRunning(c *Call, i int, old, now []float64) {
	if !c.Wants(i) {
		return
	}
	out := result(c, i, c.Array(3).DType, len(old))
	momentum := float64(Float(c.Node, "momentum"))
	for k := range old {
		out.SetFloat(k, old[k]*momentum+now[k]*(1-momentum))
	}
}

// upgradeBatchNormSpatial replaces spatial=0, statistics per element of
// [C,D1,...], by the elementwise formula.
func upgradeBatchNormSpatial(u *Upgrader, n *ssa.Node) error {
	spatial := Int(n, "spatial")
	n.DropAttr("spatial")
	if r := InType(n, 0).Rank(); spatial != 0 || r >= 0 && r <= 2 {
		return nil
	}
	for _, v := range n.Out[1:] {
		if v != nil {
			return fmt.Errorf("spatial=0 in training mode: %w", ErrUnsupported)
		}
	}
	eps := u.Const("epsilon", scalarOf(InType(n, 0).DType, float64(Float(n, "epsilon"))))
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
func upgradeBatchNormTraining(u *Upgrader, n *ssa.Node) error {
	training := false
	for i, v := range n.Out {
		if i == 0 || v == nil {
			continue
		}
		training = true
		if i > 2 {
			if len(v.Uses()) > 0 || u.Graph.IsResult(v) {
				return fmt.Errorf("result %d (saved statistics) is used: %w", i, ErrUnsupported)
			}
		}
	}
	n.Out = n.Out[:min(len(n.Out), 3)]
	if training {
		n.SetAttr(ssa.IntAttr("training_mode", 1))
	}
	return nil
}
