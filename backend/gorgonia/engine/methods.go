package engine

import "gorgonia.org/tensor"

// The operations of an engine. A method that came with an embedded struct would panic where the engine is nil.

// Add is a + b, for tensors of one shape.
func (e *Engine) Add(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Add(a, b, opts...)
}

// AddScalar is Add with a scalar on one side.
func (e *Engine) AddScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().AddScalar(a, b, left, opts...)
}

// Sub is a - b, for tensors of one shape.
func (e *Engine) Sub(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Sub(a, b, opts...)
}

// SubScalar is Sub with a scalar on one side.
func (e *Engine) SubScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SubScalar(a, b, left, opts...)
}

// Mul is a · b, for tensors of one shape.
func (e *Engine) Mul(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Mul(a, b, opts...)
}

// MulScalar is Mul with a scalar on one side.
func (e *Engine) MulScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MulScalar(a, b, left, opts...)
}

// Div is a / b, for tensors of one shape.
func (e *Engine) Div(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Div(a, b, opts...)
}

// DivScalar is Div with a scalar on one side.
func (e *Engine) DivScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().DivScalar(a, b, left, opts...)
}

// Pow is a to the power of b, for tensors of one shape.
func (e *Engine) Pow(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Pow(a, b, opts...)
}

// PowScalar is Pow with a scalar on one side.
func (e *Engine) PowScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().PowScalar(a, b, left, opts...)
}

// Mod is the remainder of a / b, with the sign of a, for tensors of one shape.
func (e *Engine) Mod(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Mod(a, b, opts...)
}

// ModScalar is Mod with a scalar on one side.
func (e *Engine) ModScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().ModScalar(a, b, left, opts...)
}

// MinBetween is the smaller of a and b, for tensors of one shape.
func (e *Engine) MinBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MinBetween(a, b, opts...)
}

// MinBetweenScalar is MinBetween with a scalar on one side.
func (e *Engine) MinBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MinBetweenScalar(a, b, left, opts...)
}

// MaxBetween is the larger of a and b, for tensors of one shape.
func (e *Engine) MaxBetween(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MaxBetween(a, b, opts...)
}

// MaxBetweenScalar is MaxBetween with a scalar on one side.
func (e *Engine) MaxBetweenScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().MaxBetweenScalar(a, b, left, opts...)
}

// FMA adds a · x to y.
func (e *Engine) FMA(a, x, y tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().FMA(a, x, y)
}

// FMAScalar adds a · x to y.
func (e *Engine) FMAScalar(a tensor.Tensor, x any, y tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().FMAScalar(a, x, y)
}

// Lt is a < b, for tensors of one shape.
func (e *Engine) Lt(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Lt(a, b, opts...)
}

// LtScalar is Lt with a scalar on one side.
func (e *Engine) LtScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LtScalar(a, b, left, opts...)
}

// Lte is a ≤ b, for tensors of one shape.
func (e *Engine) Lte(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Lte(a, b, opts...)
}

// LteScalar is Lte with a scalar on one side.
func (e *Engine) LteScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LteScalar(a, b, left, opts...)
}

// Gt is a > b, for tensors of one shape.
func (e *Engine) Gt(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Gt(a, b, opts...)
}

// GtScalar is Gt with a scalar on one side.
func (e *Engine) GtScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().GtScalar(a, b, left, opts...)
}

// Gte is a ≥ b, for tensors of one shape.
func (e *Engine) Gte(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Gte(a, b, opts...)
}

// GteScalar is Gte with a scalar on one side.
func (e *Engine) GteScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().GteScalar(a, b, left, opts...)
}

// ElEq is a = b, for tensors of one shape.
func (e *Engine) ElEq(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().ElEq(a, b, opts...)
}

// EqScalar is ElEq with a scalar on one side.
func (e *Engine) EqScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().EqScalar(a, b, left, opts...)
}

// ElNe is a ≠ b, for tensors of one shape.
func (e *Engine) ElNe(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().ElNe(a, b, opts...)
}

