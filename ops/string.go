package ops

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// StringConcat joins strings elementwise, with broadcasting:
// https://onnx.ai/onnx/operators/onnx__StringConcat.html
var StringConcat = Op{
	Name: "StringConcat", Since: 20, Doc: "Z = X followed by Y",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(BroadcastTypes(ndarray.String, InType(n, 0), InType(n, 1)))
		return One(t)
	}),
	Eval:  kernel(evalStringConcat),
	Facts: Facts{Traits: elementwise.but(ZeroSignIgnored)},
}

// StringSplit cuts every string at a delimiter:
// https://onnx.ai/onnx/operators/onnx__StringSplit.html
//
// The pieces fill a new last dimension, padded with empty strings; the second
// result counts them. Without a delimiter strings are cut at runs of white space.
var StringSplit = Op{
	Name: "StringSplit", Since: 20, Doc: "Y = pieces of X between delimiters, Z = how many",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: []AttrSpec{strAttr("delimiter"), intAttr("maxsplit", -1)},
	Facts: Facts{Traits: general.but(ExtentOpen)}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		count := ssa.Type{Kind: ssa.KindTensor, DType: ndarray.Int64, Ranked: t.Ranked, Shape: t.Shape}
		pieces := ssa.UnrankedTensor(ndarray.String)
		if t.Ranked {
			pieces = ssa.TensorOf(ndarray.String, append(slices.Clone(t.Shape), ssa.Dim{})...)
		}
		return []Inferred{{Type: pieces}, {Type: count}}
	}),
	Eval: kernel(evalStringSplit),
}

// RegexFullMatch tests whole strings against a pattern of RE2 syntax:
// https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html
var RegexFullMatch = Op{
	Name: "RegexFullMatch", Since: 20, Doc: "Y = whether all of X matches pattern",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{strAttr("pattern")},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		_ = fullMatch(n)
		return One(ssa.Type{Kind: ssa.KindTensor, DType: ndarray.Bool, Ranked: t.Ranked, Shape: t.Shape})
	}),
	Eval: kernel(evalRegexFullMatch),
}

// needStrings returns string tensor operand i.
func needStrings(c *Call, i int) *ndarray.Array {
	a := tensor(c, i)
	if a.DType != ndarray.String {
		failf("operand %d is %s, it must hold strings", i, a)
	}
	return a
}

func evalStringConcat(c *Call) {
	x := needStrings(c, 0)
	y := needStrings(c, 1)
	shape := try(BroadcastShapes(x.Shape, y.Shape))
	out := result(c, 0, ndarray.String, shape...)
	EachBroadcast(shape, x.Shape, y.Shape, func(o, i, j int) { out.Str[o] = x.Str[i] + y.Str[j] })
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

func evalStringSplit(c *Call) {
	a := needStrings(c, 0)
	delimiter, limit := Str(c.Node, "delimiter"), Int(c.Node, "maxsplit")
	pieces, most := make([][]string, len(a.Str)), 0
	for i, s := range a.Str {
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
	y := result(c, 0, ndarray.String, append(slices.Clone(a.Shape), most)...)
	clear(y.Str)
	for i, p := range pieces {
		copy(y.Str[i*most:], p)
	}
	if !c.Wants(1) {
		return
	}
	z := result(c, 1, ndarray.Int64, a.Shape...)
	for i, p := range pieces {
		z.SetInt(i, int64(len(p)))
	}
}

// fullMatch compiles attribute pattern for matches of whole strings.
func fullMatch(n *ssa.Node) *regexp.Regexp {
	pattern := Str(n, "pattern")
	if _, err := regexp.Compile(pattern); err != nil {
		failf("attribute pattern: %w", err)
	}
	return try(regexp.Compile(`\A(?:` + pattern + `)\z`))
}

func evalRegexFullMatch(c *Call) {
	a := needStrings(c, 0)
	re := fullMatch(c.Node)
	out := result(c, 0, ndarray.Bool, a.Shape...)
	for i, s := range a.Str {
		out.Data[i] = byte(btoi(re.MatchString(s)))
	}
}
