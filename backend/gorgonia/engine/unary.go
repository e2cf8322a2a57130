package engine

import (
	"fmt"
	"math"
	"reflect"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Neg is [Engine.Neg].
func (o *operations) Neg(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Neg", nil, opts, a)
}

// Inv is [Engine.Inv].
func (o *operations) Inv(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Reciprocal", nil, opts, a)
}

// Exp is [Engine.Exp].
func (o *operations) Exp(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Exp", nil, opts, a)
}

// Tanh is [Engine.Tanh].
func (o *operations) Tanh(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Tanh", nil, opts, a)
}

// Log is [Engine.Log].
func (o *operations) Log(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Log", nil, opts, a)
}

// Sqrt is [Engine.Sqrt].
func (o *operations) Sqrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Sqrt", nil, opts, a)
}

// Sign is [Engine.Sign].
func (o *operations) Sign(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Sign", nil, opts, a)
}

// Abs is [Engine.Abs].
func (o *operations) Abs(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Abs", nil, opts, a)
}

// Square is [Engine.Square].
func (o *operations) Square(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.Mul(a, a, opts...)
}

// Cube is [Engine.Cube].
func (o *operations) Cube(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, "Cube", func() (tensor.Tensor, error) {
		x, err := arrayOf(a)
		if err != nil {
			return nil, err
		}
		return o.result(a.(*tensor.Dense), a.Dtype(), x.Shape, func(out *ndarray.Array) error {
			square, err := o.compute(x.DType, x.Shape, "Mul", nil, x, x)
			if err != nil {
				return err
			}
			return o.kernels.run(out, "Mul", nil, square, x)
		}, opts)
	})
}

// Log2 is [Engine.Log2].
func (o *operations) Log2(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.function("Log2", math.Log2, a, opts)
}

// Log10 is [Engine.Log10].
func (o *operations) Log10(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.function("Log10", math.Log10, a, opts)
}

// Cbrt is [Engine.Cbrt].
func (o *operations) Cbrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.function("Cbrt", math.Cbrt, a, opts)
}

// InvSqrt is [Engine.InvSqrt].
func (o *operations) InvSqrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.function("InvSqrt", inverseRoot, a, opts)
}

func inverseRoot(x float64) float64 { return 1 / math.Sqrt(x) }

// function applies a function that has no operator, in float64.
func (o *operations) function(name string, f func(float64) float64, a tensor.Tensor, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, name, func() (tensor.Tensor, error) {
		x, err := arrayOf(a)
		if err != nil {
			return nil, err
		}
		if !x.DType.IsFloat() {
			return nil, fmt.Errorf("of %s: %w", x, ops.ErrUnsupported)
		}
		apply := func(out *ndarray.Array) error {
			for i := range x.Len() {
				out.SetFloat(i, f(x.Float(i)))
			}
			return nil
		}
		return o.result(a.(*tensor.Dense), a.Dtype(), x.Shape, func(out *ndarray.Array) error {
			if !isApart(out, x, true) {
				return elsewhere(out, apply)
			}
			return apply(out)
		}, opts)
	})
}

// Clamp is [Engine.Clamp].
func (o *operations) Clamp(a tensor.Tensor, lowest, highest any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, "Clamp", func() (tensor.Tensor, error) {
		in, err := operandsWith(a, lowest, true)
		if err != nil {
			return nil, err
		}
		most, err := scalarOf(highest, a.Dtype())
		if err != nil {
			return nil, err
		}
		return o.result(a.(*tensor.Dense), a.Dtype(), in[0].Shape, func(out *ndarray.Array) error {
			return o.kernels.run(out, "Clip", nil, in[0], in[1], most)
		}, opts)
	})
}

// Map is [Engine.Map].
func (o *operations) Map(fn any, a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, "Map", func() (tensor.Tensor, error) {
		c, err := plain(a)
		if err == nil {
			err = isFunction(fn)
		}
		if err != nil {
			return nil, err
		}
		if c.Shape().TotalSize() == 0 { // on which the default engine panics
			return o.copied(a, c, opts)
		}
		mapped, err := calling(func() (tensor.Tensor, error) { return stock.Map(fn, c, tensor.UseUnsafe()) })
		if err != nil {
			return nil, err
		}
		return o.copied(a, mapped, opts)
	})
}

// isFunction reports what can not be called.
func isFunction(fn any) error {
	if v := reflect.ValueOf(fn); v.Kind() != reflect.Func || v.IsNil() {
		return fmt.Errorf("a %T is no function, or it is nil", fn)
	}
	return nil
}

// calling runs what calls a function of the caller, whose panic is an error.
func calling(f func() (tensor.Tensor, error)) (_ tensor.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the given function panicked: %v", r)
		}
	}()
	return f()
}
