package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The QLinear operators of the com.microsoft domain compute
//
//	Y = quantize(f(dequantize(X), …))
//
// on 8-bit integers. A scale and a zero point (0 if absent) follow every operand
// and describe the result.

// qparam is one scale and zero point.
type qparam struct {
	scale float32
	zero  float64
}

// qparamOf reads a scale and its optional zero point, which must have element
// type dt.
func qparamOf(c *Call, scaleAt, zeroAt int, dt ndarray.DType) (p qparam) {
	s, z := c.Array(scaleAt), c.Array(zeroAt)
	if s == nil || s.DType != ndarray.Float32 || s.Len() != 1 {
		failf("operand %d is not one float32 scale", scaleAt)
	}
	p.scale = ndarray.Slice[float32](s)[0]
	if z == nil {
		return p
	}
	if z.DType != dt || z.Len() != 1 {
		failf("operand %d is %s, expected one zero point of %s", zeroAt, z, dt)
	}
	p.zero = z.Float(0)
	return p
}

// dequantized is operand i in real numbers.
func dequantized(c *Call, i int) []float32 {
	a := c.Array(i)
	if a == nil || !byteInts.has(a.DType) {
		failf("operand %d is no tensor of 8-bit integers", i)
	}
	p := qparamOf(c, i+1, i+2, a.DType)
	return p.real(a)
}

// real dequantizes an array.
func (p qparam) real(a *ndarray.Array) []float32 {
	var table [256]float32
	for i := range table {
		v := float64(i)
		if a.DType == ndarray.Int8 {
			v = float64(int8(i))
		}
		table[i] = float32(v-p.zero) * p.scale
	}
	out := make([]float32, len(a.Data))
	for i, b := range a.Data {
		out[i] = table[b]
	}
	return out
}

// storeQuantized quantizes values into result 0. Unlike QuantizeLinear, these
// operators add the zero point before they round, which matters for ties.
func (p qparam) storeQuantized(c *Call, dt ndarray.DType, v []float32, shape ...int) {
	y := result(c, 0, dt, shape...)
	store := quantStore(y, true)
	for i, x := range v {
		store(i, x/p.scale+float32(p.zero), 0)
	}
}

// QLinearAdd is C = quantize(dequantize(A) + dequantize(B)), broadcasting.
var QLinearAdd = qlinearBinary("QLinearAdd", "C = quantize(A + B)", func(a, b float32) float32 { return a + b })

// QLinearMul is C = quantize(dequantize(A) * dequantize(B)), broadcasting.
var QLinearMul = qlinearBinary("QLinearMul", "C = quantize(A * B)", func(a, b float32) float32 { return a * b })

func qlinearBinary(name, doc string, f func(a, b float32) float32) Op {
	return Op{
		Domain: microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: 8, MinOut: 1, MaxOut: 1, Facts: Facts{Traits: general},
		Infer: rule(func(n *ssa.Node) []Inferred {
			t := try(BroadcastTypes(InType(n, 0).DType, InType(n, 0), InType(n, 3)))
			return One(t)
		}),
		Eval: kernel(func(c *Call) {
			a := dequantized(c, 0)
			b := dequantized(c, 3)
			dt := c.Array(0).DType
			p := qparamOf(c, 6, 7, dt)
			shape := try(BroadcastShapes(c.Array(0).Shape, c.Array(3).Shape))
			n := try(ndarray.NumElems(shape))
			out := make([]float32, n)
			EachBroadcast(shape, c.Array(0).Shape, c.Array(3).Shape, func(o, i, j int) { out[o] = f(a[i], b[j]) })
			p.storeQuantized(c, dt, out, shape...)
		}),
	}
}

// QLinearLeakyRelu is Y = quantize(x < 0 ? alpha*x : x), x = dequantize(X).
var QLinearLeakyRelu = qlinearUnary("QLinearLeakyRelu", "Y = quantize(leakyRelu(X))", []AttrSpec{floatAttr("alpha", 0.01)},
	func(n *ssa.Node) func(float64) float64 {
		return leakyRelu(float64(Float(n, "alpha")))
	})

// QLinearSigmoid is Y = quantize(sigmoid(dequantize(X))).
var QLinearSigmoid = qlinearUnary("QLinearSigmoid", "Y = quantize(sigmoid(X))", nil,
	func(*ssa.Node) func(float64) float64 { return sigmoid })