// NeScalar is ElNe with a scalar on one side.
func (e *Engine) NeScalar(a tensor.Tensor, b any, left bool, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().NeScalar(a, b, left, opts...)
}

// Neg is -a.
func (e *Engine) Neg(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Neg(a, opts...)
}

// Inv is 1 / a.
func (e *Engine) Inv(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Inv(a, opts...)
}

// Exp is e to the power of a.
func (e *Engine) Exp(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Exp(a, opts...)
}

// Tanh is the hyperbolic tangent of a.
func (e *Engine) Tanh(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Tanh(a, opts...)
}

// Log is the natural logarithm of a.
func (e *Engine) Log(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Log(a, opts...)
}

// Sqrt is the square root of a.
func (e *Engine) Sqrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Sqrt(a, opts...)
}

// Sign is -1, 0 or 1.
func (e *Engine) Sign(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Sign(a, opts...)
}

// Abs is the magnitude of a.
func (e *Engine) Abs(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Abs(a, opts...)
}

// Square is a².
func (e *Engine) Square(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Square(a, opts...)
}

// Cube is a³.
func (e *Engine) Cube(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Cube(a, opts...)
}

// Log2 is the logarithm to base 2, of floats.
func (e *Engine) Log2(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Log2(a, opts...)
}

// Log10 is the logarithm to base 10, of floats.
func (e *Engine) Log10(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Log10(a, opts...)
}

// Cbrt is the cube root, of floats.
func (e *Engine) Cbrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Cbrt(a, opts...)
}

// InvSqrt is 1 / √a, of floats.
func (e *Engine) InvSqrt(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().InvSqrt(a, opts...)
}

// Clamp limits elements to those from lowest to highest.
func (e *Engine) Clamp(a tensor.Tensor, lowest, highest any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Clamp(a, lowest, highest, opts...)
}

// Map applies a function of the element type to every element.
func (e *Engine) Map(fn any, a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Map(fn, a, opts...)
}

// Sum adds up elements along axes, or all of them.
func (e *Engine) Sum(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Sum(a, along...)
}

// Prod multiplies elements along axes, or all of them.
func (e *Engine) Prod(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Prod(a, along...)
}

// Min is the smallest element along axes, or of all.
func (e *Engine) Min(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Min(a, along...)
}

// Max is the largest element along axes, or of all.
func (e *Engine) Max(a tensor.Tensor, along ...int) (tensor.Tensor, error) {
	return e.operations().Max(a, along...)
}

// Argmax is the index of the first largest element along an axis, or of all with tensor.AllAxes.
func (e *Engine) Argmax(t tensor.Tensor, axis int) (tensor.Tensor, error) {
	return e.operations().Argmax(t, axis)
}

// Argmin is the index of the first smallest element along an axis, or of all with tensor.AllAxes.
func (e *Engine) Argmin(t tensor.Tensor, axis int) (tensor.Tensor, error) {
	return e.operations().Argmin(t, axis)
}

// Reduce reduces with a function, as the default engine does: func(T, T) T, or func([]T, []T) along the first axis and func([]T) T
// along the last.
func (e *Engine) Reduce(fn any, a tensor.Tensor, axis int, defaultValue any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Reduce(fn, a, axis, defaultValue, opts...)
}

// OptimizedReduce reduces with functions for the first axis, the last and all others, as the default engine does.
func (e *Engine) OptimizedReduce(a tensor.Tensor, axis int, first, last, inner, defaultValue any, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().OptimizedReduce(a, axis, first, last, inner, defaultValue, opts...)
}

// SoftMax is e to the power of x, divided by the sum of that along an axis.
func (e *Engine) SoftMax(x tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SoftMax(x, axis, opts...)
}

// LogSoftMax is the logarithm of [Engine.SoftMax].
func (e *Engine) LogSoftMax(x tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LogSoftMax(x, axis, opts...)
}

// SoftMaxB is the gradient of SoftMax: (grad - Σ grad·output) · output.
func (e *Engine) SoftMaxB(output, grad tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SoftMaxB(output, grad, axis, opts...)
}

