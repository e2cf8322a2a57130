package text

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// StringNormalizer drops stop words and changes the case of the rest:
// https://onnx.ai/onnx/operators/onnx__StringNormalizer.html
//
// Operands are [C] or [1, C]; when nothing is left, the result is one empty string.
var StringNormalizer = ops.Op{
	Name: "StringNormalizer", Since: 10, Doc: "Y = X without stopwords, in lower or upper case",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("case_change_action", "NONE", "LOWER", "UPPER"), ops.IntAttr("is_case_sensitive", 0),
		ops.StrAttr("locale", "en_US"), ops.StringsAttr("stopwords")},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.ExtentOpen)}, Infer: kit.Rule(inferStringNormalizer), Eval: kit.Kernel(evalStringNormalizer),
}

func inferStringNormalizer(n *ssa.Node) []ops.Inferred {
	switch ops.InType(n, 0).Rank() {
	case 1:
		return ops.One(ssa.TensorOf(ndarray.String, ssa.Dim{}))
	case 2:
		kit.MatchShapes(n, "1 _")
		return ops.One(ssa.TensorOf(ndarray.String, ssa.D(1), ssa.Dim{}))
	case -1:
		return ops.One(ssa.UnrankedTensor(ndarray.String))
	}
	panic(kit.Failure{Err: fmt.Errorf("the operand is %s, it must be [C] or [1, C]", ops.InType(n, 0))})
}

// localeOf parses a locale in the form of POSIX ("en_US.UTF-8") or BCP 47.
func localeOf(n *ssa.Node) language.Tag {
	name, _, _ := strings.Cut(ops.Str(n, "locale"), ".")
	switch name {
	case "", "C", "POSIX":
		return language.Und
	}
	tag, err := language.Parse(strings.ReplaceAll(name, "_", "-"))
	if err != nil {
		kit.Failf("attribute locale=%q: %w", name, err)
	}
	return tag
}

func evalStringNormalizer(c *ops.Call) {
	a := kit.StringTensor(c, 0)
	if a.Rank() != 1 && (a.Rank() != 2 || a.Shape[0] != 1) {
		kit.Failf("the operand is %s, it must be [C] or [1, C]", a)
	}
	tag := localeOf(c.Node)
	lower := cases.Lower(tag)
	watch := kit.Watching(c)
	change, key := func(s string) string { return kit.Text(c, s) }, func(s string) string { return s }
	switch ops.Str(c.Node, "case_change_action") {
	case "LOWER":
		change = func(s string) string { return inCase(c, &watch, lower, s) }
	case "UPPER":
		upper := cases.Upper(tag)
		change = func(s string) string { return inCase(c, &watch, upper, s) }
	}
	if ops.Int(c.Node, "is_case_sensitive") == 0 {
		key = func(s string) string { return inCase(c, &watch, lower, s) }
	}
	stop, longest := map[string]bool{}, 0
	for _, w := range ops.Strings(c.Node, "stopwords") {
		stop[key(w)] = true
		longest = max(longest, len(w))
	}
	var kept []string
	for _, s := range a.Str {
		watch.Did(1)
		if len(s) > mostShrinks*longest || !stop[key(s)] {
			kept = kit.Append(c, kept, change(s))
		}
	}
	if len(kept) == 0 {
		kept = []string{""}
	}
	shape := []int{1, len(kept)}
	out := kit.Result(c, 0, ndarray.String, shape[2-a.Rank():]...)
	kit.CopySlice(c, out.Str, kept)
}

// mostShrinks is more than by how much the case of letters changes the length of a text: longer strings are no stop words.
const mostShrinks = 16

// textPiece is how many bytes are changed between two looks at the context, mostGrows more than by how much they grow.
const textPiece, mostGrows = 1 << 14, 8

// inCase is a string with the case of its letters changed. A long one is changed twice: its length is asked for before it is made.
func inCase(c *ops.Call, w *kit.Watch, caser cases.Caser, s string) string {
	length := 0
	eachInCase(w, caser, s, func(part []byte) { length += len(part) })
	kit.Check(c.Memory.AskContext(c.Ctx, "a string", int64(length+15)&^15))
	var out strings.Builder
	out.Grow(length)
	eachInCase(w, caser, s, func(part []byte) { out.Write(part) })
	return out.String()
}

// eachInCase calls yield with one piece of a string in another case after the other. Each is given to the caser whole: between two calls
// it forgets whether it is inside a word, which decides about a final sigma.
func eachInCase(w *kit.Watch, caser cases.Caser, s string, yield func(part []byte)) {
	var to []byte
	for s != "" {
		n := wordEnd(s)
		w.Did(4 * n)
		if need := mostGrows * n; len(to) < need {
			to = make([]byte, need)
		}
		caser.Reset()
		made, _, err := caser.Transform(to, []byte(s[:n]), true)
		kit.Check(err)
		yield(to[:made])
		s = s[n:]
	}
}

// wordEnd is where a piece of a text may end so that no letter of it depends on those behind, nor theirs on it: behind a space or digit, or
// between two letters of ASCII. In a text without any, it is at some character, after sixteen times the length of a piece.
func wordEnd(s string) int {
	for at := textPiece; at < len(s); at++ {
		a, b := s[at-1], s[at]
		switch {
		case a <= ' ', a-'0' < 10, (a|0x20)-'a' < 26 && (b|0x20)-'a' < 26:
			return at
		case at >= 16*textPiece && utf8.RuneStart(b):
			return at
		}
	}
	return len(s)
}
