package lower

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// stockDomain is the domain of nodes that call an op of Gorgonia.
const stockDomain = "gorgonia.org"

// Stock calls a gorgonia.Op without a rule, on values over the memory of the operands and
// the result. It prefers, in this order,
//
//	UnsafeDo         where the planner has put the result over the operand that the op overwrites
//	UsePreallocDo    into the planned place, filled with zeros, of a tensor
//	Do               whose result is copied there
//
// The node's attributes are the op, and the type of the result as its gorgonia.Node has it.
// An op may keep a state or draw numbers, so such nodes are neither merged nor moved.
var Stock = ops.Op{
	Domain: stockDomain, Name: "Op", Since: 1, Doc: "y = op(x...)",
	MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{{Name: "op", Kind: ssa.AttrOther}},
	Infer: func(n *ssa.Node) ([]ops.Inferred, error) {
		c, err := calledBy(n)
		if err != nil {
			return nil, err
		}
		return ops.One(ssa.StaticTensor(c.dtype, c.shape...)), nil
	},
	Eval:  func(c *ops.Call) error { return evalStock(c) },
	Facts: ops.Facts{Traits: ops.RandomTraits, InPlace: stockPairs},
}

func init() { ops.Register(&Stock) }

// called is a gorgonia.Op, and how its operands and result look to it.
type called struct {
	op    gorgonia.Op
	types []tensor.Dtype // of the operands, then of the result
	forms []tensor.Shape
	dtype ndarray.DType
	shape []int
	over  int // the operand that the op says it overwrites
}

func calledBy(n *ssa.Node) (*called, error) {
	if a := n.Attr("op"); a != nil {
		if c, ok := a.Other.(*called); ok {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%s is no node that calls an op of Gorgonia", n)
}

// runsAfter lists the nodes that a node without a rule must follow although it reads nothing of
// theirs: those whose op it embeds, and with it what that op has left behind. Gorgonia's
// gradient of CTCLoss is such a node.
func (b *builder) runsAfter(n *gorgonia.Node) (list []*gorgonia.Node) {
	if n.Op() == nil || rules[kindOf(n)] != nil || isConstant(n) {
		return nil
	}
	if b.owners == nil {
		b.owners = map[unsafe.Pointer]*gorgonia.Node{}
		for _, m := range b.graph.AllNodes() {
			if v := reflect.ValueOf(m.Op()); v.Kind() == reflect.Pointer {
				b.owners[v.UnsafePointer()] = m
			}
		}
	}
	for _, p := range embeddedPointers(n.Op()) {
		if m := b.owners[p]; m != nil && m != n {
			list = append(list, m)
		}
	}
	return list
}

// stock adds a node that calls the op. Operands behind those of the op only order the nodes.
func (b *builder) stock(n *gorgonia.Node, in []*ssa.Value) (_ *ssa.Value, err error) {
	defer Calling(&err)
	for _, m := range b.runsAfter(n) {
		in = append(in, b.made[m])
	}
	dt, ok := values.DType(n.Dtype())
	if !ok {
		return nil, ErrElements(n.Dtype())
	}
	c := &called{op: n.Op(), dtype: dt, shape: n.Shape(), over: n.Op().OverwritesInput()}
	for _, m := range append(b.children(n), n) {
		c.types, c.forms = append(c.types, m.Dtype()), append(c.forms, m.Shape())
	}
	m := b.out.SSA.NewNode("Op", in, 1, ssa.Attr{Name: "op", Kind: ssa.AttrOther, Other: c})
	m.Domain, m.Name = stockDomain, n.Name()
	b.infer(m)
	return m.Out[0], b.err
}

// stockPairs lets a result overwrite the operand that the op says it overwrites.
func stockPairs(n *ssa.Node) []ops.Pair {
	c, err := calledBy(n)
	if err != nil {
		return nil
	}
	_, unsafely := c.op.(gorgonia.UnsafeDoer)
	i := c.over
	if !unsafely || i < 0 || i >= len(c.types)-1 || !ops.SameLayout(n.In[i].Type, n.Out[0].Type) {
		return nil
	}
	return []ops.Pair{{In: i, Out: 0}}
}

func evalStock(c *ops.Call) error {
	k, err := calledBy(c.Node)
	if err != nil {
		return err
	}
	in := make([]gorgonia.Value, len(k.types)-1)
	for i := range in {
		if in[i], err = values.Of(c.Array(i), k.types[i], k.forms[i]); err != nil {
			return fmt.Errorf("operand %d: %w", i, err)
		}
	}
	out, err := c.Output(0, k.dtype, k.shape...)
	if err != nil {
		return err
	}
	v, err := k.do(in, c, out)
	if err != nil {
		return err
	}
	var got ndarray.Array
	if err := values.View(context.Background(), &got, v); err != nil {
		return fmt.Errorf("result of %v: %w", k.op, err)
	}
	if got.DType != out.DType || got.Len() != out.Len() {
		return fmt.Errorf("%v gave %v where its node has %v", k.op, &got, out)
	}
	copy(out.Data, got.Data)
	copy(out.Str, got.Str)
	return nil
}

// Calling is deferred by functions that call methods of an op, which may be the user's own: a panic of it becomes an error that
// says whose it is.
func Calling(err *error) {
	if r := recover(); r != nil {
		e := rescue.Caught(r)
		e.Of = "the op"
		*err = e
	}
}

// do calls the op in the best way that it has.
func (k *called) do(in []gorgonia.Value, c *ops.Call, out *ndarray.Array) (_ gorgonia.Value, err error) {
	defer Calling(&err)
	for i := range in {
		if a := c.Array(i); len(out.Data) > 0 && len(a.Data) > 0 && &a.Data[0] == &out.Data[0] {
			return k.op.(gorgonia.UnsafeDoer).UnsafeDo(in...)
		}
	}
	p, ok := k.op.(gorgonia.UsePreallocDoer)
	if !ok || len(out.Data) == 0 || len(out.Shape) == 0 {
		return k.op.Do(in...)
	}
	clear(out.Data)
	prealloc, err := values.Of(out, k.types[len(in)], k.forms[len(in)])
	if err != nil {
		return nil, err
	}
	return p.UsePreallocDo(prealloc, in...)
}

// Called names the op that a node of [Stock] calls; "" for other nodes.
func Called(n *ssa.Node) string {
	c, err := calledBy(n)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%T", c.op)
}
