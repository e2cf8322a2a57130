package conformance

import (
	"cmp"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// Diff says how two values differ.
type Diff struct {
	Where      string  // place inside containers, "" for a plain tensor: "[2]", ".keys"
	Verb       string  // "is" a value of a type, "has" so many members: what differs when it is not elements
	Index      []int   // first element that differs
	Want, Got  string  // that element, or the type or number
	MaxAbs     float64 // largest absolute difference of any element
	MaxRel     float64 // largest difference relative to the wanted element
	Mismatched int     // elements out of tolerance
	Total      int     // elements compared

	// Whose says whose the two values are, "in B" and "in A": the one compared, then the other. Empty where the other is what is wanted.
	Whose [2]string
}

// Error prints the difference on one line.
func (d *Diff) Error() string {
	at := ""
	if d.Where != "" {
		at = d.Where + ": "
	}
	both := fmt.Sprintf("%s, want %s", d.Got, d.Want)
	if d.Whose[0] != "" {
		both = fmt.Sprintf("%s %s, %s %s", d.Got, d.Whose[0], d.Want, d.Whose[1])
	}
	if d.Verb != "" {
		return at + d.Verb + " " + both
	}
	return fmt.Sprintf("%selement %s is %s (%d of %d elements differ, largest difference %.3g, relative %.3g)",
		at, listText(d.Index), both, d.Mismatched, d.Total, d.MaxAbs, d.MaxRel)
}

// listText prints a shape or an index as types print shapes: [1,2].
func listText(list []int) string { return strings.ReplaceAll(fmt.Sprint(list), " ", ",") }

// Compare returns nil if got is what was wanted: the same kind, element type and
// shape; floats within the tolerance (NaN equals NaN, infinities equal
// themselves), everything else exactly. Types narrower than float32 get at least
// one unit in the last place: two for bfloat16, as the ONNX backend tests allow.
func Compare(got, want ndarray.Value, tol Tolerance) *Diff { return compareAt("", got, want, tol) }

func compareAt(where string, got, want ndarray.Value, tol Tolerance) *Diff {
	other := &Diff{Where: where, Verb: "is", Got: kindOf(got), Want: kindOf(want)}
	if isNone(want) && isNone(got) {
		return nil
	} else if isNone(want) || isNone(got) {
		return other
	}
	switch w := want.(type) {
	case *ndarray.Array:
		if g, ok := got.(*ndarray.Array); ok {
			return compareArrays(where, g, w, tol)
		}
	case *ndarray.Sequence:
		if g, ok := got.(*ndarray.Sequence); ok {
			return compareSequences(where, g, w, tol)
		}
	case *ndarray.Optional:
		if g, ok := got.(*ndarray.Optional); ok {
			return compareAt(where, g.Value, w.Value, tol)
		}
		return compareAt(where, got, w.Value, tol)
	case *ndarray.Map:
		if g, ok := got.(*ndarray.Map); ok {
			return compareMaps(where, g, w, tol)
		}
	case *ndarray.Sparse:
		if g, ok := got.(*ndarray.Sparse); ok {
			return compareSparse(where, g, w, tol)
		}
	}
	if g, ok := got.(*ndarray.Optional); ok {
		return compareAt(where, g.Value, want, tol)
	}
	return other
}

// compareMaps compares maps, whose keys have no order.
func compareMaps(where string, got, want *ndarray.Map, tol Tolerance) *Diff {
	if d := compareArrays(where+".keys", inOrder(got.Keys, got.Keys), inOrder(want.Keys, want.Keys), tol); d != nil {
		return d
	}
	g, ok1 := got.Values.(*ndarray.Array)
	w, ok2 := want.Values.(*ndarray.Array)
	if !ok1 || !ok2 || g.Len() != got.Keys.Len() || w.Len() != want.Keys.Len() {
		return compareAt(where+".values", got.Values, want.Values, tol)
	}
	return compareArrays(where+".values", inOrder(g, got.Keys), inOrder(w, want.Keys), tol)
}

// inOrder returns the elements of a vector by increasing key.
func inOrder(a, keys *ndarray.Array) *ndarray.Array {
	at := make([]int, keys.Len())
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(x, y int) int {
		if keys.DType == ndarray.String {
			return strings.Compare(keys.Str[x], keys.Str[y])
		}
		return cmp.Compare(keys.Int(x), keys.Int(y))
	})
	out := &ndarray.Array{DType: a.DType, Shape: a.Shape}
	size := a.DType.Size()
	for _, i := range at {
		if a.DType == ndarray.String {
			out.Str = append(out.Str, a.Str[i])
			continue
		}
		out.Data = append(out.Data, a.Data[i*size:][:size]...)
	}
	return out
}

func compareSequences(where string, got, want *ndarray.Sequence, tol Tolerance) *Diff {
	if len(got.Items) != len(want.Items) {
		return &Diff{Where: where, Verb: "has", Got: fmt.Sprint(len(got.Items), " members"), Want: fmt.Sprint(len(want.Items))}
	}
	for i := range want.Items {
		if d := compareAt(fmt.Sprintf("%s[%d]", where, i), got.Items[i], want.Items[i], tol); d != nil {
			return d
		}
	}
	return nil
}

