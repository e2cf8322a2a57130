// Package ml holds classical machine learning, the domain ai.onnx.ml.
package ml
