package engine

import (
	"context"
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

// guarded runs an operation. Its error is an [*Error], also where it panics or the engine is none; beside an error the result
// is the zero value of its type, so that an interface is nil.
func guarded[T any](o *operations, op string, f func() (T, error)) (out T, err error) {
	defer naming(op, &err)
	defer rescue.Into(&err)
	if o == nil || o.self == nil {
		return out, errUnmade
	}
	got, err := f()
	if err != nil {
		return out, err
	}
	return got, nil
}

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
	return dense.ArrayOf(context.Background(), d)
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
		if a.Len() != 1 || t.Dtype() != dt {
			return nil, fmt.Errorf("a tensor of %s%v is not one element of %s", t.Dtype(), a.Shape, dt)
		}
		return a.Reshaped(), nil
	}
	if v == nil || reflect.TypeOf(v) != dt.Type {
		return nil, fmt.Errorf("a %T is no element of a tensor of %s", v, dt)
	}
	return dense.ArrayOf(context.Background(), tensor.New(tensor.FromScalar(v)))
}

// newArray is a new array for a result or on the way to one.
func newArray(dt ndarray.DType, shape []int) (*ndarray.Array, error) {
	a, err := ndarray.New(dt, shape...)
	if err != nil {
		return nil, fmt.Errorf("an array of %s%v: %w", dt, shape, err)
	}
	return a, nil
}

// fresh is a new tensor of the engine.
func (o *operations) fresh(dt tensor.Dtype, shape []int) (*tensor.Dense, error) {
	if o.self == nil {
		return nil, errUnmade
	}
	options := []tensor.ConsOpt{tensor.Of(dt), tensor.WithEngine(o.self), tensor.WithShape(shape...)}
	bytes, err := ndarray.ByteSize(dense.DTypeOf(dt.Type), shape)
	if err == nil {
		err = o.ask(dt, int64(bytes))
	}
	var d *tensor.Dense
	switch {
	case err != nil:
	case dt == tensor.String: // the default engine allocates bytes, in which the garbage collector sees no strings
		d = tensor.New(append(options, tensor.WithBacking(make([]string, ndarray.Product(shape))))...)
	default:
		d, err = allocated(options)
	}
	if err != nil {
		return nil, fmt.Errorf("a tensor of %s%v, %d bytes: %w", dt, shape, bytes, err)
	}
	return d, nil
}

// ask asks for the memory of a new tensor where package tensor allocates without a question; an arena asks itself.
func (o *operations) ask(dt tensor.Dtype, bytes int64) error {
	_, inArena := o.self.(*Arena)
	switch {
	case inArena && dt == tensor.String:
		return errors.New("strings have no place in an arena, whose memory the garbage collector does not look into")
	case inArena:
		return nil
	}
	return ndarray.Budget(0).Ask("a tensor", bytes)
}

// allocated is a new tensor. Package tensor panics with the error of [Arena.Alloc].
func allocated(options []tensor.ConsOpt) (_ *tensor.Dense, err error) {
	defer func() {
		if r := recover(); r != nil {
			refused, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			err = refused.Err
		}
	}()
	return tensor.New(options...), nil
}

// computing writes a result into an array of its type and shape.
type computing func(out *ndarray.Array) error

// optionsOf are the options of an operation.
func optionsOf(opts []tensor.FuncOpt) (*tensor.OpOpt, error) {
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("option %d is nil", i)
		}
	}
	return tensor.ParseFuncOpts(opts...), nil
}

// result computes what options say: into a new tensor, into that of WithReuse, over a with UseUnsafe, or added to that of
// WithIncr. dt is the result's type, which given tensors must have.
func (o *operations) result(a *tensor.Dense, dt tensor.Dtype, shape []int, f computing, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	given, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	if as := given.As(); as.Type != nil && as != dt {
		return nil, fmt.Errorf("the result has elements of type %s, not %s as the option As says", dt, as)
	}
	reuse, incr := given.IncrReuse()
	to := a
	switch {
	case reuse != nil:
		to, err = denseOf(reuse)
	case given.Safe():
		to, err = o.fresh(dt, shape)
	}
	switch {
	case err != nil:
		return nil, err
	case to.Dtype() != dt:
		return nil, typeError(to, dt)
	case incr && (dt == tensor.Bool || dt == tensor.String):
		return nil, fmt.Errorf("WithIncr adds numbers; the result has elements of type %s (comparisons give numbers with AsSameType)", dt)
	}
	return to, o.write(to, shape, f, incr)
}

// write computes a result of a shape into a tensor, or adds it to what is there. A tensor of another shape gets that of the
// result if it has as many elements. One that an error is returned for stays as it was.
func (o *operations) write(to *tensor.Dense, shape []int, f computing, incr bool) error {
	m, err := dense.MemoryOf(to)
	if err == nil {
		err = fits(to, &m, shape)
	}
	if err != nil {
		return err
	}
	same := slices.Equal(m.Shape, shape)
	if same && m.Contiguous() && !incr {
		return f(m.Array())
	}
	out, err := newArray(m.DType, shape)
	if err != nil {
		return err
	}
	if err := f(out); err != nil {
		return err
	}
	if incr {
		old, err := m.Packed(context.Background())
		if err != nil {
			return err
		}
		if err := o.kernels.run(out, "Add", nil, old.Reshaped(shape...), out); err != nil {
			return err
		}
	}
	if !same {
		if m, err = reshape(to, shape); err != nil {
			return err
		}
	}
	m.Store(out)
	return nil
}

