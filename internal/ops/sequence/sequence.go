package sequence

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// SequenceConstruct makes a sequence of its operands:
// https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html
var SequenceConstruct = ops.Op{
	Name: "SequenceConstruct", Since: 11, Doc: "output_sequence = (inputs…)",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferSequenceConstruct), Eval: kit.Kernel(evalSequenceConstruct),
}

// SequenceEmpty makes a sequence without members:
// https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html
var SequenceEmpty = ops.Op{
	Name: "SequenceEmpty", Since: 11, Doc: "output = ()",
	MinIn: 0, MaxIn: 0, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("dtype")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		dt := kit.Try(kit.DtypeAttr(n, "dtype", ndarray.Float32))
		return ops.One(ssa.SequenceOf(ssa.UnrankedTensor(dt)))
	}),
	Eval: kit.Kernel(func(c *ops.Call) {
		dt := kit.Try(kit.DtypeAttr(c.Node, "dtype", ndarray.Float32))
		kit.Check(c.SetOutput(0, &ndarray.Sequence{Elem: dt}))
	}),
}

// SequenceAt picks a member: https://onnx.ai/onnx/operators/onnx__SequenceAt.html
var SequenceAt = ops.Op{
	Name: "SequenceAt", Since: 11, Doc: "tensor = input_sequence[position]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return ops.One(elemOf(ops.InType(n, 0))) }),
	Eval: kit.Kernel(func(c *ops.Call) {
		s := needSequence(c, 0)
		k := seqPosition(c, 1, len(s.Items), 0, false)
		kit.GiveOut(c, 0, s.Items[k])
	}),
}

// SequenceInsert adds a member, at the end without a position:
// https://onnx.ai/onnx/operators/onnx__SequenceInsert.html
var SequenceInsert = ops.Op{
	Name: "SequenceInsert", Since: 11, Doc: "output_sequence = input_sequence with tensor before position",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(ssa.SequenceOf(kit.UnionType(elemOf(ops.InType(n, 0)), ops.InType(n, 1))))
	}),
	Eval: kit.Kernel(evalSequenceInsert),
}

// SequenceErase drops a member, the last one without a position:
// https://onnx.ai/onnx/operators/onnx__SequenceErase.html
var SequenceErase = ops.Op{
	Name: "SequenceErase", Since: 11, Doc: "output_sequence = input_sequence without the member at position",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: ops.SameAs,
	Eval: kit.Kernel(func(c *ops.Call) {
		s := needSequence(c, 0)
		k := seqPosition(c, 1, len(s.Items), -1, false)
		items := kit.Make[ndarray.Value](c, len(s.Items)-1)
		kit.CopySlice(c, items[:k], s.Items)
		kit.CopySlice(c, items[k:], s.Items[k+1:])
		kit.Check(c.SetOutput(0, &ndarray.Sequence{Elem: s.Elem, Items: items}))
	}),
}

// SequenceLength counts members: https://onnx.ai/onnx/operators/onnx__SequenceLength.html
var SequenceLength = ops.Op{
	Name: "SequenceLength", Since: 11, Doc: "length = number of members",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(*ssa.Node) []ops.Inferred { return ops.One(ssa.TensorOf(ndarray.Int64)) }),
	Eval: kit.Kernel(func(c *ops.Call) {
		s := needSequence(c, 0)
		out := kit.Result(c, 0, ndarray.Int64)
		out.SetInt(0, int64(len(s.Items)))
	}),
}

func inferSequenceConstruct(n *ssa.Node) []ops.Inferred {
	_ = kit.SameDType(n, kit.Positions(len(n.In))...)
	t := ops.InType(n, 0)
	for i := 1; i < len(n.In); i++ {
		t = kit.UnionType(t, ops.InType(n, i))
	}
	return ops.One(ssa.SequenceOf(t))
}

func evalSequenceConstruct(c *ops.Call) {
	s := &ndarray.Sequence{}
	for i := range c.In {
		a := kit.Tensor(c, i)
		if i == 0 {
			s.Elem = a.DType
		}
		if a.DType != s.Elem {
			kit.Failf("member %d is %s in a sequence of %s", i, a, s.Elem)
		}
		s.Items = append(s.Items, kit.Clone(c, a))
	}
	kit.Check(c.SetOutput(0, s))
}

func evalSequenceInsert(c *ops.Call) {
	s := needSequence(c, 0)
	if !c.Has(1) {
		kit.Failf("operand 1 is required and absent")
	}
	elem := s.Elem
	if a := c.Array(1); a != nil {
		if elem != ndarray.Undefined && a.DType != elem {
			kit.Failf("the new member is %s, the sequence holds %s", a, elem)
		}
		elem = a.DType
	}
	k := seqPosition(c, 2, len(s.Items), int64(len(s.Items)), true)
	items := kit.Make[ndarray.Value](c, len(s.Items)+1)
	kit.CopySlice(c, items, s.Items[:k])
	items[k] = ownedCopy(c, c.In[1])
	kit.CopySlice(c, items[k+1:], s.Items[k:])
	kit.Check(c.SetOutput(0, &ndarray.Sequence{Elem: elem, Items: items}))
}
