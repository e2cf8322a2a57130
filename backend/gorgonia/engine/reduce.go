package engine

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

var withoutAxes = []ssa.Attr{ssa.IntAttr("keepdims", 0)}

// Sum is [Engine.Sum].
func (o *operations) Sum(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return o.reduce("ReduceSum", a, along)
}

// Prod is [Engine.Prod].
func (o *operations) Prod(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return o.reduce("ReduceProd", a, along)
}

// Min is [Engine.Min].
func (o *operations) Min(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return o.reduce("ReduceMin", a, along)
}

// Max is [Engine.Max].
func (o *operations) Max(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return o.reduce("ReduceMax", a, along)
}

func (o *operations) reduce(op string, t tensor.Tensor, along []int) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		a, err := arrayOf(t)
		if err != nil {
			return nil, err
		}
		in := []*ndarray.Array{a}
		var shape []int
		if len(along) > 0 {
			axes, err := axesOf(a, along)
			if err != nil {
				return nil, err
			}
			in = append(in, ndarray.Of(axes, len(axes)))
			for i, n := range a.Shape {
				if !slices.Contains(axes, int64(i)) {
					shape = append(shape, n)
				}
			}
		}
		d := t.(*tensor.Dense)
		return o.result(d, d.Dtype(), shape, func(out *ndarray.Array) error { return o.kernels.run(out, op, withoutAxes, in...) }, nil)
	})
}

// axesOf are axes counted from the first, each of which must be named once.
func axesOf(a *ndarray.Array, along []int) ([]int64, error) {
	axes := make([]int64, 0, a.Rank())
	for _, axis := range along {
		i := axis
		if i < 0 {
			i += a.Rank()
		}
		switch {
		case i < 0 || i >= a.Rank():
			return nil, fmt.Errorf("%s has no axis %d", a, axis)
		case slices.Contains(axes, int64(i)):
			return nil, fmt.Errorf("axis %d of %s is named twice", axis, a)
		}
		axes = append(axes, int64(i))
	}
	return axes, nil
}

// Argmax is [Engine.Argmax].
func (o *operations) Argmax(t tensor.Tensor, axis int) (tensor.Tensor, error) {
	return o.argument("ArgMax", t, axis)
}

// Argmin is [Engine.Argmin].
func (o *operations) Argmin(t tensor.Tensor, axis int) (tensor.Tensor, error) {
	return o.argument("ArgMin", t, axis)
}

func (o *operations) argument(op string, t tensor.Tensor, axis int) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		a, err := arrayOf(t)
		if err != nil {
			return nil, err
		}
		switch {
		case axis == tensor.AllAxes:
			a, axis = a.Reshaped(a.Len()), 0
		case axis < 0 || axis >= a.Rank():
			return nil, fmt.Errorf("%s has no axis %d", a, axis)
		}
		shape := slices.Delete(slices.Clone(a.Shape), axis, axis+1)
		attrs := []ssa.Attr{ssa.IntAttr("axis", int64(axis)), ssa.IntAttr("keepdims", 0)}
		return o.result(t.(*tensor.Dense), tensor.Int, shape, func(out *ndarray.Array) error {
			index, err := o.compute(ndarray.Int64, shape, op, attrs, a)
			if err == nil {
				index, err = o.convert(index, out.DType)
			}
			if err == nil {
				copyElements(out, index)
			}
			return err
		}, nil)
	})
}

// Reduce is [Engine.Reduce].
func (o *operations) Reduce(fn any, a tensor.Tensor, axis int, defaultValue any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.reduceBy("Reduce", a, axis, opts, []any{fn}, func(c tensor.Tensor, axis int) (tensor.Tensor, error) {
		return stock.Reduce(fn, c, axis, defaultValue)
	})
}

// OptimizedReduce is [Engine.OptimizedReduce].
func (o *operations) OptimizedReduce(a tensor.Tensor, axis int, first, last, inner, defaultValue any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.reduceBy("OptimizedReduce", a, axis, opts, []any{first, last, inner}, func(c tensor.Tensor, axis int) (tensor.Tensor, error) {
		return stock.OptimizedReduce(c, axis, first, last, inner, defaultValue)
	})
}

