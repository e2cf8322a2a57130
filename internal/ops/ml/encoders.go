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

// OneHotEncoder marks categories in a new last dimension:
// https://onnx.ai/onnx/operators/onnx_aionnxml_OneHotEncoder.html
var OneHotEncoder = ops.Op{
	Domain: mlDomain, Name: "OneHotEncoder", Since: 1, Doc: "Y[…, k] = X[…] == category k",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("cats_int64s"), ops.StringsAttr("cats_strings"), ops.IntAttr("zeros", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		t := ops.InType(n, 0)
		if !t.Ranked {
			return ops.One(ssa.UnrankedTensor(ndarray.Float32))
		}
		cats := max(len(ops.Ints(n, "cats_int64s")), len(ops.Strings(n, "cats_strings")))
		return ops.One(ssa.TensorOf(ndarray.Float32, append(slices.Clone(t.Shape), ssa.D(int64(cats)))...))
	}),
	Eval: kit.Kernel(evalOneHotEncoder),
}

// LabelEncoder maps elements by a table: https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html
//
// NaN is a key like any other; the last of repeated keys counts.
var LabelEncoder = ops.Op{
	Domain: mlDomain, Name: "LabelEncoder", Since: 4, Form: kit.Since(2), Doc: "Y = values[keys == X], or the default",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatsAttr("keys_floats").From(2), ops.IntsAttr("keys_int64s").From(2),
		ops.StringsAttr("keys_strings").From(2), ops.TensorAttr("keys_tensor").From(4),
		ops.FloatsAttr("values_floats").From(2), ops.IntsAttr("values_int64s").From(2),
		ops.StringsAttr("values_strings").From(2), ops.TensorAttr("values_tensor").From(4),
		ops.FloatAttr("default_float", float32(math.Copysign(0, -1))).From(2), ops.IntAttr("default_int64", -1),
		ops.StrAttr("default_string", "_Unused"), ops.TensorAttr("default_tensor").From(4),
		ops.StringsAttr("classes_strings").Before(2)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferLabelEncoder), Eval: kit.Kernel(evalLabelEncoder),
	Upgrades: []ops.Upgrade{{Below: 2, Source: "https://onnx.ai/onnx/operators/onnx_aionnxml_LabelEncoder.html#labelencoder-2",
		Apply: upgradeLabelEncoder}},
	Downgrades: []ops.Downgrade{{Below: 2, Apply: downgradeLabelEncoder}},
}

// downgradeLabelEncoder makes a list of classes of strings that are numbered in order.
func downgradeLabelEncoder(_ *ops.Upgrader, n *ssa.Node) error {
	for _, pair := range [][2]string{{"keys_strings", "values_int64s"}, {"values_strings", "keys_int64s"}} {
		classes, numbers := n.Attr(pair[0]), n.Attr(pair[1])
		if classes == nil || numbers == nil || len(classes.Strings) != len(numbers.Ints) {
			continue
		}
		for i, k := range numbers.Ints {
			if k != int64(i) {
				return fmt.Errorf("numbers %d in place of %d", k, i)
			}
		}
		strings := classes.Strings
		n.DropAttr(pair[0])
		n.DropAttr(pair[1])
		n.SetAttr(ssa.StringsAttr("classes_strings", strings...))
		return nil
	}
	return fmt.Errorf("maps other things than strings and their numbers")
}

// CategoryMapper maps strings to integers or back:
// https://onnx.ai/onnx/operators/onnx_aionnxml_CategoryMapper.html
var CategoryMapper = ops.Op{
	Domain: mlDomain, Name: "CategoryMapper", Since: 1, Doc: "Y = the other name of category X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("cats_int64s"), ops.StringsAttr("cats_strings"),
		ops.IntAttr("default_int64", -1), ops.StrAttr("default_string", "_Unused")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		t := ops.InType(n, 0)
		switch t.DType {
		case ndarray.String:
			t.DType = ndarray.Int64
		case ndarray.Int64:
			t.DType = ndarray.String
		}
		return ops.One(t)
	}),
	Eval: kit.Kernel(evalCategoryMapper),
}

// keyIndex finds elements in a list of keys; it is made for one element type.
type keyIndex struct {
	ints    map[int64]int
	floats  map[float64]int
	strings map[string]int
	nan     int // where NaN is, -1 if it is no key
}

// newKeyIndex indexes keys; the last of repeated ones counts.
func newKeyIndex(keys *ndarray.Array) *keyIndex {
	x := &keyIndex{nan: -1, ints: map[int64]int{}, floats: map[float64]int{}, strings: map[string]int{}}
	for i := range keys.Len() {
		switch {
		case keys.DType == ndarray.String:
			x.strings[keys.Str[i]] = i
		case !keys.DType.IsFloat():
			x.ints[keys.Int(i)] = i
		case math.IsNaN(keys.Float(i)):
			x.nan = i
		default:
			x.floats[keys.Float(i)] = i
		}
	}
	return x
}

// find returns the position of element i of a among the keys, -1 if it is none.
func (x *keyIndex) find(a *ndarray.Array, i int) int {
	k, ok := x.nan, true
	switch {
	case a.DType == ndarray.String:
		k, ok = x.strings[a.Str[i]]
	case !a.DType.IsFloat():
		k, ok = x.ints[a.Int(i)]
	case !math.IsNaN(a.Float(i)):
		k, ok = x.floats[a.Float(i)]
	}
	if !ok {
		return -1
	}
	return k
}

