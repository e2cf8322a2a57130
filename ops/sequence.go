package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// SequenceConstruct makes a sequence of its operands:
// https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html
var SequenceConstruct = Op{
	Name: "SequenceConstruct", Since: 11, Doc: "output_sequence = (inputs…)",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Infer: inferSequenceConstruct, Eval: evalSequenceConstruct,
}

// SequenceEmpty makes a sequence without members:
// https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html
var SequenceEmpty = Op{
	Name: "SequenceEmpty", Since: 11, Doc: "output = ()",
	MinIn: 0, MaxIn: 0, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "dtype", Kind: ssa.AttrInt}},
	Infer: func(n *ssa.Node) ([]Inferred, error) {
		dt, err := dtypeAttr(n, "dtype", ndarray.Float32)
		return One(ssa.SequenceOf(ssa.UnrankedTensor(dt))), err
	},
	Eval: func(c *Call) error {
		dt, err := dtypeAttr(c.Node, "dtype", ndarray.Float32)
		if err != nil {
			return err
		}
		return c.SetOutput(0, &ndarray.Sequence{Elem: dt})
	},
}

// SequenceAt picks a member: https://onnx.ai/onnx/operators/onnx__SequenceAt.html
var SequenceAt = Op{
	Name: "SequenceAt", Since: 11, Doc: "tensor = input_sequence[position]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: func(n *ssa.Node) ([]Inferred, error) { return One(elemOf(InType(n, 0))), nil },
	Eval: func(c *Call) error {
		s, err := needSequence(c, 0)
		if err != nil {
			return err
		}
		k, err := seqPosition(c, 1, len(s.Items), 0, false)
		if err != nil {
			return err
		}
		return giveOut(c, 0, s.Items[k])
	},
}

// SequenceInsert adds a member, at the end without a position:
// https://onnx.ai/onnx/operators/onnx__SequenceInsert.html
var SequenceInsert = Op{
	Name: "SequenceInsert", Since: 11, Doc: "output_sequence = input_sequence with tensor before position",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: func(n *ssa.Node) ([]Inferred, error) {
		return One(ssa.SequenceOf(UnionType(elemOf(InType(n, 0)), InType(n, 1)))), nil
	},
	Eval: evalSequenceInsert,
}

// SequenceErase drops a member, the last one without a position:
// https://onnx.ai/onnx/operators/onnx__SequenceErase.html
var SequenceErase = Op{
	Name: "SequenceErase", Since: 11, Doc: "output_sequence = input_sequence without the member at position",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: SameAs,
	Eval: func(c *Call) error {
		s, err := needSequence(c, 0)
		if err != nil {
			return err
		}
		k, err := seqPosition(c, 1, len(s.Items), -1, false)
		if err != nil {
			return err
		}
		return c.SetOutput(0, &ndarray.Sequence{Elem: s.Elem, Items: slices.Delete(slices.Clone(s.Items), k, k+1)})
	},
}

// SequenceLength counts members: https://onnx.ai/onnx/operators/onnx__SequenceLength.html
var SequenceLength = Op{
	Name: "SequenceLength", Since: 11, Doc: "length = number of members",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: func(*ssa.Node) ([]Inferred, error) { return One(ssa.TensorOf(ndarray.Int64)), nil },
	Eval: func(c *Call) error {
		s, err := needSequence(c, 0)
		if err != nil {
			return err
		}
		out, err := c.Output(0, ndarray.Int64)
		if err != nil {
			return err
		}
		out.SetInt(0, int64(len(s.Items)))
		return nil
	},
}

func inferSequenceConstruct(n *ssa.Node) ([]Inferred, error) {
	if _, err := sameDType(n, positions(len(n.In))...); err != nil {
		return nil, err
	}
	t := InType(n, 0)
	for i := 1; i < len(n.In); i++ {
		t = UnionType(t, InType(n, i))
	}
	return One(ssa.SequenceOf(t)), nil
}

// positions returns 0, 1, …, n-1.
func positions(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func evalSequenceConstruct(c *Call) error {
	s := &ndarray.Sequence{}
	for i := range c.In {
		a, err := needTensor(c, i)
		if err != nil {
			return err
		}
		if i == 0 {
			s.Elem = a.DType
		}
		if a.DType != s.Elem {
			return fmt.Errorf("member %d is %s in a sequence of %s", i, a, s.Elem)
		}
		s.Items = append(s.Items, a.Clone())
	}
	return c.SetOutput(0, s)
}

func evalSequenceInsert(c *Call) error {
	s, err := needSequence(c, 0)
	if err != nil {
		return err
	}
	if !c.Has(1) {
		return fmt.Errorf("operand 1 is required and absent")
	}
	elem := s.Elem
	if a := c.Array(1); a != nil {
		if elem != ndarray.Undefined && a.DType != elem {
			return fmt.Errorf("the new member is %s, the sequence holds %s", a, elem)
		}
		elem = a.DType
	}
	k, err := seqPosition(c, 2, len(s.Items), int64(len(s.Items)), true)
	if err != nil {
		return err
	}
	items := make([]ndarray.Value, 0, len(s.Items)+1)
	items = append(append(items, s.Items[:k]...), ownedCopy(c.In[1]))
	return c.SetOutput(0, &ndarray.Sequence{Elem: elem, Items: append(items, s.Items[k:]...)})
}
