// Package ops knows the operators: one file per ONNX operator (or tight family)
// with its schema, type and shape rule, facts for the optimizer and planner,
// upgrade rules from older operator sets, and a reference kernel.
//
// The reference kernel is written for clarity and for every corner and element
// type of the standard. It folds constants, is the oracle in tests, and serves
// what no fast kernel claims.
//
// To add an operator: write its file with an [Op] variable, and add one line to
// the table of its family (table_*.go), which is registered when the program
// starts (see [Register]). A test fails if something is missing.
package ops
