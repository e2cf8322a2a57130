// Package tile defines tile programs: small typed programs that compute a region of
// elementwise operators, with reductions and normalizations of rows inside or at the end,
// in one pass over memory.
//
// A program says what is computed, for operands of any shapes that broadcast; it does not
// say where anything lies. Whoever runs it cuts the result into tiles that fit the cache
// and runs all instructions on one tile after the other:
//
//	(float32, float32, float32) inner 1       operands %0 %1 %2, rows of the last dimension
//	%3 = float32 Mul %0 %1
//	%4 = float32 Add %3 %2                    ┌ tile ┐
//	%5 = float32 Softmax %4                   %0·%1+%2, softmax: the intermediate values
//	return %5                                 never leave the cache
//
// # Values
//
// A full value has an element for every index of the program's shape, the shape that all
// operands broadcast to. A row value has one for every row: a row is what the innermost
// [Program.Inner] dimensions span, and reductions make row values of full ones. Operands are
// read by strides, so that one of fewer dimensions, a window or a transposed view is read
// in place.
//
// # Arithmetic
//
// Instructions are the elementwise operators of ONNX by their names, with attributes as
// parameters, and some that ONNX tells apart by an attribute ([Op]). A result is rounded to
// its element type once; half types are computed in float32. Integers wrap.
//
// The package knows no graph and no machine: package fuse makes programs of graphs, package
// cpu runs them, and [Program.Interpret] is the oracle for both. The idea of values without
// memory that end in one assignment is that of Alea TK (sections "Value - Expression -
// Tensor" and "Assignment" of its design).
package tile