func qlinearUnary(name, doc string, attrs []AttrSpec, f func(*ssa.Node) func(float64) float64) Op {
	return Op{
		Domain: microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1, Attrs: attrs,
		Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
		Eval: kernel(func(c *Call) {
			v := dequantized(c, 0)
			p := qparamOf(c, 3, 4, c.Array(0).DType)
			activate(v, f(c.Node))
			p.storeQuantized(c, c.Array(0).DType, v, c.Array(0).Shape...)
		}),
	}
}

// QLinearSoftmax is Y = quantize(softmax(dequantize(X))) along axis; for opset
// below 13 over all dimensions from axis on.
var QLinearSoftmax = Op{
	Domain: microsoft, Name: "QLinearSoftmax", Since: 1, Doc: "Y = quantize(softmax(X)) along axis",
	MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", -1), intAttr("opset").required()},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst}, Eval: kernel(evalQLinearSoftmax),
}

func evalQLinearSoftmax(c *Call) {
	v := dequantized(c, 0)
	x := c.Array(0)
	p := qparamOf(c, 3, 4, x.DType)
	axis := try(NormAxis(Int(c.Node, "axis"), x.Rank()))
	if Int(c.Node, "opset") < 13 {
		softmaxRows(v, sizeOf(x.Shape[axis:]))
	} else {
		eachLine(v, x.Shape, axis, func(line []float32) { softmaxRows(line, len(line)) })
	}
	p.storeQuantized(c, x.DType, v, x.Shape...)
}

// QLinearConcat joins tensors of different scales: operands are the result's
// scale and zero point, then tensor, scale and zero point of every part.
var QLinearConcat = Op{
	Domain: microsoft, Name: "QLinearConcat", Since: 1, Doc: "Y = quantize(concat(dequantize(X), …)) along axis",
	MinIn: 5, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis").required()},
	Facts: Facts{Traits: general}, Infer: rule(inferQLinearConcat), Eval: kernel(evalQLinearConcat),
}

func inferQLinearConcat(n *ssa.Node) []Inferred {
	first := InType(n, 2)
	if (len(n.In)-2)%3 != 0 {
		failf("%d operands do not make whole parts", len(n.In)-2)
	}
	if !first.Ranked {
		return One(ssa.UnrankedTensor(first.DType))
	}
	axis := try(NormAxis(Int(n, "axis"), first.Rank()))
	shape := slices.Clone(first.Shape)
	for i := 5; i < len(n.In); i += 3 {
		shape[axis] = shape[axis].Add(dimOf(InType(n, i), axis))
	}
	return One(ssa.TensorOf(first.DType, shape...))
}

func evalQLinearConcat(c *Call) {
	first := c.Array(2)
	if first == nil || (len(c.In)-2)%3 != 0 {
		failf("%d operands do not make whole parts", len(c.In)-2)
	}
	axis := try(NormAxis(Int(c.Node, "axis"), first.Rank()))
	p := qparamOf(c, 0, 1, first.DType)
	shape := slices.Clone(first.Shape)
	shape[axis] = 0
	var parts [][]float32
	var widths []int
	for i := 2; i < len(c.In); i += 3 {
		v := dequantized(c, i)
		part := slices.Clone(c.Array(i).Shape)
		if len(part) != len(shape) {
			failf("parts of shape %v and %v do not join", first.Shape, part)
		}
		shape[axis] += part[axis]
		part[axis] = first.Shape[axis]
		if !slices.Equal(part, first.Shape) {
			failf("parts of shape %v and %v do not join along axis %d", first.Shape, c.Array(i).Shape, axis)
		}
		parts, widths = append(parts, v), append(widths, sizeOf(c.Array(i).Shape[axis:]))
	}
	out := make([]float32, 0, sizeOf(shape))
	for o := range sizeOf(shape[:axis]) {
		for i, v := range parts {
			out = append(out, v[o*widths[i]:(o+1)*widths[i]]...)
		}
	}
	p.storeQuantized(c, first.DType, out, shape...)
}

// QLinearWhere picks between two quantized tensors:
// Z = quantize(condition ? dequantize(X) : dequantize(Y)), broadcasting.
var QLinearWhere = Op{
	Domain: microsoft, Name: "QLinearWhere", Since: 1, Doc: "Z = quantize(condition ? X : Y)",
	MinIn: 9, MaxIn: 9, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(BroadcastTypes(InType(n, 1).DType, InType(n, 0), InType(n, 1), InType(n, 4)))
		return One(t)
	}),
	Eval: kernel(evalQLinearWhere),
}

