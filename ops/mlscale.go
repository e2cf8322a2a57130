package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Scaler shifts and scales features: https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html
var Scaler = Op{
	Domain: mlDomain, Name: "Scaler", Since: 1, Doc: "Y = (X - offset) * scale",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatsAttr("offset"), floatsAttr("scale")},
	Facts: Facts{Traits: general}, Infer: rule(inferAsFloat), Eval: kernel(evalScaler),
}

// Normalizer divides rows by their norm: https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html
//
// The norm is the largest element, the sum of magnitudes or the Euclidean
// length; rows whose norm is 0 stay as they are.
var Normalizer = Op{
	Domain: mlDomain, Name: "Normalizer", Since: 1, Doc: "Y = X / norm(X) row by row",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{strAttr("norm", "MAX", "L1", "L2")},
	Facts: Facts{Traits: general}, Infer: rule(inferAsFloat), Eval: kernel(evalNormalizer),
}

// Binarizer compares with a threshold: https://onnx.ai/onnx/operators/onnx_aionnxml_Binarizer.html
var Binarizer = Op{
	Domain: mlDomain, Name: "Binarizer", Since: 1, Doc: "Y = X > threshold ? 1 : 0",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatAttr("threshold", 0)},
	Infer: SameAs, Eval: kernel(evalBinarizer),
	Facts: Facts{Traits: elementwise.but(ZeroSignCleared)},
}

// Imputer replaces a value that stands for a missing one:
// https://onnx.ai/onnx/operators/onnx_aionnxml_Imputer.html
//
// The new value is one for all or one per feature. NaN is a value here.
var Imputer = Op{
	Domain: mlDomain, Name: "Imputer", Since: 1, Doc: "Y = X == replaced ? imputed : X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatsAttr("imputed_value_floats"), intsAttr("imputed_value_int64s"),
		floatAttr("replaced_value_float", 0), intAttr("replaced_value_int64", 0)},
	Infer: SameAs, Eval: kernel(evalImputer),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst},
}

// FeatureVectorizer joins rows of features: https://onnx.ai/onnx/operators/onnx_aionnxml_FeatureVectorizer.html
//
// inputdimensions says how many features each operand gives: longer rows are
// cut, shorter ones padded with zeros.
var FeatureVectorizer = Op{
	Domain: mlDomain, Name: "FeatureVectorizer", Since: 1, Doc: "Y = inputs side by side as floats",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("inputdimensions")},
	Facts: Facts{Traits: general}, Infer: rule(inferFeatureVectorizer), Eval: kernel(evalFeatureVectorizer),
}

// inferAsFloat is operand 0's shape with element type float32.
func inferAsFloat(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	return One(ssa.Type{Kind: ssa.KindTensor, DType: ndarray.Float32, Ranked: t.Ranked, Shape: t.Shape})
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
	panic(failure{badAttr(name, fmt.Sprint(len(v), " elements"), fmt.Sprintf("one element or %d", features))})
}

func evalScaler(c *Call) {
	a := tensor(c, 0)
	offset := perFeature("offset", widen(Floats(c.Node, "offset")), lastDim(a), 0)
	scale := perFeature("scale", widen(Floats(c.Node, "scale")), lastDim(a), 1)
	out := result(c, 0, ndarray.Float32, a.Shape...)
	y := ndarray.Slice[float32](out)
	for i, v := range elements[float64](a) {
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
	case "L2":
		return func(row []float64) float64 { return math.Sqrt(dotRow(row, row)) }
	}
	panic(failure{badAttr("norm", name, "MAX, L1 or L2")})
}

func evalNormalizer(c *Call) {
	x := needSamples(c, 0)
	norm := normOf(Str(c.Node, "norm"))
	out := result(c, 0, ndarray.Float32, c.Array(0).Shape...)
	if x.f == 0 {
		return
	}
	y := ndarray.Slice[float32](out)
	for i := range x.n {
		d := norm(x.row(i))
		if d == 0 {
			d = 1
		}
		for k, v := range x.row(i) {
			y[i*x.f+k] = float32(v / d)
		}
	}
}

func evalBinarizer(c *Call) {
	a := tensor(c, 0)
	if !a.DType.IsFloat() && !a.DType.IsInteger() {
		check(unsupportedType(a.DType))
	}
	out := result(c, 0, a.DType, a.Shape...)
	limit := float64(Float(c.Node, "threshold"))
	for i := range a.Len() {
		out.SetInt(i, int64(btoi(a.Float(i) > limit)))
	}
}

func evalImputer(c *Call) {
	a := tensor(c, 0)
	n := c.Node
	if a.DType.IsInteger() {
		imputeInts(c, a, Ints(n, "imputed_value_int64s"), Int(n, "replaced_value_int64"))
		return
	}
	if !a.DType.IsFloat() {
		check(unsupportedType(a.DType))
	}
	if len(Floats(n, "imputed_value_floats")) == 0 {
		check(badAttr("imputed_value_floats", "", "given for an operand of floats"))
	}
	put := perFeature("imputed_value_floats", widen(Floats(n, "imputed_value_floats")), lastDim(a), 0)
	out := result(c, 0, a.DType, a.Shape...)
	old := float64(Float(n, "replaced_value_float"))
	for i := range a.Len() {
		v := a.Float(i)
		if v == old || v != v && old != old {
			v = put(i)
		}
		out.SetFloat(i, v)
	}
}

func imputeInts(c *Call, a *ndarray.Array, put []int64, old int64) {
	f := lastDim(a)
	if len(put) != 1 && len(put) != f {
		check(badAttr("imputed_value_int64s", put, fmt.Sprintf("one element or %d", f)))
	}
	out := result(c, 0, a.DType, a.Shape...)
	for i := range a.Len() {
		v := a.Int(i)
		if v == old {
			v = put[i%f%len(put)]
		}
		out.SetInt(i, v)
	}
}

func inferFeatureVectorizer(n *ssa.Node) []Inferred {
	dims, rows, cols := Ints(n, "inputdimensions"), ssa.Dim{}, ssa.D(0)
	for i := range n.In {
		if r := rowsOf(n, i); r.Known() {
			rows = r
		}
		switch t := InType(n, i); {
		case i < len(dims):
			cols = cols.AddN(dims[i])
		case t.Rank() > 0:
			cols = cols.Add(t.Shape[len(t.Shape)-1])
		default:
			cols = ssa.Dim{}
		}
	}
	return One(ssa.TensorOf(ndarray.Float32, rows, cols))
}

func evalFeatureVectorizer(c *Call) {
	dims := Ints(c.Node, "inputdimensions")
	parts, widths, cols := make([]*samples, len(c.In)), make([]int, len(c.In)), 0
	for i := range parts {
		x := needSamples(c, i)
		if parts[i] = x; x.n != parts[0].n {
			failf("operand %d has %d rows, operand 0 has %d", i, x.n, parts[0].n)
		}
		widths[i] = x.f
		if i < len(dims) {
			if dims[i] < 0 || dims[i] > maxColumns {
				check(badAttr("inputdimensions", dims, "not negative"))
			}
			widths[i] = int(dims[i])
		}
		cols += widths[i]
	}
	out := result(c, 0, ndarray.Float32, parts[0].n, cols)
	y, at := ndarray.Slice[float32](out), 0
	clear(y)
	for i, x := range parts {
		for r := range x.n {
			for k := range min(x.f, widths[i]) {
				y[r*cols+at+k] = float32(x.row(r)[k])
			}
		}
		at += widths[i]
	}
}
