package ml

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ZipMap pairs the columns of a matrix with keys, one map per row:
// https://onnx.ai/onnx/operators/onnx_aionnxml_ZipMap.html
var ZipMap = ops.Op{
	Domain: mlDomain, Name: "ZipMap", Since: 1, Doc: "Z[n] = {label k: X[n, k]}",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("classlabels_int64s"), ops.StringsAttr("classlabels_strings")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		l, value := labelsOf(n), ssa.TensorOf(ndarray.Float32)
		return ops.One(ssa.SequenceOf(ssa.Type{Kind: ssa.KindMap, DType: l.dtype(), Elem: &value}))
	}),
	Eval: kit.Kernel(evalZipMap),
}

// DictVectorizer lays a map's values out by a vocabulary of keys:
// https://onnx.ai/onnx/operators/onnx_aionnxml_DictVectorizer.html
//
// The result is one row, [1, vocabulary], as the models that use the operator
// expect; keys that the map lacks give zeros.
func DictVectorizer() ops.Op {
	return ops.Op{
		Domain: mlDomain, Name: "DictVectorizer", Since: 1, Doc: "Y[0, i] = X[vocabulary[i]], or 0",
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntsAttr("int64_vocabulary"), ops.StringsAttr("string_vocabulary")},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			words := max(len(ops.Ints(n, "int64_vocabulary")), len(ops.Strings(n, "string_vocabulary")))
			return ops.One(ssa.StaticTensor(mapValueType(ops.InType(n, 0)), 1, words))
		}),
		Eval: kit.Kernel(evalDictVectorizer),
	}
}

// CastMap lays a map's values out by ascending key, or at the positions that
// the keys name: https://onnx.ai/onnx/operators/onnx_aionnxml_CastMap.html
//
// The result is one row.
func CastMap() ops.Op {
	return ops.Op{
		Domain: mlDomain, Name: "CastMap", Since: 1, Doc: "Y = values of X by key",
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.StrAttr("cast_to", "TO_FLOAT", "TO_INT64", "TO_STRING"), ops.StrAttr("map_form", "DENSE", "SPARSE"), ops.IntAttr("max_map", 1)},
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferCastMap), Eval: kit.Kernel(evalCastMap),
	}
}

// mapValueType is the element type of a map's values, as far as known.
func mapValueType(t ssa.Type) ndarray.DType {
	if t.Kind == ssa.KindMap && t.Elem != nil {
		return t.Elem.DType
	}
	return ndarray.Undefined
}

// needMap returns keys and values of map operand 0.
func needMap(c *ops.Call) (keys, values *ndarray.Array) {
	if !c.Has(0) {
		kit.Failf("operand 0 is required and absent")
	}
	m, ok := c.In[0].(*ndarray.Map)
	if !ok || m == nil || m.Keys == nil {
		kit.Failf("operand 0 is no map")
	}
	v, ok := m.Values.(*ndarray.Array)
	if !ok || v.Len() != m.Keys.Len() {
		kit.Failf("the map has %d keys and no value for each", m.Keys.Len())
	}
	return m.Keys, v
}

func evalZipMap(c *ops.Call) {
	a := kit.Tensor(c, 0)
	if a.DType != ndarray.Float32 || a.Rank() < 1 || a.Rank() > 2 {
		kit.Failf("the operand is %s, it must be float32[N, labels]", a)
	}
	l := labelsOf(c.Node)
	k := a.Shape[a.Rank()-1]
	if l.count() != k {
		kit.Failf("%d labels for %d columns", l.count(), k)
	}
	keys := ndarray.Of(slices.Clone(l.ints), len(l.ints))
	if l.dtype() == ndarray.String {
		keys = ndarray.Strings(l.strings, k)
	}
	out := &ndarray.Sequence{}
	w := kit.Watching(c)
	for r := 0; r*k < a.Len(); r++ {
		w.Did(1)
		v := kit.New(c, ndarray.Float32, k)
		kit.CopyElems(&w, v, 0, a, r*k, k)
		out.Items = append(out.Items, &ndarray.Map{Keys: keys, Values: v})
	}
	kit.Check(c.SetOutput(0, out))
}

