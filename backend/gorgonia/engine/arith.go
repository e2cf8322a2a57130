package engine

import (
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ssa"
)

// truncated is C's remainder, whose sign is the dividend's.
var truncated = []ssa.Attr{ssa.IntAttr("fmod", 1)}

// Add is [Engine.Add].
func (o *operations) Add(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Add", nil, opts, a, b)
}

// AddScalar is [Engine.AddScalar].
func (o *operations) AddScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Add", nil, a, b, left, opts)
}

// Sub is [Engine.Sub].
func (o *operations) Sub(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Sub", nil, opts, a, b)
}

// SubScalar is [Engine.SubScalar].
func (o *operations) SubScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Sub", nil, a, b, left, opts)
}

// Mul is [Engine.Mul].
func (o *operations) Mul(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Mul", nil, opts, a, b)
}

// MulScalar is [Engine.MulScalar].
func (o *operations) MulScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Mul", nil, a, b, left, opts)
}

// Div is [Engine.Div].
func (o *operations) Div(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Div", nil, opts, a, b)
}

// DivScalar is [Engine.DivScalar].
func (o *operations) DivScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Div", nil, a, b, left, opts)
}

// Pow is [Engine.Pow].
func (o *operations) Pow(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Pow", nil, opts, a, b)
}

// PowScalar is [Engine.PowScalar].
func (o *operations) PowScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Pow", nil, a, b, left, opts)
}

// Mod is [Engine.Mod].
func (o *operations) Mod(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Mod", truncated, opts, a, b)
}

// ModScalar is [Engine.ModScalar].
func (o *operations) ModScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Mod", truncated, a, b, left, opts)
}

// MinBetween is [Engine.MinBetween].
func (o *operations) MinBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Min", nil, opts, a, b)
}

// MinBetweenScalar is [Engine.MinBetweenScalar].
func (o *operations) MinBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Min", nil, a, b, left, opts)
}

// MaxBetween is [Engine.MaxBetween].
func (o *operations) MaxBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.elementwise("Max", nil, opts, a, b)
}

// MaxBetweenScalar is [Engine.MaxBetweenScalar].
func (o *operations) MaxBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return o.withScalar("Max", nil, a, b, left, opts)
}

// FMA is [Engine.FMA].
func (o *operations) FMA(a, x, y tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, "FMA", func() (tensor.Tensor, error) {
		if _, err := denseOf(y); err != nil {
			return nil, err
		}
		return o.Mul(a, x, tensor.WithIncr(y))
	})
}

// FMAScalar is [Engine.FMAScalar].
func (o *operations) FMAScalar(a tensor.Tensor, x any, y tensor.Tensor) (tensor.Tensor, error) {
	return guarded(o, "FMAScalar", func() (tensor.Tensor, error) {
		if _, err := denseOf(y); err != nil {
			return nil, err
		}
		return o.MulScalar(a, x, true, tensor.WithIncr(y))
	})
}
