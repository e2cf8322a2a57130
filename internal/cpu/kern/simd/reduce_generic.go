package simd

import (
	"math"
	"unsafe"
)

// Reductions in plain Go, summed in float64.

func sumGeneric(x *float32, n int) float32 {
	s := 0.0
	for _, v := range unsafe.Slice(x, n) {
		s += float64(v)
	}
	return float32(s)
}

func sumAbsGeneric(x *float32, n int) float32 {
	s := 0.0
	for _, v := range unsafe.Slice(x, n) {
		s += math.Abs(float64(v))
	}
	return float32(s)
}

func sumSqGeneric(x *float32, n int) float32 {
	s := 0.0
	for _, v := range unsafe.Slice(x, n) {
		s += float64(v) * float64(v)
	}
	return float32(s)
}

func dotGeneric(x, y *float32, n int) float32 {
	s := 0.0
	b := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		s += float64(v) * float64(b[i])
	}
	return float32(s)
}

func dotRowsGeneric(dst, x, rows *float32, n, k, ld, step int) {
	for i := range n {
		row := (*float32)(unsafe.Add(unsafe.Pointer(rows), i*ld))
		*(*float32)(unsafe.Add(unsafe.Pointer(dst), i*step)) = dotGeneric(x, row, k)
	}
}

func sumSqDiffGeneric(x *float32, n int, mean float32) float32 {
	s := 0.0
	for _, v := range unsafe.Slice(x, n) {
		d := float64(v) - float64(mean)
		s += d * d
	}
	return float32(s)
}

func maxGeneric(x *float32, n int) float32 {
	m := float32(math.Inf(-1))
	for _, v := range unsafe.Slice(x, n) {
		m = max(m, v)
	}
	return m
}

func minGeneric(x *float32, n int) float32 {
	m := float32(math.Inf(1))
	for _, v := range unsafe.Slice(x, n) {
		m = min(m, v)
	}
	return m
}

func expSumGeneric(dst, x *float32, n int, top float32) float32 {
	s := 0.0
	d := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(x, n) {
		e := math.Exp(float64(v) - float64(top))
		d[i] = float32(e)
		s += e
	}
	return float32(s)
}

func expSumOnlyGeneric(x *float32, n int, top float32) float32 {
	s := 0.0
	for _, v := range unsafe.Slice(x, n) {
		s += math.Exp(float64(v) - float64(top))
	}
	return float32(s)
}