func evalDictVectorizer(c *ops.Call) {
	keys, values := needMap(c)
	ints, texts := ops.Ints(c.Node, "int64_vocabulary"), ops.Strings(c.Node, "string_vocabulary")
	if (keys.DType == ndarray.String) != (len(texts) > 0) {
		kit.Failf("the map's keys are %s, the vocabulary is of the other kind", keys.DType)
	}
	words := ndarray.Of(slices.Clone(ints), len(ints))
	if len(texts) > 0 {
		words = ndarray.Strings(texts, len(texts))
	}
	out := kit.Result(c, 0, values.DType, 1, words.Len())
	kit.ClearSlice(c, out.Data)
	kit.ClearSlice(c, out.Str)
	x := newKeyIndex(words)
	w := kit.Watching(c)
	for i := range keys.Len() {
		w.Did(1)
		if k := x.find(keys, i); k >= 0 {
			kit.CopyElems(&w, out, k, values, i, 1)
		}
	}
}

// castMapType is the element type that attribute cast_to names.
func castMapType(n *ssa.Node) ndarray.DType {
	switch ops.Str(n, "cast_to") {
	case "TO_INT64":
		return ndarray.Int64
	case "TO_STRING":
		return ndarray.String
	}
	return ndarray.Float32
}

func inferCastMap(n *ssa.Node) []ops.Inferred {
	cols := ssa.Dim{}
	if ops.Str(n, "map_form") == "SPARSE" {
		cols = ssa.D(ops.Int(n, "max_map"))
	}
	return ops.One(ssa.TensorOf(castMapType(n), ssa.D(1), cols))
}

func evalCastMap(c *ops.Call) {
	keys, values := needMap(c)
	if keys.DType != ndarray.Int64 {
		kit.Failf("the map's keys are %s, they must be int64", keys.DType)
	}
	order := kit.PositionsIn(c, keys.Len())
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(keys.Int(i), keys.Int(j)) })
	sparse, cols := ops.Str(c.Node, "map_form") == "SPARSE", int64(keys.Len())
	if sparse {
		if cols = ops.Int(c.Node, "max_map"); cols < 1 || cols > kit.MaxColumns {
			kit.Check(kit.BadAttr("max_map", cols, "above 0"))
		}
	}
	out := kit.Result(c, 0, castMapType(c.Node), 1, int(cols))
	kit.ClearSlice(c, out.Data)
	kit.ClearSlice(c, out.Str)
	for pos, i := range order {
		at := int64(pos)
		if sparse {
			if at = keys.Int(i); at < 0 || at >= cols {
				kit.Failf("key %d is outside of 0..%d", at, cols-1)
			}
		}
		castElem(c, out, int(at), values, i)
	}
}

// castElem converts element i of a to out's type: text is parsed and printed.
func castElem(c *ops.Call, out *ndarray.Array, o int, a *ndarray.Array, i int) {
	switch {
	case a.DType != ndarray.String && out.DType == ndarray.String:
		out.Str[o] = kit.Text(c, strconv.FormatFloat(a.Float(i), 'f', 6, 32))
	case a.DType != ndarray.String:
		out.SetFloat(o, a.Float(i))
	case out.DType == ndarray.String:
		out.Str[o] = a.Str[i]
	case out.DType == ndarray.Int64:
		v, err := strconv.ParseInt(a.Str[i], 10, 64)
		if err != nil {
			kit.Failf("value %q is no integer", a.Str[i])
		}
		out.SetInt(o, v)
	default:
		v, err := strconv.ParseFloat(a.Str[i], 32)
		if err != nil && !math.IsInf(v, 0) {
			kit.Failf("value %q is no number", a.Str[i])
		}
		out.SetFloat(o, v)
	}
}
