// Package ops knows the operators: one file per ONNX operator (or tight family)
// with its schema, type and shape rule, facts for the optimizer and planner,
// upgrade rules from older operator sets, and a reference kernel.
//
// The reference kernel is written for clarity and for every corner and element
// type of the standard. It folds constants, is the oracle in tests, and serves
// what no fast kernel claims.
//
// What operators share stands in kit_*.go by theme and depends on no operator:
//
//	kit_kernel        how kernels and type rules end with an error
//	kit_operands      getting operands: [tensor], [ints], [single], …
//	kit_elements      elements as numbers, and results of them
//	kit_walk          going through elements: boxes, broadcasting, copies
//	kit_arithmetic    elementwise operators by domain: floats, integers, complex
//	kit_schema        types, first versions and upgrades of schemas
//	kit_types         types and shapes of results
//	kit_content       known contents of small integer tensors
//	kit_inplace       results over operands
//	kit_cost          how much work a node is
//	kit_…             one family of formulas each
//
// To add an operator: write its file with an [Op] variable, and add one line to
// the table of its family (table_*.go), which is registered when the program
// starts (see [Register]). A test fails if something is missing.
package ops
