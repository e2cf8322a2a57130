// Package simd holds the kernels of each level of instructions and the Table that
// selects them: assembly for AVX-512 and AVX2 (written by asmgen), and plain Go in
// the files ending in _generic, which the others are tested against.
//
// Kernels take pointers and trust them: lengths are checked by the packages above.
// The argument blocks UkArgs and DirectArgs are known to the assembly by offset.
package simd
