package ops

import "math"

// Softmax and its relatives work on lines along one axis:
//
//	shape [2 3 4], axis 1:  outer 2, line 3, inner 4 (the step inside a line)
//
// A line is read whole before its first element is written.

// eachLine replaces every line along an axis by what f makes of it.
func eachLine[T any](v []T, shape []int, axis int, f func(line []T)) {
	outer, size, inner := splitDims(shape, axis)
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

// lineMax is the maximum of a line and a floor, NaN if one is in it.
func lineMax[T realNum](line []T, floor float64) float64 {
	for _, v := range line {
		if x := float64(v); x > floor || x != x {
			floor = x
		}
	}
	return floor
}

// softmax replaces a line by exp(x-m) / Σ exp(x-m), where m is its maximum, so that
// nothing overflows. The sum also has a term for the score sink; -Inf is none.
func softmax[T realNum](line []T, sink float64) {
	m := lineMax(line, sink)
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

// softmaxLine is softmax without a sink.
func softmaxLine[T realNum](line []T) { softmax(line, math.Inf(-1)) }

// softmaxRows applies softmax to every row of width elements. A row of -Inf, whose
// positions are all masked, gives zeros.
func softmaxRows[T realNum](v []T, width int) {
	for i := 0; width > 0 && i < len(v); i += width {
		row := v[i : i+width]
		if math.IsInf(lineMax(row, math.Inf(-1)), -1) {
			clear(row)
			continue
		}
		softmaxLine(row)
	}
}

// logSoftmaxLine replaces a line by x - ln Σ exp(x).
func logSoftmaxLine(line []float64) {
	m, sum := lineMax(line, math.Inf(-1)), 0.0
	for _, v := range line {
		sum += math.Exp(v - m)
	}
	shift := m + math.Log(sum)
	for i := range line {
		line[i] -= shift
	}
}
