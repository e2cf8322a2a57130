// Package vec has elementwise functions, reductions, copies and conversions of slices.
//
//	elementwise     Unary, Binary, BinaryScalar, ScalarBinary, BinaryRows (broadcasting),
//	                ScaleShift, MulAdd, BatchNorm; ...N on the pool
//	rows            Softmax, LogSoftmax, LayerNorm, RMSNorm, LRN
//	reductions      Sum, SumAbs, SumSquares, Dot, MaxOf, MinOf, ReduceRows, ReduceCols
//	copies          Copy (transpose, slice, expand, concat, pad)
//	conversion      Quantize, Dequantize, Requantize, IntToFloat, DynamicScale,
//	                HalfToFloat, FloatToHalf, BfloatToFloat, FloatToBfloat
//
// Error bounds, with u = 2⁻²⁴ and n elements: Sum, SumAbs, SumSquares, Dot, ReduceRows, ReduceCols n·u·Σ|terms|, means
// (n+1)·u·Σ|terms|/n; Softmax (n+8+|x−max|)·u relative, for each element; LogSoftmax (2n+8+2|y|)·u; LayerNorm (n+4)·u·(mean|x|/σ + |y|·n), in which the
// mean is subtracted before squares are taken, so a large mean does not cancel; RMSNorm (n+4)·u·|y|.
// A fused group has the bits of its single nodes, and their bounds (TestFusedIsSingleNodes).
// LayerNorm and RMSNorm take their moments in float64 where squares overflow float32.
package vec
