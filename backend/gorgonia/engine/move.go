package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Transpose is [Engine.Transpose].
func (o *operations) Transpose(t tensor.Tensor, expStrides []int) error {
	_, err := guarded(o, "Transpose", func() (any, error) {
		d, err := denseOf(t)
		if err != nil {
			return nil, err
		}
		m, err := dense.MemoryOf(d)
		if err != nil {
			return nil, err
		}
		a, err := m.Packed(context.Background())
		if err != nil {
			return nil, err
		}
		if d.DataSize() != a.Len() {
			return nil, &dense.Error{Tensor: fmt.Sprintf("a view of shape %v", d.Shape()), Reason: "its elements can not be moved; Materialize it first"}
		}
		if m.Contiguous() {
			from := a
			if a, err = newArray(a.DType, a.Shape); err != nil {
				return nil, err
			}
			copyElements(a, from)
		}
		return nil, m.Move(a, expStrides)
	})
	return err
}

// Concat is [Engine.Concat].
func (o *operations) Concat(t tensor.Tensor, axis int, others ...tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, "Concat", func() (tensor.Tensor, error) {
		ts := append([]tensor.Tensor{t}, others...)
		in, err := arraysOf(ts...)
		if err == nil {
			err = sameType(ts...)
		}
		if err != nil {
			return nil, err
		}
		return o.join(t.(*tensor.Dense), axis, in)
	})
}

// join joins arrays along an axis; a negative one counts from the last.
func (o *operations) join(t *tensor.Dense, axis int, in []*ndarray.Array) (*tensor.Dense, error) {
	along := axis
	if along < 0 {
		along += in[0].Rank()
	}
	if along < 0 || along >= in[0].Rank() {
		return nil, fmt.Errorf("joining tensors like %s along axis %d", in[0], axis)
	}
	shape := slices.Clone(in[0].Shape)
	for _, a := range in[1:] {
		if a.Rank() != len(shape) {
			return nil, fmt.Errorf("joining %s and %s", in[0], a)
		}
		for i, n := range a.Shape {
			switch {
			case i != along && n != shape[i]:
				return nil, fmt.Errorf("joining %s and %s along axis %d", in[0], a, axis)
			case i == along && n > math.MaxInt-shape[i]: // of tensors without elements
				return nil, ndarray.ErrSize
			case i == along:
				shape[i] += n
			}
		}
	}
	to, err := o.fresh(t.Dtype(), shape)
	if err != nil {
		return nil, err
	}
	attrs := []ssa.Attr{ssa.IntAttr("axis", int64(along))}
	return to, o.write(to, shape, func(out *ndarray.Array) error { return o.kernels.run(out, "Concat", attrs, in...) }, false)
}

// Stack is [Engine.Stack].
func (o *operations) Stack(t tensor.Tensor, axis int, others ...tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, "Stack", func() (tensor.Tensor, error) { return o.stack(axis, append([]tensor.Tensor{t}, others...)) })
}

// StackDense is [Engine.StackDense].
func (o *operations) StackDense(t tensor.DenseTensor, axis int, others ...tensor.DenseTensor) (tensor.DenseTensor, error) {
	return guarded(o, "StackDense", func() (tensor.DenseTensor, error) {
		ts := []tensor.Tensor{t}
		for _, other := range others {
			ts = append(ts, other)
		}
		return o.stack(axis, ts)
	})
}

func (o *operations) stack(axis int, ts []tensor.Tensor) (*tensor.Dense, error) {
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

// SelectByIndices is [Engine.SelectByIndices].
func (o *operations) SelectByIndices(a, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, "SelectByIndices", func() (tensor.Tensor, error) {
		x, index, err := o.selection(a, indices, axis)
		if err != nil {
			return nil, err
		}
		shape := slices.Clone(x.Shape)
		shape[axis] = index.Len()
		attrs := []ssa.Attr{ssa.IntAttr("axis", int64(axis))}
		return o.result(a.(*tensor.Dense), a.Dtype(), shape, func(out *ndarray.Array) error { return o.kernels.run(out, "Gather", attrs, x, index) }, opts)
	})
}

// selection is a tensor and the vector of indices, in 64 bits, of slices along its axis.
func (o *operations) selection(a, indices tensor.Tensor, axis int) (x, index *ndarray.Array, err error) {
	in, err := arraysOf(a, indices)
	switch {
	case err != nil:
		return nil, nil, err
	case axis < 0 || axis >= in[0].Rank():
		return nil, nil, fmt.Errorf("%s has no axis %d", in[0], axis)
	case in[1].Rank() != 1 || !in[1].DType.IsInteger():
		return nil, nil, fmt.Errorf("indices are a vector of integers, not %s", in[1])
	}
	if err := inRange(in[1]); err != nil {
		return nil, nil, err
	}
	index, err = o.convert(in[1], ndarray.Int64)
	return in[0], index, err
}

// inRange refuses indices that are negative as integers of 64 bits with a sign, and would count from the last.
func inRange(indices *ndarray.Array) error {
	if indices.DType != ndarray.Uint64 {
		return nil
	}
	for i := range indices.Len() {
		if n := uint64(indices.Int(i)); n > math.MaxInt64 {
			return fmt.Errorf("index %d, at %d of the indices, is beyond every axis", n, i)
		}
	}
	return nil
}

// SelectByIndicesB is [Engine.SelectByIndicesB].
func (o *operations) SelectByIndicesB(input, outGrad, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, "SelectByIndicesB", func() (tensor.Tensor, error) {
		x, index, err := o.selection(input, indices, axis)
		if err != nil {
			return nil, err
		}
		g, err := arrayOf(outGrad)
		if err == nil {
			err = sameType(input, outGrad)
		}
		if err != nil {
			return nil, err
		}
		shape := slices.Clone(x.Shape)
		shape[axis] = index.Len()
		if !slices.Equal(g.Shape, shape) {
			return nil, fmt.Errorf("the gradient of a result of shape %v has shape %v", shape, g.Shape)
		}
		return o.result(input.(*tensor.Dense), input.Dtype(), x.Shape, func(out *ndarray.Array) error { return o.scatter(out, g, index, axis) }, opts)
	})
}

// scatter adds slices along an axis to zeros.
func (o *operations) scatter(out, slices, index *ndarray.Array, axis int) error {
	zeros, err := newArray(out.DType, out.Shape)
	if err != nil {
		return err
	}
	at, err := newArray(ndarray.Int64, slices.Shape)
	if err != nil {
		return err
	}
	inner := ndarray.Product(slices.Shape[axis+1:])
	for i := range at.Len() {
		at.SetInt(i, index.Int(i/inner%index.Len()))
	}
	attrs := []ssa.Attr{ssa.IntAttr("axis", int64(axis)), ssa.StringAttr("reduction", "add")}
	return o.kernels.run(out, "ScatterElements", attrs, zeros, at, slices)
}

// Diag is [Engine.Diag].
func (o *operations) Diag(a tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, "Diag", func() (tensor.Tensor, error) {
		x, err := arrayOf(a)
		switch {
		case err != nil:
			return nil, err
		case x.Rank() != 2 || x.DType == ndarray.Bool || x.DType == ndarray.String:
			return nil, fmt.Errorf("%s is no matrix of numbers", x)
		}
		return o.result(a.(*tensor.Dense), a.Dtype(), x.Shape, func(out *ndarray.Array) error {
			clear(out.Data)
			size := x.DType.Size()
			for i := range min(x.Shape[0], x.Shape[1]) {
				at := i * (x.Shape[1] + 1) * size
				copy(out.Data[at:at+size], x.Data[at:])
			}
			return nil
		}, nil)
	})
}
