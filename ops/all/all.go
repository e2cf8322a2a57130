// Package all links every operator that berth has, and the lowering of every domain
// that it lowers:
//
//	import _ "github.com/berth-onnx/berth/ops/all"
package all

import (
	_ "github.com/berth-onnx/berth/onnximport/nchwc"
	_ "github.com/berth-onnx/berth/ops/image"
	_ "github.com/berth-onnx/berth/ops/rare"
	_ "github.com/berth-onnx/berth/ops/signal"
	_ "github.com/berth-onnx/berth/ops/standard"
	_ "github.com/berth-onnx/berth/ops/text"
	_ "github.com/berth-onnx/berth/ops/training"
)
