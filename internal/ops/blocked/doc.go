// Package blocked has the operators of the channel-blocked layout, which stand in compiled
// programs alone: no file has them, and the pass that makes them (package layout) runs on
// copies.
//
//	ToBlocked, FromBlocked      conversions
//	BlockedConv                 Conv, with or without an epilogue
//	BlockedFusedConv            com.microsoft's FusedConv: bias, residual, activation
//	BlockedMaxPool, BlockedAveragePool, BlockedGlobalAveragePool, BlockedGlobalMaxPool
//	BlockedBatchNormalization, BlockedResize
//	BlockedMul, BlockedAdd      of an image and a plain [N, C, 1, 1] or [C, 1, 1]
//	BlockedQLinearConv, BlockedQLinearAdd      of bytes, with all channels in one block
//
// All but the conversions are an operator over images that are blocked, and mean what that
// operator means over the same images in the plain layout: its rule infers their types, its
// reference kernel computes them. Which operands are blocked stands in their types (package
// ssa); the attribute block says how the result lies.
package blocked
