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

// bitwise prepares a bit operation on two operands of one integer type.
func bitwise(op binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		n := p.nestOfPair()
		if n == nil || p.out[0].dt != p.in[0].dt {
			return nil, nil
		}
		switch p.in[0].dt {
		case ndarray.Int64:
			return newPairwise(op, n, bitsRows[int64]), nil
		case ndarray.Int32:
			return newPairwise(op, n, bitsRows[int32]), nil
		case ndarray.Int16:
			return newPairwise(op, n, bitsRows[int16]), nil
		case ndarray.Int8:
			return newPairwise(op, n, bitsRows[int8]), nil
		case ndarray.Uint64:
			return newPairwise(op, n, bitsRows[uint64]), nil
		case ndarray.Uint32:
			return newPairwise(op, n, bitsRows[uint32]), nil
		case ndarray.Uint16:
			return newPairwise(op, n, bitsRows[uint16]), nil
		case ndarray.Uint8:
			return newPairwise(op, n, bitsRows[uint8]), nil
		}
		return nil, nil
	}
}

// logic prepares an operation on booleans.
func logic(op binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		if n := p.nestOfPair(); n != nil && p.all(ndarray.Bool) {
			return newPairwise(op, n, bitsRows[uint8]), nil
		}
		return nil, nil
	}
}

func prepareShift(p *prep) (ops.Kernel, error) {
	if ops.Str(p.node, "direction") == "LEFT" {
		return bitwise(opLeft)(p)
	}
	return bitwise(opRight)(p)
}

// bitsRows is a [rowsKernel].
func bitsRows[T integer](op binaryOp, d, a []T, ra, sa int, b []T, rb, sb, rows, cols int) {
	for r := range rows {
		bitsRow(op, d[r*cols:(r+1)*cols], a[r*ra:], sa, b[r*rb:], sb)
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
