package cpu

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// remap reads a result from operand 0 by a table of source indices for each dimension:
// Pad and Resize of nearest elements.
//
// The last dimension with a table, L, and everything behind it make the rows. A row
// has a body whose source indices are consecutive, copied in one piece, and an edge on
// either side. A row that reads the same source row as the one before is a copy of it.
// Index -1 stands for the fill: operand 2, or zero. A row whose outer dimensions hit
// one is fill all over.
type remap struct {
	width  int       // bytes of an element
	maps   [][]int32 // source index for every result index, up to L
	ss     []int     // source strides, in bytes
	lo, hi int       // body of a row, in indices of L
	inner  int       // bytes behind one index of L
	fill   bool      // operand 2 is the fill; else zero
}

// indices is what the tables of remap are called where memory is asked for.
const indices = "tables of indices"

// newRemap prepares the tables of the dimensions of operand 0, up to the last one that
// changes.
func newRemap(p *prep, maps [][]int32, fill bool) ops.Kernel {
	x, last := p.in[0], len(maps)-1
	k := &remap{width: x.dt.Size(), maps: maps, fill: fill, ss: ops.Strides(x.shape)[:last+1]}
	for i := range k.ss {
		k.ss[i] *= k.width
	}
	k.inner = k.ss[last]
	m, start := maps[last], 0
	for i := 1; i <= len(m); i++ {
		if i == len(m) || m[i-1] < 0 || m[i] != m[i-1]+1 {
			if m[start] >= 0 && i-start > k.hi-k.lo {
				k.lo, k.hi = start, i
			}
			start = i
		}
	}
	rows := 1
	for _, outer := range maps[:last] {
		rows *= len(outer)
	}
	return rowwise(rows, TileBytes/(len(m)*k.inner), k.rows)
}

var zeros [16]byte

// rows writes rows r0 up to r1.
func (k *remap) rows(c *ops.Call, r0, r1 int) {
	dst, src := arrayOf(c.Out[0]).Data, arrayOf(c.In[0]).Data
	elem := zeros[:k.width]
	if k.fill {
		elem = arrayOf(c.In[2]).Data
	}
	last := len(k.maps) - 1
	size := len(k.maps[last]) * k.inner
	before := -1 // what the row before reads
	for r := r0; r < r1; r++ {
		row := dst[r*size : (r+1)*size]
		at, inside := 0, true
		for d, rest := last-1, r; d >= 0; d-- {
			m := k.maps[d][rest%len(k.maps[d])]
			rest /= len(k.maps[d])
			inside = inside && m >= 0
			at += int(m) * k.ss[d]
		}
		switch {
		case !inside:
			fillRow(c, row, elem)
			at = -1
		case at == before:
			copyRow(c, row, dst[(r-1)*size:r*size])
		default:
			k.row(c, row, src[at:], elem)
		}
		before = at
	}
}

// row writes one row that reads src.
func (k *remap) row(c *ops.Call, row, src, elem []byte) {
	m := k.maps[len(k.maps)-1]
	k.edge(c, row[:k.lo*k.inner], src, elem, m[:k.lo])
	if k.hi > k.lo {
		copyRow(c, row[k.lo*k.inner:k.hi*k.inner], src[int(m[k.lo])*k.inner:])
	}
	k.edge(c, row[k.hi*k.inner:], src, elem, m[k.hi:])
}

// fillRow is [fillBytes], piece by piece.
func fillRow(c *ops.Call, row, elem []byte) {
	pieces(c, len(row)/len(elem), func(lo, hi int) { fillBytes(row[lo*len(elem):hi*len(elem)], elem) })
}

// copyRow is copy to all of a row, piece by piece.
func copyRow(c *ops.Call, row, src []byte) {
	pieces(c, len(row), func(lo, hi int) { copy(row[lo:hi], src[lo:hi]) })
}

// edge writes a part of a row index by index.
func (k *remap) edge(c *ops.Call, row, src, elem []byte, m []int32) {
	switch {
	case len(m) > 0 && m[0] < 0: // the whole edge is fill
		fillRow(c, row, elem)
	case k.inner == 4 && k.width == 4:
		pickRow(c, ndarray.Slice[uint32](&ndarray.Array{Data: row}), ndarray.Slice[uint32](&ndarray.Array{Data: src}), m)
	case k.inner == 1:
		pickRow(c, row, src, m)
	default:
		for i, from := range m {
			if i%lookStep == lookStep-1 && c.Ended() {
				return
			}
			copyRow(c, row[i*k.inner:(i+1)*k.inner], src[int(from)*k.inner:])
		}
	}
}

func pickRow[T any](c *ops.Call, row, src []T, m []int32) {
	pieces(c, len(m), func(lo, hi int) {
		for i, from := range m[lo:hi] {
			row[lo+i] = src[from]
		}
	})
}
