// Package standard links the operators that ordinary models hold: the default
// domain without ImageDecoder, ai.onnx.ml, and of com.microsoft what ONNX Runtime's
// optimizers, quantizers and exporters write. Package onnximport, and so the root
// package, imports it.
package standard

import _ "github.com/berth-onnx/berth/ops" // all families are in it
