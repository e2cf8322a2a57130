package kit

import (
	"math"

	"github.com/berth-onnx/berth/ops"
)

// Softmax and its relatives work on lines along one axis:
//
//	shape [2 3 4], axis 1:  outer 2, line 3, inner 4 (the step inside a line)
//
// A line is read whole before its first element is written.

// EachLine replaces every line along an axis by what f makes of it.
func EachLine[T any](c *ops.Call, v []T, shape []int, axis int, f func(w *Watch, line []T)) {
	outer, size, inner := SplitDims(shape, axis)
	line, w := Make[T](c, size), Watching(c)
	for i := range outer * inner {
		w.Did(size)
		at := i/inner*size*inner + i%inner
		for k := range line {
			line[k] = v[at+k*inner]
		}
		f(&w, line)
		for k, x := range line {
			v[at+k*inner] = x
		}
	}
}

// LineMax is the maximum of a line and a floor, NaN if one is in it.
func LineMax[T RealNum](w *Watch, line []T, floor float64) float64 {
	for _, v := range line {
		w.Did(1)
		if x := float64(v); x > floor || x != x {
			floor = x
		}
	}
	return floor
}

// Softmax replaces a line by exp(x-m) / Σ exp(x-m), where m is its maximum, so that
// nothing overflows. The sum also has a term for the score sink; -Inf is none.
func Softmax[T RealNum](w *Watch, line []T, sink float64) {
	m := LineMax(w, line, sink)
	sum := 0.0
	if !math.IsInf(sink, -1) {
		sum = math.Exp(sink - m)
	}
	for _, v := range line {
		w.Did(1)
		sum += math.Exp(float64(v) - m)
	}
	for i, v := range line {
		w.Did(1)
		line[i] = T(math.Exp(float64(v)-m) / sum)
	}
}

// SoftmaxLine is softmax without a sink.
func SoftmaxLine[T RealNum](w *Watch, line []T) { Softmax(w, line, math.Inf(-1)) }

// SoftmaxRows applies softmax to every row of width elements. A row of -Inf, whose
// positions are all masked, gives zeros.
func SoftmaxRows[T RealNum](c *ops.Call, v []T, width int) {
	w := Watching(c)
	for i := 0; width > 0 && i < len(v); i += width {
		row := v[i : i+width]
		if math.IsInf(LineMax(&w, row, math.Inf(-1)), -1) {
			clear(row)
			continue
		}
		SoftmaxLine(&w, row)
	}
}

// LogSoftmaxLine replaces a line by x - m - ln Σ exp(x-m), where m is its maximum. The logarithm is not added to m, which rounds it off where m is large.
func LogSoftmaxLine(w *Watch, line []float64) {
	m, sum := LineMax(w, line, math.Inf(-1)), 0.0
	for _, v := range line {
		w.Did(1)
		sum += math.Exp(v - m)
	}
	log := math.Log(sum)
	for i := range line {
		w.Did(1)
		line[i] = line[i] - m - log
	}
}
