package cpu

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Pad, all modes.
//
// The last padded dimension L and everything behind it make the rows; each has a
// body, copied in one piece, and two edges. For every dimension up to L a table
// says which source index stands at a result index, or that the fill does (-1):
//
//	result index   0  1  2  3  4  5  6
//	constant      -1 -1  0  1  2  3 -1
//	edge           0  0  0  1  2  3  3
//	reflect        2  1  0  1  2  3  2
//	wrap           2  3  0  1  2  3  0
//	                    └─ body ─┘
//
// A row whose outer dimensions hit a -1 is fill all over.

var padOps = []entry{
	{op: "Pad", prepare: preparePad},
}

type pad struct {
	width  int
	dims   []int     // result dimensions up to L
	ss     []int     // source strides, in bytes
	maps   [][]int32 // source index for every result index
	lo, hi int       // body of a row, in indices of L
	inner  int       // bytes behind one index of L
	fill   bool      // operand 2 holds the fill; else zero
	cut              // over rows
}

func preparePad(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	begin, ok := padBegin(p, len(x.shape))
	mode := ops.Str(p.node, "mode")
	if !ok || len(out.shape) != len(x.shape) || p.has(2) && (p.in[2].n != 1 || p.in[2].dt != x.dt) {
		return nil, nil
	}
	last := 0
	for i := range x.shape {
		if begin[i] != 0 || out.shape[i] != x.shape[i] {
			last = i
		}
	}
	k := &pad{width: x.dt.Size(), dims: out.shape[:last+1], fill: p.has(2)}
	k.inner = sizeOf(x.shape[last+1:]) * k.width
	strides := ops.Strides(x.shape)
	for i := range last + 1 {
		m := padMap(mode, x.shape[i], out.shape[i], begin[i])
		if m == nil {
			return nil, nil
		}
		k.maps = append(k.maps, m)
		k.ss = append(k.ss, strides[i]*k.width)
	}
	k.lo = min(max(begin[last], 0), out.shape[last])
	end := out.shape[last] - x.shape[last] - begin[last] // at the end
	k.hi = max(k.lo, out.shape[last]-max(end, 0))
	row := out.shape[last] * k.inner
	k.cut = newCut(sizeOf(k.dims[:last]), 1, max(1, tileBytes/row))
	return k, nil
}

// padBegin returns the pad before every dimension.
func padBegin(p *prep, rank int) ([]int, bool) {
	pads, ok := p.ints(1)
	if !ok {
		return nil, false
	}
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	if p.has(3) {
		if axes, ok = p.ints(3); !ok {
			return nil, false
		}
	}
	if len(pads) != 2*len(axes) {
		return nil, false
	}
	begin := make([]int, rank)
	for i, a := range axes {
		axis, err := ops.NormAxis(a, rank)
		if err != nil {
			return nil, false
		}
		begin[axis] = int(pads[i])
	}
	return begin, true
}

// padMap returns the source index of every result index, nil if there is none to
// repeat or the mode is unknown.
func padMap(mode string, in, out, begin int) []int32 {
	end := out - in - begin
	from := max(-begin, 0)                   // first source index that stays
	left := in + min(begin, 0) + min(end, 0) // how many stay
	if mode != "constant" && left <= 0 {
		return nil
	}
	m := make([]int32, out)
	for o := range m {
		i := o - max(begin, 0)
		switch mode {
		case "constant":
			if i < 0 || i >= left {
				m[o] = -1
				continue
			}
		case "edge":
			i = min(max(i, 0), left-1)
		case "wrap":
			i = (i%left + left) % left
		case "reflect":
			i = reflected(i, left)
		default:
			return nil
		}
		m[o] = int32(from + i)
	}
	return m
}

// reflected bounces a position off both ends of [0, n).
func reflected(i, n int) int {
	if n == 1 {
		return 0
	}
	period := 2 * (n - 1)
	i = (i%period + period) % period
	return min(i, period-i)
}

// Run writes all rows.
func (k *pad) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

var zeros [16]byte

func (k *pad) tile(c *ops.Call, i, _ int) {
	dst, src := arrayOf(c.Out[0]).Data, arrayOf(c.In[0]).Data
	elem := zeros[:k.width]
	if k.fill {
		elem = c.In[2].(*ndarray.Array).Data
	}
	last := len(k.dims) - 1
	size := k.dims[last] * k.inner
	r0, r1, _, _ := k.cut.tile(i)
	for r := r0; r < r1; r++ {
		row := dst[r*size : (r+1)*size]
		at, inside := 0, true
		for d, rest := last-1, r; d >= 0; d-- {
			m := k.maps[d][rest%k.dims[d]]
			rest /= k.dims[d]
			inside = inside && m >= 0
			at += int(m) * k.ss[d]
		}
		if !inside {
			fillBytes(row, elem)
			continue
		}
		k.row(row, src[at:], elem)
	}
}

// row writes one row that reads src.
func (k *pad) row(row, src, elem []byte) {
	m := k.maps[len(k.maps)-1]
	k.edge(row, src, elem, m, 0, k.lo)
	if k.hi > k.lo {
		from := int(m[k.lo]) * k.inner
		copy(row[k.lo*k.inner:k.hi*k.inner], src[from:])
	}
	k.edge(row, src, elem, m, k.hi, len(m))
}

// edge writes indices lo..hi of a row one by one.
func (k *pad) edge(row, src, elem []byte, m []int32, lo, hi int) {
	if lo < hi && m[lo] < 0 { // constant: the whole edge is fill
		fillBytes(row[lo*k.inner:hi*k.inner], elem)
		return
	}
	for o := lo; o < hi; o++ {
		from := int(m[o]) * k.inner
		copy(row[o*k.inner:(o+1)*k.inner], src[from:from+k.inner])
	}
}
