package rewrite

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// Which numbers rules may store. A rule that merges constants removes an intermediate
// result, and its numbers are rounded to the element type. Two things must not happen:
//
//	digits are lost      0.0005 * 0.0005 is 2.5e-7; float16 has two bits for it
//	overflow is made     (a*300) @ (b*300) is finite where a * 90000 is not: float16 ends at 65504
//
// The rules:
//
//  1. A stored number is finite, and rounded by no more than the unit roundoff of its
//     type. Subnormal numbers, which have fewer digits, are stored only where they are
//     close enough ([keepsPrecision]).
//  2. Constants of a row of multiplications or additions merge only if the
//     intermediate result overflows and underflows where the merged one does ([sameRangeOfProduct],
//     [sameRangeOfSum]).
//  3. Numbers that fold into weights obey rule 1 alone. So a sum can be finite where
//     the written graph has an intermediate result that is infinite, never the reverse.
//
// Source: N. Higham, Accuracy and Stability of Numerical Algorithms, chapter 2.

// format is what rules must know of a float type.
type format struct {
	unit     float64 // unit roundoff: the largest relative error of rounding to a normal number
	least    float64 // the smallest normal number
	moderate float64 // numbers from 1/moderate to moderate: a product of two is far from the ends of the range
	nothing  float64 // weights below are as good as 0
}

// formats are the float types whose constants merge. float16 has too small a range for
// any number to be moderate. In the others, trained models have weights in the subnormal
// range and just above, of channels that died; they do not keep a scale from folding.
var formats = [ndarray.NumDTypes]format{
	ndarray.Float16:  {0x1p-11, 0x1p-14, 0, 0},
	ndarray.BFloat16: {0x1p-8, 0x1p-126, 0x1p31, 0x1p-100},
	ndarray.Float32:  {0x1p-24, 0x1p-126, 0x1p31, 0x1p-100},
	ndarray.Float64:  {0x1p-53, 0x1p-1022, 0x1p255, 0x1p-900},
}

// rounded is v in a float type.
func rounded(dt ndarray.DType, v float64) float64 { return floatScalar(dt, v).Float(0) }

// keepsPrecision reports that rounding the finite number exact to a float type was no
// worse than rounding to a normal number.
func keepsPrecision(dt ndarray.DType, exact, rounded float64) bool {
	f := formats[dt]
	return math.Abs(rounded) >= f.least && isFinite(rounded) || math.Abs(rounded-exact) <= math.Abs(exact)*f.unit
}

func isFinite(v float64) bool { return v-v == 0 }

// normal reports a finite number of a float type that has all its digits.
func normal(dt ndarray.DType, v float64) bool {
	r, f := rounded(dt, v), formats[dt]
	return f.least > 0 && isFinite(r) && math.Abs(r) >= f.least
}

// moderate reports numbers far from the ends of the type's range.
func moderate(dt ndarray.DType, vs ...float64) bool {
	most := formats[dt].moderate
	for _, v := range vs {
		if v = math.Abs(v); !(v <= most && v*most >= 1) {
			return false
		}
	}
	return true
}

// sameRangeOfProduct reports that (x*a)*b and x*p, p = a*b, overflow and underflow for the
// same x: x*a lies between x and x*p, or neither factor moves x far. Zero times an x*a that overflows is NaN.
func sameRangeOfProduct(dt ndarray.DType, a, b, p float64) bool {
	x, y := math.Abs(a), math.Abs(b)
	if a == 0 || b == 0 {
		return isFinite(b) && (x <= 1 || moderate(dt, a))
	}
	return normal(dt, p) && (x >= 1 && y >= 1 || x <= 1 && y <= 1 || moderate(dt, a, b))
}

// sameRangeOfSum reports that (x+a)+b and x+s, s = a+b, overflow for the same x, and that a
// and b do not nearly cancel, which rounds x on purpose. An addend below half a unit in the
// last place of the largest number makes no sum overflow.
func sameRangeOfSum(dt ndarray.DType, a, b, s float64) bool {
	if !isFinite(s) || math.Abs(s) < math.Max(math.Abs(a), math.Abs(b))/2 {
		return false
	}
	half := dt.MaxFinite() * formats[dt].unit / 2
	return a*b >= 0 || math.Abs(a) < half && math.Abs(b) < half
}
