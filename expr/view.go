package expr

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/ops"
)

// Views are affine: element j of a view is the element of the source whose index along dimension d
// is start[d] plus step times an index of the view, for every dimension of the view that runs along d.
//
//	source [4 6]                 x.Slice(At 1:4, 0:6:2), transposed
//	. . . . . .                  shape [3 3]   start [1 0]
//	a . d . g .       a b c      of    [1 0]   dimension 0 runs along source dimension 1,
//	b . e . h .   ->  d e f      step  [2 1]   in steps of 2
//	c . f . i .       g h i
//
// So a view of a view is a view, a view of memory is a window, and a view of an elementwise operator is
// the operator over views of its operands: nothing is written out to be cut.

// view maps indices of a shape to those of a source.
type view struct {
	shape []int
	start []int // by dimension of the source
	of    []int // by dimension of the view: the dimension of the source that it runs along, or -1
	step  []int // likewise
}

// identity is the view of all of a shape.
func identity(shape []int) *view {
	v := &view{shape: slices.Clone(shape), start: make([]int, len(shape)), of: make([]int, len(shape)), step: slices.Repeat([]int{1}, len(shape))}
	for d := range v.of {
		v.of[d] = d
	}
	return v
}

// isIdentity reports a view of all of a source shape.
func (v *view) isIdentity(source []int) bool {
	if !slices.Equal(v.shape, source) {
		return false
	}
	for d, n := range v.shape {
		if n != 1 && (v.of[d] != d || v.step[d] != 1 || v.start[d] != 0) {
			return false
		}
	}
	return true
}

// isPermutation reports a view of all of a source shape, with the dimensions in another order.
func (v *view) isPermutation(source []int) bool {
	for d, n := range source {
		if j := slices.Index(v.of, d); j < 0 || v.shape[j] != n || v.start[d] != 0 {
			return false
		}
	}
	return len(v.of) == len(v.start) && !slices.ContainsFunc(v.step, func(s int) bool { return s != 1 })
}

// after is the view v of what u shows, as a view of u's source.
func (v *view) after(u *view) *view {
	if v == nil {
		return u
	}
	w := &view{shape: v.shape, start: slices.Clone(u.start), of: make([]int, len(v.of)), step: make([]int, len(v.of))}
	for k, d := range u.of {
		if d >= 0 {
			w.start[d] += u.step[k] * v.start[k]
		}
	}
	for j, k := range v.of {
		if w.of[j] = -1; k >= 0 && u.of[k] >= 0 {
			w.of[j], w.step[j] = u.of[k], u.step[k]*v.step[j]
		}
	}
	return w
}

// ofOperand is the view of an operand that a view of an elementwise result shows; dimensions along
// which the operand is repeated are 1. nil is all of it.
func (v *view) ofOperand(operand, result []int) *view {
	if v == nil || len(operand) == 0 {
		return nil
	}
	lead := len(result) - len(operand)
	w := &view{shape: slices.Clone(v.shape), start: make([]int, len(operand)), of: make([]int, len(v.of)), step: slices.Clone(v.step)}
	for d := range operand {
		if operand[d] == result[lead+d] {
			w.start[d] = v.start[lead+d]
		}
	}
	for j, d := range v.of {
		if w.of[j] = d - lead; d < lead || operand[d-lead] != result[d] {
			w.of[j], w.step[j], w.shape[j] = -1, 0, 1
		}
	}
	return w
}

// window is where the view of a tensor lies, given the strides of that. Dimensions that run along
// none are 1.
func (v *view) window(strides []int, first int) *window.Window {
	w := &window.Window{Shape: slices.Clone(v.shape), Strides: make([]int, len(v.shape)), First: first}
	for d, at := range v.start {
		w.First += at * strides[d]
	}
	for j, d := range v.of {
		if d < 0 {
			w.Shape[j] = min(w.Shape[j], 1)
		} else {
			w.Strides[j] = strides[d] * v.step[j]
		}
	}
	return w
}

// key tells views apart.
func (v *view) key() string {
	if v == nil {
		return ""
	}
	var b []byte
	for _, list := range [][]int{v.shape, v.start, v.of, v.step} {
		for _, n := range list {
			b = append(strconv.AppendInt(b, int64(n), 36), ' ')
		}
		b = append(b, ';')
	}
	return string(b)
}

// Range is the part of a dimension from Start up to, and without, End, in steps, as of ONNX's Slice:
// negative Start and End count from the back, and those beyond the dimension are cut to it. A Step of 0
// is 1; with a negative Step the range runs backwards, from Start down to End, which is not in it.
type Range struct{ Start, End, Step int }

// Ends that lie beyond every dimension.
const (
	ToEnd   = math.MaxInt     // End of a range up to the last element
	ToStart = math.MinInt + 1 // End of a range that runs backwards to the first
)

// All is the range of a whole dimension.
var All = Range{0, ToEnd, 1}

// Span is the range from start up to, and without, end.
func Span(start, end int) Range { return Range{start, end, 1} }

