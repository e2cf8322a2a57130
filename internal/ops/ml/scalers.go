package ml

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Scaler shifts and scales features: https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html
var Scaler = ops.Op{
	Domain: mlDomain, Name: "Scaler", Since: 1, Doc: "Y = (X - offset) * scale",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatsAttr("offset"), ops.FloatsAttr("scale")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferAsFloat), Eval: kit.Kernel(evalScaler),
}

// Normalizer divides rows by their norm: https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html
//
// The norm is the largest element, the sum of magnitudes or the Euclidean
// length; rows whose norm is 0 stay as they are.
var Normalizer = ops.Op{
	Domain: mlDomain, Name: "Normalizer", Since: 1, Doc: "Y = X / norm(X) row by row",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("norm", "MAX", "L1", "L2")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferAsFloat), Eval: kit.Kernel(evalNormalizer),
}

// Binarizer compares with a threshold: https://onnx.ai/onnx/operators/onnx_aionnxml_Binarizer.html
var Binarizer = ops.Op{
	Domain: mlDomain, Name: "Binarizer", Since: 1, Doc: "Y = X > threshold ? 1 : 0",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("threshold", 0)},
	Infer: ops.SameAs, Eval: kit.Kernel(evalBinarizer),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ZeroSignCleared)},
}

// Imputer replaces a value that stands for a missing one:
// https://onnx.ai/onnx/operators/onnx_aionnxml_Imputer.html
//
// The new value is one for all or one per feature. NaN is a value here.
var Imputer = ops.Op{
	Domain: mlDomain, Name: "Imputer", Since: 1, Doc: "Y = X == replaced ? imputed : X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatsAttr("imputed_value_floats"), ops.IntsAttr("imputed_value_int64s"),
		ops.FloatAttr("replaced_value_float", 0), ops.IntAttr("replaced_value_int64", 0)},
	Infer: ops.SameAs, Eval: kit.Kernel(evalImputer),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
}

// FeatureVectorizer joins rows of features: https://onnx.ai/onnx/operators/onnx_aionnxml_FeatureVectorizer.html
//
// inputdimensions says how many features each operand gives: longer rows are
// cut, shorter ones padded with zeros.
func FeatureVectorizer() ops.Op {
	return ops.Op{
		Domain: mlDomain, Name: "FeatureVectorizer", Since: 1, Doc: "Y = inputs side by side as floats",
		MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntsAttr("inputdimensions").Between(0, kit.MaxColumns)},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferFeatureVectorizer), Eval: kit.Kernel(evalFeatureVectorizer),
	}
}

// inferAsFloat is operand 0's shape with element type float32.
func inferAsFloat(n *ssa.Node) []ops.Inferred {
	return ops.One(kit.Retyped(ops.InType(n, 0), ndarray.Float32))
}

// lastDim is the length of the last dimension, 1 for scalars.
func lastDim(a *ndarray.Array) int {
	if a.Rank() == 0 {
		return 1
	}
	return a.Shape[a.Rank()-1]
}

// perFeature returns entry i mod features of a list that holds one value for
// all features or one for each.
func perFeature(name string, v []float64, features int, def float64) func(i int) float64 {
	switch {
	case len(v) == 0:
		return func(int) float64 { return def }
	case len(v) == 1:
		return func(int) float64 { return v[0] }
	case len(v) == features:
		return func(i int) float64 { return v[i%features] }
	}
	panic(kit.Failure{Err: kit.BadAttr(name, fmt.Sprint(len(v), " elements"), fmt.Sprintf("one element or %d", features))})
}

func evalScaler(c *ops.Call) {
	a := kit.Tensor(c, 0)
	offset := perFeature("offset", widen(ops.Floats(c.Node, "offset")), lastDim(a), 0)
	scale := perFeature("scale", widen(ops.Floats(c.Node, "scale")), lastDim(a), 1)
	out := kit.Result(c, 0, ndarray.Float32, a.Shape...)
	y := ndarray.Slice[float32](out)
	w := kit.Watching(c)
	for i, v := range kit.Elements[float64](c, a) {
		w.Did(1)
		y[i] = float32((v - offset(i)) * scale(i))
	}
}

// normOf returns a norm of rows.
func normOf(name string) func(row []float64) float64 {
	switch name {
	case "MAX":
		return slices.Max[[]float64]
	case "L1":
		return func(row []float64) (s float64) {
			for _, v := range row {
				s += math.Abs(v)
			}
			return s
		}
	}
	return func(row []float64) float64 { return math.Sqrt(dotRow(row, row)) }
}

