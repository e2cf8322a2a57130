package gradient

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// rule returns the adjoints of a node's operands (nil for none) from those of its results (nil
// where a result does not count).
type rule func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value

// rules are the derivatives of operators by name, "domain.Name" outside the default domain.
// They are written with y the result, d its adjoint and x the operand.
var rules = map[string]rule{}

func init() {
	maps.Copy(rules, map[string]rule{
		"Identity": pointwise(func(_ *builder, _, _, d *ssa.Value) *ssa.Value { return d }),
		"Neg":      pointwise(func(g *builder, _, _, d *ssa.Value) *ssa.Value { return g.op("Neg", d) }),
		"Exp":      pointwise(func(g *builder, _, y, d *ssa.Value) *ssa.Value { return g.op("Mul", d, y) }),
		"Log":      pointwise(func(g *builder, x, _, d *ssa.Value) *ssa.Value { return g.op("Div", d, x) }),
		"Sqrt":     pointwise(func(g *builder, _, y, d *ssa.Value) *ssa.Value { return g.op("Div", g.scaled(d, 0.5), y) }),
		"Sin":      pointwise(func(g *builder, x, _, d *ssa.Value) *ssa.Value { return g.op("Mul", d, g.op("Cos", x)) }),
		"Cos": pointwise(func(g *builder, x, _, d *ssa.Value) *ssa.Value {
			return g.op("Neg", g.op("Mul", d, g.op("Sin", x)))
		}),
		"Abs":  pointwise(func(g *builder, x, _, d *ssa.Value) *ssa.Value { return g.op("Mul", d, g.op("Sign", x)) }),
		"Relu": pointwise(func(g *builder, _, y, d *ssa.Value) *ssa.Value { return g.where(g.above(y, 0), d, 0) }), // x need not be kept
		"Reciprocal": pointwise(func(g *builder, _, y, d *ssa.Value) *ssa.Value {
			return g.op("Neg", g.op("Mul", d, g.op("Mul", y, y)))
		}),
		"Sigmoid": pointwise(func(g *builder, _, y, d *ssa.Value) *ssa.Value {
			return g.op("Mul", d, g.op("Mul", y, g.op("Sub", g.number(y, 1), y)))
		}),
		"Tanh": pointwise(func(g *builder, _, y, d *ssa.Value) *ssa.Value {
			return g.op("Mul", d, g.op("Sub", g.number(y, 1), g.op("Mul", y, y)))
		}),
		"Softplus": pointwise(func(g *builder, x, _, d *ssa.Value) *ssa.Value { return g.op("Mul", d, g.op("Sigmoid", x)) }),
		"Erf": pointwise(func(g *builder, x, _, d *ssa.Value) *ssa.Value {
			return g.op("Mul", d, g.scaled(g.op("Exp", g.op("Neg", g.op("Mul", x, x))), 2/math.Sqrt(math.Pi)))
		}),
		"LeakyRelu": func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
			slope := g.scaled(dy[0], float64(ops.Float(n, "alpha")))
			return []*ssa.Value{g.op("Where", g.above(n.In[0], 0), dy[0], slope)}
		},
		"Cast": func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
			to := ssa.IntAttr("to", int64(n.In[0].Type.DType))
			return []*ssa.Value{g.with("Cast", dy, to)}
		},

		"Add": binary2(func(_ *builder, _, _, d *ssa.Value) *ssa.Value { return d }, func(_ *builder, _, _, d *ssa.Value) *ssa.Value { return d }),
		"Sub": binary2(func(_ *builder, _, _, d *ssa.Value) *ssa.Value { return d }, func(g *builder, _, _, d *ssa.Value) *ssa.Value { return g.op("Neg", d) }),
		"Mul": binary2(func(g *builder, _, b, d *ssa.Value) *ssa.Value { return g.op("Mul", d, b) }, func(g *builder, a, _, d *ssa.Value) *ssa.Value { return g.op("Mul", d, a) }),
		"Div": binary2(func(g *builder, _, b, d *ssa.Value) *ssa.Value { return g.op("Div", d, b) }, func(g *builder, a, b, d *ssa.Value) *ssa.Value {
			return g.op("Neg", g.op("Div", g.op("Mul", d, a), g.op("Mul", b, b)))
		}),
		"Pow": binary2(powGradientBase, powGradientExponent),
		"Sum": variadicGradient(false), "Mean": variadicGradient(true),
		"Max": extremeGradient, "Min": extremeGradient, "Where": whereGradient,
		"ReduceSum": reduceGradient, "ReduceMean": reduceGradient, "ReduceSumSquare": reduceGradient, "ReduceL2": reduceGradient,
		"ReduceL1": reduceGradient, "ReduceMax": reduceGradient, "ReduceMin": reduceGradient, "ReduceLogSumExp": reduceGradient,
		"ReduceLogSum": reduceGradient,
		"Softmax":      softmaxGradient, "LogSoftmax": softmaxGradient,
		"MatMul": matMulGradient, "Gemm": gemmGradient, "Conv": convGradient, "MaxPool": maxPoolGradient,
		"AveragePool": averagePoolGradient, "GlobalAveragePool": globalPoolGradient,
		"BatchNormalization": batchNormGradient, "LayerNormalization": layerNormGradient, "Dropout": dropoutGradient,
		"Clip": clipGradient, "Concat": concatGradient, "Split": splitGradient, "Transpose": transposeGradient,
		"Pad": moveGradient, "Compress": moveGradient,
		"Expand": func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
			return []*ssa.Value{g.sumTo(dy[0], n.In[0])}
		},
		"ScatterElements": scatterGradient,
	})
}

