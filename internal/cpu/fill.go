package cpu

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operators whose result depends on shapes, or on a few numbers only.

var fillOps = []entry{
	{op: "Shape", prepare: prepareShape, empties: true},
	{op: "Size", prepare: prepareSize, empties: true},
	{op: "ConstantOfShape", prepare: prepareConstantOfShape, empties: true},
	{op: "Range", prepare: prepareRange},
	{op: "Trilu", prepare: prepareTrilu},
	{op: "OneHot", prepare: prepareOneHot},
}

// known is the kernel of a result that is known at preparation.
type known struct{ data []byte }

// Run copies the result.
func (k known) Run(c *ops.Call) error {
	dst := arrayOf(c.Out[0]).Data
	pieces(c, len(dst), func(lo, hi int) { copy(dst[lo:hi], k.data[lo:hi]) })
	return nil
}

// Choice says how it is computed.
func (known) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copy", Reason: "the result is known beforehand"}
}

func prepareShape(p *prep) (ops.Kernel, error) {
	rank := int64(len(p.in[0].shape))
	bound := func(name string, def int64) int64 {
		v := ops.IntOr(p.node, name, def)
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	start, end := bound("start", 0), bound("end", rank)
	var dims []int64
	for i := start; i < end; i++ {
		dims = append(dims, int64(p.in[0].shape[i]))
	}
	return p.knownInts(dims...), nil
}

func prepareSize(p *prep) (ops.Kernel, error) { return p.knownInts(int64(p.in[0].n)), nil }

// knownInts is the kernel of an int64 result that is known at preparation.
func (p *prep) knownInts(v ...int64) ops.Kernel {
	if p.out[0].dt != ndarray.Int64 || p.out[0].n != len(v) {
		return nil
	}
	return known{ndarray.Bytes(v)}
}

func prepareConstantOfShape(p *prep) (ops.Kernel, error) {
	elem := make([]byte, p.out[0].dt.Size())
	if a := p.node.Attr("value"); a != nil {
		if a.Tensor == nil || a.Tensor.Len() != 1 || a.Tensor.DType() != p.out[0].dt {
			return nil, nil
		}
		v, err := a.Tensor.Array()
		if err != nil {
			return nil, err
		}
		copy(elem, v.Data)
	}
	w := len(elem)
	return elementwise(p.out[0].n, TileBytes/w, func(c *ops.Call, lo, hi int) {
		fillBytes(arrayOf(c.Out[0]).Data[lo*w:hi*w], elem)
	}), nil
}

// arange is Range over one Go type: start + i·delta.
type arange[T number] struct{}

func prepareRange(p *prep) (ops.Kernel, error) {
	if p.in[0].n != 1 || p.in[2].n != 1 || p.in[0].dt != p.out[0].dt || p.in[2].dt != p.out[0].dt {
		return nil, nil
	}
	switch p.out[0].dt {
	case ndarray.Int64:
		return arange[int64]{}, nil
	case ndarray.Int32:
		return arange[int32]{}, nil
	case ndarray.Float32:
		return arange[float32]{}, nil
	case ndarray.Float64:
		return arange[float64]{}, nil
	}
	return nil, nil
}

// Run computes the progression.
func (arange[T]) Run(c *ops.Call) error {
	start, delta := elems[T](c.In[0])[0], elems[T](c.In[2])[0]
	out := elems[T](c.Out[0])
	pieces(c, len(out), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			step := T(i) * delta // rounded before it is added
			out[i] = start + step
		}
	})
	return nil
}

// Choice says how it is computed.
func (arange[T]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "in order of memory"}
}

// trilu keeps a triangle of every matrix.
type trilu struct {
	width      int
	rows, cols int
	matrices   int
	upper      bool
	diagonal   bool // operand 1 holds the diagonal; else 0
}

func prepareTrilu(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	r := len(x.shape)
	if r < 2 || p.has(1) && (p.in[1].n != 1 || p.in[1].dt != ndarray.Int64) {
		return nil, nil
	}
	return &trilu{
		width: x.dt.Size(), rows: x.shape[r-2], cols: x.shape[r-1], matrices: sizeOf(x.shape[:r-2]),
		upper: ops.Int(p.node, "upper") != 0, diagonal: p.has(1),
	}, nil
}

// Run goes through all rows; in place allowed.
func (k *trilu) Run(c *ops.Call) error {
	diagonal := int64(0)
	if k.diagonal {
		diagonal = elems[int64](c.In[1])[0]
	}
	// Diagonals beyond these bounds keep all or nothing.
	shift := int(max(-int64(k.rows), min(diagonal, int64(k.cols))))
	dst, src := arrayOf(c.Out[0]).Data, arrayOf(c.In[0]).Data
	size := k.cols * k.width
	for r := range k.matrices * k.rows {
		if r*k.cols%lookStep < k.cols && c.Ended() {
			break
		}
		keepFrom, keepTo := r%k.rows+shift, k.cols
		if !k.upper {
			keepFrom, keepTo = 0, r%k.rows+shift+1
		}
		lo := min(max(keepFrom, 0), k.cols) * k.width
		hi := max(min(max(keepTo, 0), k.cols)*k.width, lo)
		d, s := dst[r*size:(r+1)*size], src[r*size:(r+1)*size]
		clear(d[:lo])
		copy(d[lo:hi], s[lo:hi])
		clear(d[hi:])
	}
	return nil
}

// Choice says how it is computed.
func (k *trilu) Choice() backend.Choice {
	return backend.Choice{Algorithm: "rows"}
}

// oneHot marks indices along a new dimension.
type oneHot[I index] struct{ outer, depth, inner, width int }

func prepareOneHot(p *prep) (ops.Kernel, error) {
	return byIndex(0, newOneHot[int32], newOneHot[int64])(p)
}

func newOneHot[I index](p *prep) (ops.Kernel, error) {
	out := p.out[0]
	axis, _ := p.axis(len(out.shape)) // checked by inference
	if p.in[2].n != 2 || p.in[2].dt != out.dt {
		return nil, nil
	}
	k := &oneHot[I]{width: out.dt.Size()}
	k.outer, k.depth, k.inner = around(out.shape, axis)
	return k, nil
}

// Run fills with off and sets on where an index is in range.
func (k *oneHot[I]) Run(c *ops.Call) error {
	dst, values, w := arrayOf(c.Out[0]).Data, arrayOf(c.In[2]).Data, k.width
	for from := 0; from < len(dst) && !c.Ended(); from += lookStep * w {
		fillBytes(dst[from:min(from+lookStep*w, len(dst))], values[:w])
	}
	for i, v := range elems[I](c.In[0]) {
		if i%lookStep == 0 && c.Ended() {
			break
		}
		if int64(v) < -int64(k.depth) || int64(v) >= int64(k.depth) {
			continue
		}
		at := (i/k.inner*k.depth+wrapped(v, k.depth))*k.inner + i%k.inner
		copy(dst[at*w:(at+1)*w], values[w:2*w])
	}
	return nil
}

// Choice says how it is computed.
func (k *oneHot[I]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "fill, then the ones"}
}
