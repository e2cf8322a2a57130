package engine

import "gorgonia.org/tensor"

// The operations of an engine with an arena.

// Add is [Engine.Add].
func (e *Arena) Add(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Add(a, b, opts...)
}

// AddScalar is [Engine.AddScalar].
func (e *Arena) AddScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().AddScalar(a, b, left, opts...)
}

// Sub is [Engine.Sub].
func (e *Arena) Sub(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Sub(a, b, opts...)
}

// SubScalar is [Engine.SubScalar].
func (e *Arena) SubScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SubScalar(a, b, left, opts...)
}

// Mul is [Engine.Mul].
func (e *Arena) Mul(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Mul(a, b, opts...)
}

// MulScalar is [Engine.MulScalar].
func (e *Arena) MulScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MulScalar(a, b, left, opts...)
}

// Div is [Engine.Div].
func (e *Arena) Div(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Div(a, b, opts...)
}

// DivScalar is [Engine.DivScalar].
func (e *Arena) DivScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().DivScalar(a, b, left, opts...)
}

// Pow is [Engine.Pow].
func (e *Arena) Pow(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Pow(a, b, opts...)
}

// PowScalar is [Engine.PowScalar].
func (e *Arena) PowScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().PowScalar(a, b, left, opts...)
}

// Mod is [Engine.Mod].
func (e *Arena) Mod(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Mod(a, b, opts...)
}

// ModScalar is [Engine.ModScalar].
func (e *Arena) ModScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().ModScalar(a, b, left, opts...)
}

// MinBetween is [Engine.MinBetween].
func (e *Arena) MinBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MinBetween(a, b, opts...)
}

// MinBetweenScalar is [Engine.MinBetweenScalar].
func (e *Arena) MinBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MinBetweenScalar(a, b, left, opts...)
}

// MaxBetween is [Engine.MaxBetween].
func (e *Arena) MaxBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MaxBetween(a, b, opts...)
}

// MaxBetweenScalar is [Engine.MaxBetweenScalar].
func (e *Arena) MaxBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MaxBetweenScalar(a, b, left, opts...)
}

// FMA is [Engine.FMA].
func (e *Arena) FMA(a, x, y tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().FMA(a, x, y)
}

// FMAScalar is [Engine.FMAScalar].
func (e *Arena) FMAScalar(a tensor.Tensor, x any, y tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().FMAScalar(a, x, y)
}

// Lt is [Engine.Lt].
func (e *Arena) Lt(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Lt(a, b, opts...)
}

// LtScalar is [Engine.LtScalar].
func (e *Arena) LtScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LtScalar(a, b, left, opts...)
}

// Lte is [Engine.Lte].
func (e *Arena) Lte(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Lte(a, b, opts...)
}

// LteScalar is [Engine.LteScalar].
func (e *Arena) LteScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LteScalar(a, b, left, opts...)
}

// Gt is [Engine.Gt].
func (e *Arena) Gt(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Gt(a, b, opts...)
}

// GtScalar is [Engine.GtScalar].
func (e *Arena) GtScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().GtScalar(a, b, left, opts...)
}

// Gte is [Engine.Gte].
func (e *Arena) Gte(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Gte(a, b, opts...)
}

// GteScalar is [Engine.GteScalar].
func (e *Arena) GteScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().GteScalar(a, b, left, opts...)
}

// ElEq is [Engine.ElEq].
func (e *Arena) ElEq(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().ElEq(a, b, opts...)
}

// EqScalar is [Engine.EqScalar].
func (e *Arena) EqScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().EqScalar(a, b, left, opts...)
}

// ElNe is [Engine.ElNe].
func (e *Arena) ElNe(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().ElNe(a, b, opts...)
}

// NeScalar is [Engine.NeScalar].
func (e *Arena) NeScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().NeScalar(a, b, left, opts...)
}

// Neg is [Engine.Neg].
func (e *Arena) Neg(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Neg(a, opts...)
}

// Inv is [Engine.Inv].
func (e *Arena) Inv(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Inv(a, opts...)
}

// Exp is [Engine.Exp].
func (e *Arena) Exp(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Exp(a, opts...)
}

// Tanh is [Engine.Tanh].
func (e *Arena) Tanh(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Tanh(a, opts...)
}

// Log is [Engine.Log].
func (e *Arena) Log(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Log(a, opts...)
}

// Sqrt is [Engine.Sqrt].
func (e *Arena) Sqrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Sqrt(a, opts...)
}

// Sign is [Engine.Sign].
func (e *Arena) Sign(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Sign(a, opts...)
}

// Abs is [Engine.Abs].
func (e *Arena) Abs(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Abs(a, opts...)
}

// Square is [Engine.Square].
func (e *Arena) Square(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Square(a, opts...)
}

// Cube is [Engine.Cube].
func (e *Arena) Cube(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Cube(a, opts...)
}

// Log2 is [Engine.Log2].
func (e *Arena) Log2(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Log2(a, opts...)
}

// Log10 is [Engine.Log10].
func (e *Arena) Log10(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Log10(a, opts...)
}

// Cbrt is [Engine.Cbrt].
func (e *Arena) Cbrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Cbrt(a, opts...)
}

