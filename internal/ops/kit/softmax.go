package kit

import "math"

// Softmax and its relatives work on lines along one axis:
//
//	shape [2 3 4], axis 1:  outer 2, line 3, inner 4 (the step inside a line)
//
// A line is read whole before its first element is written.

// EachLine replaces every line along an axis by what f makes of it.
func EachLine[T any](v []T, shape []int, axis int, f func(line []T)) {
	outer, size, inner := SplitDims(shape, axis)
	line := make([]T, size)
	for i := range outer * inner {
		at := i/inner*size*inner + i%inner
		for k := range line {
			line[k] = v[at+k*inner]
		}
		f(line)
		for k, x := range line {
			v[at+k*inner] = x
		}
	}
}

// LineMax is the maximum of a line and a floor, NaN if one is in it.
func LineMax[T RealNum](line []T, floor float64) float64 {
	for _, v := range line {
		if x := float64(v); x > floor || x != x {
			floor = x
		}
	}
	return floor
}

// Softmax replaces a line by exp(x-m) / Σ exp(x-m), where m is its maximum, so that
// nothing overflows. The sum also has a term for the score sink; -Inf is none.
func Softmax[T RealNum](line []T, sink float64) {
	m := LineMax(line, sink)
	sum := 0.0
	if !math.IsInf(sink, -1) {
		sum = math.Exp(sink - m)
	}
	for _, v := range line {
		sum += math.Exp(float64(v) - m)
	}
	for i, v := range line {
		line[i] = T(math.Exp(float64(v)-m) / sum)
	}
}

// SoftmaxLine is softmax without a sink.
func SoftmaxLine[T RealNum](line []T) { Softmax(line, math.Inf(-1)) }

// SoftmaxRows applies softmax to every row of width elements. A row of -Inf, whose
// positions are all masked, gives zeros.
func SoftmaxRows[T RealNum](v []T, width int) {
	for i := 0; width > 0 && i < len(v); i += width {
		row := v[i : i+width]
		if math.IsInf(LineMax(row, math.Inf(-1)), -1) {
			clear(row)
			continue
		}
		SoftmaxLine(row)
	}
}

// LogSoftmaxLine replaces a line by x - ln Σ exp(x).
func LogSoftmaxLine(line []float64) {
	m, sum := LineMax(line, math.Inf(-1)), 0.0
	for _, v := range line {
		sum += math.Exp(v - m)
	}
	shift := m + math.Log(sum)
	for i := range line {
		line[i] -= shift
	}
}
