package graphgen

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// extremeFloats are the float types that Extremes draws from.
var extremeFloats = []ndarray.DType{ndarray.Float16, ndarray.Float16, ndarray.BFloat16, ndarray.Float32, ndarray.Float32, ndarray.Float64}

// exponents are those of the smallest and the largest numbers of float types, and unit the relative error of rounding.
var exponents = map[ndarray.DType]struct {
	least, most int
	unit        float64
}{
	ndarray.Float16:  {-24, 15, 0x1p-11},
	ndarray.BFloat16: {-133, 127, 0x1p-8},
	ndarray.Float32:  {-149, 127, 0x1p-24},
	ndarray.Float64:  {-1000, 1000, 0x1p-53}, // the float64 of the exact result has no more
}

// magnitude draws a power of two that a float type has, near 1 as often as anywhere else.
func (b *builder) magnitude(dt ndarray.DType) float64 {
	e := exponents[dt]
	if b.chance(50) {
		return math.Ldexp(1, b.rng.IntN(16)-8)
	}
	return math.Ldexp(1, e.least+b.rng.IntN(e.most-e.least+1))
}

// extreme draws a constant of one element and of up to three dimensions.
func (b *builder) extreme(dt ndarray.DType) *ssa.Value {
	a := ndarray.Must(dt)
	if dt.IsFloat() {
		a.SetFloat(0, b.magnitude(dt)*(1+b.rng.Float64())*float64(1-2*b.rng.IntN(2)))
		if v := a.Float(0); math.IsInf(v, 0) || v == 0 {
			a.SetFloat(0, 1)
		}
	} else {
		a.SetInt(0, []int64{0, 1, 2, 127, 128, 255, math.MaxInt32, math.MinInt32, math.MaxInt64}[b.rng.IntN(9)])
	}
	shape := make([]int, b.rng.IntN(4))
	for i := range shape {
		shape[i] = 1
	}
	return b.constant(ssa.NewConstant(a.Reshaped(shape...)))
}

// chain multiplies a value by two numbers or adds them: of the same size, or such that one undoes the other, or both drawn.
func chain(b *builder, v *ssa.Value) {
	if !v.Type.DType.IsFloat() {
		b.one([]string{"Add", "Mul"}[b.rng.IntN(2)], []*ssa.Value{b.one("Add", []*ssa.Value{v, b.extreme(v.Type.DType)}), b.extreme(v.Type.DType)})
		return
	}
	op := []string{"Mul", "Add"}[b.rng.IntN(2)]
	k := b.extreme(v.Type.DType)
	l := b.extreme(v.Type.DType)
	if x := element(k); b.chance(60) && op == "Mul" && b.chance(50) {
		x = 1 / x
		l = b.single(v.Type.DType, x)
	} else if b.chance(60) {
		l = b.single(v.Type.DType, x*0.75)
	}
	b.one(op, []*ssa.Value{b.one(op, []*ssa.Value{v, k}), l})
}

// single is a constant of rank 0, 1 if the number is none of the type.
func (b *builder) single(dt ndarray.DType, v float64) *ssa.Value {
	a := ndarray.Must(dt)
	if a.SetFloat(0, v); math.IsInf(a.Float(0), 0) || math.IsNaN(a.Float(0)) {
		a.SetFloat(0, 1)
	}
	return b.constant(ssa.NewConstant(a))
}

// scaledProduct multiplies two matrices, each times a number, or a matrix by weights between two numbers.
func scaledProduct(b *builder, v *ssa.Value) {
	k := b.single(v.Type.DType, b.magnitude(v.Type.DType))
	l := k
	if b.chance(40) {
		l = b.single(v.Type.DType, b.magnitude(v.Type.DType))
	}
	if b.chance(50) {
		w := b.weights(v.Type.DType, lastDim(v), 2)
		b.one("Mul", []*ssa.Value{b.one("MatMul", []*ssa.Value{b.one("Mul", []*ssa.Value{v, k}), w}), l})
		return
	}
	t := b.one("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", 1, 0))
	b.one("MatMul", []*ssa.Value{b.one("Mul", []*ssa.Value{v, k}), b.one("Mul", []*ssa.Value{t, l})})
}

