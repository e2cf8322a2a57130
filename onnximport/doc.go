// Package onnximport turns ONNX files into [ssa.Module]s.
//
//	*onnxwire.Model ──▶ names resolved, functions inlined, captures made operands,
//	                    nodes lifted to the newest operator set, types inferred ──▶ *ssa.Module
//
// What the rest of berth may rely on after an import:
//
//   - every node is in the newest form of its operator ([ssa.Node.Version] 0), or
//     is [ssa.Node.Opaque] because berth does not know it; opaque nodes keep their
//     operator-set version, their attributes, and the file's record in Origin;
//   - calls of functions that the file defines are gone: their bodies stand in
//     their place;
//   - no body refers outside itself; see package ssa for the order of operands;
//   - nodes are in a legal order, names of values are unique within their graph;
//   - types come from inference alone. What a file says about the shapes of
//     values in between and of outputs is not believed: it is often wrong.
//
// Weights are not copied. They stay in the mapped file (or in a mapped file of
// external data), which [ssa.Module.Close] releases.
//
// A file is untrusted: counts, nesting and sizes are limited ([Limits]), sizes
// are checked before anything is allocated, external data is only read below the
// model's folder, and every error is an [*ImportError].
package onnximport
