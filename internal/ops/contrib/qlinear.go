package contrib

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The QLinear operators of the com.microsoft domain compute
//
//	Y = quantize(f(dequantize(X), …))
//
// on 8-bit integers. A scale and a zero point (0 if absent) follow every operand
// and describe the result.

// quantParams is one scale and zero point.
type quantParams struct {
	scale float32
	zero  float64
}

// quantParamsOf reads a scale and its optional zero point, which must have element
// type dt.
func quantParamsOf(c *ops.Call, scaleAt, zeroAt int, dt ndarray.DType) (p quantParams) {
	s, z := c.Array(scaleAt), c.Array(zeroAt)
	if s == nil || s.DType != ndarray.Float32 || s.Len() != 1 {
		kit.Failf("operand %d is not one float32 scale", scaleAt)
	}
	p.scale = ndarray.Slice[float32](s)[0]
	if z == nil {
		return p
	}
	if z.DType != dt || z.Len() != 1 {
		kit.Failf("operand %d is %s, expected one zero point of %s", zeroAt, z, dt)
	}
	p.zero = z.Float(0)
	return p
}

// dequantized is operand i in real numbers.
func dequantized(c *ops.Call, i int) []float32 {
	a := c.Array(i)
	if a == nil || !kit.ByteInts.Has(a.DType) {
		kit.Failf("operand %d is no tensor of 8-bit integers", i)
	}
	return quantParamsOf(c, i+1, i+2, a.DType).real(c, a)
}

// real dequantizes an array.
func (p quantParams) real(c *ops.Call, a *ndarray.Array) []float32 {
	watch := kit.Watching(c)
	var table [256]float32
	for i := range table {
		v := float64(i)
		if a.DType == ndarray.Int8 {
			v = float64(int8(i))
		}
		table[i] = float32(v-p.zero) * p.scale
	}
	out := kit.Make[float32](c, len(a.Data))
	for i, b := range a.Data {
		watch.Did(1)
		out[i] = table[b]
	}
	return out
}

// storeQuantized quantizes values into result 0. Unlike QuantizeLinear, these
// operators add the zero point before they round, which matters for ties.
func (p quantParams) storeQuantized(c *ops.Call, dt ndarray.DType, v []float32, shape ...int) {
	watch := kit.Watching(c)
	y := kit.Result(c, 0, dt, shape...)
	store := quant.QuantStore(y, true)
	for i, x := range v {
		watch.Did(1)
		store(i, x/p.scale+float32(p.zero), 0)
	}
}

// QLinearAdd is C = quantize(dequantize(A) + dequantize(B)), broadcasting.
var QLinearAdd = qlinearBinary("QLinearAdd", "C = quantize(A + B)", func(a, b float32) float32 { return a + b })

// QLinearMul is C = quantize(dequantize(A) * dequantize(B)), broadcasting.
var QLinearMul = qlinearBinary("QLinearMul", "C = quantize(A * B)", func(a, b float32) float32 { return a * b })

func qlinearBinary(name, doc string, f func(a, b float32) float32) ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: 8, MinOut: 1, MaxOut: 1, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: overEither},
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			return ops.One(kit.Try(ops.BroadcastTypes(ops.InType(n, 0).DType, ops.InType(n, 0), ops.InType(n, 3))))
		}),
		Eval: kit.Kernel(func(c *ops.Call) {
			a, b, dt := dequantized(c, 0), dequantized(c, 3), c.Array(0).DType
			p := quantParamsOf(c, 6, 7, dt)
			shape := kit.Try(ops.BroadcastShapes(c.Array(0).Shape, c.Array(3).Shape))
			out := kit.Make[float32](c, kit.Try(ndarray.NumElems(shape)))
			kit.EachBroadcast(c, shape, c.Array(0).Shape, c.Array(3).Shape, func(o, i, j int) { out[o] = f(a[i], b[j]) })
			p.storeQuantized(c, dt, out, shape...)
		}),
	}
}

// overEither lets the result lie over an operand of its shape.
func overEither(n *ssa.Node) (pairs []ops.Pair) {
	for _, i := range []int{0, 3} {
		if x, y := n.Input(i), n.Output(0); x != nil && y != nil && ops.SameLayout(x.Type, y.Type) {
			pairs = append(pairs, ops.Pair{In: i, Out: 0})
		}
	}
	return pairs
}

// QLinearLeakyRelu is Y = quantize(x < 0 ? alpha*x : x), x = dequantize(X).
var QLinearLeakyRelu = qlinearUnary("QLinearLeakyRelu", "Y = quantize(leakyRelu(X))", []*ops.AttrSpec{ops.FloatAttr("alpha", 0.01)},
	func(n *ssa.Node) func(float64) float64 {
		return kit.LeakyRelu(float64(ops.Float(n, "alpha")))
	})

