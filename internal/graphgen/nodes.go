package graphgen

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// unary draws an elementwise function. Discontinuous and unbounded functions are left
// out, because they would amplify rounding errors.
func unary(b *builder, v *ssa.Value) {
	b.apply(v)
}

// apply draws a function of v that keeps its type.
func (b *builder) apply(v *ssa.Value) *ssa.Value {
	names := []string{"Neg", "Abs", "Identity"}
	switch dt := v.Type.DType; {
	case dt == ndarray.Bool:
		names = []string{"Not", "Identity"}
	case dt.IsFloat():
		names = []string{"Neg", "Abs", "Identity", "Relu", "Sigmoid", "Tanh", "HardSigmoid", "LeakyRelu", "Softplus", "Erf", "Sin"}
	}
	return b.one(names[b.rng.IntN(len(names))], []*ssa.Value{v})
}

// binary draws arithmetic between a value and a number, a vector or another value
// of the same type; products are squashed now and then.
func binary(b *builder, v *ssa.Value) {
	b.combine(v, b.partner(v))
}

// partner draws the other operand: it broadcasts to v's shape.
func (b *builder) partner(v *ssa.Value) *ssa.Value {
	dt := v.Type.DType
	same := func(w *ssa.Value) bool { return w.Type.Equal(v.Type) }
	switch {
	case dt == ndarray.Bool || b.chance(40):
		return b.pick(same)
	case v.Type.Rank() > 0 && b.chance(40):
		if k, ok := v.Type.Shape[v.Type.Rank()-1].Const(); ok && k < 64 {
			return b.weights(dt, int(k))
		}
	case v.Type.Rank() > 0 && b.chance(20):
		if w := b.pick(func(w *ssa.Value) bool { return isTensor(w) && w.Type.DType == dt && w.Type.Rank() == 0 }); w != nil {
			return w
		}
	}
	return b.scalar(dt)
}

func (b *builder) combine(v, w *ssa.Value) *ssa.Value {
	if w == nil {
		return nil
	}
	in := []*ssa.Value{v, w}
	if b.chance(30) {
		in[0], in[1] = in[1], in[0]
	}
	if v.Type.DType == ndarray.Bool {
		return b.one([]string{"And", "Or", "Xor", "Equal"}[b.rng.IntN(4)], in)
	}
	switch op := []string{"Add", "Add", "Sub", "Mul", "Mul", "Max", "Min", "Div", "Less"}[b.rng.IntN(9)]; op {
	case "Div":
		if k := element(w); k == 0 || v.Type.DType.IsInteger() && k == -1 {
			return b.one("Add", in)
		}
		return b.one("Div", []*ssa.Value{v, w})
	case "Less":
		if b.inexact[v] || b.inexact[w] {
			return b.one("Sub", in)
		}
		return b.one([]string{"Less", "Equal", "GreaterOrEqual"}[b.rng.IntN(3)], in)
	case "Mul":
		r := b.one("Mul", in)
		if v.Type.DType.IsFloat() && b.chance(50) {
			return b.one("Tanh", []*ssa.Value{r})
		}
		return r
	default:
		return b.one(op, in)
	}
}

// element is the value of a constant of one element, 0 for anything else.
func element(v *ssa.Value) float64 {
	if v.Const == nil || v.Const.Len() != 1 {
		return 0
	}
	a, err := v.Const.Array()
	if err != nil {
		return 0
	}
	return a.Float(0)
}

func clip(b *builder, v *ssa.Value) {
	in := []*ssa.Value{v, nil, nil}
	for i, x := range []float64{float64(b.rng.IntN(3)) - 1, float64(b.rng.IntN(6)) + 1} {
		if b.chance(80) {
			a := ndarray.Must(v.Type.DType)
			a.SetFloat(0, x)
			in[1+i] = b.constant(ssa.NewConstant(a))
		}
	}
	b.one("Clip", in)
}

// where chooses between two values of one type by a flag of one element or of
// the same shape.
func where(b *builder) {
	c := b.pick(func(v *ssa.Value) bool { return isTensor(v) && v.Type.DType == ndarray.Bool })
	if c == nil {
		return
	}
	v := b.pick(func(v *ssa.Value) bool {
		return isTensor(v) && (c.Type.Rank() == 0 || slices.EqualFunc(v.Type.Shape, c.Type.Shape, ssa.Dim.Equal))
	})
	if v == nil {
		return
	}
	if w := b.pick(func(w *ssa.Value) bool { return w.Type.Equal(v.Type) }); w != nil {
		b.one("Where", []*ssa.Value{c, v, w})
	}
}

func cast(b *builder, v *ssa.Value) {
	to := []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Bool}[b.rng.IntN(5)]
	w := b.one("Cast", []*ssa.Value{v}, ssa.IntAttr("to", int64(to)))
	if v.Type.DType == to || !v.Type.DType.IsFloat() {
		delete(b.inexact, w)
	}
	if b.chance(40) {
		b.one("Cast", []*ssa.Value{w}, ssa.IntAttr("to", int64(v.Type.DType)))
	}
}

// matMul multiplies by weights, or two values that fit.
func matMul(b *builder, v *ssa.Value) {
	k := lastDim(v)
	w := b.weights(v.Type.DType, k, 1+b.rng.IntN(4))
	if b.chance(30) {
		w = b.one("Transpose", []*ssa.Value{b.weights(v.Type.DType, 1+b.rng.IntN(4), k)})
	}
	switch {
	case v.Type.Rank() == 2 && b.chance(40):
		attrs := []ssa.Attr{ssa.FloatAttr("alpha", 0.5), ssa.FloatAttr("beta", 2)}
		in := []*ssa.Value{v, w}
		if b.chance(50) {
			in = append(in, b.weights(v.Type.DType, lastDim(w)))
		}
		v = b.one("Gemm", in, attrs[:b.rng.IntN(3)]...)
	default:
		v = b.one("MatMul", []*ssa.Value{v, w})
	}
	b.afterProduct(v, v.Type.Rank()-1)
}

