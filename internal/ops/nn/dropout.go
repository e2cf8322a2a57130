package nn

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Dropout zeroes random elements in training and otherwise returns its operand:
// https://onnx.ai/onnx/operators/onnx__Dropout.html
//
//	output = data * mask / (1 - ratio),  mask = (random >= ratio)     training_mode true
//	output = data, mask all true                                     otherwise
var Dropout = ops.Op{
	Name: "Dropout", Since: 22, Form: dropoutForm, Doc: "output = data * mask / (1 - ratio) while training, else data",
	MinIn: 1, MaxIn: 3, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.IntAttr("seed").From(12),
		kit.ConsumedInputs, ops.IntAttr("is_test", 0).Before(7), ops.FloatAttr("ratio", 0.5).Before(12)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		kit.MatchShapes(n, "*", "", "")
		x := ops.InType(n, 0)
		mask := x
		mask.DType = ndarray.Bool
		return []ops.Inferred{{Type: x, Content: ops.ContentOf(n, 0)}, {Type: mask}}
	}),
	Eval: kit.Kernel(evalDropout),
	Facts: ops.Facts{Traits: ops.PassingTraits.But(ops.RandomTraining), InPlace: kit.InPlaceFirst, Alias: func(n *ssa.Node) []ops.Alias {
		if ops.ConstBool(n.Input(2)) == 0 || n.Input(2) == nil {
			return []ops.Alias{{In: 0, Out: 0}}
		}
		return nil
	}},
	Upgrades: []ops.Upgrade{
		{Below: 7, Source: kit.Changelog("Dropout", 7), Apply: upgradeDropoutTest},
		{Below: 10, Source: kit.Changelog("Dropout", 10), Apply: upgradeDropoutMask},
		{Below: 12, Source: kit.Changelog("Dropout", 12), Apply: upgradeDropoutRatio},
	},
	Downgrades: []ops.Downgrade{{Below: 12, Form: kit.FloatForm(1, 13), Apply: downgradeDropout}, {Below: 10, Form: kit.FloatForm(1, 13), Apply: downgradeDropoutMask}},
}

// downgradeDropout makes an attribute of the ratio. From operator set 7 up to 11 there was
// no training, before it was said by is_test.
func downgradeDropout(u *ops.Upgrader, n *ssa.Node) error {
	training := 0
	if n.Input(2) != nil {
		training = ops.ConstBool(n.Input(2))
	}
	switch {
	case training < 0 || training > 0 && u.Version >= 7:
		return fmt.Errorf("may be training")
	case u.Version < 7:
		n.SetAttr(ssa.IntAttr("is_test", int64(1-training)))
	}
	if v := n.Input(1); v != nil {
		ratio, err := kit.FloatConst(v)
		if err != nil {
			return fmt.Errorf("ratio: %w", err)
		}
		n.SetAttr(ssa.FloatAttr("ratio", ratio))
	}
	n.DropAttr("seed")
	n.TruncateInputs(1)
	return nil
}

// downgradeDropoutMask gives the mask the element type of the data: it becomes the Cast
// that reads it.
func downgradeDropoutMask(u *ops.Upgrader, n *ssa.Node) error {
	mask := n.Output(1)
	if mask == nil || len(mask.Uses()) == 0 && !u.Graph.IsResult(mask) {
		n.Out = n.Out[:1]
		return nil
	}
	if len(mask.Uses()) != 1 || u.Graph.IsResult(mask) {
		return fmt.Errorf("has a mask of booleans")
	}
	cast := mask.Uses()[0].Node
	if cast.Op != "Cast" || cast.Domain != "" || cast.Out[0].Type.DType != ops.InType(n, 0).DType {
		return fmt.Errorf("has a mask of booleans")
	}
	mask.Name, cast.Out[0].Name, mask.Type = cast.Out[0].Name, mask.Name, cast.Out[0].Type
	u.Graph.ReplaceUses(cast.Out[0], mask)
	u.Sweep(cast)
	return nil
}

func dropoutForm(n *ssa.Node) int {
	switch {
	case kit.UsesType(n, ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ):
		return 22
	case kit.UsesType(n, ndarray.BFloat16):
		return 13
	}
	return 12
}

func evalDropout(c *ops.Call) {
	x := kit.Tensor(c, 0)
	if !x.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	ratio := kit.OptionalFloat(c, 1, 0.5)
	training := kit.OptionalInt(c, 2, 0)
	y := kit.Result(c, 0, x.DType, x.Shape...)
	var mask []bool
	if c.Wants(1) {
		m := kit.Result(c, 1, ndarray.Bool, x.Shape...)
		mask = ndarray.Slice[bool](m)
	}
	if training == 0 || ratio == 0 {
		kit.CopyWhole(c, y, x)
		w := kit.Watching(c)
		for i := range mask {
			w.Did(1)
			mask[i] = true
		}
		return
	}
	if !(ratio > 0 && ratio < 1) {
		kit.Failf("ratio %g is not in [0,1)", ratio)
	}
	next := kit.Uniform(c, ops.IntOr(c.Node, "seed", c.Seed))
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
func upgradeDropoutTest(u *ops.Upgrader, n *ssa.Node) error {
	training := ops.Int(n, "is_test") == 0
	n.DropAttr("is_test")
	if training {
		u.SetOperand(n, 2, u.Const("training_mode", ssa.ScalarConst(true)))
	}
	return upgradeDropoutRatio(u, n)
}

// upgradeDropoutMask gives the mask, now boolean, its old element type back: the
// node becomes that conversion, and a new node ahead of it the dropout.
func upgradeDropoutMask(u *ops.Upgrader, n *ssa.Node) error {
	if n.Output(1) == nil {
		return nil
	}
	_ = upgradeDropoutRatio(u, n)
	d := u.Before(n, "Dropout", n.In, 2, n.Attrs...)
	d.Name = n.Name
	data, mask := n.Out[0], n.Out[1]
	d.Out[0], data.Def = data, d
	n.Op, n.Attrs, n.Out = "Cast", []ssa.Attr{ssa.IntAttr("to", int64(ops.InType(n, 0).DType))}, []*ssa.Value{mask}
	mask.DefIndex = 0
	n.SetInputs([]*ssa.Value{d.Out[1]})
	return nil
}

// upgradeDropoutRatio moves the ratio from the attribute to operand 1.
func upgradeDropoutRatio(u *ops.Upgrader, n *ssa.Node) error {
	if n.Has("ratio") {
		u.SetOperand(n, 1, u.Const("ratio", ssa.ScalarConst(ops.Float(n, "ratio"))))
		n.DropAttr("ratio")
	}
	return nil
}