// ruleOf returns the rule of a node, nil if there is none. Pure data movement
// needs no rule of its own.
func ruleOf(n *ssa.Node) rule {
	o, name := ops.Of(n), n.Op
	if n.Domain != "" {
		name = n.Domain + "." + n.Op
	}
	switch {
	case o == nil:
		return nil
	case rules[name] != nil:
		return rules[name]
	case o.Facts.Access == ops.Reshapes:
		return viewGradient
	case o.Facts.Access == ops.Moves:
		return moveGradient
	}
	return definedRule(name)
}

// pointwise makes a rule of the derivative of a function of one operand.
func pointwise(f func(g *builder, x, y, d *ssa.Value) *ssa.Value) rule {
	return func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{f(g, n.In[0], n.Out[0], dy[0])}
	}
}

// noGradient is the rule of functions that are constant almost everywhere.
func noGradient(*builder, *ssa.Node, []*ssa.Value) []*ssa.Value { return nil }

// binary2 makes a rule of the partial derivatives of a function of two operands
// with broadcasting.
func binary2(da, db func(g *builder, a, b, d *ssa.Value) *ssa.Value) rule {
	return func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
		out := make([]*ssa.Value, 2)
		a, b := n.In[0], n.In[1]
		if g.wants(n, 0) {
			out[0] = g.sumTo(da(g, a, b, dy[0]), a)
		}
		if g.wants(n, 1) {
			out[1] = g.sumTo(db(g, a, b, dy[0]), b)
		}
		return out
	}
}

// powGradientBase is d·b·a^(b-1), and 0 where b is 0, also at a = 0.
func powGradientBase(g *builder, a, b, d *ssa.Value) *ssa.Value {
	slope := g.op("Mul", d, g.op("Mul", g.like(b, a), g.op("Pow", a, g.op("Sub", b, g.number(b, 1)))))
	if b.Const != nil && b.Const.Len() == 1 {
		if x, err := b.Const.Array(); err == nil && x.Float(0) != 0 {
			return slope
		}
	}
	return g.op("Where", g.op("Equal", b, g.number(b, 0)), g.number(d, 0), slope)
}

// powGradientExponent is d·a^b·log a, and 0 where a is 0 and b is not negative.
func powGradientExponent(g *builder, a, b, d *ssa.Value) *ssa.Value {
	flat := g.op("And", g.op("Equal", a, g.number(a, 0)), g.op("GreaterOrEqual", b, g.number(b, 0)))
	slope := g.op("Mul", d, g.op("Mul", g.op("Pow", a, b), g.op("Log", a)))
	return g.like(g.op("Where", flat, g.number(d, 0), slope), b)
}