func compareSparse(where string, got, want *ndarray.Sparse, tol Tolerance) *Diff {
	if !slices.Equal(got.Shape, want.Shape) {
		return &Diff{Where: where, Verb: "has shape", Got: listText(got.Shape), Want: listText(want.Shape)}
	}
	if d := compareArrays(where+".indices", got.Indices, want.Indices, tol); d != nil {
		return d
	}
	return compareArrays(where+".values", got.Values, want.Values, tol)
}

// isNone reports an absent value: nothing, or an optional that holds nothing.
func isNone(v ndarray.Value) bool {
	o, ok := v.(*ndarray.Optional)
	return v == nil || ok && (o == nil || isNone(o.Value))
}

func kindOf(v ndarray.Value) string {
	switch v := v.(type) {
	case *ndarray.Array:
		return v.String()
	case *ndarray.Sequence:
		return fmt.Sprintf("a sequence of %d", len(v.Items))
	case *ndarray.Optional:
		return "an optional"
	case *ndarray.Map:
		return "a map"
	case *ndarray.Sparse:
		return "a sparse tensor"
	}
	return "nothing"
}

func compareArrays(where string, got, want *ndarray.Array, tol Tolerance) *Diff {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return &Diff{Where: where, Verb: "is", Got: got.String(), Want: want.String()}
	}
	d := &Diff{Where: where, Total: want.Len()}
	within := closeness(want.DType, tol)
	for i := range d.Total {
		abs, ok := within(got, want, i)
		if ok {
			d.record(abs, magnitude(want, i))
			continue
		}
		d.record(abs, magnitude(want, i))
		if d.Mismatched++; d.Mismatched == 1 {
			d.Index, d.Got, d.Want = position(i, want.Shape), element(got, i), element(want, i)
		}
	}
	if d.Mismatched == 0 {
		return nil
	}
	return d
}

func (d *Diff) record(abs, size float64) {
	if abs > d.MaxAbs {
		d.MaxAbs = abs
	}
	if rel := abs / size; size > 0 && rel > d.MaxRel {
		d.MaxRel = rel
	}
	if math.IsInf(abs, 1) { // from a size that may be infinite or NaN itself
		d.MaxRel = abs
	}
}

// closeness returns the test of one element: its absolute difference and
// whether it is near enough.
func closeness(dt ndarray.DType, tol Tolerance) func(got, want *ndarray.Array, i int) (float64, bool) {
	rtol := tol.Rtol
	switch dt {
	case ndarray.String:
		return func(g, w *ndarray.Array, i int) (float64, bool) { return 0, g.Str[i] == w.Str[i] }
	case ndarray.Complex64, ndarray.Complex128:
		return func(g, w *ndarray.Array, i int) (float64, bool) {
			a, b := complexAt(g, i), complexAt(w, i)
			if a == b || cmplx.IsNaN(a) && cmplx.IsNaN(b) {
				return 0, true
			}
			diff := cmplx.Abs(a - b)
			return diff, diff <= tol.Atol+rtol*cmplx.Abs(b)
		}
	case ndarray.Float16:
		rtol = max(rtol, 0x1p-10)
	case ndarray.BFloat16:
		rtol = max(rtol, 0x1p-6)
	}
	if !dt.IsFloat() {
		return func(g, w *ndarray.Array, i int) (float64, bool) {
			a, b := g.Int(i), w.Int(i)
			return math.Abs(float64(a) - float64(b)), a == b
		}
	}
	return func(g, w *ndarray.Array, i int) (float64, bool) {
		a, b := g.Float(i), w.Float(i)
		if a == b || a != a && b != b {
			return 0, true
		}
		diff := math.Abs(a - b)
		if diff != diff { // one of them is NaN
			return math.Inf(1), false
		}
		return diff, diff <= tol.Atol+rtol*math.Abs(b) && !math.IsInf(b, 0)
	}
}

func complexAt(a *ndarray.Array, i int) complex128 {
	if a.DType == ndarray.Complex64 {
		return complex128(ndarray.Slice[complex64](a)[i])
	}
	return ndarray.Slice[complex128](a)[i]
}

func magnitude(a *ndarray.Array, i int) float64 {
	switch {
	case a.DType == ndarray.String:
		return 0
	case a.DType.IsComplex():
		return cmplx.Abs(complexAt(a, i))
	}
	return math.Abs(a.Float(i))
}

func element(a *ndarray.Array, i int) string {
	switch {
	case a.DType == ndarray.String:
		return fmt.Sprintf("%.80q", a.Str[i])
	case a.DType.IsComplex():
		return fmt.Sprint(complexAt(a, i))
	case a.DType.IsFloat():
		return fmt.Sprint(a.Float(i))
	case a.DType == ndarray.Bool:
		return fmt.Sprint(a.Int(i) != 0)
	case a.DType == ndarray.Uint64:
		return fmt.Sprint(uint64(a.Int(i)))
	}
	return fmt.Sprint(a.Int(i))
}

// position turns a linear index into one per axis.
func position(i int, shape []int) []int {
	out := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		out[k] = i % shape[k]
		i /= shape[k]
	}
	return out
}
