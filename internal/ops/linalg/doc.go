// Package linalg holds the matrix products of the default domain: MatMul, Gemm,
// Einsum, and determinants.
package linalg