// QLinearSigmoid is Y = quantize(sigmoid(dequantize(X))).
var QLinearSigmoid = qlinearUnary("QLinearSigmoid", "Y = quantize(sigmoid(X))", nil,
	func(*ssa.Node) func(float64) float64 { return kit.Sigmoid })

func qlinearUnary(name, doc string, attrs []*ops.AttrSpec, f func(*ssa.Node) func(float64) float64) ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1, Attrs: attrs,
		Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
		Eval: kit.Kernel(func(c *ops.Call) {
			v := dequantized(c, 0)
			p := quantParamsOf(c, 3, 4, c.Array(0).DType)
			kit.Activate(c, v, f(c.Node))
			p.storeQuantized(c, c.Array(0).DType, v, c.Array(0).Shape...)
		}),
	}
}

// QLinearSoftmax is Y = quantize(softmax(dequantize(X))) along axis; for opset
// below 13 over all dimensions from axis on.
var QLinearSoftmax = ops.Op{
	Domain: Microsoft, Name: "QLinearSoftmax", Since: 1, Doc: "Y = quantize(softmax(X)) along axis",
	MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", -1), ops.IntAttr("opset").Mandatory()},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst}, Eval: kit.Kernel(evalQLinearSoftmax),
}

func evalQLinearSoftmax(c *ops.Call) {
	v := dequantized(c, 0)
	x := c.Array(0)
	p := quantParamsOf(c, 3, 4, x.DType)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), x.Rank()))
	if ops.Int(c.Node, "opset") < 13 {
		kit.SoftmaxRows(c, v, kit.SizeOf(x.Shape[axis:]))
	} else {
		kit.EachLine(c, v, x.Shape, axis, func(_ *kit.Watch, line []float32) { kit.SoftmaxRows(c, line, len(line)) })
	}
	p.storeQuantized(c, x.DType, v, x.Shape...)
}

// QLinearConcat joins tensors of different scales: operands are the result's
// scale and zero point, then tensor, scale and zero point of every part.
var QLinearConcat = ops.Op{
	Domain: Microsoft, Name: "QLinearConcat", Since: 1, Doc: "Y = quantize(concat(dequantize(X), …)) along axis",
	MinIn: 5, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis").Mandatory()},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferQLinearConcat), Eval: kit.Kernel(evalQLinearConcat),
}

func inferQLinearConcat(n *ssa.Node) []ops.Inferred {
	first := ops.InType(n, 2)
	if (len(n.In)-2)%3 != 0 {
		kit.Failf("%d operands do not make whole parts", len(n.In)-2)
	}
	if !first.Ranked {
		return ops.One(ssa.UnrankedTensor(first.DType))
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), first.Rank()))
	shape := slices.Clone(first.Shape)
	for i := 5; i < len(n.In); i += 3 {
		shape[axis] = shape[axis].Add(kit.DimOf(ops.InType(n, i), axis))
	}
	return ops.One(ssa.TensorOf(first.DType, shape...))
}

func evalQLinearConcat(c *ops.Call) {
	watch := kit.Watching(c)
	first := c.Array(2)
	if first == nil || (len(c.In)-2)%3 != 0 {
		kit.Failf("%d operands do not make whole parts", len(c.In)-2)
	}
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), first.Rank()))
	p := quantParamsOf(c, 0, 1, first.DType)
	shape := slices.Clone(first.Shape)
	shape[axis] = 0
	var parts [][]float32
	var widths []int
	for i := 2; i < len(c.In); i += 3 {
		v := dequantized(c, i)
		part := slices.Clone(c.Array(i).Shape)
		if len(part) != len(shape) {
			kit.Failf("parts of shape %v and %v do not join", first.Shape, part)
		}
		shape[axis] += part[axis]
		part[axis] = first.Shape[axis]
		if !slices.Equal(part, first.Shape) {
			kit.Failf("parts of shape %v and %v do not join along axis %d", first.Shape, c.Array(i).Shape, axis)
		}
		parts, widths = append(parts, v), append(widths, kit.SizeOf(c.Array(i).Shape[axis:]))
	}
	out := kit.Make[float32](c, kit.SizeOf(shape))[:0]
	for o := range kit.SizeOf(shape[:axis]) {
		for i, v := range parts {
			watch.Did(1 + widths[i])
			out = append(out, v[o*widths[i]:(o+1)*widths[i]]...)
		}
	}
	p.storeQuantized(c, first.DType, out, shape...)
}

