package trial

import (
	"math"
	"math/rand/v2"
)

// counts are what is tried of counts and sizes, in turn.
var counts = [...]int64{3, 7, 1, 2, 4, 8, 16}

// Tries is how many different draws there are of a role.
const Tries = len(counts)

// mostElements are those of the largest tensor that counts and sizes give.
const mostElements = 1 << 22

// Drawing draws the elements of one input.
type Drawing struct {
	Role  Role
	Len   int              // elements
	Sizes map[string]int64 // of symbols
	Try   int              // below Tries
	Rand  *rand.Rand
}

// Element is element i of an input of some role. It is false for plain elements.
func (d *Drawing) Element(i int) (x float64, ok bool) {
	role := &d.Role
	switch role.Kind {
	case Plain:
		return 0, false
	case Count:
		return d.below(counts[d.Try]), true
	case Size:
		return d.size(i), true
	case Index:
		return float64(d.Rand.Int64N(d.limit(2))), true
	case Length:
		most := d.limit(1)
		if i == 0 {
			return float64(most), true
		}
		return float64(1 + d.Rand.Int64N(most)), true
	case Axis:
		return float64(i), true
	case Start:
		return 0, true
	case Step, Truth, Most:
		return 1, true
	case Scale:
		if i < d.Len-2 {
			return 1, true
		}
		return 2, true
	case Part:
		return d.part(i), true
	case Repeat:
		return d.factor(int64(1 + (d.Try+1)%3)), true
	case Positive:
		return 0.5 + d.Rand.Float64(), true
	case Fraction:
		return 0.5, true
	}
	return -1, true // Least
}

// factor is a number of which the product of all elements is of a tensor that is not too large, or one that is less.
func (d *Drawing) factor(n int64) float64 {
	room := float64(mostElements)
	if d.Role.Op == "Expand" || d.Role.Kind == Repeat { // the tensor has more elements already
		for _, dim := range d.Role.of {
			if k, ok := dim.Bind(d.Sizes).Const(); ok && k > 0 {
				room /= float64(k)
			}
		}
	}
	for n > 1 && math.Pow(float64(n), float64(d.Len)) > room {
		n--
	}
	return float64(n)
}

// below is a count, within the limit of the indices that are made of it.
func (d *Drawing) below(n int64) float64 {
	if len(d.Role.limits) > 0 {
		n = min(n, max(d.limit(n+1)-1, 1))
	}
	return d.factor(n)
}

// limit is the least of the limits that are known, or another number if none is, but 1 at least.
func (d *Drawing) limit(other int64) int64 {
	most := int64(-1)
	for _, limit := range d.Role.limits {
		if n, ok := limit.Bind(d.Sizes).Const(); ok && n > 0 && (most < 0 || n < most) {
			most = n
		}
	}
	if most < 0 {
		return other
	}
	return most
}

// size is element i of a shape. Of a whole one it is that of the operand: as it is, larger along the axes of images, or with its axes the other way round.
func (d *Drawing) size(i int) float64 {
	role := &d.Role
	dim := func(k int) (int64, bool) {
		if k < 0 || k >= len(role.of) {
			return 0, false
		}
		return role.of[k].Bind(d.Sizes).Const()
	}
	switch {
	case !role.whole && role.Op == "Reshape":
		return float64([...]int64{1, 2, 3, 4, 8, 7, 16}[d.Try])
	case !role.whole:
		return d.factor(counts[d.Try])
	case role.Op == "Reshape" && d.Len == len(role.of) && d.Try == 0:
		if n, ok := dim(d.Len - 1 - i); ok {
			return float64(n)
		}
		fallthrough
	case role.Op == "Reshape":
		if i == 0 {
			return -1
		}
		return 1
	case role.Op == "Col2Im": // blocks of one pixel
		if n, ok := dim(len(role.of) - 1); ok && i == 0 {
			return float64(n)
		}
		return 1
	case role.Op == "Expand":
		if n, ok := dim(len(role.of) - d.Len + i); ok && n != 1 {
			return float64(n)
		}
	case d.Len == len(role.of):
		if n, ok := dim(i); ok && i < d.Len-2 {
			return float64(n)
		} else if ok {
			return float64(n * int64(d.Try+2))
		}
	case role.Op == "AffineGrid" && i == 0:
		if n, ok := dim(0); ok {
			return float64(n)
		}
	}
	return d.factor(counts[d.Try])
}

// part is element i of the parts of an axis.
func (d *Drawing) part(i int) float64 {
	role := &d.Role
	axis := role.axis
	if axis < 0 {
		axis += len(role.of)
	}
	if !role.whole || axis < 0 || axis >= len(role.of) {
		return float64(counts[d.Try])
	}
	all, ok := role.of[axis].Bind(d.Sizes).Const()
	if !ok {
		return float64(counts[d.Try])
	}
	n := int64(max(d.Len, 1))
	if i == d.Len-1 {
		return float64(all - (n-1)*(all/n))
	}
	return float64(all / n)
}

// Others are the integers that are worth trying for all elements of an input besides those that Element draws first.
func (d *Drawing) Others() []int64 {
	switch d.Role.Kind {
	case Count:
		return []int64{int64(d.below(counts[1])), 0}
	case Index:
		return []int64{d.limit(2) - 1, 0}
	case Length:
		return []int64{1, d.limit(1)}
	case Truth:
		return []int64{0}
	}
	return nil
}

// Text names a kind of elements.
func (k Kind) Text() string {
	return [...]string{Plain: "numbers", Count: "a count", Size: "sizes", Index: "indices", Length: "lengths", Axis: "axes", Start: "a start", Step: "a step or divisor",
		Truth: "a condition", Scale: "scales", Part: "parts", Repeat: "repeats", Positive: "positive numbers", Fraction: "a fraction", Least: "a lower bound", Most: "an upper bound"}[k]
}
