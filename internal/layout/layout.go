// Package layout decides which tensors of a graph are kept channel-blocked, and rewrites the
// graph so.
//
// Convolutions work on blocks of channels: from blocked images they are up to twice as fast,
// and plain ones cost a change of layout in each of them. Other operators take what they are
// given, or the plain layout alone. Where layouts meet, a node of its own converts:
//
//	Conv ─▶ Relu ─▶ MaxPool ─▶ Conv ─▶ Add ─▶ Conv ─▶ FromBlocked ─▶ Flatten
//	       ╰──────────── blocked ───────────────╯            ╰── plain ──▶
//
// A block of an image of bytes is all of its channels: quantized convolutions, sums and maxima of windows take it.
//
// The choice is a minimum cut (cut.go). Every result that may be blocked is a variable, and so
// is every image that a convolution reads; operators that keep the layout of their operand
// share its variable. What a layout costs a node is an edge to one of the terminals, and what a
// conversion costs is paid once for a value, however many read it. Costs are the backend's
// estimates for the very nodes; the sum is the least possible for them.
//
// It runs last of all rewrites, on graphs that are compiled, never on what is saved: blocks are
// as wide as the registers of the machine. Parameters and results of graphs, bodies' carried
// values among them, stay plain.
package layout

import (
	"context"

	"github.com/berth-onnx/berth/ssa"
)

// Pass is what the pass is called where passes are left out.
const Pass = "layout"

// Costs are the estimates of a backend. Their unit is the time of a multiply-add at the peak.
type Costs interface {
	// Block is the channels of a block.
	Block() int
	// Move is the cost of an element that a conversion reads and writes, Change that of one
	// that changes its layout inside an operator.
	Move() float64
	Change() float64
	// Conv is the cost of a Conv or FusedConv of static types over a plain or blocked image,
	// with a plain or blocked result; ok is false if there is no fast kernel for that, or the
	// backend computes the plain form in another way.
	Conv(n *ssa.Node, inBlocked, outBlocked bool) (cost float64, ok bool)
	// Fits reports that there is a fast kernel for a pooling or normalization of static types
	// over blocked images.
	Fits(n *ssa.Node) bool
}

// Force makes everything blocked that can be, whatever it costs: for tests.
type Force bool

// conversionCost is the cost of a node more, in multiply-adds.
const conversionCost = 20_000

// leastGain is the share of the estimated time of all convolutions that layouts must save.
const leastGain = 0.01

// Assign rewrites a graph and its bodies. It reports how many nodes became blocked.
func Assign(ctx context.Context, g *ssa.Graph, c Costs, force Force) (nodes int, err error) {
	g.Walk(func(b *ssa.Graph) {
		if err != nil {
			return
		}
		var n int
		n, err = assign(ctx, b, c, bool(force))
		nodes += n
	})
	return nodes, err
}

func assign(ctx context.Context, g *ssa.Graph, c Costs, force bool) (int, error) {
	p, err := newProblem(ctx, g, c, force)
	if err != nil || p.made == 0 {
		return 0, err
	}
	if worth, err := p.solve(ctx); err != nil || !worth {
		return 0, err
	}
	return p.rewrite()
}