// QLinearWhere picks between two quantized tensors:
// Z = quantize(condition ? dequantize(X) : dequantize(Y)), broadcasting.
func QLinearWhere() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "QLinearWhere", Since: 1, Doc: "Z = quantize(condition ? X : Y)",
		MinIn: 9, MaxIn: 9, MinOut: 1, MaxOut: 1,
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			return ops.One(kit.Try(ops.BroadcastTypes(ops.InType(n, 1).DType, ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 4))))
		}),
		Eval: kit.Kernel(evalQLinearWhere),
	}
}

func evalQLinearWhere(c *ops.Call) {
	cond := c.Array(0)
	if cond == nil || cond.DType != ndarray.Bool {
		kit.Failf("the condition is no boolean tensor")
	}
	x, y, dt := dequantized(c, 1), dequantized(c, 4), c.Array(1).DType
	p := quantParamsOf(c, 7, 8, dt)
	shape := kit.Try(ops.BroadcastShapes(cond.Shape, c.Array(1).Shape, c.Array(4).Shape))
	out := kit.Make[float32](c, kit.Try(ndarray.NumElems(shape)))
	kit.EachBroadcast(c, shape, c.Array(1).Shape, c.Array(4).Shape, func(o, i, j int) { out[o] = y[j] })
	kit.EachBroadcast(c, shape, cond.Shape, c.Array(1).Shape, func(o, k, i int) {
		if cond.Data[k] != 0 {
			out[o] = x[i]
		}
	})
	p.storeQuantized(c, dt, out, shape...)
}

// QLinearReduceMean is the mean of dequantized elements over axes, quantized.
func QLinearReduceMean() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "QLinearReduceMean", Since: 1, Doc: "reduced = quantize(mean(data)) over axes",
		MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntsAttr("axes").Mandatory(), ops.IntAttr("keepdims").Mandatory()},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferReduceAttr(n, ops.InType(n, 0).DType) }),
		Eval: kit.Kernel(evalQLinearReduceMean),
	}
}

// ReduceSumInteger sums 8-bit integers over axes into 32 bits.
func ReduceSumInteger() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "ReduceSumInteger", Since: 1, Doc: "reduced = sum(data) over axes in 32 bits",
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntsAttr("axes").Mandatory(), ops.IntAttr("keepdims").Mandatory()},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferReduceAttr(n, wideInt(ops.InType(n, 0).DType)) }),
		Eval: kit.Kernel(evalReduceSumInteger),
	}
}

// wideInt is the 32-bit type of a small integer type's sign.
func wideInt(dt ndarray.DType) ndarray.DType {
	if dt.IsUnsigned() {
		return ndarray.Uint32
	}
	return ndarray.Int32
}

// inferReduceAttr is the type rule of a reduction whose axes are an attribute.
func inferReduceAttr(n *ssa.Node, dt ndarray.DType) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(ssa.UnrankedTensor(dt))
	}
	_, out := reducedShapes(n, t.Shape, ssa.D(1))
	return ops.One(ssa.TensorOf(dt, out...))
}

// reducedShapes returns a reduction's result shape with the reduced dimensions
// as one, and as the attribute keepdims wants it.
func reducedShapes[D any](n *ssa.Node, shape []D, one D) (kept, result []D) {
	axes := kit.Try(kit.NormAxes(ops.Ints(n, "axes"), len(shape)))
	kept = slices.Clone(shape)
	for i := range shape {
		if slices.Contains(axes, i) {
			kept[i] = one
		}
		if !slices.Contains(axes, i) || ops.Int(n, "keepdims") != 0 {
			result = append(result, kept[i])
		}
	}
	return kept, result
}

func evalQLinearReduceMean(c *ops.Call) {
	watch := kit.Watching(c)
	v := dequantized(c, 0)
	x := c.Array(0)
	p := quantParamsOf(c, 3, 4, x.DType)
	kept, shape := reducedShapes(c.Node, x.Shape, 1)
	sums := kit.Make[float64](c, kit.SizeOf(kept))
	kit.EachBroadcast(c, x.Shape, kept, nil, func(o, i, _ int) { sums[i] += float64(v[o]) })
	out := kit.Make[float32](c, len(sums))
	for i, s := range sums {
		watch.Did(1)
		out[i] = float32(s / math.Max(1, float64(len(v)/max(1, len(sums)))))
	}
	p.storeQuantized(c, x.DType, out, shape...)
}

func evalReduceSumInteger(c *ops.Call) {
	x := c.Array(0)
	if x == nil || !kit.ByteInts.Has(x.DType) {
		kit.Failf("operand 0 is no tensor of 8-bit integers")
	}
	kept, shape := reducedShapes(c.Node, x.Shape, 1)
	y := kit.Result(c, 0, wideInt(x.DType), shape...)
	sums := ndarray.Slice[uint32](y)
	clear(sums)
	kit.EachBroadcast(c, x.Shape, kept, nil, func(o, i, _ int) { sums[i] += uint32(x.Int(o)) })
}
