// Package cpu is the backend that runs nodes with the fast kernels of package
// kern.
//
// A node is prepared once, when its operand types, attributes and constants are
// known, and then runs many times:
//
//	node, types, constants ──Prepare──▶ kernel  strides, merged loops, packed weights
//	                                      │
//	                             Call ──Run──▶ reads and writes the planned memory
//
// Everything that can be worked out beforehand is: which loops there are and how
// they merge, which of them run in parallel and in which tiles, which operands
// broadcast, where every window of a slice begins. A run then allocates nothing,
// looks nothing up and makes no closures. Workspace comes from Call.Scratch, the
// size of which was told at preparation.
//
// # Adding an operator
//
// A prepare function takes a [prep] and returns a kernel, or nil if it leaves the
// node to the reference kernel: an element type it has no code for, a rare mode,
// an attribute that has to be known and is not. It is registered in the table of
// its family (one file per family) and gets a line in that family's test table;
// the harness in prepare_test.go then compares it with the reference kernel over
// levels, thread counts and in-place pairs and checks that it allocates nothing.
//
// # Rules for kernels
//
//   - A kernel is immutable after preparation and may run in several Calls at once.
//   - Work is cut into tiles by shape alone, never by thread count, and no sum is
//     split over tiles, so results are the same bytes for any number of threads.
//   - Where the facts of an operator allow a result to share the bytes of an
//     operand, the kernel reads element i before it writes element i.
//   - A view (a result that is a window of an operand, or the reverse) is copied
//     only if the two begin at different addresses.
package cpu
