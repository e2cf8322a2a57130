package exprgraph

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// op is one result of an ONNX node. The node is a template: its operands are constants,
// which belong to the op, and parameters, which are the op's operands in their order.
type op struct {
	*template
	result int
}

// template is what the ops of one node share.
type template struct {
	node *ssa.Node
	id   int64 // tells templates apart, so that Gorgonia does not merge nodes of different ones
	in   []form
	out  []form

	prepare sync.Once
	kernel  ops.Kernel // nil: the reference kernel
	scratch int64
	err     error
}

// form is the type of a value as Gorgonia and as ONNX have it.
type form struct {
	of    tensor.Dtype
	dtype ndarray.DType
	shape []int
}

var (
	_ gorgonia.SDOp            = (*op)(nil)
	_ gorgonia.UsePreallocDoer = (*op)(nil)
	_ lower.Template           = (*op)(nil)
)

var templates atomic.Int64

// newTemplate makes the template of a node with static types.
func newTemplate(n *ssa.Node) (*template, error) {
	t := &template{node: n, id: templates.Add(1)}
	for _, v := range n.In {
		if v != nil && v.Const == nil {
			f, err := formOf(v)
			if err != nil {
				return nil, err
			}
			t.in = append(t.in, f)
		}
	}
	for _, v := range n.Out {
		if v == nil {
			t.out = append(t.out, form{})
			continue
		}
		f, err := formOf(v)
		if err != nil {
			return nil, err
		}
		t.out = append(t.out, f)
	}
	return t, nil
}

func formOf(v *ssa.Value) (form, error) {
	shape, ok := v.Type.Static()
	if v.Type.Kind != ssa.KindTensor || !ok {
		return form{}, fmt.Errorf("%q is %s; an expression graph holds tensors of known shape: bind shapes with berth.WithDim or berth.WithShape", v.Name, v.Type)
	}
	dt, ok := values.Dtype(v.Type.DType)
	if !ok {
		return form{}, fmt.Errorf("%q has elements of type %s, which Gorgonia lacks", v.Name, v.Type.DType)
	}
	return form{dt, v.Type.DType, shape}, nil
}

// hm is the type as Gorgonia's type system has it.
func (f form) hm() hm.Type {
	if len(f.shape) == 0 {
		return f.of
	}
	return gorgonia.TensorType{Dims: len(f.shape), Of: f.of}
}

// ONNX is for package lower.
func (o *op) ONNX() (*ssa.Node, int) { return o.node, o.result }

// Arity is the number of operands that are no constants.
func (o *op) Arity() int { return len(o.in) }

// Type is a function of the very types of the operands.
func (o *op) Type() hm.Type {
	ts := make([]hm.Type, 0, len(o.in)+1)
	for _, f := range o.in {
		ts = append(ts, f.hm())
	}
	if len(ts) == 0 {
		return o.out[o.result].hm()
	}
	return hm.NewFnType(append(ts, o.out[o.result].hm())...)
}

// InferShape returns the shape, which is known.
func (o *op) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	return tensor.Shape(o.out[o.result].shape).Clone(), nil
}

// ReturnsPtr is true: results are memory.
func (o *op) ReturnsPtr() bool { return true }

// CallsExtern is true, so that machines hand over memory for the result.
func (o *op) CallsExtern() bool { return true }

// OverwritesInput is -1: the op leaves its operands alone.
func (o *op) OverwritesInput() int { return -1 }

// WriteHash writes what tells ops apart.
func (o *op) WriteHash(h hash.Hash) { fmt.Fprintf(h, "onnx %d %d", o.id, o.result) }

// Hashcode is the hash that WriteHash writes.
func (o *op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// String names the operator, and which of several results it is.
func (o *op) String() string {
	if len(o.out) == 1 {
		return o.node.Op
	}
	return fmt.Sprintf("%s[%d]", o.node.Op, o.result)
}

// DiffWRT reports operands of float types, where the derivative is known.
func (o *op) DiffWRT(int) []bool {
	out := make([]bool, len(o.in))
	if o.out[o.result].dtype.IsFloat() && hasDerivative(o.node) {
		for i, f := range o.in {
			out[i] = f.dtype.IsFloat()
		}
	}
	return out
}

// Do computes the result in memory of its own.
func (o *op) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	f := o.out[o.result]
	a, err := ndarray.New(f.dtype, f.shape...)
	if err != nil {
		return nil, err
	}
	if err := o.run(a, in); err != nil {
		return nil, err
	}
	return values.Of(a, f.of, f.shape)
}

