package cpu

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

var whereOps = []entry{
	{op: "Where", prepare: prepareWhere},
}

// where chooses between two operands of any one type, element by element; only
// the width of the type matters.
type where struct {
	width int
	n     *nest
}

func prepareWhere(p *prep) (ops.Kernel, error) {
	cond, x, y := p.in[0], p.in[1], p.in[2]
	if cond.dt != ndarray.Bool || x.dt != y.dt || x.dt != p.out[0].dt {
		return nil, nil
	}
	n, ok := newNest(p.out[0].shape, cond.shape, x.shape, y.shape)
	if !ok {
		return nil, nil
	}
	return allTiles(n.tiles, &where{x.dt.Size(), n}), nil
}

func (k *where) tile(c *ops.Call, i, _ int) {
	switch k.width {
	case 1:
		chooseTile[uint8](k, c, i)
	case 2:
		chooseTile[uint16](k, c, i)
	case 4:
		chooseTile[uint32](k, c, i)
	case 8:
		chooseTile[uint64](k, c, i)
	default:
		chooseTile[complex128](k, c, i)
	}
}

// chooseVectors computes the whole vectors of a row, of elements of four bytes, and returns the
// number of elements.
func chooseVectors[T ndarray.Elem](d []T, cond []byte, x []T, sx int, y []T, sy int) int {
	if unsafe.Sizeof(d[0]) != 4 {
		return 0
	}
	words := func(v []T) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v)) }
	return vec.Choose(words(d), cond, words(x), sx, words(y), sy)
}

func chooseTile[T ndarray.Elem](k *where, c *ops.Call, i int) {
	dst, cond, x, y := elems[T](c.Out[0]), arrayOf(c.In[0]).Data, elems[T](c.In[1]), elems[T](c.In[2])
	n := k.n
	for w := n.walk(i); w.next(); {
		for r := range w.rows {
			o := w.out + r*w.cols
			chooseRow(dst[o:o+w.cols], cond[w.at[0]+r*n.row[0]:], n.step[0],
				x[w.at[1]+r*n.row[1]:], n.step[1], y[w.at[2]+r*n.row[2]:], n.step[2])
		}
	}
}

// chooseRow computes one row; the operands move by their steps.
func chooseRow[T ndarray.Elem](d []T, cond []byte, sc int, x []T, sx int, y []T, sy int) {
	if sc == 0 { // one choice for the whole row
		from, step := y, sy
		if cond[0] != 0 {
			from, step = x, sx
		}
		if step == 0 {
			fill(d, from[0])
		} else {
			copy(d, from)
		}
		return
	}
	k := chooseVectors(d, cond, x, sx, y, sy)
	i, j := k*sx, k*sy
	d = d[k:]
	for k, c := range cond[k:][:len(d)] {
		v := y[j]
		if c != 0 {
			v = x[i]
		}
		d[k] = v
		i, j = i+sx, j+sy
	}
}
