package fuse

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The model of costs, in nanoseconds of one core. A group saves writing and reading its
// intermediate values, at the speed of the memory that they lie in, and the calls of its nodes;
// it costs a call of every instruction for each block:
//
//	      nodes            group
//	few   n · nodeCost     nodeCost + blockCost + n · stepCost       small tensors: calls decide
//	many  + passes         + blocks · (blockCost + n · stepCost)     large ones: memory decides
//
// Between the two, where tensors stay in the second cache, neither saves anything and nodes stay
// as they are. Nodes of half types pay for conversions of whole operands besides, which a group makes block by block: one alone is a group, too. Figures are rounded from measurements on a core of Zen 3.
const (
	nodeCost  = 50 // a node of a program: its call, its loop nest, its hand-over to threads
	stepCost  = 30 // an instruction of a block on float32
	otherCost = 90 // one that is called as a kernel of its own
	blockCost = 60 // pointing operands at a block

	leastElems = 16 // single numbers are left to the analysis of loops
)

// perByte is the cost of a byte that is read or written, by the size of the tensor it is in: one
// that has to come from beyond the second cache, or from memory.
func perByte(bytes float64) float64 {
	switch {
	case bytes <= 512<<10:
		return 0
	case bytes <= 8<<20:
		return 0.002
	}
	return 0.08
}

// gain is what a group saves; nothing where lengths are not known: each new one would prepare all
// instructions anew, which takes longer than a run saves.
func (x *group) gain(g *ssa.Graph, o *Options) float64 {
	stored := map[*ssa.Value]bool{}
	for _, v := range x.stored(g) {
		stored[v] = true
	}
	if len(stored) == 0 || len(stored) > maxResults {
		return 0
	}
	elems := float64(1)
	for _, d := range x.shape {
		k, ok := d.Const()
		if !ok && !o.Always {
			return 0
		}
		elems *= float64(k)
	}
	cols := float64(1)
	for _, d := range x.shape[len(x.shape)-x.inner:] {
		k, _ := d.Const()
		cols *= float64(k)
	}
	switch {
	case o.Always, o.Takes != nil:
		return 1
	case elems < leastElems:
		return 0
	}
	blocks := max(1, elems/max(tile.BlockElems, cols))
	saved := float64(len(x.members)-1) * nodeCost
	for _, m := range x.members {
		v := m.node.Out[0]
		bytes := elems * float64(v.Type.DType.Size())
		if m.row || m.op.Reduces() {
			bytes /= cols
		}
		for _, u := range v.Uses() {
			for _, k := range x.members {
				if k.node == u.Node {
					saved += bytes * perByte(bytes)
				}
			}
		}
		if !stored[v] {
			saved += bytes * perByte(bytes)
		}
		saved += m.conversions()
	}
	return saved - blocks*x.blockCost() - x.copied()
}

// conversions is what a node of half types costs beyond a block of it: its kernel writes operands out in float32, and reads the result once more to round it.
func (m *member) conversions() (cost float64) {
	convert := func(v *ssa.Value) {
		if v == nil || v.Const != nil || !v.Type.DType.IsHalf() {
			return
		}
		elems, _ := v.Type.NumElems().Const()
		if bytes := 4 * float64(elems); bytes > 256<<10 {
			cost += 2 * bytes * max(perByte(bytes), 0.004) // what fits the first cache is read and written fastest
		}
	}
	for i, v := range m.in {
		if !slices.Contains(m.in[:i], v) {
			convert(v)
		}
	}
	convert(m.node.Out[0])
	return cost
}

// blockCost is what the calls of one block cost.
func (x *group) blockCost() float64 {
	cost := float64(blockCost)
	for _, m := range x.members {
		dt := m.node.Out[0].Type.DType
		if dt == ndarray.Float32 && m.in[0].Type.DType == dt && m.inner == 0 {
			cost += stepCost
		} else {
			cost += otherCost
		}
	}
	return cost
}

// copied is the cost of operands that have to be written out for each block.
func (x *group) copied() (cost float64) {
	operands := x.reads
	shapes := make([][]int, len(operands))
	for i, v := range operands {
		s, ok := v.Type.Static()
		if !ok {
			return 0
		}
		shapes[i] = s
	}
	l, err := x.program(operands, []*ssa.Value{x.members[len(x.members)-1].node.Out[0]}).Bind(shapes)
	if err != nil {
		return 1e18
	}
	elems := 1
	for _, d := range l.Shape {
		elems *= d
	}
	for k := range l.Strides {
		if !isMatrix(l, k) {
			cost += float64(elems*operands[k].Type.DType.Size()) * 0.15
		}
	}
	return cost
}

// isMatrix reports that blocks of an operand can be read in place.
func isMatrix(l *tile.Loops, k int) bool {
	row, step, cols := 0, 0, 1
	last := len(l.Dims) - 1
	if last >= 0 {
		cols, step = l.Dims[last], l.Strides[k][last]
	}
	if last > 0 && cols < tile.BlockElems {
		row = l.Strides[k][last-1]
	}
	return step <= 1 && (row == 0 || row == 1 && step == 0 || step == 1 && row == cols)
}

// workspaceOf bounds the workspace of a group's kernel.
func workspaceOf(n *ssa.Node, threads int) int64 {
	p, err := fused.Of(n)
	if err != nil {
		return 0
	}
	r := p.Allocate(func(o, k int) bool { return fused.MayCover(n, o, k) })
	row := rowLength(p, n)
	block := max(tile.BlockElems, row)
	if k, ok := elemsOf(n); ok && k <= block {
		block, threads = k, 1 // one task
	}
	var bytes int64
	add := func(elems int64, width int) { bytes += (elems*int64(width) + 63) / 64 * 64 }
	for i, width := range r.Width {
		if r.Row[i] {
			add(block/row, width)
		} else {
			add(block, width)
		}
	}
	inPlace := readsInPlace(p, n)
	for k, v := range n.In {
		if !inPlace(k) {
			add(block, v.Type.DType.Size())
		}
	}
	return bytes * int64(threads)
}

// readsInPlace tells the operands of which no block is copied; all of them while a shape is not known.
func readsInPlace(p *tile.Program, n *ssa.Node) func(k int) bool {
	shapes := make([][]int, len(n.In))
	for i, v := range n.In {
		s, ok := v.Type.Static()
		if !ok {
			return func(int) bool { return true }
		}
		shapes[i] = s
	}
	l, err := p.Bind(shapes)
	return func(k int) bool { return err == nil && isMatrix(l, k) }
}

// rowLength is the elements of a row, as far as operands tell.
func rowLength(p *tile.Program, n *ssa.Node) int64 {
	best := int64(1)
	for _, v := range n.In {
		s := v.Type.Shape
		size := int64(1)
		for _, d := range s[max(0, len(s)-p.Inner):] {
			k, _ := d.Const()
			size *= k
		}
		best = max(best, size)
	}
	return best
}

// elemsOf is the elements of the largest operand or result, if all are known.
func elemsOf(n *ssa.Node) (most int64, ok bool) {
	for _, list := range [][]*ssa.Value{n.In, n.Out} {
		for _, v := range list {
			k, known := v.Type.NumElems().Const()
			if !known {
				return 0, false
			}
			most = max(most, k)
		}
	}
	return most, true
}
