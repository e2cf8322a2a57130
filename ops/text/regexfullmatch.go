package text

import (
	"io"
	"regexp"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// RegexFullMatch tests whole strings against a pattern of RE2 syntax:
// https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html
var RegexFullMatch = ops.Op{
	Name: "RegexFullMatch", Since: 20, Doc: "Y = whether all of X matches pattern",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("pattern")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		_ = fullMatch(n)
		return ops.One(kit.Retyped(ops.InType(n, 0), ndarray.Bool))
	}),
	Eval: kit.Kernel(evalRegexFullMatch),
}

// fullMatch compiles attribute pattern for matches of whole strings.
func fullMatch(n *ssa.Node) *regexp.Regexp {
	pattern := ops.Str(n, "pattern")
	if _, err := regexp.Compile(pattern); err != nil {
		kit.Failf("attribute pattern: %w", err)
	}
	return kit.Try(regexp.Compile(`\A(?:` + pattern + `)\z`))
}

func evalRegexFullMatch(c *ops.Call) {
	a := kit.StringTensor(c, 0)
	re := fullMatch(c.Node)
	out := kit.Result(c, 0, ndarray.Bool, a.Shape...)
	w := kit.Watching(c)
	for i, s := range a.Str {
		w.Did(1 + min(len(s), textPiece))
		if len(s) <= textPiece {
			out.Data[i] = byte(kit.Btoi(re.MatchString(s)))
		} else {
			out.Data[i] = byte(kit.Btoi(re.MatchReader(&watched{strings.NewReader(s), &w})))
		}
	}
}

// watched reads a text and looks at the context.
type watched struct {
	io.RuneReader
	w *kit.Watch
}

func (r *watched) ReadRune() (rune, int, error) {
	r.w.Did(mostGrows) // some states of the expression for each
	return r.RuneReader.ReadRune()
}
