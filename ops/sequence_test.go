package ops_test

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// valueNode makes a call of one node on values of any kind.
func valueNode(domain, op string, at attrs, numOut int, in ...ndarray.Value) *ops.Call {
	g := ssa.NewGraph(op)
	c := &ops.Call{Ctx: context.Background(), In: in, Threads: 1}
	var vs []*ssa.Value
	for _, v := range in {
		switch v := v.(type) {
		case nil:
			vs = append(vs, nil)
		case *ndarray.Array:
			vs = append(vs, g.AddConst("x", ssa.NewConstant(v)))
		case *ndarray.Sequence:
			vs = append(vs, g.AddParam("x", ssa.SequenceOf(ssa.UnrankedTensor(v.Elem))))
		case *ndarray.Optional:
			vs = append(vs, g.AddParam("x", ssa.OptionalOf(ssa.UnrankedTensor(ndarray.Float32))))
		case *ndarray.Map:
			t := ssa.TensorOf(v.Values.(*ndarray.Array).DType)
			vs = append(vs, g.AddParam("x", ssa.Type{Kind: ssa.KindMap, DType: v.Keys.DType, Elem: &t}))
		}
	}
	c.Node = g.NewNode(op, vs, numOut, at...)
	c.Node.Domain = domain
	return c
}

// valueOf runs a node with one result.
func valueOf(t *testing.T, op string, at attrs, in ...ndarray.Value) (ndarray.Value, error) {
	t.Helper()
	c := valueNode("", op, at, 1, in...)
	if err := ops.Infer(c.Node); err != nil {
		return nil, err
	}
	if err := ops.Eval(c); err != nil {
		return nil, err
	}
	return c.Out[0], nil
}

func seq(items ...*ndarray.Array) *ndarray.Sequence {
	s := &ndarray.Sequence{Elem: ndarray.Float32}
	for _, a := range items {
		s.Items = append(s.Items, a)
	}
	return s
}

// members describes the members of a sequence by their numbers.
func members(t *testing.T, v ndarray.Value) (out [][]float64) {
	t.Helper()
	s, ok := v.(*ndarray.Sequence)
	require.True(t, ok)
	for _, i := range s.Items {
		out = append(out, numbers(i.(*ndarray.Array)))
	}
	return out
}

func TestSequences(t *testing.T) {
	a, b, c := vec(1), vec(2), vec(3)
	for _, x := range []struct {
		op   string
		at   attrs
		in   []ndarray.Value
		want [][]float64
	}{
		{"SequenceConstruct", nil, []ndarray.Value{a, b}, [][]float64{{1}, {2}}},
		{"SequenceEmpty", nil, nil, nil},
		{"SequenceInsert", nil, []ndarray.Value{seq(a, b), c}, [][]float64{{1}, {2}, {3}}},
		{"SequenceInsert", nil, []ndarray.Value{seq(a, b), c, i64s(-1)}, [][]float64{{1}, {3}, {2}}},
		{"SequenceInsert", nil, []ndarray.Value{seq(), c, i64s(0)}, [][]float64{{3}}},
		{"SequenceErase", nil, []ndarray.Value{seq(a, b, c)}, [][]float64{{1}, {2}}},
		{"SequenceErase", nil, []ndarray.Value{seq(a, b, c), i64s(-3)}, [][]float64{{2}, {3}}},
		{"SplitToSequence", nil, []ndarray.Value{vec(1, 2, 3)}, [][]float64{{1}, {2}, {3}}},
		{"SplitToSequence", nil, []ndarray.Value{vec(1, 2, 3), i64s(2)}, [][]float64{{1, 2}, {3}}},
		{"SplitToSequence", nil, []ndarray.Value{vec(1, 2, 3), i64(1, 0, 2)}, [][]float64{{1}, {}, {2, 3}}},
		{"SplitToSequence", attrs{ssa.IntAttr("axis", -1), ssa.IntAttr("keepdims", 0)}, []ndarray.Value{cube(2, 2)}, [][]float64{{0, 2}, {1, 3}}},
		{"Identity", nil, []ndarray.Value{seq(a)}, [][]float64{{1}}},
	} {
		got, err := valueOf(t, x.op, x.at, x.in...)
		require.NoError(t, err, x.op)
		assert.Equalf(t, x.want, members(t, got), "%s %v", x.op, x.in)
	}
	for _, x := range []struct {
		op   string
		at   attrs
		in   []ndarray.Value
		want []float64
	}{
		{"SequenceAt", nil, []ndarray.Value{seq(a, b), i64s(-1)}, []float64{2}},
		{"SequenceLength", nil, []ndarray.Value{seq(a, b)}, []float64{2}},
		{"ConcatFromSequence", axisAttr(0), []ndarray.Value{seq(a, vec(5, 6))}, []float64{1, 5, 6}},
		{"ConcatFromSequence", attrs{ssa.IntAttr("axis", -1), ssa.IntAttr("new_axis", 1)}, []ndarray.Value{seq(vec(1, 2), vec(3, 4))}, []float64{1, 3, 2, 4}},
		{"OptionalHasElement", nil, []ndarray.Value{&ndarray.Optional{}}, []float64{0}},
		{"OptionalHasElement", nil, []ndarray.Value{&ndarray.Optional{Value: a}}, []float64{1}},
		{"OptionalHasElement", nil, []ndarray.Value{a}, []float64{1}},
		{"OptionalHasElement", nil, nil, []float64{0}},
		{"OptionalGetElement", nil, []ndarray.Value{&ndarray.Optional{Value: b}}, []float64{2}},
		{"OptionalGetElement", nil, []ndarray.Value{b}, []float64{2}},
	} {
		got, err := valueOf(t, x.op, x.at, x.in...)
		require.NoError(t, err, x.op)
		assert.Equalf(t, x.want, numbers(got.(*ndarray.Array)), "%s %v", x.op, x.in)
	}
}

