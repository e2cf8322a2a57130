// Package attend computes scaled dot-product attention over float32, a block of queries at a time:
//
//	Q [S, D] ──·Kᵀ──▶ scores [S, T] ── steps ── softmax ──▶ weights ──·V──▶ Y [S, E]
//
// The scores of a block stay in the cache between the two products, and the whole matrix of scores is
// never in memory. Operands are read, and the result is written, where they lie: heads that share rows
// with others, keys that are transposed, masks that are broadcast. Package gemm multiplies.
//
// Error bound, with u = 2⁻²⁴, C chunks of keys, weights w of a query and r the distance of its largest score from the smallest:
//
//	(2δ + (2T+8C+12+r)·u)·Σ w·|v|,  δ = (D+4)·u·max(|Scale|·Σ|q·k| + Σ|added|)
//
// to first order: δ bounds the error of a score, whose exponential may be off by it above and below the line. A step Cap adds
// roundings of its own to δ. Smaller weights than float32 has are 0.
package attend
