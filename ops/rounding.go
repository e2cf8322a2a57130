package ops

import (
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// sameContent is the content rule of roundings: contents are integers already.
func sameContent(d ssa.Dim) ssa.Dim { return d }

// Floor rounds down: https://onnx.ai/onnx/operators/onnx__Floor.html
var Floor = unaryOp("Floor", 13, "Y = floor(X)", unary{float: math.Floor}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().following(sameContent).but(ZeroSignPassed, Idempotent)

// Ceil rounds up: https://onnx.ai/onnx/operators/onnx__Ceil.html
var Ceil = unaryOp("Ceil", 13, "Y = ceil(X)", unary{float: math.Ceil}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().following(sameContent).but(ZeroSignPassed, Idempotent)

// Round rounds to the nearest integer, halves to the even one:
// https://onnx.ai/onnx/operators/onnx__Round.html
var Round = unaryOp("Round", 22, "Y = round_half_to_even(X)", unary{float: math.RoundToEven}.eval,
	formBy(typeStep{11, floatTypes}, typeStep{22, anyType})).following(sameContent).but(ZeroSignPassed, Idempotent)
