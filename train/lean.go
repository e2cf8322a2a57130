package train

import (
	"context"

	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/ssa"
)

// grouped makes groups of the elementwise nodes behind the way forward before an order is searched: the formula of a derivative then holds
// its operands and its result, and none of the values between them, whatever the order.
func grouped(ctx context.Context, g *ssa.Graph) error {
	f := forwardOf(g)
	return fuse.Early(ctx, g, func(n *ssa.Node) bool {
		_, forward := f.at[n]
		return !forward
	})
}
