// Package oracle compares the fast kernels of the CPU backend with the reference
// kernels of package ops. It holds tests alone: cases by hand and cases drawn at
// random, of every operator that has a fast kernel, at every level of instructions,
// on one and on two threads, in place where that is allowed.
package oracle
