package rewrite

import "github.com/berth-onnx/berth/ops"

// Unpack computes what [Fold] leaves: operators whose constant operands are the compact
// form of what they give, as DequantizeLinear of quantized weights. The result is read
// as it is needed and not computed in every run. It takes four or eight times the
// memory, within Growth.
//
//	W int8, scale ─▶ DequantizeLinear ─▶ Conv   ->   W' float32 ─▶ Conv
var Unpack = &Pass{
	Name: "unpack", Doc: "DequantizeLinear of constants -> constants",
	rules: []rule{{"dequantized constants -> constants", with(func(f *ops.Facts) bool { return f.Folding == ops.KeepsPacked }), foldNode}},
}
