// Package training holds gradients and optimizers, the domain
// ai.onnx.preview.training. They are linked by import:
//
//	import _ "github.com/berth-onnx/berth/ops/training"
//
// The rules of derivatives are those of package gradient.
package training
