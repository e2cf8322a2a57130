// Package onnxwire reads and writes ONNX files: the protobuf messages of onnx.proto and onnx-data.proto as plain Go
// structs over protowire; each says once, for reading and for writing, which fields it has. The package knows the format and
// nothing of what the operators mean. What berth has no use for (devices, opaque types) is left to [Extra].
//
//	model.onnx ──Open (mmap)──▶ *File{Model} ──Marshal / WriteTo / WriteFile──▶ model.opt.onnx
//	                                │
//	                                └─ Tensor.RawData points into the mapping: no weight is copied
//
// # What is kept
//
// Everything. Each message embeds [Extra]: fields this package does not know are kept byte for byte, in their order, and
// written back after the known ones; scalar fields that the file spells out although they hold their default are noted in
// Extra.Explicit and spelled out again. Strings are kept as they are, valid UTF-8 or not. Fields are written in the order of
// their numbers, as the official serializers do, so an untouched file usually comes back byte for byte; in any case,
// writing, reading and writing again gives the same bytes, and equal messages give equal bytes.
//
// # Memory
//
// Tensor.RawData is the only thing that aliases the input: it is valid until File.Close (or while the bytes given to Parse
// are unchanged) and must not be written to. Everything else is copied and outlives the file.
//
// # Hostile input
//
// Readers never panic and allocate in proportion to the input: lengths are checked against the bytes that are there, nesting
// against MaxDepth, and the memory of the decoded structs against a budget set by the input's size. What is wrong comes back
// as a *SyntaxError that names the place ("model.graph.node[3].attribute[0]") and the byte.
package onnxwire
