package text

import (
	"slices"
	"strings"
	"unicode"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// StringConcat joins strings elementwise, with broadcasting:
// https://onnx.ai/onnx/operators/onnx__StringConcat.html
var StringConcat = ops.Op{
	Name: "StringConcat", Since: 20, Doc: "Z = X followed by Y",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(kit.Try(ops.BroadcastTypes(ndarray.String, ops.InType(n, 0), ops.InType(n, 1))))
	}),
	Eval:  kit.Kernel(evalStringConcat),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ZeroSignIgnored)},
}

// StringSplit cuts every string at a delimiter:
// https://onnx.ai/onnx/operators/onnx__StringSplit.html
//
// The pieces fill a new last dimension, padded with empty strings; the second
// result counts them. Without a delimiter strings are cut at runs of white space.
var StringSplit = ops.Op{
	Name: "StringSplit", Since: 20, Doc: "Y = pieces of X between delimiters, Z = how many",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.StrAttr("delimiter"), ops.IntAttr("maxsplit", -1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.ExtentOpen)}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		t := ops.InType(n, 0)
		pieces := ssa.UnrankedTensor(ndarray.String)
		if t.Ranked {
			pieces = ssa.TensorOf(ndarray.String, append(slices.Clone(t.Shape), ssa.Dim{})...)
		}
		return []ops.Inferred{{Type: pieces}, {Type: kit.Retyped(t, ndarray.Int64)}}
	}),
	Eval: kit.Kernel(evalStringSplit),
}

func evalStringConcat(c *ops.Call) {
	x, y := kit.StringTensor(c, 0), kit.StringTensor(c, 1)
	shape := kit.Try(ops.BroadcastShapes(x.Shape, y.Shape))
	out := kit.Result(c, 0, ndarray.String, shape...)
	kit.EachBroadcast(c, shape, x.Shape, y.Shape, func(o, i, j int) {
		kit.Check(c.Memory.Ask("a string", int64(len(x.Str[i])+len(y.Str[j]))))
		out.Str[o] = x.Str[i] + y.Str[j]
	})
}

// splitSpace cuts at runs of white space, at most limit times (no limit if
// negative); what is left keeps its inner and trailing white space.
func splitSpace(s string, limit int64) []string {
	var out []string
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	for s != "" {
		at := strings.IndexFunc(s, unicode.IsSpace)
		if at < 0 || limit >= 0 && int64(len(out)) == limit {
			return append(out, s)
		}
		out = append(out, s[:at])
		s = strings.TrimLeftFunc(s[at:], unicode.IsSpace)
	}
	return out
}

func evalStringSplit(c *ops.Call) {
	a := kit.StringTensor(c, 0)
	delimiter, limit := ops.Str(c.Node, "delimiter"), ops.Int(c.Node, "maxsplit")
	pieces, most := make([][]string, len(a.Str)), 0
	w := kit.Watching(c)
	for i, s := range a.Str {
		w.Did(1 + len(s))
		switch {
		case delimiter == "":
			pieces[i] = splitSpace(s, limit)
		case limit < 0 || limit >= int64(len(s)):
			pieces[i] = strings.Split(s, delimiter)
		default:
			pieces[i] = strings.SplitN(s, delimiter, int(limit)+1)
		}
		most = max(most, len(pieces[i]))
	}
	y := kit.Result(c, 0, ndarray.String, append(slices.Clone(a.Shape), most)...)
	kit.ClearSlice(c, y.Str)
	for i, p := range pieces {
		w.Did(1 + len(p))
		copy(y.Str[i*most:], p)
	}
	if !c.Wants(1) {
		return
	}
	z := kit.Result(c, 1, ndarray.Int64, a.Shape...)
	for i, p := range pieces {
		w.Did(1)
		z.SetInt(i, int64(len(p)))
	}
}