func evalQLinearWhere(c *Call) {
	cond := c.Array(0)
	if cond == nil || cond.DType != ndarray.Bool {
		failf("the condition is no boolean tensor")
	}
	x := dequantized(c, 1)
	y := dequantized(c, 4)
	dt := c.Array(1).DType
	p := qparamOf(c, 7, 8, dt)
	shape := try(BroadcastShapes(cond.Shape, c.Array(1).Shape, c.Array(4).Shape))
	n := try(ndarray.NumElems(shape))
	out := make([]float32, n)
	EachBroadcast(shape, c.Array(1).Shape, c.Array(4).Shape, func(o, i, j int) { out[o] = y[j] })
	EachBroadcast(shape, cond.Shape, c.Array(1).Shape, func(o, k, i int) {
		if cond.Data[k] != 0 {
			out[o] = x[i]
		}
	})
	p.storeQuantized(c, dt, out, shape...)
}

// QLinearReduceMean is the mean of dequantized elements over axes, quantized.
var QLinearReduceMean = Op{
	Domain: microsoft, Name: "QLinearReduceMean", Since: 1, Doc: "reduced = quantize(mean(data)) over axes",
	MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("axes").required(), intAttr("keepdims").required()},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred { return inferReduceAttr(n, InType(n, 0).DType) }),
	Eval: kernel(evalQLinearReduceMean),
}

// ReduceSumInteger sums 8-bit integers over axes into 32 bits.
var ReduceSumInteger = Op{
	Domain: microsoft, Name: "ReduceSumInteger", Since: 1, Doc: "reduced = sum(data) over axes in 32 bits",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("axes").required(), intAttr("keepdims").required()},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred { return inferReduceAttr(n, wideInt(InType(n, 0).DType)) }),
	Eval: kernel(evalReduceSumInteger),
}

// wideInt is the 32-bit type of a small integer type's sign.
func wideInt(dt ndarray.DType) ndarray.DType {
	if dt.IsUnsigned() {
		return ndarray.Uint32
	}
	return ndarray.Int32
}

// inferReduceAttr is the type rule of a reduction whose axes are an attribute.
func inferReduceAttr(n *ssa.Node, dt ndarray.DType) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(ssa.UnrankedTensor(dt))
	}
	axes := try(normAxes(Ints(n, "axes"), t.Rank()))
	var out []ssa.Dim
	for i, d := range t.Shape {
		switch {
		case !slices.Contains(axes, i):
			out = append(out, d)
		case Int(n, "keepdims") != 0:
			out = append(out, ssa.D(1))
		}
	}
	return One(ssa.TensorOf(dt, out...))
}

// reducedShapes returns a reduction's result shape with the reduced dimensions
// as 1, and as the attribute keepdims wants it.
func reducedShapes(n *ssa.Node, shape []int) (kept, result []int) {
	axes := try(normAxes(Ints(n, "axes"), len(shape)))
	kept = slices.Clone(shape)
	for i := range shape {
		if slices.Contains(axes, i) {
			kept[i] = 1
		}
		if !slices.Contains(axes, i) || Int(n, "keepdims") != 0 {
			result = append(result, kept[i])
		}
	}
	return kept, result
}

func evalQLinearReduceMean(c *Call) {
	v := dequantized(c, 0)
	x := c.Array(0)
	p := qparamOf(c, 3, 4, x.DType)
	kept, shape := reducedShapes(c.Node, x.Shape)
	sums := make([]float64, sizeOf(kept))
	EachBroadcast(x.Shape, kept, nil, func(o, i, _ int) { sums[i] += float64(v[o]) })
	out := make([]float32, len(sums))
	for i, s := range sums {
		out[i] = float32(s / math.Max(1, float64(len(v)/max(1, len(sums)))))
	}
	p.storeQuantized(c, x.DType, out, shape...)
}

func evalReduceSumInteger(c *Call) {
	x := c.Array(0)
	if x == nil || !byteInts.has(x.DType) {
		failf("operand 0 is no tensor of 8-bit integers")
	}
	kept, shape := reducedShapes(c.Node, x.Shape)
	y := result(c, 0, wideInt(x.DType), shape...)
	sums := ndarray.Slice[uint32](y)
	clear(sums)
	EachBroadcast(x.Shape, kept, nil, func(o, i, _ int) { sums[i] += uint32(x.Int(o)) })
}
