// Package training holds gradients and optimizers, the domain
// ai.onnx.preview.training. They are linked by import:
//
//	import _ "github.com/berth-onnx/berth/ops/training"
//
// [Adjoints] applies the rules of derivatives to single nodes.
package training
