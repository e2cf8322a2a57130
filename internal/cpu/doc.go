// Package cpu is the backend that runs nodes with the fast kernels of the
// packages below kern.
//
// A node is prepared once, when its operand types, attributes and constants are
// known, and then runs many times:
//
//	node, types, constants ──Prepare──▶ kernel  strides, merged loops, packed weights
//	                                      │
//	                             Call ──Run──▶ reads and writes the planned memory
//
// Preparation computes all that does not depend on the elements: which loops there are
// and how they merge, which of them run in parallel and in which tiles, which operands
// broadcast, where every window of a slice begins. A run then allocates nothing and
// looks nothing up. Its workspace is Call.Scratch, whose size preparation has declared.
//
// # Adding an operator
//
// A prepare function takes a [prep] and returns a kernel, or nil if it leaves the
// node to the reference kernel: an element type it has no code for, a rare mode, an
// operand that must be constant and is not. What inference checks is not checked again
// (see TestInferenceRefuses). It is registered in the table of
// its family (one file per family) and gets a line in that family's test table
// in package oracle; the harness there (prepare_test.go) compares it with the
// reference kernel over levels, thread counts and in-place pairs and checks that it
// allocates nothing.
//
// # Rules for kernels
//
//   - A kernel is immutable after preparation and may run in several Calls at once. It
//     does not refer to the prep, which would keep the graph alive.
//   - Work is cut into tiles by shape alone, never by thread count, and no sum is
//     split over tiles, so results are the same bytes for any number of threads.
//   - Where the facts of an operator allow a result to share the bytes of an
//     operand, the kernel reads element i before it writes element i.
//   - A view (a result that is a window of an operand, or the reverse) is copied
//     only if the two begin at different addresses.
package cpu
