// Package ops says what an operator is and holds the table of those that a program
// links, with type inference, checks of graphs, and the interpreter, which runs
// graphs with reference kernels.
//
// Operators stand in families, the packages below this one: one file per ONNX
// operator (or tight group) with its schema, type and shape rule, facts for the
// optimizer and planner, upgrade rules from older operator sets, and a reference
// kernel. The reference kernel is written for clarity and for every corner and
// element type of the standard. It folds constants, is the oracle in tests, and
// serves what no fast kernel claims.
//
// To add an operator: write its file with an [Op] variable in its family, and add
// one line to the family's table.go. Tests fail if something is missing.
//
// Package ops/standard links what ordinary models hold, ops/all everything; see
// [Register].
//
// # Panics
//
// A function that returns an error returns one whatever its arguments are. The others take what
// is not nil and belongs to a graph that [ssa.Check] accepts, of nodes that fit their schemas; they panic otherwise.
package ops
