// Package contrib holds the operators of the domain com.microsoft that ONNX
// Runtime's optimizers, quantizers and exporters write.
package contrib
