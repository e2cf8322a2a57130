// Package inplace folds blocks that can share their bytes exactly: a result
// written over the operand it is computed from, the results of two branches of
// which only one runs, a loop's initial value and the place its last iteration
// leaves.
//
//	time      0   1   2   3   4
//	a  ■■■■■■■■■■■■                 relu reads a at 2 for the last time
//	b          ■■■■■■■■■■■■         and writes b: they meet at point 2 only
//	fold a, b  ■■■■■■■■■■■■■■■■     one block
//
// Two classes of blocks fold when the points at which both are live are only
// (1) steps at which an operator that allows it reads the one and writes the
// other, or (2) points at which both stand for the same merged value.
package inplace
