package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// scatter writes updates into a copy of a tensor, combining each with what is
// there. Types narrower than float32 combine in float32 and are rounded once,
// when all updates are in.
type scatter struct {
	out, to, from *ndarray.Array // result; where updates go; updates
	combine       func(d, s int) // nil: replace
	watch         kit.Watch
	call          *ops.Call
}

// scatterReduction says how updates and what is there go together.
var scatterReduction = ops.StrAttr("reduction", "none", "add", "mul", "max", "min")

// newScatter copies data into result 0 and prepares attribute reduction.
func newScatter(c *ops.Call, data, updates *ndarray.Array) *scatter {
	out := kit.Result(c, 0, data.DType, data.Shape...)
	kit.CopyWhole(c, out, data)
	s := &scatter{out: out, to: out, from: updates, watch: kit.Watching(c), call: c}
	kind := ops.Str(c.Node, "reduction")
	if kind == "none" || kind == "" { // Scatter has no such attribute
		return s
	}
	switch dt := data.DType; {
	case dt == ndarray.Float64:
		s.combine = combiner[float64](s, kind)
	case dt.IsFloat():
		s.to = ndarray.Of(kit.Copy(c, kit.Elements[float32](c, out)), out.Shape...)
		s.from = ndarray.Of(kit.Elements[float32](c, updates), updates.Shape...)
		s.combine = combiner[float32](s, kind)
	case dt == ndarray.Complex64:
		s.combine = ringCombiner[complex64](s, kind)
	case dt == ndarray.Complex128:
		s.combine = ringCombiner[complex128](s, kind)
	case dt == ndarray.Uint64:
		s.combine = combiner[uint64](s, kind)
	case dt.IsInteger() || dt == ndarray.Bool:
		s.combine = s.integerCombiner(kind)
	default:
		kit.Check(kit.UnsupportedType(dt))
	}
	return s
}

// apply combines n updates from position u on with the elements from at on.
func (s *scatter) apply(at, u, n int) {
	if s.combine == nil {
		kit.CopyElems(&s.watch, s.to, at, s.from, u, n)
		return
	}
	for i := range n {
		s.watch.Did(1)
		s.combine(at+i, u+i)
	}
}

// finish rounds what was combined in a wider type.
func (s *scatter) finish() {
	if s.to != s.out {
		kit.WriteFloats(s.call, s.out, ndarray.Slice[float32](s.to))
	}
}

// combiner returns the reduction over one Go element type.
func combiner[T uint64 | float32 | float64](s *scatter, kind string) func(d, u int) {
	to, from := ndarray.Slice[T](s.to), ndarray.Slice[T](s.from)
	switch kind {
	case "max":
		return func(d, u int) { to[d] = max(to[d], from[u]) }
	case "min":
		return func(d, u int) { to[d] = min(to[d], from[u]) }
	}
	return ringCombiner[T](s, kind)
}

// ringCombiner returns the sum or product over one Go element type.
func ringCombiner[T uint64 | float32 | float64 | complex64 | complex128](s *scatter, kind string) func(d, u int) {
	to, from := ndarray.Slice[T](s.to), ndarray.Slice[T](s.from)
	switch kind {
	case "add":
		return func(d, u int) { to[d] += from[u] }
	case "mul":
		return func(d, u int) { to[d] *= from[u] }
	}
	panic(kit.Failure{Err: kit.BadAttr("reduction", kind, "add or mul for complex numbers")})
}

// integerCombiner reduces integers of any width, wrapping around, and booleans
// (add is or, mul is and).
func (s *scatter) integerCombiner(kind string) func(d, u int) {
	f := map[string]func(x, y int64) int64{
		"add": func(x, y int64) int64 { return x + y },
		"mul": func(x, y int64) int64 { return x * y },
		"max": func(x, y int64) int64 { return max(x, y) },
		"min": func(x, y int64) int64 { return min(x, y) },
	}[kind]
	return func(d, u int) { s.to.SetInt(d, f(s.to.Int(d), s.from.Int(u))) }
}
