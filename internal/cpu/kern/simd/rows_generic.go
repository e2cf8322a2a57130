package simd

import (
	"math"
	"unsafe"
)

// Functions of rows in plain Go, with moments in float64.

// rowsGeneric does all rows.
func rowsGeneric(kernel RowKernel, a *RowArgs) {
	n := a.Cols
	for r := range a.Rows {
		dst, src := unsafe.Slice((*float32)(unsafe.Add(a.Dst, 4*n*r)), n), unsafe.Slice((*float32)(unsafe.Add(a.Src, 4*n*r)), n)
		if kernel == SoftmaxRows {
			sum := expSumGeneric(&dst[0], &src[0], n, maxGeneric(&src[0], n))
			binaryScalarGeneric(Mul, dst, dst, 1/sum)
		} else {
			normGeneric(dst, src, a, kernel == LayerNormRows)
		}
	}
	a.Rows = 0
}

// normGeneric normalizes one row.
func normGeneric(dst, src []float32, a *RowArgs, center bool) {
	gamma, mean, squares := unsafe.Slice((*float32)(a.Gamma), len(src)), 0.0, 0.0
	if center {
		mean = float64(sumGeneric(&src[0], len(src))) / a.Size
	}
	for _, v := range src {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	inv := 1 / math.Sqrt(squares/a.Size+a.Eps)
	for i, v := range src {
		dst[i] = float32((float64(v)-mean)*inv) * gamma[i]
	}
	if center {
		binaryGeneric(Add, dst, dst, unsafe.Slice((*float32)(a.Beta), len(src)))
	}
}
