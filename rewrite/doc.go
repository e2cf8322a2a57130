// Package rewrite makes graphs smaller and faster without changing what they
// compute.
//
// A [Pass] is one kind of rewrite: a file of its own, a line in the table
// (list.go). It states rules: the operators whose nodes they match, by name or by
// trait ([ops.Traits]), and what they do there. A [List] says in which order passes run
// and which of them repeat until nothing changes:
//
//	List ── Stage "simplify" (repeat) ── Pass ── rule, rule …
//	     │                            └─ Pass …
//	     └─ Stage "fuse"              ── Pass …
//
// [Portable] leaves standard ONNX, for writing the model back. [Runtime] goes on
// from there for the executor.
//
// The driver (driver.go) visits the nodes, applies the rules and records every change as
// a [Patch].
//
// Rules every pass keeps:
//
//   - results agree with the graph before but for the rounding noise of
//     reassociated floating-point arithmetic; integers, booleans and strings exactly;
//   - a value never changes its meaning: new meanings are new values, so that
//     facts known of a value stay true;
//   - names of the model's inputs and outputs stay;
//   - random operators are never merged, folded or moved, opaque nodes not even removed;
//   - the order of nodes it happens to see carries no meaning.
package rewrite