func lastDim(v *ssa.Value) int {
	k, ok := v.Type.Shape[v.Type.Rank()-1].Const()
	if !ok || k < 1 || k > 64 {
		return 0
	}
	return int(k)
}

// conv convolves an image, made by reshaping if need be.
func conv(b *builder) {
	v := b.pick(func(v *ssa.Value) bool {
		s, ok := v.Type.Static()
		return ok && isFloat(v) && len(s) == 4 && s[1] > 0 && s[2] > 0 && s[3] > 0
	})
	if v == nil {
		w := b.pick(func(v *ssa.Value) bool { s, ok := v.Type.Static(); return ok && isFloat(v) && numElems(s) > 0 })
		if w == nil {
			return
		}
		s, _ := w.Type.Static()
		n := numElems(s)
		c := 1
		if n%2 == 0 {
			c = 2
		}
		v = b.one("Reshape", []*ssa.Value{w, b.ints(1, int64(c), int64(n/c), 1)})
	}
	s, _ := v.Type.Static()
	if b.chance(30) {
		v = b.one("Pad", []*ssa.Value{v, b.ints(0, 0, 1, 0, 0, 0, 0, 1)})
	}
	m := 2 * (1 + b.rng.IntN(2))
	attrs := []ssa.Attr{ssa.IntsAttr("pads", 1, 1, 1, 1)}
	in := []*ssa.Value{v, b.weights(v.Type.DType, m, s[1], 2, 2)}
	op := "Conv"
	switch {
	case b.chance(30):
		op, attrs = "ConvTranspose", nil
		in[1] = b.weights(v.Type.DType, s[1], m, 2, 2)
	case s[1]%2 == 0 && b.chance(40):
		in[1] = b.weights(v.Type.DType, m, s[1]/2, 2, 2)
		attrs = append(attrs, ssa.IntAttr("group", 2))
	}
	if b.chance(50) {
		in = append(in, b.weights(v.Type.DType, m))
	}
	v = b.one(op, in, attrs...)
	if b.chance(60) {
		p := []*ssa.Value{v}
		for range 3 {
			p = append(p, b.weights(v.Type.DType, m))
		}
		variance := ndarray.Must(v.Type.DType, m)
		for i := range m {
			variance.SetFloat(i, 0.25+b.rng.Float64())
		}
		v = b.one("BatchNormalization", append(p, b.constant(ssa.NewConstant(variance))))
	}
	b.afterProduct(v, 1)
}

func numElems(s []int) int {
	n, _ := ndarray.NumElems(s) // small
	return n
}

// afterProduct scales and shifts channels, as exporters leave it.
func (b *builder) afterProduct(v *ssa.Value, axis int) {
	count, ok := v.Type.Shape[axis].Const()
	if !ok || count < 1 {
		return
	}
	rank := v.Type.Rank()
	for range b.rng.IntN(3) {
		if v.Type.Rank() != rank { // a number of more dimensions
			return
		}
		shape := slices.Repeat([]int{1}, v.Type.Rank()-axis)
		shape[0] = int(count)
		w := b.weights(v.Type.DType, shape...)
		if b.chance(30) {
			w = b.scalar(v.Type.DType)
		}
		op := []string{"Mul", "Add", "Sub"}[b.rng.IntN(3)]
		in := []*ssa.Value{v, w}
		if b.chance(30) {
			in[0], in[1] = in[1], in[0]
		}
		v = b.one(op, in)
	}
	if b.chance(50) {
		b.one("Tanh", []*ssa.Value{v})
	}
}

// affine scales any value by channels of axis 1.
func affine(b *builder) {
	v := b.pick(func(v *ssa.Value) bool {
		if !isFloat(v) || v.Type.Rank() < 2 {
			return false
		}
		k, ok := v.Type.Shape[1].Const()
		return ok && k >= 1 && k <= 64
	})
	if v != nil {
		b.afterProduct(v, 1)
	}
}

// reduce draws a reduction over some axes.
func reduce(b *builder, v *ssa.Value) {
	rank := v.Type.Rank()
	axis := int64(b.rng.IntN(rank))
	keep := ssa.IntAttr("keepdims", int64(b.rng.IntN(2)))
	if b.chance(15) && !b.inexact[v] {
		b.one("ArgMax", []*ssa.Value{v}, ssa.IntAttr("axis", axis), keep)
		return
	}
	in := []*ssa.Value{v, b.ints(axis)}
	switch b.rng.IntN(4) {
	case 0:
		in = in[:1]
	case 1:
		if rank >= 3 {
			in[1] = b.ints(2, -1)
			if rank == 3 {
				in[1] = b.ints(2)
			}
		}
	}
	names := []string{"ReduceSum", "ReduceMax", "ReduceMin"}
	if v.Type.DType.IsFloat() {
		names = append(names, "ReduceMean", "ReduceL2", "ReduceMean")
	}
	b.one(names[b.rng.IntN(len(names))], in, keep)
}

func noZero(v *ssa.Value) bool {
	return !slices.ContainsFunc(v.Type.Shape, func(d ssa.Dim) bool { return d.Is(0) || !d.Known() })
}
