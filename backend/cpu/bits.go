package cpu

import (
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operations on bits and on booleans, which are bytes of 0 and 1.

// integer is what bit operations are defined on.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// bits runs a bit operation over a Go type.
type bits[T integer] struct {
	op binaryOp
	n  *nest
}

// bitwise prepares a bit operation on two operands of one integer type.
func bitwise(op binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		a, b, out := p.in[0], p.in[1], p.out[0]
		if a.dt != b.dt || a.dt != out.dt {
			return nil, nil
		}
		n, ok := newNest(out.shape, a.shape, b.shape)
		if !ok {
			return nil, nil
		}
		return newBits(a.dt, op, n), nil
	}
}

func newBits(dt ndarray.DType, op binaryOp, n *nest) ops.Kernel {
	switch dt {
	case ndarray.Int64:
		return &bits[int64]{op, n}
	case ndarray.Int32:
		return &bits[int32]{op, n}
	case ndarray.Int16:
		return &bits[int16]{op, n}
	case ndarray.Int8:
		return &bits[int8]{op, n}
	case ndarray.Uint64:
		return &bits[uint64]{op, n}
	case ndarray.Uint32:
		return &bits[uint32]{op, n}
	case ndarray.Uint16:
		return &bits[uint16]{op, n}
	case ndarray.Uint8:
		return &bits[uint8]{op, n}
	}
	return nil
}

// logic prepares an operation on booleans.
func logic(op binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		if !p.all(ndarray.Bool) {
			return nil, nil
		}
		n, ok := newNest(p.out[0].shape, p.in[0].shape, p.in[1].shape)
		if !ok {
			return nil, nil
		}
		return &bits[uint8]{op, n}, nil
	}
}

func prepareShift(p *prep) (ops.Kernel, error) {
	switch ops.Str(p.node, "direction") {
	case "LEFT":
		return bitwise(opLeft)(p)
	case "RIGHT":
		return bitwise(opRight)(p)
	}
	return nil, nil
}

// Run computes all tiles.
func (k *bits[T]) Run(c *ops.Call) error {
	runTiles(c, k.n.tiles, k)
	return nil
}

func (k *bits[T]) tile(c *ops.Call, i, _ int) {
	dst, a, b := elems[T](c.Out[0]), elems[T](c.In[0]), elems[T](c.In[1])
	n := k.n
	for w := n.walk(i); w.next(); {
		for r := range w.rows {
			o := w.out + r*w.cols
			bitsRow(k.op, dst[o:o+w.cols], a[w.at[0]+r*n.row[0]:], n.step[0], b[w.at[1]+r*n.row[1]:], n.step[1])
		}
	}
}

func bitsRow[T integer](op binaryOp, d, a []T, sa int, b []T, sb int) {
	i, j := 0, 0
	switch op {
	case opAnd:
		for k := range d {
			d[k] = a[i] & b[j]
			i, j = i+sa, j+sb
		}
	case opOr:
		for k := range d {
			d[k] = a[i] | b[j]
			i, j = i+sa, j+sb
		}
	case opXor:
		for k := range d {
			d[k] = a[i] ^ b[j]
			i, j = i+sa, j+sb
		}
	case opLeft:
		for k := range d {
			d[k] = a[i] << shiftCount(b[j])
			i, j = i+sa, j+sb
		}
	case opRight:
		for k := range d {
			d[k] = a[i] >> shiftCount(b[j])
			i, j = i+sa, j+sb
		}
	}
}

// shiftCount lets counts outside of the width move everything out.
func shiftCount[T integer](n T) uint64 {
	if n < 0 || uint64(n) >= uint64(8*unsafe.Sizeof(n)) {
		return 64
	}
	return uint64(n)
}