func TestSequencesReject(t *testing.T) {
	a := vec(1)
	for _, x := range []struct {
		op string
		at attrs
		in []ndarray.Value
	}{
		{"SequenceConstruct", nil, []ndarray.Value{a, i64(1)}},
		{"SequenceAt", nil, []ndarray.Value{seq(a), i64s(1)}},
		{"SequenceAt", nil, []ndarray.Value{seq(a), i64s(-2)}},
		{"SequenceAt", nil, []ndarray.Value{a, i64s(0)}},
		{"SequenceInsert", nil, []ndarray.Value{seq(a), i64(1)}},
		{"SequenceInsert", nil, []ndarray.Value{seq(a), a, i64s(2)}},
		{"SequenceErase", nil, []ndarray.Value{seq()}},
		{"ConcatFromSequence", axisAttr(0), []ndarray.Value{seq()}},
		{"ConcatFromSequence", axisAttr(0), []ndarray.Value{seq(num(1))}},
		{"SplitToSequence", nil, []ndarray.Value{vec(1, 2), i64s(0)}},
		{"SplitToSequence", nil, []ndarray.Value{vec(1, 2), i64(1, 2)}},
		{"SplitToSequence", nil, []ndarray.Value{vec(1, 2), i64(3, -1)}},
		{"OptionalGetElement", nil, []ndarray.Value{&ndarray.Optional{}}},
		{"Optional", nil, nil},
	} {
		_, err := valueOf(t, x.op, x.at, x.in...)
		assert.Errorf(t, err, "%s %v", x.op, x.in)
	}
}

// TestSequenceOwnsMembers overwrites operands after use, as a planned arena does.
func TestSequenceOwnsMembers(t *testing.T) {
	a, b := vec(1), vec(2)
	made, err := valueOf(t, "SequenceConstruct", nil, a, b)
	require.NoError(t, err)
	longer, err := valueOf(t, "SequenceInsert", nil, made, a)
	require.NoError(t, err)
	some, err := valueOf(t, "Optional", nil, b)
	require.NoError(t, err)
	first, err := valueOf(t, "SequenceAt", nil, longer, i64s(0))
	require.NoError(t, err)
	a.SetFloat(0, 77)
	b.SetFloat(0, 78)
	first.(*ndarray.Array).SetFloat(0, 79)
	assert.Equal(t, [][]float64{{1}, {2}}, members(t, made))
	assert.Equal(t, [][]float64{{1}, {2}, {1}}, members(t, longer))
	assert.Equal(t, []float64{2}, numbers(some.(*ndarray.Optional).Value.(*ndarray.Array)))
}