// AgreeAtExtremes is [Agree] for graphs with [Extremes]: operands are scaled, N may be 0. The graph is also run in
// float64. Where the first graph's results are finite, the second one's must be, and may be wrong by a few times what the
// first one's are: by rounding in the type of the graph, by the scale of the tensor and as Agree measures it, and by what the
// first one loses.
// Operands for which the first graph fails are left out; the number of runs that counted is returned.
func AgreeAtExtremes(ctx context.Context, before, after *ssa.Graph, seed uint64, runs int) (counted int, err error) {
	precise, unit, err := inFloat64(before)
	if err != nil {
		return 0, err
	}
	for run := range runs {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		bind := map[string]int64{"N": int64(rng.IntN(4)), "M": 1 + int64(rng.IntN(4))}
		in, err := Inputs(rng, before, bind)
		if err != nil {
			return counted, err
		}
		in = times(in, math.Ldexp(1, 10*(rng.IntN(3)-1)))
		want, err := ops.Interpret(ctx, before, in, nil)
		if err != nil {
			continue
		}
		exact, err := ops.Interpret(ctx, precise, converted(in), nil)
		if err != nil {
			return counted, fmt.Errorf("run %d, in float64: %w", run, err)
		}
		moved, err := ops.Interpret(ctx, before, times(in, 1+4*unit), nil)
		if err != nil {
			return counted, fmt.Errorf("run %d, before, moved: %w", run, err)
		}
		got, err := ops.Interpret(ctx, after, in, nil)
		if err != nil {
			return counted, fmt.Errorf("run %d, after: %w", run, err)
		}
		counted++
		for i := range want {
			if s := agreeAtExtremes(got[i], want[i], moved[i], exact[i], unit); s != "" {
				return counted, fmt.Errorf("run %d (%v): result %d, %s: %s", run, bind, i, before.Results[i].Name, s)
			}
		}
	}
	return counted, nil
}

func agreeAtExtremes(got, want, moved, exact ndarray.Value, unit float64) string {
	w, isArray := want.(*ndarray.Array)
	if !isArray || !w.DType.IsFloat() {
		return Tolerance{}.value(got, want)
	}
	g, ok := got.(*ndarray.Array)
	if !ok || g.String() != w.String() {
		return fmt.Sprintf("is %v, want %s", got, w)
	}
	m, e, scale := moved.(*ndarray.Array), exact.(*ndarray.Array), 0.0
	for i := range w.Len() {
		if v := math.Abs(w.Float(i)); v <= math.MaxFloat64 {
			scale = max(scale, v)
		}
	}
	return Tolerance{Rel: 16 * unit}.floats(g, w, func(i int, v float64) float64 {
		slack := 16*math.Abs(m.Float(i)-v) + 4*math.Abs(e.Float(i)-v)
		if math.IsNaN(v) || math.IsInf(v, 0) || math.IsInf(slack, 0) && !math.IsInf(g.Float(i), 0) {
			return math.NaN()
		}
		return slack + 32*unit*scale + 4*math.Ldexp(1, exponents[w.DType].least)
	})
}

// times multiplies floats.
func times(in []ndarray.Value, f float64) []ndarray.Value {
	out := make([]ndarray.Value, len(in))
	for i, v := range in {
		out[i] = v
		if a, ok := v.(*ndarray.Array); ok && a.DType.IsFloat() {
			b := a.Clone()
			for k := range b.Len() {
				b.SetFloat(k, b.Float(k)*f)
			}
			out[i] = b
		}
	}
	return out
}

// converted makes float64 of all floats.
func converted(in []ndarray.Value) []ndarray.Value {
	out := make([]ndarray.Value, len(in))
	for i, v := range in {
		out[i] = v
		if a, ok := v.(*ndarray.Array); ok && a.DType.IsFloat() {
			out[i] = wide(a)
		}
	}
	return out
}

func wide(a *ndarray.Array) *ndarray.Array {
	b := ndarray.Must(ndarray.Float64, a.Shape...)
	for k := range b.Len() {
		b.SetFloat(k, a.Float(k))
	}
	return b
}

// inFloat64 is a graph without casts to floats with float64 for all its floats, and the unit roundoff of the least precise.
func inFloat64(g *ssa.Graph) (c *ssa.Graph, unit float64, err error) {
	c, _ = g.Clone()
	unit = 0x1p-53
	for _, v := range c.Values() {
		if !v.Type.DType.IsFloat() {
			continue
		}
		unit = max(unit, exponents[v.Type.DType].unit)
		v.Type.DType = ndarray.Float64
		if v.Const == nil {
			continue
		}
		a, err := v.Const.Array()
		if err != nil {
			return nil, 0, err
		}
		v.Const = ssa.NewConstant(wide(a))
	}
	return c, unit, ops.InferGraph(c)
}
