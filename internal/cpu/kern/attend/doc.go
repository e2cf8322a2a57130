// Package attend computes scaled dot-product attention over float32, a block of queries at a time:
//
//	Q [S, D] ──·Kᵀ──▶ scores [S, T] ── steps ── softmax ──▶ weights ──·V──▶ Y [S, E]
//
// The scores of a block stay in the cache between the two products, and the whole matrix of scores is
// never in memory. Operands are read, and the result is written, where they lie: heads that share rows
// with others, keys that are transposed, masks that are broadcast. Package gemm multiplies.
package attend
