package sequence

import (
	"errors"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Optional wraps a value, or makes an empty optional of attribute type:
// https://onnx.ai/onnx/operators/onnx__Optional.html
var Optional = ops.Op{
	Name: "Optional", Since: 28, Form: kit.TypeForm(15, 28), Doc: "output = some(input), or none",
	MinIn: 0, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{{Name: "type", Kind: ssa.AttrType}},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferOptional),
	Eval: kit.Kernel(func(c *ops.Call) {
		out := &ndarray.Optional{}
		if c.Has(0) {
			out.Value = ownedCopy(c, c.In[0])
		}
		kit.Check(c.SetOutput(0, out))
	}),
}

// OptionalGetElement unwraps an optional; other values pass through:
// https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html
var OptionalGetElement = ops.Op{
	Name: "OptionalGetElement", Since: 28, Form: optionalForm, Doc: "output = the value in input",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferOptionalGetElement), Downgrades: wrapped,
	Eval: kit.Kernel(func(c *ops.Call) {
		v := optionalValue(c)
		if v == nil {
			kit.Failf("the optional is empty")
		}
		kit.GiveOut(c, 0, v)
	}),
}

// OptionalHasElement tells whether there is a value:
// https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html
var OptionalHasElement = ops.Op{
	Name: "OptionalHasElement", Since: 28, Form: optionalForm, Doc: "output = whether input holds a value",
	MinIn: 0, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferOptionalHasElement), Downgrades: wrapped,
	Eval: kit.Kernel(func(c *ops.Call) {
		out := kit.Result(c, 0, ndarray.Bool)
		out.SetInt(0, int64(kit.Btoi(optionalValue(c) != nil)))
	}),
}

// wrapped is the downgrade below version 18, which took plain values: they are made
// optionals.
var wrapped = []ops.Downgrade{{Below: 18, Form: kit.TypeForm(15, 28), Apply: func(u *ops.Upgrader, n *ssa.Node) error {
	if n.Input(0) == nil {
		return errors.New("has no operand")
	}
	if k := ops.InType(n, 0).Kind; k == ssa.KindTensor || k == ssa.KindSequence {
		n.SetInput(0, u.Before(n, "Optional", []*ssa.Value{n.In[0]}, 1).Out[0])
	}
	return nil
}}}

// optionalForm is the oldest version that takes the operand: plain values since 18.
func optionalForm(n *ssa.Node) int {
	base := 15
	if n.Input(0) == nil || ops.InType(n, 0).Kind != ssa.KindOptional {
		base = 18
	}
	return kit.TypeForm(base, 28)(n)
}

// optionalValue returns what operand 0 holds: the value of an optional, any
// other value itself, nil if there is none.
func optionalValue(c *ops.Call) ndarray.Value {
	if !c.Has(0) {
		return nil
	}
	if o, ok := c.In[0].(*ndarray.Optional); ok {
		if o == nil {
			return nil
		}
		return o.Value
	}
	return c.In[0]
}

func inferOptional(n *ssa.Node) []ops.Inferred {
	if n.Input(0) != nil {
		return ops.One(ssa.OptionalOf(ops.InType(n, 0)))
	}
	a := n.Attr("type")
	if a == nil {
		kit.Failf("neither an operand nor attribute type is given")
	}
	return ops.One(ssa.OptionalOf(a.Type))
}

func inferOptionalGetElement(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if t.Kind != ssa.KindOptional {
		return []ops.Inferred{{Type: t, Content: ops.ContentOf(n, 0)}}
	}
	return ops.One(elemOf(t))
}

func inferOptionalHasElement(n *ssa.Node) []ops.Inferred {
	t := ssa.TensorOf(ndarray.Bool)
	switch {
	case n.Input(0) == nil:
		return kit.FactOf(t, []ssa.Dim{ssa.D(0)})
	case ops.InType(n, 0).Kind == ssa.KindTensor, ops.InType(n, 0).Kind == ssa.KindSequence:
		return kit.FactOf(t, []ssa.Dim{ssa.D(1)})
	}
	return ops.One(t)
}
