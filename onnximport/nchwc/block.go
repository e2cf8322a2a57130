// Package nchwc lowers the domain com.microsoft.nchwc to standard operators when a
// model is imported. A program links it by importing it:
//
//	import _ "github.com/berth-onnx/berth/onnximport/nchwc"
//
// Files that ONNX Runtime saved at its highest optimization level hold operators of
// this domain: convolutions and pools over blocks of B channels, the block being
// what the vector registers of the machine that wrote the file hold.
//
//	memory of a tensor    [N][C/B][H][W][B]      declared as [N, C, H, W], C a multiple of B
//	filters               [O/B][I/B][H][W][B][B] or, for an operand in plain layout
//	                      and for depthwise ones, [O/B][I][H][W][B]; declared as OIHW
//	ReorderInput          plain to blocked, channels padded with zeros
//	ReorderOutput         blocked to plain, the first channels of them
//
// Which layout a runtime works in is its own affair, so these nodes become standard
// ones over plain tensors: the filters are put back into order, ReorderInput is a
// Pad of channels, ReorderOutput a Slice, everything between stays as it is.
//
// The file does not say what B is. It follows from channel counts that only one
// block divides or needs, from filters that are nothing but padding under one block
// and not under the other, or from [onnximport.Options].ChannelBlock; else the nodes
// stay as they are, and a warning says why. A wrong block would not fail, it would
// compute something else, so nothing is taken for likely.
//
// Source: the operators' schemas and NchwcTransformer of ONNX Runtime.
package nchwc

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

const domain = "com.microsoft.nchwc"

func init() { onnximport.RegisterLowering(domain, lower) }

// channelBlocks are the blocks that ONNX Runtime has kernels for.
var channelBlocks = []int{8, 16}

// lower replaces the operators of the domain.
func lower(ctx context.Context, g *ssa.Graph, opts onnximport.Options) error {
	b := &unblocker{ctx: ctx, block: opts.ChannelBlock}
	g.Walk(b.collect)
	if err := b.findBlock(); err != nil {
		return err
	}
	return b.graph(g)
}

// unblocker is one conversion.
type unblocker struct {
	ctx   context.Context
	block int
	nodes []*ssa.Node
}

func (b *unblocker) collect(g *ssa.Graph) {
	for _, n := range g.Nodes {
		if n.Domain == domain {
			b.nodes = append(b.nodes, n)
		}
	}
}

// findBlock decides which block the filters are laid out for.
func (b *unblocker) findBlock() error {
	blocks := channelBlocks
	if b.block != 0 {
		if !slices.Contains(channelBlocks, b.block) {
			return fmt.Errorf("there are no blocks of %d channels, only %v", b.block, channelBlocks)
		}
		blocks = []int{b.block}
	}
	possible := slices.DeleteFunc(slices.Clone(blocks), func(k int) bool {
		return slices.ContainsFunc(b.nodes, func(n *ssa.Node) bool { return !fitsBlock(n, k) })
	})
	if len(possible) > 1 && !slices.ContainsFunc(b.nodes, func(n *ssa.Node) bool { return n.Op == "Conv" }) {
		b.block = possible[0] // only filters depend on it: what else is padded is cut off again
		return nil
	}
	if len(possible) > 1 {
		padded := slices.DeleteFunc(slices.Clone(possible), func(k int) bool {
			return !slices.ContainsFunc(b.nodes, func(n *ssa.Node) bool { return showsPadding(n, k) })
		})
		if len(padded) > 0 {
			possible = padded
		}
	}
	switch len(possible) {
	case 0:
		return fmt.Errorf("their channel counts fit none of the blocks %v", blocks)
	case 1:
		b.block = possible[0]
		return nil
	}
	return fmt.Errorf("the file does not show for which block of channels it was written: give it (--channel-block 16 if the machine had AVX-512, 8 if not), or save the model below the highest optimization level")
}

