package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Dropout zeroes random elements while training and passes its operand on else:
// https://onnx.ai/onnx/operators/onnx__Dropout.html
//
//	output = data * mask / (1 - ratio),  mask = (random >= ratio)     training_mode true
//	output = data, mask all true                                     else
var Dropout = Op{
	Name: "Dropout", Since: 22, Form: dropoutForm, Doc: "output = data * mask / (1 - ratio) while training, else data",
	MinIn: 1, MaxIn: 3, MinOut: 1, MaxOut: 2,
	Attrs: []AttrSpec{intAttr("seed").since(12),
		consumedInputs, intAttr("is_test", 0).until(7), floatAttr("ratio", 0.5).until(12)},
	Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		mask := x
		mask.DType = ndarray.Bool
		return []Inferred{{Type: x, Content: ContentOf(n, 0)}, {Type: mask}}
	}),
	Eval: kernel(evalDropout),
	Facts: Facts{Traits: passing.but(RandomTraining), InPlace: inPlaceFirst, Alias: func(n *ssa.Node) []Alias {
		if constBool(n.Input(2)) == 0 || n.Input(2) == nil {
			return []Alias{{In: 0, Out: 0}}
		}
		return nil
	}},
	Upgrades: []Upgrade{
		{Below: 7, Source: changelog("Dropout", 7), Apply: upgradeDropoutTest},
		{Below: 10, Source: changelog("Dropout", 10), Apply: upgradeDropoutMask},
		{Below: 12, Source: changelog("Dropout", 12), Apply: upgradeDropoutRatio},
	},
}

func dropoutForm(n *ssa.Node) int {
	switch {
	case usesType(n, ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ):
		return 22
	case usesType(n, ndarray.BFloat16):
		return 13
	}
	return 12
}

func evalDropout(c *Call) {
	x := c.Array(0)
	if x == nil || !x.DType.IsFloat() {
		failf("operand 0 is no float tensor")
	}
	ratio := optionalFloat(c, 1, 0.5)
	training := optionalInt(c, 2, 0)
	y := result(c, 0, x.DType, x.Shape...)
	var mask []bool
	if c.Wants(1) {
		m := result(c, 1, ndarray.Bool, x.Shape...)
		mask = ndarray.Slice[bool](m)
	}
	if training == 0 || ratio == 0 {
		copy(y.Data, x.Data)
		for i := range mask {
			mask[i] = true
		}
		return
	}
	if !(ratio > 0 && ratio < 1) {
		failf("ratio %g is not in [0,1)", ratio)
	}
	next := uniform(IntOr(c.Node, "seed", c.Seed))
	scale := 1 / (1 - ratio)
	for i := range y.Len() {
		keep := next() >= ratio
		v := 0.0
		if keep {
			v = x.Float(i) * scale
		}
		y.SetFloat(i, v)
		if mask != nil {
			mask[i] = keep
		}
	}
}

// upgradeDropoutTest turns is_test, whose default is 0, into training_mode.
func upgradeDropoutTest(u *Upgrader, n *ssa.Node) error {
	training := Int(n, "is_test") == 0
	n.DropAttr("is_test")
	if training {
		moveRatio(u, n)
		for len(n.In) < 3 {
			n.AddInput(nil)
		}
		n.SetInput(2, u.Const("training_mode", ssa.ScalarConst(true)))
	}
	return nil
}

// upgradeDropoutMask gives the mask, now boolean, its old element type back: the
// node becomes that conversion, and a new node ahead of it the dropout.
func upgradeDropoutMask(u *Upgrader, n *ssa.Node) error {
	if n.Output(1) == nil {
		return nil
	}
	moveRatio(u, n)
	d := u.Before(n, "Dropout", n.In, 2, n.Attrs...)
	d.Name = n.Name
	data, mask := n.Out[0], n.Out[1]
	d.Out[0], data.Def = data, d
	n.Op, n.Attrs, n.Out = "Cast", []ssa.Attr{ssa.IntAttr("to", int64(InType(n, 0).DType))}, []*ssa.Value{mask}
	mask.DefIndex = 0
	n.SetInputs([]*ssa.Value{d.Out[1]})
	return nil
}

// upgradeDropoutRatio moves the ratio from the attribute to operand 1.
func upgradeDropoutRatio(u *Upgrader, n *ssa.Node) error {
	moveRatio(u, n)
	return nil
}

func moveRatio(u *Upgrader, n *ssa.Node) {
	if !n.Has("ratio") {
		return
	}
	ratio := u.Const("ratio", ssa.ScalarConst(Float(n, "ratio")))
	n.DropAttr("ratio")
	for len(n.In) < 2 {
		n.AddInput(nil)
	}
	n.SetInput(1, ratio)
}