func TestSequenceTypes(t *testing.T) {
	f := shaped("N", "4")
	seqOf := func(x ssa.Type) ssa.Type { return ssa.SequenceOf(x) }
	for _, c := range []struct {
		op   string
		at   attrs
		in   []operand
		want string
	}{
		{"SequenceConstruct", nil, []operand{f, shaped("M", "4")}, "seq(float32[?,4])"},
		{"SequenceEmpty", attrs{ssa.IntAttr("dtype", int64(ndarray.Int64))}, nil, "seq(int64[...])"},
		{"SequenceInsert", nil, []operand{seqOf(f), shaped("2", "4")}, "seq(float32[?,4])"},
		{"SequenceErase", nil, []operand{seqOf(f)}, "seq(float32[N,4])"},
		{"SequenceAt", nil, []operand{seqOf(f), i64s(0)}, "float32[N,4]"},
		{"SequenceLength", nil, []operand{seqOf(f)}, "int64[]"},
		{"ConcatFromSequence", axisAttr(1), []operand{seqOf(f)}, "float32[N,?]"},
		{"ConcatFromSequence", attrs{ssa.IntAttr("axis", 0), ssa.IntAttr("new_axis", 1)}, []operand{seqOf(f)}, "float32[?,N,4]"},
		{"SplitToSequence", nil, []operand{f}, "seq(float32[1,4])"},
		{"SplitToSequence", attrs{ssa.IntAttr("keepdims", 0)}, []operand{f}, "seq(float32[4])"},
		{"SplitToSequence", attrs{ssa.IntAttr("keepdims", 0)}, []operand{f, i64s(1)}, "seq(float32[4])"},
		{"SplitToSequence", append(axisAttr(1), ssa.IntAttr("keepdims", 0)), []operand{f, i64s(2)}, "seq(float32[N,2])"},
		{"SplitToSequence", axisAttr(1), []operand{f, i64s(2)}, "seq(float32[N,2])"},
		{"SplitToSequence", axisAttr(1), []operand{f, i64s(3)}, "seq(float32[N,?])"},
		{"Optional", nil, []operand{f}, "opt(float32[N,4])"},
		{"Optional", attrs{{Name: "type", Kind: ssa.AttrType, Type: f}}, nil, "opt(float32[N,4])"},
		{"OptionalGetElement", nil, []operand{ssa.OptionalOf(f)}, "float32[N,4]"},
		{"OptionalGetElement", nil, []operand{f}, "float32[N,4]"},
	} {
		n := ruled(t, c.op, c.at, 1, c.in...)
		assert.Equalf(t, c.want, n.Out[0].Type.String(), "%s", c.op)
	}
	assert.Equal(t, "[0]", contentText(ruled(t, "OptionalHasElement", nil, 1).Out[0]))
	assert.Equal(t, "[1]", contentText(ruled(t, "OptionalHasElement", nil, 1, f).Out[0]))
	assert.Equal(t, "[]", contentText(ruled(t, "OptionalHasElement", nil, 1, ssa.OptionalOf(f)).Out[0]))
}

// TestSequenceMap passes a tensor whole and a second sequence member by member.
func TestSequenceMap(t *testing.T) {
	body := ssa.NewGraph("body")
	x, y, z := body.AddParam("x", ssa.Type{}), body.AddParam("y", ssa.Type{}), body.AddParam("captured", ssa.Type{})
	sum := body.NewNode("Add", []*ssa.Value{x, y}, 1).Out[0]
	body.Results = []*ssa.Value{body.NewNode("Mul", []*ssa.Value{sum, z}, 1).Out[0], x}

	g := ssa.NewGraph("map")
	f := ssa.StaticTensor(ndarray.Float32, 1)
	in := []*ssa.Value{g.AddParam("s", ssa.SequenceOf(f)), g.AddParam("y", ssa.SequenceOf(f)), g.AddConst("k", ssa.NewConstant(vec(10)))}
	n := g.NewNode("SequenceMap", in, 2)
	n.AddBody("body", body)
	n.Captures = 1
	g.Results = n.Out
	require.NoError(t, ops.InferGraph(g))
	assert.Equal(t, "seq(float32[1])", n.Out[0].Type.String())
	out, err := ops.Interpret(context.Background(), g, []ndarray.Value{seq(vec(1), vec(2)), seq(vec(3), vec(4))}, nil)
	require.NoError(t, err)
	assert.Equal(t, [][]float64{{40}, {60}}, members(t, out[0]))
	assert.Equal(t, [][]float64{{1}, {2}}, members(t, out[1]))
	_, err = ops.Interpret(context.Background(), g, []ndarray.Value{seq(vec(1), vec(2)), seq(vec(3))}, nil)
	assert.ErrorContains(t, err, "has 1 members")
}

func strs(v ...string) *ndarray.Array { return ndarray.Strings(v, len(v)) }

