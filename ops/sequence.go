package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// SequenceConstruct makes a sequence of its operands:
// https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html
var SequenceConstruct = Op{
	Name: "SequenceConstruct", Since: 11, Doc: "output_sequence = (inputs…)",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(inferSequenceConstruct), Eval: kernel(evalSequenceConstruct),
}

// SequenceEmpty makes a sequence without members:
// https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html
var SequenceEmpty = Op{
	Name: "SequenceEmpty", Since: 11, Doc: "output = ()",
	MinIn: 0, MaxIn: 0, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("dtype")},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		dt := try(dtypeAttr(n, "dtype", ndarray.Float32))
		return One(ssa.SequenceOf(ssa.UnrankedTensor(dt)))
	}),
	Eval: kernel(func(c *Call) {
		dt := try(dtypeAttr(c.Node, "dtype", ndarray.Float32))
		check(c.SetOutput(0, &ndarray.Sequence{Elem: dt}))
	}),
}

// SequenceAt picks a member: https://onnx.ai/onnx/operators/onnx__SequenceAt.html
var SequenceAt = Op{
	Name: "SequenceAt", Since: 11, Doc: "tensor = input_sequence[position]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred { return One(elemOf(InType(n, 0))) }),
	Eval: kernel(func(c *Call) {
		s := needSequence(c, 0)
		k := seqPosition(c, 1, len(s.Items), 0, false)
		giveOut(c, 0, s.Items[k])
	}),
}

// SequenceInsert adds a member, at the end without a position:
// https://onnx.ai/onnx/operators/onnx__SequenceInsert.html
var SequenceInsert = Op{
	Name: "SequenceInsert", Since: 11, Doc: "output_sequence = input_sequence with tensor before position",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		return One(ssa.SequenceOf(UnionType(elemOf(InType(n, 0)), InType(n, 1))))
	}),
	Eval: kernel(evalSequenceInsert),
}

// SequenceErase drops a member, the last one without a position:
// https://onnx.ai/onnx/operators/onnx__SequenceErase.html
var SequenceErase = Op{
	Name: "SequenceErase", Since: 11, Doc: "output_sequence = input_sequence without the member at position",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: SameAs,
	Eval: kernel(func(c *Call) {
		s := needSequence(c, 0)
		k := seqPosition(c, 1, len(s.Items), -1, false)
		check(c.SetOutput(0, &ndarray.Sequence{Elem: s.Elem, Items: slices.Delete(slices.Clone(s.Items), k, k+1)}))
	}),
}

// SequenceLength counts members: https://onnx.ai/onnx/operators/onnx__SequenceLength.html
var SequenceLength = Op{
	Name: "SequenceLength", Since: 11, Doc: "length = number of members",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(*ssa.Node) []Inferred { return One(ssa.TensorOf(ndarray.Int64)) }),
	Eval: kernel(func(c *Call) {
		s := needSequence(c, 0)
		out := result(c, 0, ndarray.Int64)
		out.SetInt(0, int64(len(s.Items)))
	}),
}

func inferSequenceConstruct(n *ssa.Node) []Inferred {
	_ = sameDType(n, positions(len(n.In))...)
	t := InType(n, 0)
	for i := 1; i < len(n.In); i++ {
		t = UnionType(t, InType(n, i))
	}
	return One(ssa.SequenceOf(t))
}

func evalSequenceConstruct(c *Call) {
	s := &ndarray.Sequence{}
	for i := range c.In {
		a := tensor(c, i)
		if i == 0 {
			s.Elem = a.DType
		}
		if a.DType != s.Elem {
			failf("member %d is %s in a sequence of %s", i, a, s.Elem)
		}
		s.Items = append(s.Items, a.Clone())
	}
	check(c.SetOutput(0, s))
}

func evalSequenceInsert(c *Call) {
	s := needSequence(c, 0)
	if !c.Has(1) {
		failf("operand 1 is required and absent")
	}
	elem := s.Elem
	if a := c.Array(1); a != nil {
		if elem != ndarray.Undefined && a.DType != elem {
			failf("the new member is %s, the sequence holds %s", a, elem)
		}
		elem = a.DType
	}
	k := seqPosition(c, 2, len(s.Items), int64(len(s.Items)), true)
	items := make([]ndarray.Value, 0, len(s.Items)+1)
	items = append(append(items, s.Items[:k]...), ownedCopy(c.In[1]))
	check(c.SetOutput(0, &ndarray.Sequence{Elem: elem, Items: append(items, s.Items[k:]...)}))
}