// reduceBy reduces a copy by the default engine. That reads wrong elements along an inner axis of more than three dimensions,
// so that those before the axis, and those behind it, are one.
func (o *operations) reduceBy(op string, a tensor.Tensor, axis int, opts []tensor.FuncOpt, fns []any, f func(c tensor.Tensor, axis int) (tensor.Tensor, error)) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		c, err := plain(a)
		if err != nil {
			return nil, err
		}
		for _, fn := range fns {
			if err := isFunction(fn); err != nil {
				return nil, err
			}
		}
		shape := slices.Clone([]int(c.Shape()))
		if axis < 0 || axis >= len(shape) || slices.Contains(shape, 0) {
			return nil, fmt.Errorf("a tensor of %s%v can not be reduced along axis %d", a.Dtype(), shape, axis)
		}
		along := axis
		if axis > 0 && axis < len(shape)-1 {
			along = 1
			if err := c.Reshape(ndarray.Product(shape[:axis]), shape[axis], ndarray.Product(shape[axis+1:])); err != nil {
				return nil, err
			}
		}
		got, err := calling(func() (tensor.Tensor, error) { return f(c, along) })
		if err != nil {
			return nil, err
		}
		from, err := arrayOf(got)
		if err != nil {
			return nil, err
		}
		return o.result(a.(*tensor.Dense), a.Dtype(), slices.Delete(shape, axis, axis+1), func(out *ndarray.Array) error { copyElements(out, from); return nil }, opts)
	})
}

// SoftMax is [Engine.SoftMax].
func (o *operations) SoftMax(x tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.softmax("Softmax", x, axis, opts)
}

// LogSoftMax is [Engine.LogSoftMax].
func (o *operations) LogSoftMax(x tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.softmax("LogSoftmax", x, axis, opts)
}

func (o *operations) softmax(op string, x tensor.Tensor, axis int, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise(op, []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, opts, x)
}

// SoftMaxB is [Engine.SoftMaxB].
func (o *operations) SoftMaxB(output, grad tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.softmaxGradient("SoftMaxB", output, grad, axis, opts, func(y, g, out *ndarray.Array) error {
		product, err := o.compute(y.DType, y.Shape, "Mul", nil, g, y)
		if err != nil {
			return err
		}
		sum, err := o.sumAlong(product, axis)
		if err != nil {
			return err
		}
		if err := o.kernels.run(product, "Sub", nil, g, sum); err != nil {
			return err
		}
		return o.kernels.run(out, "Mul", nil, product, y)
	})
}

// LogSoftMaxB is [Engine.LogSoftMaxB].
func (o *operations) LogSoftMaxB(output, grad tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.softmaxGradient("LogSoftMaxB", output, grad, axis, opts, func(y, g, out *ndarray.Array) error {
		p, err := o.compute(y.DType, y.Shape, "Exp", nil, y)
		if err != nil {
			return err
		}
		sum, err := o.sumAlong(g, axis)
		if err != nil {
			return err
		}
		if err := o.kernels.run(p, "Mul", nil, p, sum); err != nil {
			return err
		}
		return o.kernels.run(out, "Sub", nil, g, p)
	})
}

func (o *operations) softmaxGradient(op string, output, grad tensor.Tensor, axis int, opts []tensor.FuncOpt, f func(y, g, out *ndarray.Array) error) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		in, err := sameArrays(output, grad)
		if err != nil {
			return nil, err
		}
		if r := in[0].Rank(); axis < -r || axis >= r {
			return nil, fmt.Errorf("softmax of %s along axis %d: %w", in[0], axis, ops.ErrUnsupported)
		}
		d := output.(*tensor.Dense)
		return o.result(d, d.Dtype(), in[0].Shape, func(out *ndarray.Array) error { return f(in[0], in[1], out) }, opts)
	})
}

// sumAlong adds up along an axis, which stays with length 1.
func (o *operations) sumAlong(a *ndarray.Array, axis int) (*ndarray.Array, error) {
	shape := slices.Clone(a.Shape)
	if axis < 0 {
		axis += a.Rank()
	}
	shape[axis] = 1
	axes := ndarray.Of([]int64{int64(axis)}, 1)
	return o.compute(a.DType, shape, "ReduceSum", []ssa.Attr{ssa.IntAttr("keepdims", 1)}, a, axes)
}