func TestStrings(t *testing.T) {
	delimiter := func(d string, limit int64) attrs {
		return attrs{ssa.StringAttr("delimiter", d), ssa.IntAttr("maxsplit", limit)}
	}
	normal := func(action string, sensitive int64, stop ...string) attrs {
		return attrs{ssa.StringAttr("case_change_action", action), ssa.IntAttr("is_case_sensitive", sensitive), ssa.StringsAttr("stopwords", stop...)}
	}
	for _, c := range []struct {
		op    string
		at    attrs
		in    []*ndarray.Array
		shape []int
		want  []string
	}{
		{"StringConcat", nil, []*ndarray.Array{strs("a", "b"), ndarray.Strings([]string{"-"})}, []int{2}, []string{"a-", "b-"}},
		{"StringSplit", nil, []*ndarray.Array{strs(" a  b ", "", "c")}, []int{3, 2}, []string{"a", "b", "", "", "c", ""}},
		{"StringSplit", delimiter("", 1), []*ndarray.Array{strs(" a  b c ")}, []int{1, 2}, []string{"a", "b c "}},
		{"StringSplit", delimiter(",", -1), []*ndarray.Array{strs(",a,,b", "")}, []int{2, 4}, []string{"", "a", "", "b", "", "", "", ""}},
		{"StringSplit", delimiter(",", 1), []*ndarray.Array{strs("a,b,c")}, []int{1, 2}, []string{"a", "b,c"}},
		{"StringSplit", delimiter("--", 0), []*ndarray.Array{strs("a--b")}, []int{1, 1}, []string{"a--b"}},
		{"StringNormalizer", normal("UPPER", 1, "b"), []*ndarray.Array{strs("a", "b", "B", "straße")}, []int{3}, []string{"A", "B", "STRASSE"}},
		{"StringNormalizer", normal("LOWER", 0, "B"), []*ndarray.Array{strs("A", "b", "B")}, []int{1}, []string{"a"}},
		{"StringNormalizer", normal("NONE", 0, "x"), []*ndarray.Array{ndarray.Strings([]string{"x", "X"}, 1, 2)}, []int{1, 1}, []string{""}},
		{"StringNormalizer", append(normal("UPPER", 0), ssa.StringAttr("locale", "tr_TR.UTF-8")), []*ndarray.Array{strs("i")}, []int{1}, []string{"İ"}},
	} {
		got := mustEval(t, c.op, c.at, c.in...)
		assert.Equal(t, c.shape, got.Shape, c.op)
		assert.Equal(t, c.want, got.Str, c.op)
	}
	pattern := attrs{ssa.StringAttr("pattern", "a|b+")}
	assert.Equal(t, []float64{1, 1, 0, 0}, numbers(mustEval(t, "RegexFullMatch", pattern, strs("a", "bb", "ab", ""))))
	for _, bad := range []struct {
		op string
		at attrs
		in *ndarray.Array
	}{
		{"RegexFullMatch", attrs{ssa.StringAttr("pattern", "a)(?:b")}, strs("a")},
		{"RegexFullMatch", attrs{ssa.StringAttr("pattern", "a(?=b)")}, strs("a")},
		{"StringNormalizer", normal("TITLE", 0), strs("a")},
		{"StringNormalizer", nil, ndarray.Strings([]string{"a", "b"}, 2, 1)},
		{"StringSplit", nil, vec(1)},
	} {
		_, err := evalOp(t, bad.op, bad.at, 1, bad.in)
		assert.Error(t, err, bad.op)
	}
}

func TestTfIdf(t *testing.T) {
	at := func(mode string, more ...ssa.Attr) attrs {
		return append(attrs{ssa.StringAttr("mode", mode), ssa.IntAttr("min_gram_length", 1), ssa.IntAttr("max_gram_length", 2),
			ssa.IntAttr("max_skip_count", 1), ssa.IntsAttr("ngram_counts", 0, 2), ssa.IntsAttr("ngram_indexes", 0, 1, 3)}, more...)
	}
	pool := ssa.IntsAttr("pool_int64s", 7, 8, 7, 8) // grams 7, 8, (7, 8)
	x := i64(7, 8, 7, 9, 8)                         // (7, 8) once directly, once over the 9
	assert.Equal(t, []float64{2, 2, 0, 2}, numbers(mustEval(t, "TfIdfVectorizer", at("TF", pool), x)))
	assert.Equal(t, []float64{1, 1, 0, 1}, numbers(mustEval(t, "TfIdfVectorizer", at("IDF", pool), x)))
	w := ssa.FloatsAttr("weights", 0.5, 2, 1, 3)
	assert.Equal(t, []float64{1, 4, 0, 6}, numbers(mustEval(t, "TfIdfVectorizer", at("TFIDF", pool, w), x)))
	rows := mustEval(t, "TfIdfVectorizer", at("TF", ssa.StringsAttr("pool_strings", "a", "b", "a", "b")), ndarray.Strings([]string{"a", "b", "b", "a"}, 2, 2))
	assert.Equal(t, []int{2, 4}, rows.Shape)
	assert.Equal(t, []float64{1, 1, 0, 1, 1, 1, 0, 0}, numbers(rows))
	for _, bad := range []attrs{at("TF"), at("COUNT", pool), at("IDF", pool, ssa.FloatsAttr("weights", 1)), at("TF", ssa.IntsAttr("pool_int64s", 7, 8, 7))} {
		_, err := evalOp(t, "TfIdfVectorizer", bad, 1, x)
		assert.Error(t, err)
	}
}