// cut is the first index, the step and the number of elements of a range along a dimension.
func (r Range) cut(n int) (start, step, count int) {
	if step = r.Step; step == 0 {
		step = 1
	}
	lowest, highest := 0, n
	if step < 0 {
		lowest, highest = -1, n-1
	}
	bound := func(i int) int {
		if i < 0 {
			i += n
		}
		return min(max(i, lowest), highest)
	}
	start, end := bound(r.Start), bound(r.End)
	if span := end - start; span != 0 && (span > 0) == (step > 0) {
		count = 1 + (max(span, -span)-1)/max(step, -step)
	}
	if count < 2 {
		step = 1 // which may be beyond all sizes, and says nothing
	}
	return start, step, count
}

// sliced is the view of parts of a shape; dimensions without a range are whole.
func sliced(shape []int, ranges []Range) (*view, error) {
	if len(ranges) > len(shape) {
		return nil, &ShapeError{"Slice", [][]int{shape}, "there are more ranges than dimensions"}
	}
	v := identity(shape)
	for d, r := range ranges {
		v.start[d], v.step[d], v.shape[d] = r.cut(shape[d])
	}
	return v, nil
}

// picked is the view of one index of a dimension, without that.
func picked(shape []int, axis, index int) (*view, error) {
	axis, err := ops.NormAxis(int64(axis), len(shape))
	if err == nil {
		index, err = ops.WrapIndex(int64(index), shape[axis])
	}
	if err != nil {
		return nil, &ShapeError{"Pick", [][]int{shape}, err.Error()}
	}
	v := identity(shape)
	v.start[axis] = index
	v.shape, v.of, v.step = slices.Delete(v.shape, axis, axis+1), slices.Delete(v.of, axis, axis+1), slices.Delete(v.step, axis, axis+1)
	return v, nil
}

// transposed is the view with dimensions in another order; without axes, in reverse.
func transposed(shape, axes []int) (*view, error) {
	if len(axes) == 0 {
		axes = make([]int, len(shape)) // the caller's slice may have room behind its end
		for d := range axes {
			axes[d] = len(shape) - 1 - d
		}
	}
	v := identity(shape)
	seen := make([]bool, len(shape))
	for j, axis := range axes {
		a, err := ops.NormAxis(int64(axis), len(shape))
		if len(axes) != len(shape) || err != nil || seen[a] {
			return nil, &ShapeError{"Transpose", [][]int{shape, axes}, "the axes are no order of the dimensions"}
		}
		seen[a] = true
		v.shape[j], v.of[j] = shape[a], a
	}
	return v, nil
}

// broadcast is the view that repeats a shape along dimensions of 1 and new leading ones.
func broadcast(shape, to []int) (*view, error) {
	lead := len(to) - len(shape)
	v := &view{shape: slices.Clone(to), start: make([]int, len(shape)), of: make([]int, len(to)), step: make([]int, len(to))}
	for j, n := range to {
		switch d := j - lead; {
		case n < 0 || lead < 0 || d >= 0 && shape[d] != n && shape[d] != 1:
			return nil, &ShapeError{"Broadcast", [][]int{shape, to}, "the first does not broadcast to the second"}
		case d < 0 || shape[d] != n:
			v.of[j] = -1
		default:
			v.of[j], v.step[j] = d, 1
		}
	}
	if lead < 0 {
		return nil, &ShapeError{"Broadcast", [][]int{shape, to}, "the first does not broadcast to the second"}
	}
	return v, nil
}

// look is a view of a node.
func look(x *node, v *view, err error) *node {
	depth, wrong := above(x)
	if err := cmp.Or(wrong, err); err != nil {
		return failed(err)
	}
	return &node{kind: looked, dt: x.dt, shape: v.shape, in: []*node{x}, depth: depth, view: v}
}

// Slice is the part of a value that the ranges show, one for each leading dimension; it is computed
// where it is read, and nothing outside of it is.
func Slice[T Elem](x Value[T], ranges ...Range) Expr[T] {
	n := nodeOf(x)
	if n.err != nil {
		return Expr[T]{n}
	}
	v, err := sliced(n.shape, ranges)
	return Expr[T]{look(n, v, err)}
}

// Pick is one index of a dimension, which the result lacks; a negative axis or index counts from the back.
func Pick[T Elem](x Value[T], axis, index int) Expr[T] {
	n := nodeOf(x)
	v, err := picked(n.shape, axis, index)
	return Expr[T]{look(n, v, err)}
}

// Transpose is a value with its dimensions in another order; without axes, in reverse. Negative axes count from the back.
func Transpose[T Elem](x Value[T], axes ...int) Expr[T] {
	n := nodeOf(x)
	v, err := transposed(n.shape, axes)
	return Expr[T]{look(n, v, err)}
}

// Broadcast repeats a value along dimensions of 1 and new leading ones, until it has the shape.
func Broadcast[T Elem](x Value[T], shape ...int) Expr[T] {
	n := nodeOf(x)
	v, err := broadcast(n.shape, shape)
	return Expr[T]{look(n, v, err)}
}
