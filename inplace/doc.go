// Package inplace decides which blocks share their bytes, and states what is left as
// a problem for the planner. Blocks that share bytes exactly are folded into one
// class:
//
//	a result over an operand     whose last use is where the result is made
//	alternatives                 results of branches of which only one runs; a loop's
//	                             initial value and the slot its last iteration leaves
//	operands of concatenations   made inside the result
//
//	time      0   1   2   3   4
//	a  ■■■■■■■■■■■■                 relu reads a at 2 for the last time
//	b          ■■■■■■■■■■■■         and writes b: they interfere at point 2 only
//	fold a, b  ■■■■■■■■■■■■■■■■     one block
//
// Two classes fold when they are live together only (1) at steps at which an operator
// that allows it reads the one and writes the other, or (2) where both hold the same
// content. The same engine folds for one order, where slices are windows or copies,
// whichever needs less ([Lay]), and for every order at once ([LayParallel]); [State]
// does either.
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil and was made by functions of this package; they panic otherwise.
package inplace
