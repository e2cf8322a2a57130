// Package onnxexport writes [ssa.Module]s as standard ONNX files.
//
//	*ssa.Module ──▶ names, operator sets, constants placed ──▶ *onnxwire.Model ──▶ file
//
// What it keeps: names, order, documentation and declared types of the model's
// inputs and outputs (symbolic dimensions as dim_param), the graph's name, who
// produced the file, its metadata, and every opaque node as it was read.
//
// What it decides:
//
//   - Captured operands become references to outer values again. Names inside a
//     body differ from all names around it, as runtimes demand.
//   - A constant used in several graphs is written once, in the main graph. A
//     large splat is written as a ConstantOfShape node: folding must never make a
//     file grow.
//   - Nodes are written in older forms where the imported operator set has one.
//   - The operator set of each domain is the smallest one, from the imported one
//     on, in which every node can be written as it stands ([ops.Op.Oldest]). Opaque
//     nodes pin the version they were written for.
//   - The IR version is at least 4, so that initializers are no inputs, and what
//     the operator sets and element types ask for.
//
// Weights are written from where they lie, the mapped file of the imported model
// included. Files appear by renaming: nothing half-written is ever seen.
package onnxexport
