package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// operations are those of an engine, the methods of package tensor's interfaces.
type operations struct {
	self    tensor.Engine // what results have for an engine
	kernels *kernels
}

func newOperations(self tensor.Engine) operations { return operations{self, newKernels()} }

// stock is the default engine, for what has no operator in ONNX.
var stock tensor.StdEng

// denseOf is a tensor of dense memory.
func denseOf(t tensor.Tensor) (*tensor.Dense, error) {
	d, ok := t.(*tensor.Dense)
	if !ok || d == nil {
		return nil, &dense.Error{Tensor: fmt.Sprintf("a %T", t), Reason: "it is no *tensor.Dense"}
	}
	return d, nil
}

// arrayOf is the elements of a tensor in row-major order.
func arrayOf(t tensor.Tensor) (*ndarray.Array, error) {
	d, err := denseOf(t)
	if err != nil {
		return nil, err
	}
	return dense.ArrayOf(d)
}

func arraysOf(ts ...tensor.Tensor) ([]*ndarray.Array, error) {
	out := make([]*ndarray.Array, len(ts))
	for i, t := range ts {
		a, err := arrayOf(t)
		if err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}

// scalarOf is the one element that a Go value, or a tensor of one element, stands for, of a type.
func scalarOf(v any, dt tensor.Dtype) (*ndarray.Array, error) {
	if t, ok := v.(tensor.Tensor); ok {
		a, err := arrayOf(t)
		if err != nil {
			return nil, err
		}
		if a.Len() != 1 || a.DType != dense.DTypeOf(dt.Type) {
			return nil, fmt.Errorf("%s is not one element of %s", a, dt)
		}
		return a.Reshaped(), nil
	}
	if v == nil || reflect.TypeOf(v) != dt.Type {
		return nil, fmt.Errorf("a %T is no element of a tensor of %s", v, dt)
	}
	return dense.ArrayOf(tensor.New(tensor.FromScalar(v)))
}

// fresh is a new tensor of the engine.
func (o *operations) fresh(dt tensor.Dtype, shape []int) (*tensor.Dense, error) {
	if o.self == nil {
		return nil, errUnmade
	}
	if _, inArena := o.self.(*Arena); inArena && dt == tensor.String {
		return nil, errors.New("strings have no place in an arena, whose memory the garbage collector does not look into")
	}
	return tensor.New(tensor.Of(dt), tensor.WithEngine(o.self), tensor.WithShape(shape...)), nil
}

// computing writes a result into an array of its type and shape.
type computing func(out *ndarray.Array) error

// result computes what options say: into a new tensor, into that of WithReuse, over a with UseUnsafe, or added to that of
// WithIncr. dt is the result's type, which given tensors must have.
func (o *operations) result(a *tensor.Dense, dt tensor.Dtype, shape []int, f computing, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	given := tensor.ParseFuncOpts(opts...)
	reuse, incr := given.IncrReuse()
	to, err := a, error(nil)
	switch {
	case reuse != nil:
		to, err = denseOf(reuse)
	case given.Safe():
		to, err = o.fresh(dt, shape)
	}
	if err != nil {
		return nil, err
	}
	if to.Dtype() != dt {
		return nil, typeError(to, dt)
	}
	if err := fit(to, shape); err != nil {
		return nil, err
	}
	if err := o.write(to, dense.DTypeOf(dt.Type), f, incr); err != nil {
		return nil, err
	}
	return to, nil
}

// fit gives a tensor for a result the result's shape, if it has as many elements.
func fit(to *tensor.Dense, shape []int) error {
	if to.Shape().Eq(tensor.Shape(shape)) {
		return nil
	}
	if err := to.Reshape(shape...); err != nil {
		return fmt.Errorf("the tensor for a result of shape %v: %w", shape, err)
	}
	return nil
}

// write computes a result of a type into a tensor's memory, or adds it to what is there.
func (o *operations) write(to *tensor.Dense, dt ndarray.DType, f computing, incr bool) error {
	m, err := dense.MemoryOf(to)
	if err != nil {
		return err
	}
	direct := m.Contiguous() && !incr && m.DType == dt
	var out *ndarray.Array
	if direct {
		out = m.Array()
	} else if out, err = ndarray.New(dt, m.Shape...); err != nil {
		return err
	}
	if err := f(out); err != nil || direct {
		return err
	}
	if out, err = o.convert(out, m.DType); err != nil {
		return err
	}
	if incr {
		old, err := m.Packed()
		if err != nil {
			return err
		}
		if err := o.kernels.run(out, "Add", nil, old, out); err != nil {
			return err
		}
	}
	m.Store(out)
	return nil
}

// convert casts elements to a type.
func (o *operations) convert(a *ndarray.Array, dt ndarray.DType) (*ndarray.Array, error) {
	if a.DType == dt {
		return a, nil
	}
	return o.compute(dt, a.Shape, "Cast", []ssa.Attr{ssa.IntAttr("to", int64(dt))}, a)
}

// compute runs an operator into a new array.
func (o *operations) compute(dt ndarray.DType, shape []int, op string, attrs []ssa.Attr, in ...*ndarray.Array) (*ndarray.Array, error) {
	out, err := ndarray.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	return out, o.kernels.run(out, op, attrs, in...)
}

// elementwise runs an operator on tensors of one shape and type.
func (o *operations) elementwise(op string, attrs []ssa.Attr, opts []tensor.FuncOpt, ts ...tensor.Tensor) (_ tensor.Tensor, err error) {
	defer naming(op, &err)
	defer rescue.Into(&err)
	in, err := sameArrays(ts...)
	if err != nil {
		return nil, err
	}
	a := ts[0].(*tensor.Dense)
	return o.result(a, a.Dtype(), in[0].Shape, func(out *ndarray.Array) error { return o.kernels.run(out, op, attrs, in...) }, opts)
}

// withScalar runs a binary operator on a tensor and a scalar, which is the second operand if the tensor is the left one.
func (o *operations) withScalar(op string, attrs []ssa.Attr, t tensor.Tensor, scalar any, left bool, opts []tensor.FuncOpt) (_ tensor.Tensor, err error) {
	defer naming(op, &err)
	defer rescue.Into(&err)
	in, err := operandsWith(t, scalar, left)
	if err != nil {
		return nil, err
	}
	a := t.(*tensor.Dense)
	return o.result(a, a.Dtype(), a.Shape().Clone(), func(out *ndarray.Array) error { return o.kernels.run(out, op, attrs, in...) }, opts)
}

// operandsWith is a tensor and a scalar, in their order.
func operandsWith(t tensor.Tensor, scalar any, left bool) ([]*ndarray.Array, error) {
	a, err := arrayOf(t)
	if err != nil {
		return nil, err
	}
	s, err := scalarOf(scalar, t.Dtype())
	if err != nil {
		return nil, err
	}
	if left {
		return []*ndarray.Array{a, s}, nil
	}
	return []*ndarray.Array{s, a}, nil
}

// sameArrays are the elements of tensors of one type and shape.
func sameArrays(ts ...tensor.Tensor) ([]*ndarray.Array, error) {
	in, err := arraysOf(ts...)
	if err != nil {
		return nil, err
	}
	for _, a := range in {
		if a.DType != in[0].DType || !slices.Equal(a.Shape, in[0].Shape) {
			return nil, fmt.Errorf("%s and %s must have one type and shape", in[0], a)
		}
	}
	return in, nil
}

// plain is a copy of a tensor in row-major order, of the default engine.
func plain(t tensor.Tensor) (*tensor.Dense, error) {
	a, err := arrayOf(t)
	if err != nil {
		return nil, err
	}
	c := tensor.New(tensor.Of(t.Dtype()), tensor.WithShape(a.Shape...))
	m, err := dense.MemoryOf(c)
	if err != nil {
		return nil, err
	}
	m.Store(a)
	return c, nil
}

// copied is a result of the default engine, copied to where the options of an operation on a say.
func (o *operations) copied(a, got tensor.Tensor, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	d, err := denseOf(a)
	if err != nil {
		return nil, err
	}
	from, err := arrayOf(got)
	if err != nil {
		return nil, err
	}
	return o.result(d, got.Dtype(), from.Shape, func(out *ndarray.Array) error {
		copy(out.Data, from.Data)
		copy(out.Str, from.Str)
		return nil
	}, opts)
}
