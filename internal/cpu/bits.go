package cpu

import (
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operations on bits and on booleans, which are bytes of 0 and 1.

// bitsElem are the elements of bit operations: integers of either sign, seen without it.
type bitsElem interface {
	uint8 | uint16 | uint32 | uint64
}

// bitwise prepares a bit operation on two operands of one integer type.
func bitwise(op binaryOp) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		n := p.nestOfPair()
		if n == nil || p.out[0].dt != p.in[0].dt {
			return nil, nil
		}
		switch p.in[0].dt {
		case ndarray.Int64, ndarray.Uint64:
			return newPairwise(op, n, bitsRows[uint64]), nil
		case ndarray.Int32, ndarray.Uint32:
			return newPairwise(op, n, bitsRows[uint32]), nil
		case ndarray.Int16, ndarray.Uint16:
			return newPairwise(op, n, bitsRows[uint16]), nil
		case ndarray.Int8, ndarray.Uint8:
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
	switch {
	case ops.Str(p.node, "direction") == "LEFT":
		return bitwise(opLeft)(p)
	case p.in[0].dt.IsSigned():
		return bitwise(opRightSigned)(p)
	}
	return bitwise(opRight)(p)
}

// bitsRows is a [rowsKernel].
func bitsRows[T bitsElem](op binaryOp, d, a []T, ra, sa int, b []T, rb, sb, rows, cols int) {
	for r := range rows {
		bitsRow(op, d[r*cols:(r+1)*cols], a[r*ra:], sa, b[r*rb:], sb)
	}
}

func bitsRow[T bitsElem](op binaryOp, d, a []T, sa int, b []T, sb int) {
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
	case opRightSigned:
		unused := 64 - 8*unsafe.Sizeof(T(0))
		for k := range d {
			d[k] = T(int64(uint64(a[i])<<unused) >> unused >> shiftCount(b[j]))
			i, j = i+sa, j+sb
		}
	}
}

// shiftCount lets counts outside of the width, negative ones among them, move everything out.
func shiftCount[T bitsElem](n T) uint64 {
	if uint64(n) >= uint64(8*unsafe.Sizeof(n)) {
		return 64
	}
	return uint64(n)
}
