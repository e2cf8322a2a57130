// Package quant holds linear quantization of the default domain, and products of
// quantized tensors.
package quant