// LogSoftMaxB is the gradient of LogSoftMax: grad - e^output · Σ grad.
func (e *Engine) LogSoftMaxB(output, grad tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().LogSoftMaxB(output, grad, axis, opts...)
}

// MatMul computes the product of two matrices into a tensor of its shape.
func (e *Engine) MatMul(a, b, to tensor.Tensor) error {
	return e.operations().MatMul(a, b, to)
}

// MatVecMul computes the product of a matrix and a vector into a tensor of its shape, of one dimension.
func (e *Engine) MatVecMul(a, b, to tensor.Tensor) error {
	return e.operations().MatVecMul(a, b, to)
}

// Outer computes the products of all pairs of elements of two vectors into a tensor of their shape.
func (e *Engine) Outer(a, b, to tensor.Tensor) error {
	return e.operations().Outer(a, b, to)
}

// Inner is the sum of the products of two vectors' elements, of their Go type.
func (e *Engine) Inner(a, b tensor.Tensor) (any, error) {
	return e.operations().Inner(a, b)
}

// Dot is the inner product of two vectors, a scalar; the product of a matrix and a vector, on either side, a vector; of tensors
// with more dimensions the sum of products over the last axis of x and the last but one of y; and the product of all elements
// with a scalar. Vectors are those of package tensor: also matrices of one row or one column of several elements.
func (e *Engine) Dot(x, y tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().Dot(x, y, opts...)
}

// Trace is the sum of a matrix's diagonal.
func (e *Engine) Trace(a tensor.Tensor) (any, error) {
	return e.operations().Trace(a)
}

// SVD is the singular value decomposition of a matrix of float32 or float64, by the default engine.
func (e *Engine) SVD(a tensor.Tensor, uv, full bool) (s, u, v tensor.Tensor, err error) {
	return e.operations().SVD(a, uv, full)
}

// Transpose moves elements to the strides they are to have. The tensor must have all of its memory: the elements of a
// window would be moved over those beside it.
func (e *Engine) Transpose(t tensor.Tensor, expStrides []int) error {
	return e.operations().Transpose(t, expStrides)
}

// Concat joins tensors along an axis.
func (e *Engine) Concat(t tensor.Tensor, axis int, others ...tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().Concat(t, axis, others...)
}

// Stack joins tensors along a new axis.
func (e *Engine) Stack(t tensor.Tensor, axis int, others ...tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().Stack(t, axis, others...)
}

// StackDense is Stack.
func (e *Engine) StackDense(t tensor.DenseTensor, axis int, others ...tensor.DenseTensor) (tensor.DenseTensor, error) {
	return e.operations().StackDense(t, axis, others...)
}

// SelectByIndices takes the slices of a along an axis that a vector of indices names; negative indices count from the last.
func (e *Engine) SelectByIndices(a, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SelectByIndices(a, indices, axis, opts...)
}

// SelectByIndicesB is the gradient of SelectByIndices: zeros, to which the slices of the result's gradient are added where they
// were taken from. Negative indices count from the last.
func (e *Engine) SelectByIndicesB(input, outGrad, indices tensor.Tensor, axis int, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return e.operations().SelectByIndicesB(input, outGrad, indices, axis, opts...)
}

// Diag is a matrix of numbers without the elements beside its diagonal.
func (e *Engine) Diag(a tensor.Tensor) (tensor.Tensor, error) {
	return e.operations().Diag(a)
}

// Repeat repeats elements along an axis, or those of all axes in a vector with tensor.AllAxes: each as often as the one count
// says, or the count at its index. A scalar becomes a vector, or a matrix of one row along axis 1; a vector along axis 1 a matrix
// of its repeated elements in rows.
func (e *Engine) Repeat(t tensor.Tensor, axis int, repeats ...int) (tensor.Tensor, error) {
	return e.operations().Repeat(t, axis, repeats...)
}

// RepeatReuse is Repeat into the memory of a tensor.
func (e *Engine) RepeatReuse(t, reuse tensor.Tensor, axis int, repeats ...int) (tensor.Tensor, error) {
	return e.operations().RepeatReuse(t, reuse, axis, repeats...)
}
