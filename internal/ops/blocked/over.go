package blocked

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/elementwise"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/internal/ops/vision"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Conv is a convolution with an epilogue, whose operands of the result's shape lie as the result.
var Conv = over(&fused.Conv, fused.OverResidual)

// FusedConv is a convolution with bias, residual and activation; the residual lies as the result.
var FusedConv = over(&contrib.FusedConv, func(n *ssa.Node) []ops.Pair {
	if n.Input(3) == nil {
		return nil
	}
	return []ops.Pair{{In: 3, Out: 0}} // tasks read a residual before they write over it
})

// The others.
var (
	MaxPool            = over(&nn.MaxPool, nil)
	AveragePool        = over(&nn.AveragePool, nil)
	GlobalAveragePool  = over(&nn.GlobalAveragePool, nil)
	GlobalMaxPool      = over(&nn.GlobalMaxPool, nil)
	BatchNormalization = over(&fused.BatchNormalization, kit.InPlaceFirst)
	Resize             = over(&vision.Resize, nil)
	Mul                = over(&elementwise.Mul, kit.InPlaceFirst)
	Add                = over(&elementwise.Add, kit.InPlaceFirst)
	QLinearConv        = over(&quant.QLinearConv, nil)
	QLinearAdd         = over(&contrib.QLinearAdd, contrib.QLinearAdd.Facts.InPlace)
)

// Ops are the operators of this package.
var Ops = []*ops.Op{&ToBlocked, &FromBlocked, &Conv, &FusedConv, &MaxPool, &AveragePool, &GlobalAveragePool, &GlobalMaxPool, &BatchNormalization, &Resize, &Mul, &Add, &QLinearConv, &QLinearAdd}

func init() { ops.Register(Ops...) }

// over is an operator over blocked images. Operand 0 and the result may share bytes where
// inPlace says so.
func over(plain *ops.Op, inPlace func(*ssa.Node) []ops.Pair) ops.Op {
	none := func(*ssa.Node) []ops.Pair { return nil }
	if inPlace == nil {
		inPlace = none
	}
	return ops.Op{
		Domain: ops.Private, Name: "Blocked" + plain.Name, Since: 1, Doc: plain.Doc + ", images in blocks of channels",
		MinIn: plain.MinIn, MaxIn: plain.MaxIn, OptionalIn: plain.OptionalIn, MinOut: 1, MaxOut: 1,
		Attrs: append(ops.Newest(plain.Attrs), blockAttr),
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			out := kit.Try(plain.Infer(inner(plain, n)))
			return ops.One(blockedType(n, out[0].Type))
		}),
		Eval:  kit.Kernel(func(c *ops.Call) { evalOver(plain, c) }),
		Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: inPlace, Smaller: none, Cost: func(n *ssa.Node) ops.Cost { return costOver(plain, n) }},
	}
}

// inner is the node of the plain operator over the same images in the plain layout. It is in
// no graph.
func inner(plain *ops.Op, n *ssa.Node) *ssa.Node {
	m := &ssa.Node{Domain: plain.Domain, Op: plain.Name, Name: n.Name}
	m.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a ssa.Attr) bool { return a.Name == blockAttr.Name })
	m.In, m.Out = plainValues(n.In), plainValues(n.Out)
	return m
}

// plainValues are values with the types of others in the plain layout.
func plainValues(values []*ssa.Value) []*ssa.Value {
	out := make([]*ssa.Value, len(values))
	for i, v := range values {
		if v != nil {
			out[i] = &ssa.Value{Name: v.Name, Type: v.Type.Plain(), Const: v.Const, Content: v.Content}
		}
	}
	return out
}

func costOver(plain *ops.Op, n *ssa.Node) ops.Cost {
	if plain.Facts.Cost == nil {
		return ops.TrafficOf(n)
	}
	return plain.Facts.Cost(inner(plain, n))
}

// evalOver runs the reference kernel on plain copies.
func evalOver(plain *ops.Op, c *ops.Call) {
	m := *c
	m.Node, m.In, m.Out = inner(plain, c.Node), slices.Clone(c.In), nil
	for i, v := range c.In {
		if t := ops.InType(c.Node, i); v != nil && t.IsBlocked() {
			m.In[i] = fromBlocked(c, v.(*ndarray.Array), t.Channels)
		}
	}
	kit.Check(plain.Eval(&m))
	y := m.Out[0].(*ndarray.Array)
	if b := int(ops.Int(c.Node, block)); b > 0 {
		y = toBlocked(c, y, b)
	}
	kit.Check(c.SetOutput(0, y))
}