// InvSqrt is [Engine.InvSqrt].
func (e *Arena) InvSqrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().InvSqrt(a, opts...)
}

// Clamp is [Engine.Clamp].
func (e *Arena) Clamp(a tensor.Tensor, lowest, highest any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Clamp(a, lowest, highest, opts...)
}

// Map is [Engine.Map].
func (e *Arena) Map(fn any, a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Map(fn, a, opts...)
}

// Sum is [Engine.Sum].
func (e *Arena) Sum(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Sum(a, along...)
}

// Prod is [Engine.Prod].
func (e *Arena) Prod(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Prod(a, along...)
}

// Min is [Engine.Min].
func (e *Arena) Min(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Min(a, along...)
}

// Max is [Engine.Max].
func (e *Arena) Max(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Max(a, along...)
}

// Argmax is [Engine.Argmax].
func (e *Arena) Argmax(t tensor.Tensor, axis int) (tensor.Tensor, error) {
	return e.operations().Argmax(t, axis)
}

// Argmin is [Engine.Argmin].
func (e *Arena) Argmin(t tensor.Tensor, axis int) (tensor.Tensor, error) {
	return e.operations().Argmin(t, axis)
}

// Reduce is [Engine.Reduce].
func (e *Arena) Reduce(fn any, a tensor.Tensor, axis int, defaultValue any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Reduce(fn, a, axis, defaultValue, opts...)
}

// OptimizedReduce is [Engine.OptimizedReduce].
func (e *Arena) OptimizedReduce(a tensor.Tensor, axis int, first, last, inner, defaultValue any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().OptimizedReduce(a, axis, first, last, inner, defaultValue, opts...)
}

// SoftMax is [Engine.SoftMax].
func (e *Arena) SoftMax(x tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SoftMax(x, axis, opts...)
}

// LogSoftMax is [Engine.LogSoftMax].
func (e *Arena) LogSoftMax(x tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LogSoftMax(x, axis, opts...)
}

// SoftMaxB is [Engine.SoftMaxB].
func (e *Arena) SoftMaxB(output, grad tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SoftMaxB(output, grad, axis, opts...)
}

// LogSoftMaxB is [Engine.LogSoftMaxB].
func (e *Arena) LogSoftMaxB(output, grad tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LogSoftMaxB(output, grad, axis, opts...)
}

// MatMul is [Engine.MatMul].
func (e *Arena) MatMul(a, b, to tensor.Tensor) error {
	return e.operations().MatMul(a, b, to)
}

// MatVecMul is [Engine.MatVecMul].
func (e *Arena) MatVecMul(a, b, to tensor.Tensor) error {
	return e.operations().MatVecMul(a, b, to)
}

// Outer is [Engine.Outer].
func (e *Arena) Outer(a, b, to tensor.Tensor) error {
	return e.operations().Outer(a, b, to)
}

// Inner is [Engine.Inner].
func (e *Arena) Inner(a, b tensor.Tensor) (any, error) {
	return e.operations().Inner(a, b)
}

// Dot is [Engine.Dot].
func (e *Arena) Dot(x, y tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Dot(x, y, opts...)
}

// Trace is [Engine.Trace].
func (e *Arena) Trace(a tensor.Tensor) (any, error) {
	return e.operations().Trace(a)
}

// SVD is [Engine.SVD].
func (e *Arena) SVD(a tensor.Tensor, uv, full bool) (s, u, v tensor.Tensor, err error) {
	return e.operations().SVD(a, uv, full)
}

// Transpose is [Engine.Transpose].
func (e *Arena) Transpose(t tensor.Tensor, expStrides []int) error {
	return e.operations().Transpose(t, expStrides)
}

// Concat is [Engine.Concat].
func (e *Arena) Concat(t tensor.Tensor, axis int, others ...tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().Concat(t, axis, others...)
}

// Stack is [Engine.Stack].
func (e *Arena) Stack(t tensor.Tensor, axis int, others ...tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().Stack(t, axis, others...)
}

// StackDense is [Engine.StackDense].
func (e *Arena) StackDense(t tensor.DenseTensor, axis int, others ...tensor.DenseTensor) (tensor.DenseTensor, error) {
	return e.operations().StackDense(t, axis, others...)
}

// SelectByIndices is [Engine.SelectByIndices].
func (e *Arena) SelectByIndices(a, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SelectByIndices(a, indices, axis, opts...)
}

// SelectByIndicesB is [Engine.SelectByIndicesB].
func (e *Arena) SelectByIndicesB(input, outGrad, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SelectByIndicesB(input, outGrad, indices, axis, opts...)
}

// Diag is [Engine.Diag].
func (e *Arena) Diag(a tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().Diag(a)
}

// Repeat is [Engine.Repeat].
func (e *Arena) Repeat(t tensor.Tensor, axis int, repeats ...int) (tensor.Tensor, error) {
	return e.operations().Repeat(t, axis, repeats...)
}

// RepeatReuse is [Engine.RepeatReuse].
func (e *Arena) RepeatReuse(t, reuse tensor.Tensor, axis int, repeats ...int) (tensor.Tensor, error) {
	return e.operations().RepeatReuse(t, reuse, axis, repeats...)
}
