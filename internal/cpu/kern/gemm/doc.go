// Package gemm has matrix products: Gemm (float32, batched, packed constants,
// epilogues) and IntGemm (bytes). Both run the same blocked loops: plan, packing,
// sweep over panels, micro-kernels.
//
// Products finish their results while they are in registers or in the cache:
// act(result + bias + residual), see simd.Epilogue. Relu and Clip cost nothing;
// other activations are a pass over the finished tile.
//
// Error bound: a sum of K products has at most γ·Σ|aᵢbᵢ| of rounding error, γ = (K+2)·2⁻²⁴, as
// direct summation has (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1);
// alpha, beta, bias and residual add three roundings of the magnitudes added. Blocks, panels and
// lanes only make partial sums shorter: with chains of C products γ is (C + ⌈K/C⌉ + 2)·2⁻²⁴.
// Integer products are exact modulo 2³².
package gemm
