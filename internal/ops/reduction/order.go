package reduction

import (
	"cmp"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// orderOf returns how elements i and j of an array compare when ranked: above 0
// if i ranks before j, below 0 the other way, 0 for equals. sign 1 ranks large
// elements first, -1 small ones; NaN ranks first either way, as in numpy's maximum
// and minimum.
func orderOf(c *ops.Call, a *ndarray.Array, sign int) func(i, j int) int {
	switch dt := a.DType; {
	case dt.IsFloat():
		s := kit.Elements[float64](c, a)
		return func(i, j int) int { return rankFloat(s[i], s[j], sign) }
	case dt == ndarray.Uint64:
		s := kit.Elements[uint64](c, a)
		return func(i, j int) int { return sign * cmp.Compare(s[i], s[j]) }
	case dt.IsInteger() || dt == ndarray.Bool:
		s := kit.Elements[int64](c, a)
		return func(i, j int) int { return sign * cmp.Compare(s[i], s[j]) }
	}
	panic(kit.Failure{Err: kit.UnsupportedType(a.DType)})
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
