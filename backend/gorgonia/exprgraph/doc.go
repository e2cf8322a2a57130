// Package exprgraph builds Gorgonia's expression graphs of ONNX operators: a whole model by
// [Import], single nodes by [Apply].
//
//	model.onnx                         ExprGraph
//	  weights ──────────────────────▶  input nodes with values: to be learned, or left
//	  Conv, Gemm, LayerNormalization ▶ nodes whose gorgonia.Op is the ONNX operator
//	  axes, shapes, other constants ─▶ parts of those ops
//
// An op runs the kernels of this module, in any machine of Gorgonia; package vm compiles the
// whole graph. Ops of operators with a known derivative are gorgonia.SDOps, so that
// gorgonia.Grad differentiates a model, and their derivatives are such ops again. The
// derivative of a recurrent layer has an op that is a loop, which has no derivative.
//
// Gorgonia's nodes have one result, so that an operator with several results is several
// nodes; package vm runs it once.
package exprgraph

import (
	"errors"
	"fmt"
)

// ErrControlFlow is the cause of an [*Error] at an If, Loop or Scan, which expression graphs
// can not hold.
var ErrControlFlow = errors.New("control flow has no place in an expression graph; run the model itself")

// Error says which node of a model can not be part of an expression graph.
type Error struct {
	Node string // operator and name, or the name of an input
	Err  error
}

// Error prints one line.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Node, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
