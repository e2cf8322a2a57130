// Package image holds ImageDecoder with its decoders. It is linked by import:
// import _ "github.com/berth-onnx/berth/ops/image".
package image
