package signal

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&BlackmanWindow,
	&HammingWindow,
	&HannWindow,
	&DFT,
	&STFT,
	&MelWeightMatrix,
}

func init() { ops.Register(Ops...) }