// filterOf returns the filters of a blocked convolution and their dimensions.
func filterOf(n *ssa.Node) (w *ssa.Constant, o, i int) {
	if n.Op != "Conv" || n.Input(1) == nil || n.In[1].Const == nil {
		return nil, 0, 0
	}
	w = n.In[1].Const
	if s := w.Shape(); len(s) == 4 && w.DType() == ndarray.Float32 {
		return w, s[0], s[1]
	}
	return nil, 0, 0
}

// inBlocks reports that both channels of filters are blocked; of fewer input
// channels than a block only the output's are.
func inBlocks(i, block int) bool { return i >= block }

// fitsBlock reports that the channel counts a node shows are possible for a block.
func fitsBlock(n *ssa.Node, block int) bool {
	w, o, i := filterOf(n)
	if w != nil && (o%block != 0 || !fitsInputs(n, i, block)) {
		return false
	}
	if n.Op != "ReorderOutput" || n.In[0] == nil {
		return true
	}
	// the source's channels are the result's, rounded up to a block
	src := n.In[0].Def
	if src == nil || src.Domain != domain {
		return true
	}
	_, o, _ = filterOf(src)
	c := int(ops.Int(n, "channels"))
	return o == 0 || (c+block-1)/block*block == o
}

// fitsInputs reports that filters of i input channels are possible. Fewer than a
// block read the plain operand, unless they are depthwise; others read blocks.
func fitsInputs(n *ssa.Node, i, block int) bool {
	if inBlocks(i, block) && i%block != 0 {
		return false
	}
	x := n.Input(0)
	switch {
	case ops.Int(n, "group") > 1:
		return i == 1 || inBlocks(i, block)
	case x == nil:
		return false
	case x.Def == nil || x.Def.Domain == domain && x.Def.Op == "ReorderOutput":
		return !inBlocks(i, block)
	case x.Def.Domain == domain:
		return inBlocks(i, block)
	}
	return true // what comes between does not tell which layout it works on
}

// showsPadding reports that the last channels of filters are all zero if they are
// laid out for the block: counts that are padded look so, others never do.
func showsPadding(n *ssa.Node, block int) bool {
	w, o, i := filterOf(n)
	if w == nil || o < block {
		return false
	}
	a, err := w.Array()
	if err != nil {
		return false
	}
	zeros := 0
	for k := o - 1; k > o-block && zeroFilter(a, k, i, block); k-- {
		zeros++
	}
	return zeros > 0
}

func zeroFilter(a *ndarray.Array, o, i, block int) bool {
	v := ndarray.Slice[float32](a)
	for c := range i {
		for p := range a.Shape[2] * a.Shape[3] {
			if v[filterAt(a.Shape, block, o, c, p)] != 0 {
				return false
			}
		}
	}
	return true
}

// filterAt is where the element of filter o, input channel i, position p lies.
func filterAt(shape []int, block, o, i, p int) int {
	in, area := shape[1], shape[2]*shape[3]
	if !inBlocks(in, block) {
		return ((o/block*in+i)*area+p)*block + o%block
	}
	return (((o/block*(in/block)+i/block)*area+p)*block+i%block)*block + o%block
}

// pieceElems is how many elements are moved between two looks at the context.
const pieceElems = 1 << 16

// plainFilter puts filters back into the order OIHW, when they are first read.
func plainFilter(w *ssa.Constant, block int) *ssa.Constant {
	return ssa.NewLazyContext(ndarray.Float32, w.Shape(), func(ctx context.Context, memory ndarray.Budget) (*ndarray.Array, error) {
		a, err := w.ArrayContext(ctx, memory)
		if err != nil {
			return nil, err
		}
		out, err := ndarray.NewContext(ctx, memory, ndarray.Float32, a.Shape...)
		if err != nil {
			return nil, err
		}
		from, to := ndarray.Slice[float32](a), ndarray.Slice[float32](out)
		area := a.Shape[2] * a.Shape[3]
		for at := range to {
			if at%pieceElems == pieceElems-1 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			to[at] = from[filterAt(a.Shape, block, at/area/a.Shape[1], at/area%a.Shape[1], at%area)]
		}
		return out, nil
	})
}