func evalNormalizer(c *ops.Call) {
	x := needSamples(c, 0)
	norm := normOf(ops.Str(c.Node, "norm"))
	out := kit.Result(c, 0, ndarray.Float32, c.Array(0).Shape...)
	if x.f == 0 {
		return
	}
	y := ndarray.Slice[float32](out)
	w := kit.Watching(c)
	for i := range x.n {
		w.Did(2 * x.f)
		d := norm(x.row(i))
		if d == 0 {
			d = 1
		}
		for k, v := range x.row(i) {
			y[i*x.f+k] = float32(v / d)
		}
	}
}

func evalBinarizer(c *ops.Call) {
	a := kit.Tensor(c, 0)
	if !a.DType.IsFloat() && !a.DType.IsInteger() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	out := kit.Result(c, 0, a.DType, a.Shape...)
	limit := float64(ops.Float(c.Node, "threshold"))
	w := kit.Watching(c)
	for i := range a.Len() {
		w.Did(1)
		out.SetInt(i, int64(kit.Btoi(a.Float(i) > limit)))
	}
}

func evalImputer(c *ops.Call) {
	a := kit.Tensor(c, 0)
	n := c.Node
	if a.DType.IsInteger() {
		imputeInts(c, a, ops.Ints(n, "imputed_value_int64s"), ops.Int(n, "replaced_value_int64"))
		return
	}
	if !a.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	if len(ops.Floats(n, "imputed_value_floats")) == 0 {
		kit.Check(kit.BadAttr("imputed_value_floats", "", "given for an operand of floats"))
	}
	put := perFeature("imputed_value_floats", widen(ops.Floats(n, "imputed_value_floats")), lastDim(a), 0)
	out := kit.Result(c, 0, a.DType, a.Shape...)
	old := float64(ops.Float(n, "replaced_value_float"))
	w := kit.Watching(c)
	for i := range a.Len() {
		w.Did(1)
		v := a.Float(i)
		if v == old || v != v && old != old {
			v = put(i)
		}
		out.SetFloat(i, v)
	}
}

func imputeInts(c *ops.Call, a *ndarray.Array, put []int64, old int64) {
	f := lastDim(a)
	if len(put) != 1 && len(put) != f {
		kit.Check(kit.BadAttr("imputed_value_int64s", put, fmt.Sprintf("one element or %d", f)))
	}
	out := kit.Result(c, 0, a.DType, a.Shape...)
	w := kit.Watching(c)
	for i := range a.Len() {
		w.Did(1)
		v := a.Int(i)
		if v == old {
			v = put[i%f%len(put)]
		}
		out.SetInt(i, v)
	}
}

func inferFeatureVectorizer(n *ssa.Node) []ops.Inferred {
	dims, rows, cols := ops.Ints(n, "inputdimensions"), ssa.Dim{}, ssa.D(0)
	for i := range n.In {
		if r := rowsOf(n, i); r.Known() {
			rows = r
		}
		switch t := ops.InType(n, i); {
		case i < len(dims):
			cols = cols.AddN(dims[i])
		case t.Rank() > 0:
			cols = cols.Add(t.Shape[len(t.Shape)-1])
		default:
			cols = ssa.Dim{}
		}
	}
	return ops.One(ssa.TensorOf(ndarray.Float32, rows, cols))
}

func evalFeatureVectorizer(c *ops.Call) {
	dims := ops.Ints(c.Node, "inputdimensions")
	parts, widths, cols := make([]*samples, len(c.In)), make([]int, len(c.In)), 0
	for i := range parts {
		x := needSamples(c, i)
		if parts[i] = x; x.n != parts[0].n {
			kit.Failf("operand %d has %d rows, operand 0 has %d", i, x.n, parts[0].n)
		}
		widths[i] = x.f
		if i < len(dims) {
			widths[i] = int(dims[i])
		}
		cols += widths[i]
	}
	out := kit.Result(c, 0, ndarray.Float32, parts[0].n, cols)
	y, at := ndarray.Slice[float32](out), 0
	kit.ClearSlice(c, y)
	w := kit.Watching(c)
	for i, x := range parts {
		for r := range x.n {
			for k := range min(x.f, widths[i]) {
				w.Did(1)
				y[r*cols+at+k] = float32(x.row(r)[k])
			}
		}
		at += widths[i]
	}
}
