package text

import (
	"fmt"
	"strings"

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
	same := func(s string) string { return s }
	change, key := same, same
	lower := cases.Lower(tag)
	switch ops.Str(c.Node, "case_change_action") {
	case "LOWER":
		change = lower.String
	case "UPPER":
		change = cases.Upper(tag).String
	}
	if ops.Int(c.Node, "is_case_sensitive") == 0 {
		key = lower.String
	}
	stop := map[string]bool{}
	for _, w := range ops.Strings(c.Node, "stopwords") {
		stop[key(w)] = true
	}
	var kept []string
	watch := kit.Watching(c)
	for _, s := range a.Str {
		watch.Did(1 + 4*len(s))
		if !stop[key(s)] {
			kept = kit.Append(c, kept, kit.Text(c, change(s)))
		}
	}
	if len(kept) == 0 {
		kept = []string{""}
	}
	shape := []int{1, len(kept)}
	out := kit.Result(c, 0, ndarray.String, shape[2-a.Rank():]...)
	kit.CopySlice(c, out.Str, kept)
}
