package gorgonia

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"slices"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// nodeOp is a node of an ONNX graph as a gorgonia.Op: its kernel is berth's, its values are tensors; see [NewOp].
type nodeOp struct {
	node    *ssa.Node
	kernel  ops.Kernel
	scratch int64    // bytes of workspace
	call    ops.Call // what a run gives: context, workspace, threads
	frame   *frame   // of the run; the op is then the frame's own
}

var (
	_ G.Op              = (*nodeOp)(nil)
	_ G.UsePreallocDoer = (*nodeOp)(nil)
)

// NewOp makes a gorgonia.Op of a node whose types are known, with a kernel of the given backend or the reference kernel. It is
// a [G.UsePreallocDoer], too, and safe for concurrent use: each call has its own workspace.
//
// The inputs are the node's operands in order, nil for absent ones. A gorgonia.Op has one result; of nodes with several it is
// the first, and the memory of the others follows the operands among the inputs of UsePreallocDo, nil for unused ones.
func NewOp(ctx context.Context, n *ssa.Node, fast backend.Backend) (_ G.Op, err error) {
	defer rescue.Into(&err)
	if n == nil || !n.IsStatic() || len(n.Out) == 0 || len(n.Bodies) > 0 || !onTensors(n) {
		return nil, fmt.Errorf("%s is no gorgonia.Op: its types are not known, or it is not on tensors: %w", n, ops.ErrUnsupported)
	}
	p, err := New(fast).Prepare(ctx, n, 1)
	if err != nil {
		return nil, err
	}
	return &p.Kernel.(*opKernel).op, nil
}

// Arity is the number of operands.
func (o *nodeOp) Arity() int { return len(o.node.In) }

// Type is that of a function from the operands' tensors to the first result's.
func (o *nodeOp) Type() hm.Type {
	var types []hm.Type
	for _, v := range o.node.In {
		types = append(types, typeOf(v))
	}
	return hm.NewFnType(append(types, typeOf(o.node.Out[0]))...)
}

func typeOf(v *ssa.Value) hm.Type {
	if v == nil {
		return hm.TypeVariable('a')
	}
	t := tensor.Dtype{Type: dense.GoType(v.Type.DType)}
	if v.Type.Rank() == 0 {
		return t
	}
	return G.TensorType{Dims: v.Type.Rank(), Of: t}
}

// InferShape is the shape of the first result, which is known beforehand.
func (o *nodeOp) InferShape(...G.DimSizer) (tensor.Shape, error) {
	if o.node.Out[0] == nil {
		return nil, fmt.Errorf("%s: its first result is unused", o)
	}
	shape, ok := o.node.Out[0].Type.Static()
	if !ok {
		return nil, fmt.Errorf("%s: the shape of its result is not known", o)
	}
	return tensor.Shape(shape), nil
}

// Do computes the first result in fresh memory.
func (o *nodeOp) Do(inputs ...G.Value) (_ G.Value, err error) {
	defer rescue.Into(&err)
	shape, err := o.InferShape()
	if err != nil {
		return nil, err
	}
	a, err := ndarray.New(o.node.Out[0].Type.DType, shape...)
	if err != nil {
		return nil, err
	}
	d, err := DenseOf(a)
	if err != nil {
		return nil, err
	}
	return o.UsePreallocDo(d, inputs...)
}

// UsePreallocDo computes the node into the memory of prealloc, which may be that of an operand where [ops.Facts] allow it.
// Elements must lie in row-major order; [DenseError] says where they do not.
func (o *nodeOp) UsePreallocDo(prealloc G.Value, inputs ...G.Value) (_ G.Value, err error) {
	defer rescue.Into(&err)
	operands := len(o.node.In)
	if len(inputs) < operands || len(inputs) > operands+len(o.node.Out)-1 {
		return nil, fmt.Errorf("%s: %d inputs for %d operands and %d further results", o, len(inputs), operands, len(o.node.Out)-1)
	}
	c, arrays := o.prepare()
	for i, v := range inputs {
		at := i
		if i >= operands {
			at++ // behind the first result
		}
		if arrays[at], err = o.arrayOf(v, at); err != nil {
			return nil, fmt.Errorf("%s: input %d: %w", o, i, err)
		}
	}
	if arrays[operands], err = o.arrayOf(prealloc, operands); err != nil {
		return nil, fmt.Errorf("%s: result: %w", o, err)
	}
	c.In, c.Out = arrays[:operands:operands], arrays[operands:]
	return prealloc, o.kernel.Run(c)
}

// prepare makes the call of a kernel, and room for operands and results.
func (o *nodeOp) prepare() (*ops.Call, []ndarray.Value) {
	if o.frame != nil {
		return &o.call, o.frame.arrays
	}
	c := &ops.Call{Ctx: context.Background(), Node: o.node, Threads: 1, Scratch: ndarray.AlignedBytes(int(o.scratch))}
	return c, make([]ndarray.Value, len(o.node.In)+len(o.node.Out))
}

// arrayOf views a tensor as an array, the one at an operand or behind the operands at a result; nil stays nil. A kernel relies
// on the types that it was prepared for.
func (o *nodeOp) arrayOf(v G.Value, at int) (ndarray.Value, error) {
	d, ok := v.(*tensor.Dense)
	if v == nil || ok && d == nil {
		return nil, nil
	}
	if !ok {
		return nil, &DenseError{Tensor: fmt.Sprintf("a %T", v), Reason: "it is no *tensor.Dense"}
	}
	if a := o.frame.array(at, d); a != nil {
		return a, nil
	}
	m, err := dense.MemoryOf(d)
	if err != nil {
		return nil, err
	}
	if !m.Contiguous() {
		return nil, &DenseError{Tensor: fmt.Sprintf("a tensor of shape %v", d.Shape()), Reason: "its elements do not lie in row-major order"}
	}
	want := slices.Concat(o.node.In, o.node.Out)[at]
	if want == nil || want.Type.DType != m.DType || !sameShape(want, m.Shape) {
		return nil, &DenseError{Tensor: "a tensor of " + m.Array().String(), Reason: "it does not fit the node"}
	}
	return m.Array(), nil
}

// ReturnsPtr is true: the result is the memory that was given.
func (o *nodeOp) ReturnsPtr() bool { return true }

// CallsExtern is false: kernels are Go.
func (o *nodeOp) CallsExtern() bool { return false }

// OverwritesInput is -1: which result lies over which operand is berth's plan.
func (o *nodeOp) OverwritesInput() int { return -1 }

// WriteHash writes what tells ops apart: operator, attributes and types. Nodes of one ExprGraph with the same hash and
// operands are one.
func (o *nodeOp) WriteHash(h hash.Hash) {
	fmt.Fprintf(h, "%q%q%q", o.node.Domain, o.node.Op, o.node.Overload)
	for i := range o.node.Attrs {
		a := &o.node.Attrs[i]
		fmt.Fprintf(h, "%q%d:%d %b %q %v %b %q %v %p %p", a.Name, a.Kind, a.I, a.F, a.S, a.Ints, a.Floats, a.Strings, a.Type, a.Tensor, a.Tensors)
	}
	for _, v := range slices.Concat(o.node.In, o.node.Out) {
		if v != nil {
			fmt.Fprint(h, v.Type)
		}
	}
}

// Hashcode is a hash of what [nodeOp.WriteHash] writes.
func (o *nodeOp) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// String is the node.
func (o *nodeOp) String() string { return o.node.String() }
