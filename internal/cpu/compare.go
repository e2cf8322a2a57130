package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Comparisons, which give booleans. NaN is neither less, equal nor greater.

var compareOps = []entry{
	{op: "Equal", prepare: comparison(opEqual, 0, 1)},
	{op: "Less", prepare: comparison(opLess, 0, 1)},
	{op: "LessOrEqual", prepare: comparison(opAtMost, 0, 1)},
	{op: "Greater", prepare: comparison(opLess, 1, 0)},
	{op: "GreaterOrEqual", prepare: comparison(opAtMost, 1, 0)},
}

// comparison prepares a comparison of the operand at position left with the one at
// position right.
func comparison(op binaryOp, left, right int) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		n := p.nestOfPair()
		if n == nil {
			return nil, nil
		}
		switch p.in[0].dt {
		case ndarray.Float32:
			return newVectorCompare(op, left, right, n, vec.CompareFloats), nil
		case ndarray.Float64:
			return newCompare[float64](op, left, right, n), nil
		case ndarray.Int64:
			return newVectorCompare(op, left, right, n, vec.CompareLongs), nil
		case ndarray.Int32:
			return newVectorCompare(op, left, right, n, vec.CompareInts), nil
		case ndarray.Int16:
			return newCompare[int16](op, left, right, n), nil
		case ndarray.Int8, ndarray.Int4, ndarray.Int2:
			return newCompare[int8](op, left, right, n), nil
		case ndarray.Uint64:
			return newCompare[uint64](op, left, right, n), nil
		case ndarray.Uint32:
			return newCompare[uint32](op, left, right, n), nil
		case ndarray.Uint16:
			return newCompare[uint16](op, left, right, n), nil
		case ndarray.Uint8, ndarray.Uint4, ndarray.Uint2, ndarray.Bool:
			return newCompare[uint8](op, left, right, n), nil
		}
		return nil, nil
	}
}

func newCompare[T number](op binaryOp, left, right int, n *nest) ops.Kernel {
	return allTiles(n.tiles, &pairwise[T, bool]{op, n, left, right, compareRows[T]})
}

// newVectorCompare compares whole vectors by a function of package vec, and the rest of a row
// by the typed loop.
func newVectorCompare[T number](op binaryOp, left, right int, n *nest, vectors func(r simd.Relation, d []bool, a []T, sa int, b []T, sb int) int) ops.Kernel {
	relation := map[binaryOp]simd.Relation{opEqual: simd.Equal, opLess: simd.Less, opAtMost: simd.AtMost}[op]
	return allTiles(n.tiles, &pairwise[T, bool]{op, n, left, right, func(op binaryOp, d []bool, a []T, ra, sa int, b []T, rb, sb, rows, cols int) {
		for r := range rows {
			d, a, b := d[r*cols:(r+1)*cols], a[r*ra:], b[r*rb:]
			i := vectors(relation, d, a, sa, b, sb)
			compareRow(op, d[i:], a[min(i*sa, len(a)):], sa, b[min(i*sb, len(b)):], sb)
		}
	}})
}

// compareRows is a [rowsKernel].
func compareRows[T number](op binaryOp, d []bool, a []T, ra, sa int, b []T, rb, sb, rows, cols int) {
	for r := range rows {
		compareRow(op, d[r*cols:(r+1)*cols], a[r*ra:], sa, b[r*rb:], sb)
	}
}

func compareRow[T number](op binaryOp, d []bool, a []T, sa int, b []T, sb int) {
	i, j := 0, 0
	switch op {
	case opEqual:
		for k := range d {
			d[k] = a[i] == b[j]
			i, j = i+sa, j+sb
		}
	case opLess:
		for k := range d {
			d[k] = a[i] < b[j]
			i, j = i+sa, j+sb
		}
	case opAtMost:
		for k := range d {
			d[k] = a[i] <= b[j]
			i, j = i+sa, j+sb
		}
	}
}
