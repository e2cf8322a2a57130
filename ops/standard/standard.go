// Package standard links the operators that ordinary models hold: the default
// domain without ImageDecoder, MaxRoiPool and the operators of signals, ai.onnx.ml, and of com.microsoft what ONNX Runtime's
// optimizers, quantizers and exporters write. Package onnximport, and so the root
// package, imports it.
package standard

import (
	_ "github.com/berth-onnx/berth/internal/ops/contrib"
	_ "github.com/berth-onnx/berth/internal/ops/control"
	_ "github.com/berth-onnx/berth/internal/ops/elementwise"
	_ "github.com/berth-onnx/berth/internal/ops/generator"
	_ "github.com/berth-onnx/berth/internal/ops/linalg"
	_ "github.com/berth-onnx/berth/internal/ops/ml"
	_ "github.com/berth-onnx/berth/internal/ops/movement"
	_ "github.com/berth-onnx/berth/internal/ops/nn"
	_ "github.com/berth-onnx/berth/internal/ops/quant"
	_ "github.com/berth-onnx/berth/internal/ops/reduction"
	_ "github.com/berth-onnx/berth/internal/ops/sequence"
	_ "github.com/berth-onnx/berth/internal/ops/text"
	_ "github.com/berth-onnx/berth/internal/ops/vision"
)