// fits reports whether a tensor can take a result of a shape.
func fits(to *tensor.Dense, m *dense.Memory, shape []int) error {
	if slices.Equal(m.Shape, shape) {
		if m.Shared() {
			return &dense.Error{Tensor: fmt.Sprintf("a tensor of %s%v", to.Dtype(), m.Shape), Reason: "several of its elements have one place; no result can be written there"}
		}
		return nil
	}
	have, _ := ndarray.NumElems(m.Shape)
	need, err := ndarray.NumElems(shape)
	switch {
	case err != nil:
		return err
	case have != need:
		return fmt.Errorf("the tensor for a result of shape %v has shape %v", shape, m.Shape)
	case !m.Contiguous() && to.IsMaterializable():
		return fmt.Errorf("the tensor for a result of shape %v has shape %v, and as a slice or transposed it can not get another", shape, m.Shape)
	}
	return nil
}

// reshape gives a tensor another shape, or leaves it as it is.
func reshape(to *tensor.Dense, shape []int) (dense.Memory, error) {
	before := to.Info().Clone()
	err := to.Reshape(shape...)
	var m dense.Memory
	if err == nil {
		m, err = dense.MemoryOf(to)
	}
	if err != nil {
		*to.Info() = before
		return m, fmt.Errorf("the tensor for a result of shape %v: %w", shape, err)
	}
	return m, nil
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
	out, err := newArray(dt, shape)
	if err != nil {
		return nil, err
	}
	return out, o.kernels.run(out, op, attrs, in...)
}

// elementwise runs an operator on tensors of one shape and type.
func (o *operations) elementwise(op string, attrs []ssa.Attr, opts []tensor.FuncOpt, ts ...tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		in, err := sameArrays(ts...)
		if err != nil {
			return nil, err
		}
		a := ts[0].(*tensor.Dense)
		return o.result(a, a.Dtype(), in[0].Shape, func(out *ndarray.Array) error { return o.kernels.run(out, op, attrs, in...) }, opts)
	})
}

// withScalar runs a binary operator on a tensor and a scalar, which is the second operand if the tensor is the left one.
func (o *operations) withScalar(op string, attrs []ssa.Attr, t tensor.Tensor, scalar any, left bool, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, op, func() (tensor.Tensor, error) {
		in, err := operandsWith(t, scalar, left)
		if err != nil {
			return nil, err
		}
		a := t.(*tensor.Dense)
		return o.result(a, a.Dtype(), slices.Clone(a.Shape()), func(out *ndarray.Array) error { return o.kernels.run(out, op, attrs, in...) }, opts)
	})
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
	for i, a := range in {
		if !slices.Equal(a.Shape, in[0].Shape) {
			return nil, fmt.Errorf("tensors of %s%v and %s%v must have one type and shape", ts[0].Dtype(), in[0].Shape, ts[i].Dtype(), a.Shape)
		}
	}
	return in, sameType(ts...)
}

// sameType is an error for tensors of several element types.
func sameType(ts ...tensor.Tensor) error {
	for _, t := range ts {
		if t.Dtype() != ts[0].Dtype() {
			return fmt.Errorf("tensors of %s and %s must have one type", ts[0].Dtype(), t.Dtype())
		}
	}
	return nil
}

// viewed is a tensor of the default engine in row-major order, which must only be read.
func viewed(t tensor.Tensor) (*tensor.Dense, error) {
	a, err := arrayOf(t)
	if err != nil {
		return nil, err
	}
	return goTyped(a, t.Dtype()), nil
}

// plain is a copy of a tensor in row-major order, of the default engine.
func plain(t tensor.Tensor) (*tensor.Dense, error) {
	a, err := arrayOf(t)
	if err != nil {
		return nil, err
	}
	c, err := newArray(a.DType, a.Shape)
	if err != nil {
		return nil, err
	}
	copyElements(c, a)
	return goTyped(c, t.Dtype()), nil
}

// goTyped is a tensor of the default engine over an array, of a Go type for its elements.
func goTyped(a *ndarray.Array, dt tensor.Dtype) *tensor.Dense {
	return tensor.New(tensor.WithShape(a.Shape...), tensor.WithBacking(dense.Backing(dt.Type, a)))
}

// copyElements copies between arrays of one type and as many elements.
func copyElements(to, from *ndarray.Array) {
	copy(to.Data, from.Data)
	copy(to.Str, from.Str)
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
	return o.result(d, got.Dtype(), from.Shape, func(out *ndarray.Array) error { copyElements(out, from); return nil }, opts)
}
