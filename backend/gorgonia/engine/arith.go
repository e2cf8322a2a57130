package engine

import (
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ssa"
)

// truncated is C's remainder, whose sign is the dividend's.
var truncated = []ssa.Attr{ssa.IntAttr("fmod", 1)}

// Add is a + b, for tensors of one shape.
func (o *operations) Add(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Add", nil, opts, a, b)
}

// AddScalar is Add with a scalar on one side.
func (o *operations) AddScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Add", nil, a, b, left, opts)
}

// Sub is a - b, for tensors of one shape.
func (o *operations) Sub(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Sub", nil, opts, a, b)
}

// SubScalar is Sub with a scalar on one side.
func (o *operations) SubScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Sub", nil, a, b, left, opts)
}

// Mul is a · b, for tensors of one shape.
func (o *operations) Mul(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Mul", nil, opts, a, b)
}

// MulScalar is Mul with a scalar on one side.
func (o *operations) MulScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Mul", nil, a, b, left, opts)
}

// Div is a / b, for tensors of one shape.
func (o *operations) Div(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Div", nil, opts, a, b)
}

// DivScalar is Div with a scalar on one side.
func (o *operations) DivScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Div", nil, a, b, left, opts)
}

// Pow is a to the power of b, for tensors of one shape.
func (o *operations) Pow(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Pow", nil, opts, a, b)
}

// PowScalar is Pow with a scalar on one side.
func (o *operations) PowScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Pow", nil, a, b, left, opts)
}

// Mod is the remainder of a / b, with the sign of a, for tensors of one shape.
func (o *operations) Mod(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Mod", truncated, opts, a, b)
}

// ModScalar is Mod with a scalar on one side.
func (o *operations) ModScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Mod", truncated, a, b, left, opts)
}

// MinBetween is the smaller of a and b, for tensors of one shape.
func (o *operations) MinBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Min", nil, opts, a, b)
}

// MinBetweenScalar is MinBetween with a scalar on one side.
func (o *operations) MinBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Min", nil, a, b, left, opts)
}

// MaxBetween is the larger of a and b, for tensors of one shape.
func (o *operations) MaxBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Max", nil, opts, a, b)
}

// MaxBetweenScalar is MaxBetween with a scalar on one side.
func (o *operations) MaxBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Max", nil, a, b, left, opts)
}

// FMA adds a · x to y.
func (o *operations) FMA(a, x, y tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, "FMA", func() (tensor.Tensor, error) {
		if _, err := denseOf(y); err != nil {
			return nil, err
		}
		return o.Mul(a, x, tensor.WithIncr(y))
	})
}

// FMAScalar adds a · x to y.
func (o *operations) FMAScalar(a tensor.Tensor, x any, y tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, "FMAScalar", func() (tensor.Tensor, error) {
		if _, err := denseOf(y); err != nil {
			return nil, err
		}
		return o.MulScalar(a, x, true, tensor.WithIncr(y))
	})
}
