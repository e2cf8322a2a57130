package expr

// Add is [Add] with the expression as the first operand; so are the others here.
func (e Expr[T]) Add(y Value[T]) Expr[T] { return Add[T](e, y) }

// Sub is [Sub].
func (e Expr[T]) Sub(y Value[T]) Expr[T] { return Sub[T](e, y) }

// Mul is [Mul].
func (e Expr[T]) Mul(y Value[T]) Expr[T] { return Mul[T](e, y) }

// Div is [Div].
func (e Expr[T]) Div(y Value[T]) Expr[T] { return Div[T](e, y) }

// Neg is [Neg].
func (e Expr[T]) Neg() Expr[T] { return Neg[T](e) }

// Slice is [Slice].
func (e Expr[T]) Slice(ranges ...Range) Expr[T] { return Slice[T](e, ranges...) }

// Transpose is [Transpose].
func (e Expr[T]) Transpose(axes ...int) Expr[T] { return Transpose[T](e, axes...) }

// Add is [Add] with the tensor as the first operand; so are the others here.
func (t *Tensor[T]) Add(y Value[T]) Expr[T] { return Add[T](t, y) }

// Sub is [Sub].
func (t *Tensor[T]) Sub(y Value[T]) Expr[T] { return Sub[T](t, y) }

// Mul is [Mul].
func (t *Tensor[T]) Mul(y Value[T]) Expr[T] { return Mul[T](t, y) }

// Div is [Div].
func (t *Tensor[T]) Div(y Value[T]) Expr[T] { return Div[T](t, y) }

// Neg is [Neg].
func (t *Tensor[T]) Neg() Expr[T] { return Neg[T](t) }
