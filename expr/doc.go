// Package expr computes with tensors in Go: expressions over memory, each compiled into as few kernels as
// a model's would be, and run without allocations.
//
//	x, _ := expr.New[float32](1000, 1000)
//	one := expr.Num[float32](1)
//	sigmoid := expr.Div(one, expr.Exp(expr.Neg(x)).Add(one))
//	err := expr.Assign(ctx, x, sigmoid) // one kernel, which writes over x
//
// # Values
//
// A [Value] is an LValue or an RValue. An LValue has memory: a [Tensor], or a window of one (a slice with steps, a
// transposition). An RValue is an [Expr]: an operator over other values, or a view of one. It has no memory; where an
// operator reads it, its elements are computed there. Functions have ONNX's names, attributes and meaning; wherever one takes an axis,
// a negative one counts from the back.
//
//	expression            Exp(a[1:3]) + b        a, b: Tensor; the others: Expr
//	graph                 one node for each operator, windows as parameters
//	groups                {Exp, Add}             what models are compiled with, too
//	program               one kernel: reads a and b where they lie, writes the destination where it lies
//
// # Assignments
//
// [Assign] walks an expression twice. [Prepare] is the first walk: it checks shapes, element types and how the memory that
// is read meets the memory that is written, and compiles. [Prepared.Execute] is the second. What was compiled is kept by an
// [Engine] and found again by its structure, element types, shapes and strides. Memory that is read and written is
// read as it was before: in place where each element is read no later than it is written, by way of a copy
// elsewhere.
//
// Reductions of rows, softmax and normalizations are computed with what they read; matrix products, convolutions,
// gathers and scans have their operands written out by the plan. Several assignments ([Batch]) share kernels and
// one arena.
//
// # Models
//
// [Extend] writes expressions before and behind a model, as nodes of its graph, which are saved with it.
//
// # Errors
//
// What is wrong with an expression is kept in it, so that calls can be nested, and is the error of the assignment:
// [*ShapeError], [*TypeError], [*AliasError].
//
// The design is that of Alea TK ("Value - Expression - Tensor" and "Assignment").
package expr
