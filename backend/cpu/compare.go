package cpu

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Comparisons, which give booleans. NaN is neither less, equal nor greater.

var compareOps = []entry{
	{op: "Equal", prepare: comparison(isEqual, false)},
	{op: "Less", prepare: comparison(isLess, false)},
	{op: "LessOrEqual", prepare: comparison(isAtMost, false)},
	{op: "Greater", prepare: comparison(isLess, true)},
	{op: "GreaterOrEqual", prepare: comparison(isAtMost, true)},
}

// relation names a comparison; greater is less with the operands swapped.
type relation uint8

const (
	isEqual relation = iota
	isLess
	isAtMost
)

// compare runs a comparison over a Go type; a and b are the positions of its left
// and right operand.
type compare[T number] struct {
	rel  relation
	a, b int
	n    *nest
}

func comparison(rel relation, swap bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		a, b := 0, 1
		if swap {
			a, b = 1, 0
		}
		x, y := p.in[a], p.in[b]
		if x.dt != y.dt || p.out[0].dt != ndarray.Bool {
			return nil, nil
		}
		n, ok := newNest(p.out[0].shape, x.shape, y.shape)
		if !ok {
			return nil, nil
		}
		switch x.dt {
		case ndarray.Float32:
			return &compare[float32]{rel, a, b, n}, nil
		case ndarray.Float64:
			return &compare[float64]{rel, a, b, n}, nil
		case ndarray.Int64:
			return &compare[int64]{rel, a, b, n}, nil
		case ndarray.Int32:
			return &compare[int32]{rel, a, b, n}, nil
		case ndarray.Int16:
			return &compare[int16]{rel, a, b, n}, nil
		case ndarray.Int8, ndarray.Int4, ndarray.Int2:
			return &compare[int8]{rel, a, b, n}, nil
		case ndarray.Uint64:
			return &compare[uint64]{rel, a, b, n}, nil
		case ndarray.Uint32:
			return &compare[uint32]{rel, a, b, n}, nil
		case ndarray.Uint16:
			return &compare[uint16]{rel, a, b, n}, nil
		case ndarray.Uint8, ndarray.Uint4, ndarray.Uint2, ndarray.Bool:
			return &compare[uint8]{rel, a, b, n}, nil
		}
		return nil, nil
	}
}

// Run computes all tiles.
func (k *compare[T]) Run(c *ops.Call) error {
	runTiles(c, k.n.tiles, k)
	return nil
}

func (k *compare[T]) tile(c *ops.Call, i, _ int) {
	dst, a, b := elems[bool](c.Out[0]), elems[T](c.In[k.a]), elems[T](c.In[k.b])
	n := k.n
	for w := n.walk(i); w.next(); {
		for r := range w.rows {
			o := w.out + r*w.cols
			compareRow(k.rel, dst[o:o+w.cols], a[w.at[0]+r*n.row[0]:], n.step[0], b[w.at[1]+r*n.row[1]:], n.step[1])
		}
	}
}

func compareRow[T number](rel relation, d []bool, a []T, sa int, b []T, sb int) {
	i, j := 0, 0
	switch rel {
	case isEqual:
		for k := range d {
			d[k] = a[i] == b[j]
			i, j = i+sa, j+sb
		}
	case isLess:
		for k := range d {
			d[k] = a[i] < b[j]
			i, j = i+sa, j+sb
		}
	case isAtMost:
		for k := range d {
			d[k] = a[i] <= b[j]
			i, j = i+sa, j+sb
		}
	}
}
