// Package inplace decides which blocks share their bytes, and states what is left as
// a problem for the planner. Blocks that share bytes exactly are folded into one
// class:
//
//	a result over an operand     that dies where the result is made
//	alternatives                 results of branches of which only one runs; a loop's
//	                             initial value and the place its last iteration leaves
//	operands of concatenations   made inside the result
//
//	time      0   1   2   3   4
//	a  ■■■■■■■■■■■■                 relu reads a at 2 for the last time
//	b          ■■■■■■■■■■■■         and writes b: they meet at point 2 only
//	fold a, b  ■■■■■■■■■■■■■■■■     one block
//
// Two classes fold when they are live together only (1) at steps at which an operator
// that allows it reads the one and writes the other, or (2) where both hold the same
// content. The same engine folds for one order, where slices are windows or copies,
// whichever needs less ([Lay]), and for every order at once ([LayParallel]); [State]
// does either.
package inplace
