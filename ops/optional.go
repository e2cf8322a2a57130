package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Optional wraps a value, or makes an empty optional of attribute type:
// https://onnx.ai/onnx/operators/onnx__Optional.html
var Optional = Op{
	Name: "Optional", Since: 28, Form: typeForm(15, 28), Doc: "output = some(input), or none",
	MinIn: 0, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "type", Kind: ssa.AttrType}},
	Facts: Facts{Traits: general}, Infer: rule(inferOptional),
	Eval: kernel(func(c *Call) {
		if !c.Has(0) {
			check(c.SetOutput(0, &ndarray.Optional{}))
			return
		}
		check(c.SetOutput(0, &ndarray.Optional{Value: ownedCopy(c.In[0])}))
	}),
}

// OptionalGetElement unwraps an optional; other values pass through:
// https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html
var OptionalGetElement = Op{
	Name: "OptionalGetElement", Since: 28, Form: optionalForm, Doc: "output = the value in input",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(inferOptionalGetElement),
	Eval: kernel(func(c *Call) {
		v := optionalValue(c)
		if v == nil {
			failf("the optional is empty")
		}
		giveOut(c, 0, v)
	}),
}

// OptionalHasElement tells whether there is a value:
// https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html
var OptionalHasElement = Op{
	Name: "OptionalHasElement", Since: 28, Form: optionalForm, Doc: "output = whether input holds a value",
	MinIn: 0, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(inferOptionalHasElement),
	Eval: kernel(func(c *Call) {
		out := result(c, 0, ndarray.Bool)
		out.SetInt(0, int64(btoi(optionalValue(c) != nil)))
	}),
}

// optionalForm is the oldest version that takes the operand: plain values since 18.
func optionalForm(n *ssa.Node) int {
	base := 15
	if n.Input(0) == nil || InType(n, 0).Kind != ssa.KindOptional {
		base = 18
	}
	return typeForm(base, 28)(n)
}

// optionalValue returns what operand 0 holds: the value of an optional, any
// other value itself, nil if there is none.
func optionalValue(c *Call) ndarray.Value {
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

func inferOptional(n *ssa.Node) []Inferred {
	if n.Input(0) != nil {
		return One(ssa.OptionalOf(InType(n, 0)))
	}
	a := n.Attr("type")
	if a == nil {
		failf("neither an operand nor attribute type is given")
	}
	return One(ssa.OptionalOf(a.Type))
}

func inferOptionalGetElement(n *ssa.Node) []Inferred {
	if t := InType(n, 0); t.Kind != ssa.KindOptional {
		return []Inferred{{t, ContentOf(n, 0)}}
	}
	return One(elemOf(InType(n, 0)))
}

func inferOptionalHasElement(n *ssa.Node) []Inferred {
	t := ssa.TensorOf(ndarray.Bool)
	switch {
	case n.Input(0) == nil:
		return factOf(t, []ssa.Dim{ssa.D(0)})
	case InType(n, 0).Kind == ssa.KindTensor, InType(n, 0).Kind == ssa.KindSequence:
		return factOf(t, []ssa.Dim{ssa.D(1)})
	}
	return One(t)
}
