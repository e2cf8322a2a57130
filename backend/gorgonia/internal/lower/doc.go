// Package lower writes a *gorgonia.ExprGraph as an ssa.Graph, whose nodes are ONNX
// operators, so that everything that holds for models holds for it: ordering, planning,
// fast kernels, export.
//
//	gorgonia                                ssa
//	  w ──┐                                   %w ──┐
//	  x ──┴─▶ * ─▶ tanh ─▶ Σ[0 1]             %x ──┴─▶ MatMul ─▶ Tanh ─▶ ReduceSum
//
// The kinds of gorgonia.Op have rules (table.go). An op without one, a user's own, CTCLoss
// or YOLOv3, becomes a node that calls it (stock.go). What Gorgonia writes in several ops and
// ONNX in one is recognized: a convolution (convolve.go), a repetition before arithmetic
// that broadcasts anyway (broadcast.go).
//
// Rules follow what an op means. Where an op's code in Gorgonia v0.9.18 computes something
// else, the rule says so.
package lower

import "fmt"

// Error says which node of an expression graph can not be lowered, and why.
type Error struct {
	Node string // name of the node; "" if it is the graph
	Op   string // its op; "" for an input
	Err  error
}

// Error prints one line.
func (e *Error) Error() string {
	if e.Node == "" && e.Op == "" {
		return fmt.Sprint(e.Err)
	}
	if e.Op == "" {
		return fmt.Sprintf("node %q: %v", e.Node, e.Err)
	}
	return fmt.Sprintf("node %q (%s): %v", e.Node, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