// listAttr returns the one attribute that is set among name+"_floats",
// "_int64s", "_strings" and "_tensor", as an array.
func listAttr(n *ssa.Node, name string) *ndarray.Array {
	var found []*ndarray.Array
	if v := ops.Floats(n, name+"_floats"); len(v) > 0 {
		found = append(found, ndarray.Of(slices.Clone(v), len(v)))
	}
	if v := ops.Ints(n, name+"_int64s"); len(v) > 0 {
		found = append(found, ndarray.Of(slices.Clone(v), len(v)))
	}
	if v := ops.Strings(n, name+"_strings"); len(v) > 0 {
		found = append(found, ndarray.Strings(v, len(v)))
	}
	if a := kit.Try(arrayAttr(n, name+"_tensor")); a != nil {
		found = append(found, a)
	}
	if len(found) != 1 {
		kit.Failf("%d of the attributes %s_* are set, there must be one", len(found), name)
	}
	return found[0]
}

// defaultAttr returns the element that stands for unknown keys.
func defaultAttr(n *ssa.Node, dt ndarray.DType) *ndarray.Array {
	if v := kit.Try(arrayAttr(n, "default_tensor")); v != nil {
		if v.Len() != 1 || v.DType != dt {
			kit.Check(kit.BadAttr("default_tensor", v, fmt.Sprintf("one %s", dt)))
		}
		return v
	}
	out := ndarray.Must(dt)
	switch {
	case dt == ndarray.String:
		out.Str[0] = ops.Str(n, "default_string")
	case dt.IsFloat():
		out.SetFloat(0, float64(ops.Float(n, "default_float")))
	default:
		out.SetInt(0, ops.Int(n, "default_int64"))
	}
	return out
}

// upgradeLabelEncoder writes the one list of LabelEncoder-1, where a string's
// value is its position, as keys and values.
func upgradeLabelEncoder(_ *ops.Upgrader, n *ssa.Node) error {
	classes := ops.Strings(n, "classes_strings")
	n.DropAttr("classes_strings")
	numbers := make([]int64, len(classes))
	for i := range numbers {
		numbers[i] = int64(i)
	}
	switch dt := ops.InType(n, 0).DType; dt {
	case ndarray.String:
		n.SetAttr(ssa.StringsAttr("keys_strings", classes...))
		n.SetAttr(ssa.IntsAttr("values_int64s", numbers...))
	case ndarray.Int64:
		n.SetAttr(ssa.IntsAttr("keys_int64s", numbers...))
		n.SetAttr(ssa.StringsAttr("values_strings", classes...))
	default:
		return fmt.Errorf("LabelEncoder-1 takes strings or int64, the operand is %s", dt)
	}
	return nil
}

func inferLabelEncoder(n *ssa.Node) []ops.Inferred {
	return ops.One(kit.Retyped(ops.InType(n, 0), listAttr(n, "values").DType))
}

// lookUp stores values[index of X] as result 0, the default for unknown keys.
func lookUp(c *ops.Call, keys, values, def *ndarray.Array) {
	a := kit.Tensor(c, 0)
	if a.DType != keys.DType || keys.Len() != values.Len() {
		kit.Failf("the operand is %s, the keys %s and the values %s", a, keys, values)
	}
	out := kit.Result(c, 0, values.DType, a.Shape...)
	x := newKeyIndex(keys)
	w := kit.Watching(c)
	for i := range a.Len() {
		if k := x.find(a, i); k >= 0 {
			kit.CopyElems(&w, out, i, values, k, 1)
		} else {
			kit.CopyElems(&w, out, i, def, 0, 1)
		}
	}
}

func evalLabelEncoder(c *ops.Call) {
	keys, values := listAttr(c.Node, "keys"), listAttr(c.Node, "values")
	lookUp(c, keys, values, defaultAttr(c.Node, values.DType))
}

func evalCategoryMapper(c *ops.Call) {
	ints, texts := ops.Ints(c.Node, "cats_int64s"), ops.Strings(c.Node, "cats_strings")
	keys, values := ndarray.Of(slices.Clone(ints), len(ints)), ndarray.Strings(texts, len(texts))
	if a := c.Array(0); a != nil && a.DType == ndarray.String {
		keys, values = values, keys
	}
	lookUp(c, keys, values, defaultAttr(c.Node, values.DType))
}

func evalOneHotEncoder(c *ops.Call) {
	a := kit.Tensor(c, 0)
	cats := listAttr(c.Node, "cats")
	if (a.DType == ndarray.String) != (cats.DType == ndarray.String) || a.DType.IsComplex() || a.DType == ndarray.Bool {
		kit.Failf("the operand is %s, the categories %s", a, cats)
	}
	out := kit.Result(c, 0, ndarray.Float32, append(slices.Clone(a.Shape), cats.Len())...)
	y := ndarray.Slice[float32](out)
	kit.ClearSlice(c, y)
	if a.DType != ndarray.String { // numbers are looked up as integers
		a = ndarray.Of(a.Ints(), a.Shape...)
	}
	x := newKeyIndex(cats)
	w := kit.Watching(c)
	for i := range a.Len() {
		w.Did(1)
		k := x.find(a, i)
		if k < 0 && ops.Int(c.Node, "zeros") == 0 {
			kit.Failf("element %d is none of the categories", i)
		}
		if k >= 0 {
			y[i*cats.Len()+k] = 1
		}
	}
}
