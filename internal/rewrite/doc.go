// Package rewrite makes graphs smaller and faster without changing their results.
//
// A [Pass] is one kind of rewrite: a file of its own, a line in the table (list.go). It
// consists of rules: which operators they match, by name or by trait ([ops.Traits]), and
// how they rewrite a node. A [List] is the order in which passes run, and which of them
// repeat until nothing changes:
//
//	List ── Stage "simplify" (repeat) ── Pass ── rule, rule …
//	     │                            └─ Pass …
//	     └─ Stage "fuse"              ── Pass …
//
// [Portable] makes standard ONNX, for writing the model to a file. [Runtime] makes more
// changes, for the executor.
//
// The driver (driver.go) visits the nodes, applies the rules and records every change as
// a [Patch].
//
// Rules every pass keeps:
//
//   - results agree with the graph before except for rounding errors of
//     reassociated floating-point arithmetic; integers, booleans and strings exactly;
//   - a value never changes its meaning: new meanings are new values, so that
//     facts known of a value stay true;
//   - names of the model's inputs and outputs stay;
//   - random operators are never merged, folded or moved, opaque nodes not even removed;
//   - the result does not depend on which legal order the nodes are listed in.
package rewrite