// UsePreallocDo computes the result into the memory of a value.
func (o *op) UsePreallocDo(into gorgonia.Value, in ...gorgonia.Value) (gorgonia.Value, error) {
	var a ndarray.Array
	if err := values.Target(&a, into); err != nil {
		return nil, fmt.Errorf("%v: %w", o, err)
	}
	f := o.out[o.result]
	if want := (&ndarray.Array{DType: f.dtype, Shape: f.shape}); a.DType != f.dtype || a.Len() != want.Len() {
		return nil, fmt.Errorf("%v: memory of %v for a result of %v", o, &a, want)
	}
	a.Shape = f.shape
	return into, o.run(&a, in)
}

// run computes the node. Other results than the op's go to memory that is dropped.
func (o *op) run(into *ndarray.Array, in []gorgonia.Value) (err error) {
	defer rescue.Into(&err)
	c, err := o.call(in)
	if err != nil {
		return err
	}
	for k, f := range o.out {
		switch {
		case k == o.result:
			c.Out[k] = into
		case o.node.Out[k] != nil:
			if c.Out[k], err = ndarray.New(f.dtype, f.shape...); err != nil {
				return err
			}
		}
	}
	if o.kernel != nil {
		err = ops.AtNode("run", o.node, o.kernel.Run(c))
	} else {
		err = ops.Eval(c)
	}
	if err != nil {
		return err
	}
	a, ok := c.Out[o.result].(*ndarray.Array)
	if !ok || a.DType != into.DType || a.Len() != into.Len() {
		return fmt.Errorf("%v: the result is %s where the node has %v", o, ndarray.Describe(c.Out[o.result]), into)
	}
	if a != into { // loops bring results of their own
		copy(into.Data, a.Data)
		copy(into.Str, a.Str)
	}
	return nil
}

// call makes the call of the node on the operands and its constants.
func (o *op) call(in []gorgonia.Value) (*ops.Call, error) {
	if len(in) != len(o.in) {
		return nil, fmt.Errorf("%v takes %d operands, got %d", o, len(o.in), len(in))
	}
	o.prepare.Do(o.choose)
	if o.err != nil {
		return nil, o.err
	}
	c := &ops.Call{Ctx: context.Background(), Node: o.node, In: make([]ndarray.Value, len(o.node.In)), Out: make([]ndarray.Value, len(o.node.Out)),
		Scratch: ndarray.AlignedBytes(int(o.scratch)), Threads: runtime.GOMAXPROCS(0)}
	c.Body = func(i int, args []ndarray.Value) ([]ndarray.Value, error) {
		return ops.Interpret(c.Ctx, o.node.Bodies[i], args, nil)
	}
	k := 0
	for i, v := range o.node.In {
		switch {
		case v == nil:
		case v.Const != nil:
			a, err := v.Const.Array()
			if err != nil {
				return nil, err
			}
			c.In[i] = a
		default:
			a := &ndarray.Array{}
			if err := values.View(c.Ctx, a, in[k]); err != nil {
				return nil, fmt.Errorf("%v: operand %d: %w", o, i, err)
			}
			if a.DType != o.in[k].dtype || a.Len() != (&ndarray.Array{Shape: o.in[k].shape}).Len() {
				return nil, fmt.Errorf("%v: operand %d is %v, must be %s", o, i, a, v.Type)
			}
			a.Shape = o.in[k].shape
			c.In[i] = a
			k++
		}
	}
	return c, nil
}

// choose prepares the kernel. Loops have none.
func (t *template) choose() {
	if ops.IsControl(t.node) {
		return
	}
	p, err := cpu.New().Prepare(context.Background(), t.node, runtime.GOMAXPROCS(0))
	t.kernel, t.scratch, t.err = p.Kernel, p.Scratch, err
}
