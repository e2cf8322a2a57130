package batch

import "github.com/berth-onnx/berth/ssa"

// normsInParts writes batch normalizations in training form as their statistics, which are sums over the batch, and what each image makes of them.
func normsInParts(g *ssa.Graph) {}
