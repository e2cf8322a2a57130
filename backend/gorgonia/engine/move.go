package engine

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Transpose moves elements to the strides they are to have. The tensor must have all of its memory: the elements of a
// window would be moved over those beside it.
func (o *operations) Transpose(t tensor.Tensor, expStrides []int) (err error) {
	defer naming("Transpose", &err)
	defer rescue.Into(&err)
	d, err := denseOf(t)
	if err != nil {
		return err
	}
	m, err := dense.MemoryOf(d)
	if err != nil {
		return err
	}
	a, err := m.Packed()
	if err != nil {
		return err
	}
	if d.DataSize() != a.Len() {
		return &dense.Error{Tensor: fmt.Sprintf("a view of shape %v", d.Shape()), Reason: "its elements can not be moved; Materialize it first"}
	}
	if m.Contiguous() {
		a = a.Clone()
	}
	return m.Move(a, expStrides)
}

// Concat joins tensors along an axis.
func (o *operations) Concat(t tensor.Tensor, axis int, others ...tensor.Tensor) (_ tensor.Tensor, err error) {
	defer naming("Concat", &err)
	defer rescue.Into(&err)
	in, err := arraysOf(append([]tensor.Tensor{t}, others...)...)
	if err != nil {
		return nil, err
	}
	return o.join(t.(*tensor.Dense), axis, in)
}

func (o *operations) join(t *tensor.Dense, axis int, in []*ndarray.Array) (*tensor.Dense, error) {
	if axis < 0 {
		axis += in[0].Rank()
	}
	if axis < 0 || axis >= in[0].Rank() {
		return nil, fmt.Errorf("joining tensors like %s along axis %d", in[0], axis)
	}
	shape := slices.Clone(in[0].Shape)
	for _, a := range in[1:] {
		if a.Rank() != len(shape) {
			return nil, fmt.Errorf("joining %s and %s", in[0], a)
		}
		shape[axis] += a.Shape[axis]
	}
	to, err := o.fresh(t.Dtype(), shape)
	if err != nil {
		return nil, err
	}
	attrs := []ssa.Attr{ssa.IntAttr("axis", int64(axis))}
	return to, o.write(to, in[0].DType, func(out *ndarray.Array) error { return o.kernels.run(out, "Concat", attrs, in...) }, false)
}

// Stack joins tensors along a new axis.
func (o *operations) Stack(t tensor.Tensor, axis int, others ...tensor.Tensor) (_ tensor.Tensor, err error) {
	return o.stack(axis, append([]tensor.Tensor{t}, others...))
}

// StackDense is Stack.
func (o *operations) StackDense(t tensor.DenseTensor, axis int, others ...tensor.DenseTensor) (tensor.DenseTensor, error) {
	ts := []tensor.Tensor{t}
	for _, other := range others {
		ts = append(ts, other)
	}
	return o.stack(axis, ts)
}

func (o *operations) stack(axis int, ts []tensor.Tensor) (_ *tensor.Dense, err error) {
	defer naming("Stack", &err)
	defer rescue.Into(&err)
	in, err := sameArrays(ts...)
	if err != nil {
		return nil, err
	}
	if axis < 0 || axis > in[0].Rank() {
		return nil, fmt.Errorf("stacking tensors like %s along axis %d", in[0], axis)
	}
	for i, a := range in {
		in[i] = a.Reshaped(slices.Insert(slices.Clone(a.Shape), axis, 1)...)
	}
	return o.join(ts[0].(*tensor.Dense), axis, in)
}

// SelectByIndices takes the slices of a along an axis that a vector of indices names.
func (o *operations) SelectByIndices(a, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (_ tensor.Tensor, err error) {
	defer naming("SelectByIndices", &err)
	defer rescue.Into(&err)
	in, err := arraysOf(a, indices)
	if err != nil {
		return nil, err
	}
	if axis < 0 || axis >= in[0].Rank() || in[1].Rank() != 1 {
		return nil, fmt.Errorf("selecting by %s from %s along axis %d", in[1], in[0], axis)
	}
	shape := slices.Clone(in[0].Shape)
	shape[axis] = in[1].Len()
	attrs := []ssa.Attr{ssa.IntAttr("axis", int64(axis))}
	return o.result(a.(*tensor.Dense), a.Dtype(), shape, func(out *ndarray.Array) error { return o.kernels.run(out, "Gather", attrs, in...) }, opts)
}

// SelectByIndicesB is the gradient of SelectByIndices, by the default engine.
func (o *operations) SelectByIndicesB(input, outGrad, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (_ tensor.Tensor, err error) {
	defer naming("SelectByIndicesB", &err)
	defer rescue.Into(&err)
	var plains [3]*tensor.Dense
	for i, t := range []tensor.Tensor{input, outGrad, indices} {
		if plains[i], err = plain(t); err != nil {
			return nil, err
		}
	}
	got, err := stock.SelectByIndicesB(plains[0], plains[1], plains[2], axis)
	if err != nil {
		return nil, err
	}
	return o.copied(input, got, opts)
}

// Repeat repeats elements along an axis, by the default engine.
func (o *operations) Repeat(t tensor.Tensor, axis int, repeats ...int) (_ tensor.Tensor, err error) {
	return o.repeat(t, axis, repeats, nil)
}

// RepeatReuse is Repeat into the memory of a tensor.
func (o *operations) RepeatReuse(t, reuse tensor.Tensor, axis int, repeats ...int) (tensor.Tensor, error) {
	return o.repeat(t, axis, repeats, []tensor.FuncOpt{tensor.WithReuse(reuse)})
}

func (o *operations) repeat(t tensor.Tensor, axis int, repeats []int, opts []tensor.FuncOpt) (_ tensor.Tensor, err error) {
	defer naming("Repeat", &err)
	defer rescue.Into(&err)
	if slices.ContainsFunc(repeats, func(n int) bool { return n < 0 }) {
		return nil, fmt.Errorf("repeating %v times", repeats)
	}
	c, err := plain(t)
	if err != nil {
		return nil, err
	}
	got, err := stock.Repeat(c, axis, repeats...)
	if err != nil {
		return nil, err
	}
	return o.copied(t, got, opts)
}

// Diag is a matrix with a vector's elements on its diagonal, by the default engine.
func (o *operations) Diag(a tensor.Tensor) (_ tensor.Tensor, err error) {
	defer naming("Diag", &err)
	defer rescue.Into(&err)
	c, err := plain(a)
	if err != nil {
		return nil, err
	}
	got, err := stock.Diag(c)
	if err != nil {
		return nil, err
	}
	return o.copied(a, got, nil)
}
