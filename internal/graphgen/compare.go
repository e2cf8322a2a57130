package graphgen

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// Tolerance says how far floats may be apart: |a-b| <= Abs + Rel*|b|. The zero
// value wants equal numbers (0 equals -0, NaN equals NaN).
type Tolerance struct{ Abs, Rel float64 }

// Noise is the tolerance for reassociated float32 arithmetic.
var Noise = Tolerance{Abs: 1e-4, Rel: 1e-3}

// Diff returns a line naming the first difference between two lists of results,
// "" if there is none. Integers, booleans and strings must agree exactly.
func (tol Tolerance) Diff(got, want []ndarray.Value) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d results, want %d", len(got), len(want))
	}
	for i := range got {
		if s := tol.value(got[i], want[i]); s != "" {
			return fmt.Sprintf("result %d: %s", i, s)
		}
	}
	return ""
}

func (tol Tolerance) value(got, want ndarray.Value) string {
	switch w := want.(type) {
	case *ndarray.Array:
		g, ok := got.(*ndarray.Array)
		if !ok {
			return fmt.Sprintf("is %T, want %s", got, w)
		}
		return tol.array(g, w)
	case *ndarray.Sequence:
		g, ok := got.(*ndarray.Sequence)
		if !ok {
			return fmt.Sprintf("is %T, want a sequence", got)
		}
		return tol.Diff(g.Items, w.Items)
	case *ndarray.Optional:
		g, ok := got.(*ndarray.Optional)
		if !ok || (g.Value == nil) != (w.Value == nil) {
			return "optionals differ"
		}
		if w.Value == nil {
			return ""
		}
		return tol.value(g.Value, w.Value)
	case nil:
		if got != nil {
			return "is present, want absent"
		}
		return ""
	}
	return fmt.Sprintf("can not compare %T", want)
}

func (tol Tolerance) array(got, want *ndarray.Array) string {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("is %s, want %s", got, want)
	}
	if !want.DType.IsFloat() {
		if !bytes.Equal(got.Data, want.Data) || !slices.Equal(got.Str, want.Str) {
			return fmt.Sprintf("elements of %s differ", want)
		}
		return ""
	}
	return tol.floats(got, want, func(int, float64) float64 { return 0 })
}

// floats compares floats that may also be apart by slack of index and wanted element; NaN
// allows any distance.
func (tol Tolerance) floats(got, want *ndarray.Array, slack func(i int, want float64) float64) string {
	for i := range want.Len() {
		a, b := got.Float(i), want.Float(i)
		if a == b || a != a && b != b {
			continue
		}
		if more := slack(i, b); more == more && (!(math.Abs(a-b) <= tol.Abs+tol.Rel*math.Abs(b)+more) || math.IsInf(b, 0)) {
			return fmt.Sprintf("element %d of %s is %g, want %g", i, want, a, b)
		}
	}
	return ""
}
