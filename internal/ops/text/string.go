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
	Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits.But(ops.ExtentOpen)}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
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
	w := kit.Watching(c)
	kit.EachBroadcast(c, shape, x.Shape, y.Shape, func(o, i, j int) { out.Str[o] = joined(c, &w, x.Str[i], y.Str[j]) })
}

// joined is a string followed by another, copied piece by piece.
func joined(c *ops.Call, w *kit.Watch, a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	var out strings.Builder
	kit.Check(c.Memory.AskContext(c.Ctx, "a string", int64(len(a)+len(b))))
	out.Grow(len(a) + len(b))
	for _, s := range [...]string{a, b} {
		for from := 0; from < len(s); from += textPiece {
			part := s[from:min(from+textPiece, len(s))]
			w.Did(len(part))
			out.WriteString(part)
		}
	}
	return out.String()
}

// textPiece is how many bytes are copied or searched between two looks at the context.
const textPiece = 1 << 14

// eachPiece calls yield with the pieces that a string is cut into, at most limit times (no limit if negative), without a
// delimiter at runs of white space: then what is left keeps its inner and trailing white space.
func eachPiece(w *kit.Watch, s, delimiter string, limit int64, yield func(k int, piece string)) {
	if delimiter == "" {
		s = s[firstSpace(w, s, false):]
	}
	for k := 0; delimiter != "" || s != ""; k++ {
		at := -1
		if limit < 0 || int64(k) < limit {
			at = cutAt(w, s, delimiter)
		}
		if at < 0 {
			yield(k, s)
			return
		}
		yield(k, s[:at])
		if s = s[at+len(delimiter):]; delimiter == "" {
			s = s[firstSpace(w, s, false):]
		}
	}
}

// cutAt is where a piece ends, -1 if it is all of s.
func cutAt(w *kit.Watch, s, delimiter string) int {
	if delimiter != "" {
		return index(w, s, delimiter)
	}
	if at := firstSpace(w, s, true); at < len(s) {
		return at
	}
	return -1
}

// firstSpace is where the first white space begins, or the first that is none; the length if there is no such.
func firstSpace(w *kit.Watch, s string, is bool) int {
	for i, r := range s {
		w.Did(1)
		if unicode.IsSpace(r) == is {
			return i
		}
	}
	return len(s)
}

// index is [strings.Index], piece by piece.
func index(w *kit.Watch, s, delimiter string) int {
	for from := 0; from < len(s); from += textPiece {
		part := s[from:min(from+textPiece+len(delimiter)-1, len(s))]
		at := strings.Index(part, delimiter)
		w.Did(1 + max(at, 0))
		if at >= 0 {
			return from + at
		}
		w.Did(len(part))
	}
	return -1
}

func evalStringSplit(c *ops.Call) {
	a := kit.StringTensor(c, 0)
	delimiter, limit := ops.Str(c.Node, "delimiter"), ops.Int(c.Node, "maxsplit")
	counts, most := kit.Make[int64](c, len(a.Str)), int64(0)
	w := kit.Watching(c)
	for i, s := range a.Str {
		w.Did(1)
		eachPiece(&w, s, delimiter, limit, func(int, string) {
			w.Did(1)
			counts[i]++
		})
		most = max(most, counts[i])
	}
	y := kit.Result(c, 0, ndarray.String, append(slices.Clone(a.Shape), int(most))...)
	kit.ClearSlice(c, y.Str)
	for i, s := range a.Str {
		w.Did(1)
		eachPiece(&w, s, delimiter, limit, func(k int, p string) {
			w.Did(1)
			y.Str[i*int(most)+k] = p
		})
	}
	kit.SetResult(c, 1, ndarray.Int64, a.Shape, counts)
}
