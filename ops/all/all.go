// Package all links every operator that berth has, the lowering of every domain
// that it lowers, and what writes operators in older operator sets:
//
//	import _ "github.com/berth-onnx/berth/ops/all"
package all

import (
	_ "github.com/berth-onnx/berth/internal/older"
	_ "github.com/berth-onnx/berth/onnximport/nchwc"
	_ "github.com/berth-onnx/berth/ops/image"
	_ "github.com/berth-onnx/berth/ops/rare"
	_ "github.com/berth-onnx/berth/ops/signal"
	_ "github.com/berth-onnx/berth/ops/standard"
	_ "github.com/berth-onnx/berth/ops/text"
	_ "github.com/berth-onnx/berth/ops/training"
)
