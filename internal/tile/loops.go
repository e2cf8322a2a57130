package tile

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
)

// Loops is the loop nest of a program over operands of given shapes, reduced to as few
// loops as the strides allow:
//
//	result    [2 3 4 5]    operand 0 [2 3 4 5]    operand 1 [3 1 1]
//	merged    [2|3 20]     strides   [60|20 1]    strides   [0|1 0]
//	       outer rows cols
//
// In a program with rows the last loop is the row.
type Loops struct {
	Shape   []int   // of full values
	Dims    []int   // loops, the last one innermost
	Strides [][]int // by operand, in elements
}

// Bind plans the loops for operands of given shapes, all of them contiguous.
func (p *Program) Bind(shapes [][]int) (*Loops, error) {
	if len(shapes) != len(p.Operands) {
		return nil, fmt.Errorf("%d shapes for %d operands", len(shapes), len(p.Operands))
	}
	shape, err := ops.BroadcastShapes(shapes...)
	if err != nil {
		return nil, err
	}
	strides := make([][]int, len(shapes))
	for k, s := range shapes {
		strides[k] = ops.BroadcastStrides(s, shape)
	}
	return p.BindStrided(shape, strides)
}

// BindStrided plans the loops for operands that are windows or views with strides of their
// own, 0 along broadcast dimensions.
func (p *Program) BindStrided(shape []int, strides [][]int) (*Loops, error) {
	if len(shape) < p.Inner {
		return nil, fmt.Errorf("rows of %d dimensions of the shape %v", p.Inner, shape)
	}
	l := &Loops{Shape: slices.Clone(shape)}
	outer := len(shape) - p.Inner
	part := func(from, to int) (dims []int, merged [][]int) {
		cut := make([][]int, len(strides))
		for k := range strides {
			cut[k] = strides[k][from:to]
		}
		return MergeLoops(shape[from:to], cut)
	}
	l.Dims, l.Strides = part(0, outer)
	if p.Inner == 0 {
		return l, nil
	}
	dims, merged := part(outer, len(shape))
	switch len(dims) {
	case 0:
		l.Dims = append(l.Dims, 1)
		for k := range l.Strides {
			l.Strides[k] = append(l.Strides[k], 0)
		}
	case 1:
		l.Dims = append(l.Dims, dims[0])
		for k := range l.Strides {
			l.Strides[k] = append(l.Strides[k], merged[k][0])
		}
	default:
		return nil, fmt.Errorf("a row of %v is more than one loop", shape[outer:])
	}
	return l, p.checkRowOperands(l)
}

// checkRowOperands makes sure that what is computed once for each row reads operands that
// do not move within a row.
func (p *Program) checkRowOperands(l *Loops) error {
	last := len(l.Dims) - 1
	for i := range p.Instrs {
		x := &p.Instrs[i]
		if !x.Row || x.Op.Reduces() {
			continue
		}
		for _, a := range x.Args {
			if a != None && int(a) < len(p.Operands) && l.Dims[last] != 1 && l.Strides[a][last] != 0 {
				return fmt.Errorf("operand %d has more than one element a row", a)
			}
		}
	}
	return nil
}

// MergeLoops drops dimensions of one and merges neighbours that every operand walks
// with one stride.
func MergeLoops(shape []int, full [][]int) (dims []int, strides [][]int) {
	strides, dims = make([][]int, len(full)), make([]int, 0, len(shape))
	all := make([]int, len(full)*len(shape))
	for k := range full {
		strides[k] = all[k*len(shape):][:0:len(shape)]
	}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		last := len(dims) - 1
		fits := last >= 0
		for k := range full {
			fits = fits && strides[k][last] == d*full[k][i]
		}
		if fits {
			dims[last] *= d
			for k := range full {
				strides[k][last] = full[k][i]
			}
			continue
		}
		dims = append(dims, d)
		for k := range full {
			strides[k] = append(strides[k], full[k][i])
		}
	}
	return dims, strides
}