// bytesOf wraps a file as the operand of ImageDecoder.
func bytesOf(s string) *ndarray.Array { return ndarray.Of([]byte(s), len(s)) }

func TestImageDecoder(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	img.SetNRGBA(0, 0, color.NRGBA{200, 100, 50, 128})
	img.SetNRGBA(1, 0, color.NRGBA{0, 255, 1, 255})
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, img))
	format := func(s string) attrs { return attrs{ssa.StringAttr("pixel_format", s)} }
	for _, c := range []struct {
		name  string
		at    attrs
		file  string
		shape []int
		want  []float64
	}{
		{"alpha is dropped", nil, file.String(), []int{1, 2, 3}, []float64{200, 100, 50, 0, 255, 1}},
		{"bgr", format("BGR"), file.String(), []int{1, 2, 3}, []float64{50, 100, 200, 1, 255, 0}},
		{"gray", format("Grayscale"), file.String(), []int{1, 2, 1}, []float64{124, 150}},
		{"bits as text", format("Grayscale"), "P1 # c\n3 1\n01 1", []int{1, 3, 1}, []float64{255, 0, 0}},
		{"gray as text", format("Grayscale"), "P2\n2 1 10\n0 5", []int{1, 2, 1}, []float64{0, 128}},
		{"color as text", nil, "P3 1 1 255 1 2 3", []int{1, 1, 3}, []float64{1, 2, 3}},
		{"packed bits", format("Grayscale"), "P4 2 2\n\x40\x80", []int{2, 2, 1}, []float64{255, 0, 0, 255}},
		{"gray", format("Grayscale"), "P5 1 2 255\n\x07\x08", []int{2, 1, 1}, []float64{7, 8}},
		{"two bytes", format("Grayscale"), "P5 1 1 65535\n\xff\xff", []int{1, 1, 1}, []float64{255}},
		{"color", nil, "P6 1 1 255\n\x07\x08\x09", []int{1, 1, 3}, []float64{7, 8, 9}},
		{"cut off", nil, "P6 9 9 255\n\x07\x08\x09", []int{0, 0, 3}, nil},
		{"cut header", format("Grayscale"), file.String()[:20], []int{0, 0, 1}, nil},
		{"unknown", nil, "GIF89a", []int{0, 0, 3}, nil},
		{"empty", nil, "", []int{0, 0, 3}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustEval(t, "ImageDecoder", c.at, bytesOf(c.file))
			assert.Equal(t, c.shape, got.Shape)
			sameNumbers(t, c.want, numbers(got), 0, c.name)
		})
	}
	_, err := evalOp(t, "ImageDecoder", nil, 1, bytesOf("P6 99999 99999 255\n"))
	assert.ErrorContains(t, err, "larger than")
}

// sequenceNames are the operators on tensors of this family.
var sequenceNames = []string{"StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer", "ImageDecoder",
	"SplitToSequence", "ConcatFromSequence", "SequenceConstruct", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
	"SequenceEmpty", "Optional", "OptionalGetElement", "OptionalHasElement"}

func TestSequenceNeverPanics(t *testing.T) {
	neverPanics(t, "", sequenceNames, attrs{
		ssa.IntAttr("axis", 1), ssa.IntAttr("new_axis", 1), ssa.IntAttr("keepdims", 0), ssa.IntAttr("dtype", 99), ssa.StringAttr("pattern", "("),
		ssa.StringAttr("mode", "TF"), ssa.IntAttr("max_gram_length", 9), ssa.IntAttr("min_gram_length", -1), ssa.IntAttr("max_skip_count", 1<<40),
		ssa.IntsAttr("ngram_counts", 0, 1), ssa.IntsAttr("ngram_indexes", 0, 2), ssa.StringsAttr("pool_strings", "x", "y", "x"), ssa.StringAttr("locale", "!"),
	})
}
