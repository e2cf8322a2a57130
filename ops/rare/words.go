package rare

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// WordConvEmbedding embeds words by a convolution over the embeddings of their
// characters, of the com.microsoft domain:
//
//	Y[word] = max over positions of tanh(W * C[characters] + B)
//
// A word ends with its first characters that are 0; one shorter than the window is
// padded with character 0. A word without characters is 0.
var WordConvEmbedding = ops.Op{
	Domain: contrib.Microsoft, Name: "WordConvEmbedding", Since: 1, Doc: "Y[word] = max over positions of tanh(W * C[characters] + B)",
	MinIn: 4, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("char_embedding_size"), ops.IntAttr("conv_window_size"), ops.IntAttr("embedding_size")},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(ssa.TensorOf(ops.InType(n, 1).DType, kit.DimOf(ops.InType(n, 0), 0), kit.DimOf(ops.InType(n, 1), 0)))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Eval: kit.Kernel(evalWordConv),
}

func evalWordConv(c *ops.Call) {
	seq, w, bias, table := c.Array(0), c.Array(1), c.Array(2), c.Array(3)
	for i, rank := range []int{2, 4, 1, 2} {
		kit.WantRank([]string{"Sequence", "W", "B", "C"}[i], c.Array(i), rank)
	}
	filters, window, size, most := w.Shape[0], w.Shape[2], table.Shape[1], seq.Shape[1]
	if w.DType != ndarray.Float32 || w.Shape[1] != 1 || w.Shape[3] != size || bias.Len() != filters || window < 1 || window > most {
		kit.Failf("words of %d characters, weights %s, bias %s and embeddings %s do not go together", most, w, bias, table)
	}
	for i, want := range []int{size, window, filters} {
		name := []string{"char_embedding_size", "conv_window_size", "embedding_size"}[i]
		if a := ops.IntOr(c.Node, name, int64(want)); a != int64(want) && a != -1 {
			kit.Failf("attribute %s is %d, the operands say %d", name, a, want)
		}
	}
	out := kit.NewResult[float32](c, 0, w.DType, seq.Shape[0], filters)
	weights, b, chars := kit.Elements[float32](c, w), kit.Elements[float32](c, bias), kit.Elements[float32](c, table)
	line := kit.Make[float32](c, most*size)
	ids, watch := kit.Ints(c, 0), kit.Watching(c)
	for i := range seq.Shape[0] {
		watch.Did(filters + most)
		row := out.V[i*filters:][:filters]
		clear(row)
		length := wordLength(ids[i*most:][:most])
		if length == 0 {
			continue
		}
		length = max(length, window)
		for j, id := range ids[i*most:][:length] {
			if id < 0 || id >= int64(table.Shape[0]) {
				kit.Failf("character %d is outside a table of %d", id, table.Shape[0])
			}
			copy(line[j*size:], chars[int(id)*size:][:size])
		}
		for f := range row {
			best := math.Inf(-1)
			for at := range length - window + 1 {
				watch.Did(window * size)
				sum := kit.Dot(weights[f*window*size:][:window*size], line[at*size:][:window*size]) + b[f]
				best = max(best, math.Tanh(float64(sum)))
			}
			row[f] = float32(best)
		}
	}
	out.Store()
}

// wordLength counts the characters of a word; one that begins with none has none.
func wordLength(word []int64) (n int) {
	if len(word) == 0 || word[0] <= 0 {
		return 0
	}
	for _, id := range word {
		if id > 0 {
			n++
		}
	}
	return n
}

// Tokenizer splits strings into tokens, of the com.microsoft domain: by what lies
// between separators, by what matches tokenexp, or into characters where the
// separator is empty or tokenexp is ".". Expressions are in the syntax of RE2, and
// separators are applied one after the other. mark puts U+0002 and U+0003 around
// the tokens; shorter rows are filled with pad_value.
var Tokenizer = ops.Op{
	Domain: contrib.Microsoft, Name: "Tokenizer", Since: 1, Doc: "Y[…, i] = token i of X[…]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("mark").Mandatory(), ops.IntAttr("mincharnum").Mandatory().AtLeast(1),
		ops.StrAttr("pad_value").Mandatory(), ops.StringsAttr("separators"), ops.StrAttr("tokenexp")},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		if !x.Ranked {
			return ops.One(x)
		}
		if x.Rank() != 1 && x.Rank() != 2 {
			kit.Failf("strings %s, expected [C] or [N,C]", x)
		}
		return ops.One(ssa.TensorOf(x.DType, append(slices.Clone(x.Shape), ssa.Dim{})...))
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.ExtentOpen)}, Eval: kit.Kernel(evalTokenizer),
}

func evalTokenizer(c *ops.Call) {
	x, n := c.Array(0), c.Node
	if x.DType != ndarray.String || x.Rank() != 1 && x.Rank() != 2 {
		kit.Failf("strings %s, expected string[C] or string[N,C]", x)
	}
	split := tokenSplitter(n)
	mark, most := ops.Int(n, "mark") != 0, 0
	rows := kit.Make[[]string](c, x.Len())
	w := kit.Watching(c)
	for i, s := range x.Str {
		w.Did(1 + len(s))
		if !utf8.ValidString(s) {
			kit.Failf("string %d is no valid UTF-8", i)
		}
		rows[i] = split(s)
		kit.Check(c.Memory.AskContext(c.Ctx, "tokens of a string", int64(len(rows[i])*ndarray.String.Size())))
		most = max(most, len(rows[i]))
	}
	if x.Len() == 0 {
		kit.Result(c, 0, ndarray.String, x.Shape...)
		return
	}
	width := most
	if mark && most > 0 {
		width += 2
	}
	out := kit.Result(c, 0, ndarray.String, append(slices.Clone(x.Shape), width)...)
	if width == 0 {
		return
	}
	for i, row := range rows {
		if mark {
			row = append(append([]string{"\x02"}, row...), "\x03")
		}
		for j := range width {
			w.Did(1)
			out.Str[i*width+j] = ops.Str(n, "pad_value")
			if j < len(row) {
				out.Str[i*width+j] = row[j]
			}
		}
	}
}

// tokenSplitter returns the function that splits a string as the attributes say.
func tokenSplitter(n *ssa.Node) func(s string) []string {
	least := int(ops.Int(n, "mincharnum"))
	separators, expression, byMatch := ops.Strings(n, "separators"), ops.Str(n, "tokenexp"), n.Has("tokenexp")
	if byMatch == (len(separators) > 0) {
		kit.Failf("one of separators and tokenexp must be given")
	}
	if expression == "." || len(separators) == 1 && separators[0] == "" {
		if least > 1 {
			kit.Failf("mincharnum=%d for tokens of one character", least)
		}
		return func(s string) []string { return strings.Split(s, "") }
	}
	long := func(tokens []string) []string { // least is at least 1
		return slices.DeleteFunc(tokens, func(t string) bool { return utf8.RuneCountInString(t) < least })
	}
	if byMatch {
		re, err := regexp.Compile(expression)
		if err != nil {
			kit.Failf("tokenexp: %w", err)
		}
		re.Longest()
		return func(s string) []string { return long(re.FindAllString(s, -1)) }
	}
	var list []*regexp.Regexp
	for _, sep := range separators {
		re, err := regexp.Compile(sep)
		if err != nil {
			kit.Failf("separators: %w", err)
		}
		list = append(list, re)
	}
	return func(s string) []string {
		parts := []string{s}
		for _, re := range list {
			var next []string
			for _, p := range parts {
				next = append(next, re.Split(p, -1)...)
			}
			parts = next
		}
		return long(parts)
	}
}
