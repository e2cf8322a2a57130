package ops

import (
	"cmp"
	"errors"

	"github.com/berth-onnx/berth/ndarray"
)

// errEmptyAxis is the error of asking for the best element of nothing.
var errEmptyAxis = errors.New("the axis has no elements")

// orderOf returns how elements i and j of an array compare when ranked: above 0
// if i ranks before j, below 0 the other way, 0 for equals. sign 1 ranks large
// elements first, -1 small ones; NaN ranks first with sign 1 as numpy's maximum
// has it, and with sign -1 as well.
func orderOf(a *ndarray.Array, sign int) func(i, j int) int {
	switch dt := a.DType; {
	case dt.IsFloat():
		s := elements[float64](a)
		return func(i, j int) int { return rankFloat(s[i], s[j], sign) }
	case dt == ndarray.Uint64:
		s := elements[uint64](a)
		return func(i, j int) int { return sign * cmp.Compare(s[i], s[j]) }
	case dt.IsInteger() || dt == ndarray.Bool:
		s := elements[int64](a)
		return func(i, j int) int { return sign * cmp.Compare(s[i], s[j]) }
	}
	panic(failure{unsupportedType(a.DType)})
}

func rankFloat(x, y float64, sign int) int {
	switch {
	case x != x && y != y:
		return 0
	case x != x:
		return 1
	case y != y:
		return -1
	}
	return sign * cmp.Compare(x, y)
}