// like casts v to the element type of another value.
func (g *builder) like(v, other *ssa.Value) *ssa.Value {
	if v.Type.DType == other.Type.DType {
		return v
	}
	return g.with("Cast", []*ssa.Value{v}, ssa.IntAttr("to", int64(other.Type.DType)))
}

// above is x > v elementwise.
func (g *builder) above(x *ssa.Value, v float64) *ssa.Value {
	return g.op("Greater", x, g.number(x, v))
}

// where is d where the condition holds, else a number.
func (g *builder) where(cond, d *ssa.Value, other float64) *ssa.Value {
	return g.op("Where", cond, d, g.number(d, other))
}

// sumTo adds d up over the dimensions along which x was broadcast.
func (g *builder) sumTo(d, x *ssa.Value) *ssa.Value {
	if sameShape(d.Type, x.Type) {
		return d
	}
	rank, from := g.rank(d), g.rank(x)
	var axes []int64
	certain := true
	for i := range rank {
		have := ssa.D(1)
		if i >= rank-from {
			have = x.Type.Shape[i-(rank-from)]
		}
		switch out := d.Type.Shape[i]; {
		case have.Is(1) && !out.Is(1):
			axes = append(axes, int64(i))
		case have.Equal(out):
		default:
			if k, ok := have.Const(); !ok || k == 1 {
				certain = false
			}
		}
	}
	list := g.ints(axes...)
	if !certain { // which dimensions were 1 shows only when running
		have := g.with("Concat", []*ssa.Value{g.constant(ssa.NewSplat(ndarray.Scalar(int64(1)), rank-from)), g.op("Shape", x)}, ssa.IntAttr("axis", 0))
		differs := g.op("Not", g.op("Equal", have, g.op("Shape", d)))
		list = g.op("Reshape", g.op("NonZero", differs), g.ints(-1))
	} else if len(axes) == 0 { // ranks differ by leading dimensions of 1
		return g.op("Reshape", d, g.shape(x))
	}
	sum := g.with("ReduceSum", []*ssa.Value{d, list}, ssa.IntAttr("keepdims", 1), ssa.IntAttr("noop_with_empty_axes", 1))
	return g.op("Reshape", sum, g.shape(x))
}

// sameShape reports shapes that are certainly equal.
func sameShape(a, b ssa.Type) bool {
	return a.Ranked && b.Ranked && slices.EqualFunc(a.Shape, b.Shape, ssa.Dim.Equal)
}

// variadicGradient sends the adjoint to every operand, divided by their number
// for a mean.
func variadicGradient(mean bool) rule {
	return func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
		d := dy[0]
		if mean {
			d = g.scaled(d, 1/float64(len(n.In)))
		}
		out := make([]*ssa.Value, len(n.In))
		for i, v := range n.In {
			if g.wants(n, i) {
				out[i] = g.sumTo(d, v)
			}
		}
		return out
	}
}

// extremeGradient sends the adjoint to the operands that are the maximum or
// minimum, in equal shares.
func extremeGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	hits := make([]*ssa.Value, len(n.In))
	var count *ssa.Value
	for i, v := range n.In {
		hit := g.op("Equal", g.op("Expand", v, g.shape(n.Out[0])), n.Out[0])
		hits[i] = g.with("Cast", []*ssa.Value{hit}, ssa.IntAttr("to", int64(dy[0].Type.DType)))
		if count == nil {
			count = hits[i]
		} else {
			count = g.op("Add", count, hits[i])
		}
	}
	share := g.op("Div", dy[0], count)
	out := make([]*ssa.Value, len(n.In))
	for i, v := range n.In {
		if g.wants(n, i) {
			out[i] = g.sumTo(g.op("Mul", hits[i], share), v)
		}
	}
	return out
}

func whereGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	out, cond, zero := make([]*ssa.Value, 3), n.In[0], g.number(dy[0], 0)
	if g.wants(n, 1) {
		out[1] = g.sumTo(g.op("Where", cond, dy[0], zero), n.In[1])
	}
	if g.wants(n, 2) {
		out[2] = g.sumTo(g.op("Where", cond, zero, dy[0]), n.In[2])
	}
	return out
}

func clipGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	d, x := dy[0], n.In[0]
	out := []*ssa.Value{d, nil, nil}
	for i := 1; i <= 2; i++ {
		limit := n.Input(i)
		if limit == nil {
			continue
		}
		outside := g.op([]string{1: "Less", 2: "Greater"}[i], x, limit)
		out[0] = g.op("Where", outside, g.number(d, 0), out[0])
		if g.wants(n, i) {
			out[i] = g.sumTo(g.where(outside, d, 0), limit)
		}
	}
	return out
}

// keptDims returns v, a result of reduction n, with the reduced dimensions as 1.
func (g *builder) keptDims(n *ssa.Node, v *ssa.Value) *ssa.Value {
	if ops.Int(n, "keepdims") != 0 {
		return v
	}
	axes := n.Input(1)
	if axes == nil {
		return g.op("Reshape", v, g.ints(slices.Repeat([]int64{1}, g.rank(n.In[0]))...))
	}
	return g.op("Unsqueeze", v, axes)
}

// reduceGradient spreads the adjoint back over the reduced dimensions.
func reduceGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x := n.In[0]
	if n.Input(1) == nil && ops.Int(n, "noop_with_empty_axes") != 0 {
		g.fail(n, fmt.Errorf("noop_with_empty_axes: %w", ops.ErrUnsupported))
		return nil
	}
	d, y := g.keptDims(n, dy[0]), g.keptDims(n, n.Out[0])
	switch n.Op {
	case "ReduceMean":
		size := g.op("Div", g.op("Size", x), g.op("Size", y))
		d = g.op("Div", d, g.like(size, d))
	case "ReduceSumSquare":
		return []*ssa.Value{g.op("Mul", g.scaled(x, 2), d)}
	case "ReduceL2":
		share := g.op("Where", g.op("Equal", y, g.number(y, 0)), g.number(d, 0), g.op("Div", d, y)) // 0 at 0, the middle of its slopes
		return []*ssa.Value{g.op("Mul", x, share)}
	case "ReduceL1":
		return []*ssa.Value{g.op("Mul", g.op("Sign", x), d)}
	case "ReduceLogSum":
		return []*ssa.Value{g.op("Expand", g.op("Div", d, g.op("Exp", y)), g.shape(x))}
	case "ReduceLogSumExp":
		return []*ssa.Value{g.op("Mul", g.op("Exp", g.op("Sub", x, y)), d)}
	case "ReduceMax", "ReduceMin":
		hit := g.with("Cast", []*ssa.Value{g.op("Equal", x, y)}, ssa.IntAttr("to", int64(d.Type.DType)))
		in := []*ssa.Value{hit}
		if n.Input(1) != nil {
			in = append(in, n.In[1])
		}
		count := g.with("ReduceSum", in, ssa.IntAttr("keepdims", 1))
		return []*ssa.Value{g.op("Mul", hit, g.op("Div", d, count))}
	}
	return []*ssa.Value{g.op("Expand", d, g.shape(x))}
}

// softmaxGradient: softmax gives y·(d - Σ d·y), its logarithm d - e^y·Σ d.
func softmaxGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	d, y := dy[0], n.Out[0]
	sum := func(v *ssa.Value) *ssa.Value {
		return g.with("ReduceSum", []*ssa.Value{v, g.ints(ops.Int(n, "axis"))}, ssa.IntAttr("keepdims", 1))
	}
	if n.Op == "LogSoftmax" {
		return []*ssa.Value{g.op("Sub", d, g.op("Mul", g.op("Exp", y), sum(d)))}
	}
	return []*ssa.Value{g.op("Mul", y, g.op("Sub", d, sum(g.op("Mul", d, y))))}
}

// viewGradient gives the adjoint the operand's shape.
func viewGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	return []*ssa.Value{g.op("Reshape", dy[0], g.shape(n.In[0]))}
}

func transposeGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	perm, err := kit.TransposePerm(n, g.rank(n.In[0]))
	if err != nil {
		g.fail(n, err)
		return nil
	}
	back := make([]int64, len(perm))
	for i, p := range perm {
		back[p] = int64(i)
	}
	return []*ssa.Value{g.with("Transpose", dy, ssa.IntsAttr("perm", back...))}
}

// concatGradient cuts the adjoint into the operands' parts.
func concatGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	axis, err := ops.NormAxis(ops.Int(n, "axis"), g.rank(n.Out[0]))
	if err != nil {
		g.fail(n, err)
		return nil
	}
	sizes := make([]*ssa.Value, len(n.In))
	for i, v := range n.In {
		sizes[i] = g.with("Shape", []*ssa.Value{v}, ssa.IntAttr("start", int64(axis)), ssa.IntAttr("end", int64(axis+1)))
	}
	list := g.with("Concat", sizes, ssa.IntAttr("axis", 0))
	return g.node("Split", []*ssa.Value{dy[0], list}, len(n.In), ssa.IntAttr("axis", int64(axis))).Out
}

// splitGradient joins the parts' adjoints.
func splitGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	parts := make([]*ssa.Value, len(dy))
	for i, d := range dy {
		switch {
		case d != nil:
			parts[i] = d
		case n.Out[i] != nil:
			parts[i] = g.filled(n.Out[i], 0)
		default:
			g.fail(n, fmt.Errorf("part %d is not used", i))
			return nil
		}
	}
	return []*ssa.Value{g.with("Concat", parts, ssa.IntAttr("axis", ops.Int(n, "axis")))}
}

// moveGradient is the rule of every operator that only moves elements. The
// operator is applied to the positions of the elements; where position p ends
// up, the adjoint is that of element p. Padding gets a position past the end.
//
//	x = [a b c]    Slice 1: ─▶ [b c]      positions [0 1 2] ─▶ [1 2]
//	dx = zeros(3); dx[1] += d[0]; dx[2] += d[1]
func moveGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x := n.In[0]
	size := g.op("Size", x)
	one := g.constant(ssa.ScalarConst(int64(1)))
	zero := g.constant(ssa.ScalarConst(int64(0)))
	where := g.op("Reshape", g.op("Range", zero, size, one), g.shape(x))
	in := append([]*ssa.Value{where}, n.In[1:]...)
	if n.Op == "Pad" && ops.Str(n, "mode") == "constant" {
		for len(in) < 3 {
			in = append(in, nil)
		}
		in[2] = size
	}
	flat := g.ints(-1)
	moved := g.with(n.Op, in, n.Attrs...)
	sums := g.addedAt(moved, dy[0], g.op("Reshape", g.op("Add", size, one), flat))
	kept := g.op("Slice", sums, g.ints(0), g.op("Reshape", size, flat), g.ints(0))
	return []*ssa.Value{g.op("Reshape", kept, g.shape(x))}
}

// scatterGradient reads the adjoints of updates where they were written; data
// keeps its own unless it was overwritten.
func scatterGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	axis := ssa.IntAttr("axis", ops.Int(n, "axis"))
	out := []*ssa.Value{dy[0], nil, g.with("GatherElements", []*ssa.Value{dy[0], n.In[1]}, axis)}
	switch reduction := ops.Str(n, "reduction"); reduction {
	case "add":
	case "none":
		out[0] = g.with("ScatterElements", []*ssa.Value{dy[0], n.In[1], g.filled(n.In[2], 0)}, axis)
	default:
		g.fail(n, fmt.Errorf("reduction %s: %w", reduction, ops.ErrUnsupported))
	}
	return out
}

// steps are the functions that are constant almost everywhere: their derivative is zero.
var steps = map[string]bool{"Floor": true, "Ceil": true, "Round": true, "Sign": true, "Hardmax": true, "EyeLike": true,
	"RandomNormalLike": true, "RandomUniformLike": true, "Bernoulli": true}

func init() {
	for name := range steps {
		rules[name] = noGradient
	}
}
