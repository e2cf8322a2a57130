package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ops"
)

// A nest is the loop nest of an elementwise computation with broadcasting, reduced
// to as few loops as the shapes allow. The result is visited in row-major order in
// blocks of rows × cols that are contiguous in the result, while every operand
// moves by a fixed distance from element to element and from row to row:
//
//	result    [2 3 4 5]    operand 0 [2 3 4 5]    operand 1 [3 1 1]
//	merged    [2|3 20]     strides   [60|20 1]    strides   [0|1 0]
//	       outer rows cols
//
// Equal shapes become one row over everything, a scalar operand one row with
// step 0; a bias is [rows cols] with [0 1], a factor per channel [1 0]. Those are
// the spreads the float32 row kernels know.

// maxOperands bounds the operands of a nest, maxLoops its outer loops.
const (
	maxOperands = 12
	maxLoops    = 8
)

type nest struct {
	rows, cols int
	row, step  [maxOperands]int   // distance of each operand between rows, elements
	dims       []int              // outer loops
	strides    [maxOperands][]int // of each operand in the outer loops
	operands   int
	unit       int  // elements that a tile is made of: a row, or 1 in a nest of one row
	whole      bool // one block is all there is: it need not be walked
	cut             // over blocks and units
}

// longRow is from where on a row is a block of its own.
const longRow = 4096

// newNest plans the loops over a result shape; ok is false if an operand does not
// broadcast to it, or there are too many of either.
func newNest(result []int, operands ...[]int) (n *nest, ok bool) {
	if len(operands) > maxOperands {
		return nil, false
	}
	strides := make([][]int, len(operands))
	for k, s := range operands {
		if full, err := ops.BroadcastShapes(s, result); err != nil || !slices.Equal(full, result) {
			return nil, false
		}
		strides[k] = ops.BroadcastStrides(s, result)
	}
	return stridedNest(result, strides...)
}

// stridedNest plans the loops over a dense result of a shape, with the strides of each
// operand along its dimensions; ok is false if too many loops are left.
func stridedNest(result []int, full ...[]int) (n *nest, ok bool) {
	n = &nest{rows: 1, cols: 1, operands: len(full)}
	dims, strides := tile.MergeLoops(result, full)
	last := len(dims) - 1
	if last >= 0 {
		n.cols = dims[last]
		for k := range full {
			n.step[k] = strides[k][last]
		}
		last--
	}
	if last >= 0 && n.cols < longRow {
		n.rows = dims[last]
		for k := range full {
			n.row[k] = strides[k][last]
		}
		last--
	}
	n.dims = dims[:last+1]
	for k := range full {
		n.strides[k] = strides[k][:last+1]
	}
	n.unit = 1
	if n.rows > 1 {
		n.unit = n.cols
	}
	n.cut = newCut(sizeOf(n.dims), n.rows*n.cols/n.unit, max(1, TileElems/n.unit))
	n.whole = len(n.dims) == 0 && n.tiles == 1
	return n, len(n.dims) <= maxLoops
}

// walk is the state of a walk over one tile: the present piece of a block.
type walk struct {
	out        int              // first element of the result
	at         [maxOperands]int // first element of each operand
	rows, cols int

	n          *nest
	block, end int // next block and the one after the last
	lo, hi     int // units of every block
	idx        [maxLoops]int
	base       [maxOperands]int
}

// walk begins a tile; call next before the first piece.
func (n *nest) walk(tile int) walk {
	w := walk{n: n}
	w.block, w.end, w.lo, w.hi = n.cut.tile(tile)
	rest := w.block
	for d := len(n.dims) - 1; d >= 0; d-- {
		i := rest % n.dims[d]
		rest /= n.dims[d]
		w.idx[d] = i
		for k := range n.operands {
			w.base[k] += i * n.strides[k][d]
		}
	}
	w.rows, w.cols = w.hi-w.lo, n.cols
	if n.rows == 1 {
		w.rows, w.cols = 1, w.hi-w.lo
	}
	return w
}

// next goes to the next piece; false after the last.
func (w *walk) next() bool {
	if w.block >= w.end {
		return false
	}
	n := w.n
	w.out = w.block*n.rows*n.cols + w.lo*n.unit
	for k := range n.operands {
		if n.rows == 1 {
			w.at[k] = w.base[k] + w.lo*n.step[k]
		} else {
			w.at[k] = w.base[k] + w.lo*n.row[k]
		}
	}
	w.block++
	for d := len(n.dims) - 1; d >= 0; d-- {
		w.idx[d]++
		for k := range n.operands {
			w.base[k] += n.strides[k][d]
		}
		if w.idx[d] < n.dims[d] {
			break
		}
		for k := range n.operands {
			w.base[k] -= n.strides[k][d] * n.dims[d]
		}
		w.idx[d] = 0
	}
	return true
}

// uneven is the spread of an operand whose rows lie apart: kernels are called row
// by row.
const uneven = vec.Spread(255)

// spread says how operand k covers pieces of whole rows.
func (n *nest) spread(k int) vec.Spread {
	switch row, step := n.row[k], n.step[k]; {
	case n.rows == 1 && step == 1, row == n.cols && step == 1:
		return vec.Full
	case n.rows == 1 && step == 0, row == 0 && step == 0:
		return vec.One
	case row == 0 && step == 1:
		return vec.Row
	case row == 1 && step == 0:
		return vec.Col
	}
	return uneven
}
