package ops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// operand is one operand of a shape rule test: a type, a constant, or an int64
// list of which the content is known.
type operand any

// ruled applies an operator's rule to operands: an [ssa.Type], an
// *[ndarray.Array] constant, a []string content, or nil.
func ruled(t *testing.T, op string, at attrs, numOut int, in ...operand) *ssa.Node {
	t.Helper()
	g := ssa.NewGraph(op)
	var vs []*ssa.Value
	for _, x := range in {
		switch x := x.(type) {
		case nil:
			vs = append(vs, nil)
		case ssa.Type:
			vs = append(vs, g.AddParam("x", x))
		case *ndarray.Array:
			vs = append(vs, g.AddConst("c", ssa.NewConstant(x)))
		case []string:
			v := g.AddParam("list", ssa.StaticTensor(ndarray.Int64, len(x)))
			v.Content = dims(x...)
			vs = append(vs, v)
		}
	}
	n := g.NewNode(op, vs, numOut, at...)
	require.NoError(t, ops.Infer(n), op)
	return n
}

func TestTensorShapeRules(t *testing.T) {
	any, scales := shaped("..."), func(v ...float64) *ndarray.Array { return vec(v...) }
	list := func(s ...string) []string { return s }
	ints := func(name string, v ...int64) attrs { return attrs{ssa.IntsAttr(name, v...)} }
	unknownList := ssa.TensorOf(ndarray.Int64, ssa.Dim{})
	listOf := func(k int) ssa.Type { return ssa.StaticTensor(ndarray.Int64, k) }
	for _, c := range []struct {
		op   string
		at   attrs
		in   []operand
		want string
	}{
		{"Reshape", nil, []operand{shaped("B", "S", "768"), i64(0, 0, 12, -1)}, "float32[B,S,12,64]"},
		{"Reshape", nil, []operand{shaped("B", "S", "768"), list("B*S", "-1")}, "float32[B*S,768]"},
		{"Reshape", nil, []operand{shaped("N", "2*M"), list("N", "M", "-1")}, "float32[N,M,2]"},
		{"Reshape", nil, []operand{shaped("N", "C", "H", "W"), i64(0, -1)}, "float32[N,C*H*W]"},
		{"Reshape", nil, []operand{shaped("?", "8", "16"), i64(0, -1)}, "float32[?,128]"},
		{"Reshape", nil, []operand{shaped("N", "8"), list("?", "4")}, "float32[2*N,4]"},
		{"Reshape", nil, []operand{shaped("N", "8"), listOf(3)}, "float32[?,?,?]"},
		{"Reshape", nil, []operand{shaped("N", "8"), listOf(1)}, "float32[8*N]"},
		{"Reshape", nil, []operand{shaped("N", "8"), unknownList}, "float32[...]"},
		{"Reshape", nil, []operand{shaped("0", "3"), i64(0, -1)}, "float32[0,3]"},
		{"Reshape", nil, []operand{any, i64(2, -1)}, "float32[2,?]"},
		{"Reshape", nil, []operand{any, i64(0, 4)}, "float32[?,4]"},
		{"Flatten", axisAttr(2), []operand{shaped("N", "C", "H", "W")}, "float32[C*N,H*W]"},
		{"Flatten", nil, []operand{any}, "float32[?,?]"},
		{"Squeeze", nil, []operand{shaped("N", "1", "3"), i64(1)}, "float32[N,3]"},
		{"Squeeze", nil, []operand{shaped("N", "1", "3")}, "float32[...]"},
		{"Squeeze", nil, []operand{shaped("1", "3")}, "float32[3]"},
		{"Squeeze", nil, []operand{shaped("N", "1", "3"), listOf(1)}, "float32[?,?]"},
		{"Unsqueeze", nil, []operand{shaped("N"), i64(0, -1)}, "float32[1,N,1]"},
		{"Unsqueeze", nil, []operand{shaped("N"), listOf(2)}, "float32[?,?,?]"},
		{"Transpose", ints("perm", 2, 0, 1), []operand{shaped("A", "B", "C")}, "float32[C,A,B]"},
		{"Transpose", nil, []operand{any}, "float32[...]"},
		{"Transpose", ints("perm", 1, 0), []operand{any}, "float32[?,?]"},
		{"Slice", nil, []operand{shaped("N", "S"), i64(-1), i64(1 << 62), i64(1)}, "float32[N,min(1,S)]"},
		{"Slice", nil, []operand{shaped("1", "512"), i64(0), list("S"), i64(1)}, "float32[1,min(512,S)]"},
		{"Slice", nil, []operand{shaped("1", "512"), list("P"), list("P+S"), i64(1)}, "float32[1,-min(512,P)+min(512,P+S)]"},
		{"Slice", nil, []operand{shaped("N", "S"), i64(0), list("floor(S/2)"), i64(1)}, "float32[N,floor(S/2)]"},
		{"Slice", nil, []operand{shaped("N", "S"), list("floor(S/2)"), list("S"), i64(1)}, "float32[N,S-floor(S/2)]"},
		{"Slice", nil, []operand{shaped("N", "S"), i64(0), list("S-1"), i64(1)}, "float32[N,max(0,S-1)]"},
		{"Slice", nil, []operand{shaped("N", "S"), i64(0), list("S-2"), i64(1)}, "float32[N,?]"},
		{"Slice", nil, []operand{shaped("N", "8"), listOf(1), listOf(1), i64(1)}, "float32[N,?]"},
		{"Slice", nil, []operand{shaped("N", "8"), listOf(1), listOf(1), listOf(1)}, "float32[?,?]"},
		{"Gather", axisAttr(1), []operand{shaped("N", "V", "D"), shaped("B", "S")}, "float32[N,B,S,D]"},
		{"Gather", nil, []operand{shaped("V", "D"), any}, "float32[...]"},
		{"GatherND", nil, []operand{shaped("A", "B", "C"), shaped("K", "2")}, "float32[K,C]"},
		{"GatherElements", nil, []operand{shaped("A", "B"), shaped("K", "B")}, "float32[K,B]"},
		{"Concat", axisAttr(-1), []operand{shaped("N", "A"), shaped("?", "B"), shaped("N", "2")}, "float32[N,A+B+2]"},
		{"Concat", axisAttr(0), []operand{shaped("N", "?"), shaped("M", "7")}, "float32[M+N,7]"},
		{"Concat", axisAttr(0), []operand{shaped("N", "3"), any}, "float32[?,3]"},
		{"Pad", nil, []operand{shaped("N", "H"), i64(0, 1, 0, 2)}, "float32[N,H+3]"},
		{"Pad", nil, []operand{shaped("N", "H"), list("A", "1"), nil, i64(-1)}, "float32[N,A+H+1]"},
		{"Pad", nil, []operand{shaped("N", "H"), listOf(4)}, "float32[?,?]"},
		{"Tile", nil, []operand{shaped("N", "3"), list("2", "K")}, "float32[2*N,3*K]"},
		{"Expand", nil, []operand{shaped("1", "3"), list("B", "S", "1")}, "float32[B,S,3]"},
		{"Expand", nil, []operand{shaped("1", "3"), listOf(3)}, "float32[?,?,3]"},
		{"Shape", nil, []operand{any}, "int64[?]"},
		{"Shape", attrs{ssa.IntAttr("start", 1)}, []operand{shaped("A", "B", "C")}, "int64[2]"},
		{"ConstantOfShape", nil, []operand{list("N", "4")}, "float32[N,4]"},
		{"ConstantOfShape", nil, []operand{unknownList}, "float32[...]"},
		{"Resize", nil, []operand{shaped("N", "3", "H", "W"), nil, scales(1, 1, 2, 0.5)}, "float32[N,3,2*H,floor(W/2)]"},
		{"Resize", nil, []operand{shaped("N", "3", "10", "10"), nil, scales(1, 1, 0.7, 1.3)}, "float32[N,3,7,13]"},
		{"Resize", nil, []operand{shaped("N", "3", "H", "W"), nil, nil, list("N", "3", "2*H", "7")}, "float32[N,3,2*H,7]"},
		{"Resize", ints("axes", 2, 3), []operand{shaped("N", "3", "H", "W"), nil, nil, i64(5, 6)}, "float32[N,3,5,6]"},
		{"NonZero", nil, []operand{shaped("N", "3")}, "int64[2,?]"},
		{"OneHot", nil, []operand{shaped("N"), i64s(10), vec(0, 1)}, "float32[N,10]"},
		{"Compress", axisAttr(1), []operand{shaped("N", "3"), ssa.StaticTensor(ndarray.Bool, 3)}, "float32[N,?]"},
		{"DepthToSpace", attrs{ssa.IntAttr("blocksize", 2)}, []operand{shaped("N", "4*C", "H", "W")}, "float32[N,C,2*H,2*W]"},
		{"SpaceToDepth", attrs{ssa.IntAttr("blocksize", 2)}, []operand{shaped("N", "C", "2*H", "2*W")}, "float32[N,4*C,H,W]"},
		{"GridSample", nil, []operand{shaped("N", "C", "H", "W"), shaped("N", "A", "B", "2")}, "float32[N,C,A,B]"},
		{"AffineGrid", nil, []operand{shaped("N", "2", "3"), list("N", "C", "H", "W")}, "float32[N,H,W,2]"},
		{"RoiAlign", attrs{ssa.IntAttr("output_height", 7)}, []operand{shaped("N", "C", "H", "W"), shaped("R", "4"), shaped("R")}, "float32[R,C,7,1]"},
		{"Col2Im", nil, []operand{shaped("N", "9*C", "L"), list("H", "W"), i64(3, 3)}, "float32[N,C,H,W]"},
		{"CenterCropPad", ints("axes", -1), []operand{shaped("N", "W"), list("K")}, "float32[N,K]"},
		{"ScatterND", nil, []operand{shaped("N", "3"), shaped("1", "1"), shaped("1", "3")}, "float32[N,3]"},
	} {
		n := ruled(t, c.op, c.at, 1, c.in...)
		assert.Equalf(t, c.want, n.Out[0].Type.String(), "%s %v", c.op, c.in)
	}
}

func TestTensorSplitRules(t *testing.T) {
	for _, c := range []struct {
		dim  string
		at   attrs
		in   []operand
		want []string
	}{
		{"2*N", nil, nil, []string{"N", "N"}},
		{"7", attrs{ssa.IntAttr("num_outputs", 3)}, nil, []string{"3", "3", "1"}},
		{"N", nil, []operand{i64(1, 2)}, []string{"1", "2"}},
		{"N", nil, []operand{[]string{"K", "N-K"}}, []string{"K", "N-K"}},
		{"N", nil, []operand{ssa.StaticTensor(ndarray.Int64, 2)}, []string{"?", "?"}},
	} {
		n := ruled(t, "Split", c.at, len(c.want), append([]operand{shaped(c.dim, "4")}, c.in...)...)
		for i, w := range c.want {
			assert.Equal(t, shaped(w, "4").String(), n.Out[i].Type.String())
		}
	}
}

// TestTensorContents follows the elements of shapes through single operators.
func TestTensorContents(t *testing.T) {
	list := func(s ...string) []string { return s }
	for _, c := range []struct {
		op   string
		at   attrs
		in   []operand
		want string // "[]" if nothing is known
	}{
		{"Shape", nil, []operand{shaped("N", "3", "?")}, "[N 3 ?]"},
		{"Shape", attrs{ssa.IntAttr("start", -2), ssa.IntAttr("end", -1)}, []operand{shaped("N", "H", "W")}, "[H]"},
		{"Size", nil, []operand{shaped("N", "3")}, "[3*N]"},
		{"Gather", nil, []operand{list("N", "3", "H"), i64(2, -3)}, "[H N]"},
		{"Gather", nil, []operand{list("N", "3", "H"), i64s(1)}, "[3]"},
		{"Slice", nil, []operand{list("A", "B", "C", "D"), i64(1), i64(1 << 40), i64(0), i64(2)}, "[B D]"},
		{"Slice", nil, []operand{list("A", "B", "C"), i64(-1), i64(-9), i64(0), i64(-1)}, "[C B A]"},
		{"Concat", axisAttr(0), []operand{list("N"), i64(-1), ssa.StaticTensor(ndarray.Int64, 2)}, "[N -1 ? ?]"},
		{"Unsqueeze", nil, []operand{list("N"), i64(0)}, "[]"},
		{"Squeeze", nil, []operand{list("N"), i64(0)}, "[N]"},
		{"Reshape", nil, []operand{list("N"), i64(-1)}, "[N]"},
		{"Identity", nil, []operand{list("N", "2")}, "[N 2]"},
		{"Tile", nil, []operand{list("N"), i64(3)}, "[N N N]"},
		{"Expand", nil, []operand{list("N"), i64(2)}, "[N N]"},
		{"Transpose", nil, []operand{list("N", "M")}, "[N M]"},
		{"ConstantOfShape", attrs{ssa.TensorAttr("value", ssa.Int64s(7))}, []operand{i64(2)}, "[7 7]"},
		{"ConstantOfShape", nil, []operand{i64(2)}, "[0 0]"},
	} {
		n := ruled(t, c.op, c.at, 1, c.in...)
		assert.Equalf(t, c.want, contentText(n.Out[0]), "%s %v", c.op, c.in)
	}
	n := ruled(t, "Split", nil, 2, list("A", "B", "C"), i64(1, 2))
	assert.Equal(t, "[A]", contentText(n.Out[0]))
	assert.Equal(t, "[B C]", contentText(n.Out[1]))
}

// TestShapeChain folds the way exporters write "batch and sequence kept, heads
// split": Shape → Gather → Unsqueeze → Concat → Reshape.
func TestShapeChain(t *testing.T) {
	g := ssa.NewGraph("chain")
	x := g.AddParam("x", shaped("batch", "seq", "768"))
	shape := g.NewNode("Shape", []*ssa.Value{x}, 1).Out[0]
	var parts []*ssa.Value
	for i := range 2 {
		at := g.AddConst("at", ssa.ScalarConst(int64(i)))
		d := g.NewNode("Gather", []*ssa.Value{shape, at}, 1, ssa.IntAttr("axis", 0)).Out[0]
		parts = append(parts, g.NewNode("Unsqueeze", []*ssa.Value{d, g.AddConst("axes", ssa.Int64s(0))}, 1).Out[0])
	}
	parts = append(parts, g.AddConst("heads", ssa.Int64s(12)), g.AddConst("rest", ssa.Int64s(-1)))
	want := g.NewNode("Concat", parts, 1, ssa.IntAttr("axis", 0)).Out[0]
	split := g.NewNode("Reshape", []*ssa.Value{x, want}, 1).Out[0]
	turned := g.NewNode("Transpose", []*ssa.Value{split}, 1, ssa.IntsAttr("perm", 0, 2, 1, 3)).Out[0]
	back := g.NewNode("Reshape", []*ssa.Value{turned, g.AddConst("flat", ssa.Int64s(0, 0, -1))}, 1).Out[0]
	require.NoError(t, ops.InferGraph(g))
	assert.Equal(t, "float32[batch,seq,12,64]", split.Type.String())
	assert.Equal(t, "float32[batch,12,seq,64]", turned.Type.String())
	assert.Equal(t, "float32[batch,12,64*seq]", back.Type.String())
}

// TestTensorAliases runs operators that declare shared bytes and compares the
// windows with what was computed.
func TestTensorAliases(t *testing.T) {
	for _, c := range []struct {
		name   string
		op     string
		at     attrs
		in     []*ndarray.Array
		out    int
		shared int // how many windows must be declared
	}{
		{"identity", "Identity", nil, []*ndarray.Array{cube(2, 3)}, 1, 1},
		{"reshape", "Reshape", nil, []*ndarray.Array{cube(2, 3), i64(3, 2)}, 1, 1},
		{"flatten", "Flatten", nil, []*ndarray.Array{cube(2, 3)}, 1, 1},
		{"squeeze", "Squeeze", nil, []*ndarray.Array{cube(1, 3)}, 1, 1},
		{"unsqueeze", "Unsqueeze", nil, []*ndarray.Array{cube(3), i64(0)}, 1, 1},
		{"transpose of ones", "Transpose", attrs{ssa.IntsAttr("perm", 1, 0, 2)}, []*ndarray.Array{cube(1, 3, 2)}, 1, 1},
		{"transpose", "Transpose", nil, []*ndarray.Array{cube(2, 3)}, 1, 0},
		{"slice rows", "Slice", nil, []*ndarray.Array{cube(4, 3), i64(1), i64(3)}, 1, 1},
		{"slice one row's part", "Slice", nil, []*ndarray.Array{cube(4, 3), i64(2, 1), i64(3, 3)}, 1, 1},
		{"slice columns", "Slice", nil, []*ndarray.Array{cube(4, 3), i64(1), i64(3), i64(1)}, 1, 0},
		{"slice below ones", "Slice", nil, []*ndarray.Array{cube(1, 4, 3), i64(1), i64(3), i64(1)}, 1, 1},
		{"slice with step", "Slice", nil, []*ndarray.Array{cube(4), i64(0), i64(4), i64(0), i64(2)}, 1, 0},
		{"slice one with step", "Slice", nil, []*ndarray.Array{cube(4), i64(2), i64(4), i64(0), i64(9)}, 1, 1},
		{"slice backwards", "Slice", nil, []*ndarray.Array{cube(4), i64(3), i64(0), i64(0), i64(-1)}, 1, 0},
		{"split rows", "Split", nil, []*ndarray.Array{cube(4, 3), i64(1, 3)}, 2, 2},
		{"split columns", "Split", axisAttr(1), []*ndarray.Array{cube(4, 3), i64(1, 2)}, 2, 0},
		{"split below ones", "Split", axisAttr(1), []*ndarray.Array{cube(1, 4), i64(1, 3)}, 2, 2},
		{"gather row", "Gather", nil, []*ndarray.Array{cube(4, 3), i64s(-1)}, 1, 1},
		{"gather column", "Gather", axisAttr(1), []*ndarray.Array{cube(4, 3), i64s(1)}, 1, 0},
		{"gather two", "Gather", nil, []*ndarray.Array{cube(4, 3), i64(1, 2)}, 1, 0},
		{"concat rows", "Concat", axisAttr(0), []*ndarray.Array{cube(2, 3), cube(1, 3)}, 1, 2},
		{"concat columns", "Concat", axisAttr(1), []*ndarray.Array{cube(2, 3), cube(2, 1)}, 1, 0},
		{"concat below ones", "Concat", axisAttr(1), []*ndarray.Array{cube(1, 3), cube(1, 2)}, 1, 2},
		{"concat of one", "Concat", axisAttr(1), []*ndarray.Array{cube(1, 3)}, 1, 1},
		{"expand to itself", "Expand", nil, []*ndarray.Array{cube(2, 3), i64(1, 2, 3)}, 1, 1},
		{"expand", "Expand", nil, []*ndarray.Array{cube(1, 3), i64(2, 3)}, 1, 0},
		{"strings", "Identity", nil, []*ndarray.Array{ndarray.Strings([]string{"a"}, 1)}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in []operand
			for _, a := range c.in {
				in = append(in, a)
			}
			n := ruled(t, c.op, c.at, c.out, in...)
			got, err := evalOp(t, c.op, c.at, c.out, c.in...)
			require.NoError(t, err)
			shared := ops.Aliases(n)
			require.Len(t, shared, c.shared)
			for _, s := range shared {
				whole, part := c.in[s.In].Data, got[s.Out].Data
				if s.Concat {
					whole, part = part, whole
				}
				if s.Moving != nil {
					s.Offset, err = s.Moving.Offset(c.in[s.Moving.Operand])
					require.NoError(t, err)
				}
				require.LessOrEqual(t, int(s.Offset)+len(part), len(whole))
				assert.Equal(t, part, whole[s.Offset:int(s.Offset)+len(part)])
			}
		})
	}
}

// TestTensorInPlace runs operators with the result in the place of an operand.
func TestTensorInPlace(t *testing.T) {
	x := mat(3, 2, 1, 2, 3, 4, 5, 6)
	checked := 0
	for name, in := range map[string][]*ndarray.Array{
		"Identity": {x}, "ScatterND": {x, array(ndarray.Int64, []int{1, 1}, 2), mat(1, 2, 8, 9)},
		"ScatterElements": {x, array(ndarray.Int64, []int{1, 2}, 2, 0), mat(1, 2, 8, 9)}, "TensorScatter": {array(ndarray.Float32, []int{1, 3, 2}), array(ndarray.Float32, []int{1, 1, 2}, 8, 9)},
	} {
		checked += checkInPlace(t, ops.Lookup("", name), in)
	}
	assert.Equal(t, 4, checked)
}

// TestTensorForms checks the oldest operator set nodes can be written in.
func TestTensorForms(t *testing.T) {
	bf, f8 := ssa.StaticTensor(ndarray.BFloat16, 2, 2), ssa.StaticTensor(ndarray.Float8E5M2, 2, 2)
	i4, i2, f := ssa.StaticTensor(ndarray.Int4, 2, 2), ssa.StaticTensor(ndarray.Int2, 2, 2), shaped("2", "2")
	for _, c := range []struct {
		op   string
		at   attrs
		in   []operand
		want int
	}{
		{"Identity", nil, []operand{f}, 1}, {"Identity", nil, []operand{bf}, 13}, {"Identity", nil, []operand{f8}, 19},
		{"Identity", nil, []operand{i4}, 21}, {"Identity", nil, []operand{i2}, 25}, {"Identity", nil, []operand{ssa.SequenceOf(f)}, 14},
		{"Identity", nil, []operand{ssa.OptionalOf(f)}, 16},
		{"Reshape", nil, []operand{f, i64(-1)}, 5}, {"Reshape", attrs{ssa.IntAttr("allowzero", 1)}, []operand{f, i64(-1)}, 14},
		{"Squeeze", nil, []operand{ssa.StaticTensor(ndarray.Float32, 1, 2)}, 1}, {"Squeeze", nil, []operand{ssa.StaticTensor(ndarray.Float32, 1, 2), i64(0)}, 13},
		{"Slice", nil, []operand{f, i64(0), i64(1)}, 10}, {"Slice", nil, []operand{f, i64(0), i64(1), i64(-1)}, 11},
		{"Gather", nil, []operand{f, i64(0)}, 1}, {"Gather", nil, []operand{f, i64(-1)}, 11},
		{"Concat", axisAttr(0), []operand{f}, 4}, {"Concat", axisAttr(-1), []operand{f}, 11},
		{"Pad", nil, []operand{f, i64(0, 0, 1, 1)}, 11}, {"Pad", attrs{ssa.StringAttr("mode", "wrap")}, []operand{f, i64(0, 0, 1, 1)}, 19},
		{"Shape", nil, []operand{f}, 1}, {"Shape", attrs{ssa.IntAttr("start", 1)}, []operand{f}, 15},
		{"Resize", nil, []operand{f, vec(), vec(2, 2)}, 11}, {"Resize", nil, []operand{f, nil, vec(2, 2)}, 13},
		{"Resize", attrs{ssa.IntAttr("antialias", 1)}, []operand{f, nil, vec(2, 2)}, 18},
		{"Resize", attrs{ssa.StringAttr("coordinate_transformation_mode", "half_pixel_symmetric")}, []operand{f, nil, vec(2, 2)}, 19},
		{"ScatterND", nil, []operand{f, array(ndarray.Int64, []int{1, 1}), f}, 11},
		{"ScatterND", attrs{ssa.StringAttr("reduction", "add")}, []operand{f, array(ndarray.Int64, []int{1, 1}), f}, 16},
		{"ScatterND", attrs{ssa.StringAttr("reduction", "max")}, []operand{f, array(ndarray.Int64, []int{1, 1}), f}, 18},
		{"Split", nil, []operand{f, i64(2)}, 13}, {"Split", attrs{ssa.IntAttr("num_outputs", 1)}, []operand{f}, 18},
		{"Unique", nil, []operand{f}, 11}, {"Unique", nil, []operand{bf}, 28},
		{"Constant", attrs{ssa.TensorAttr("value", ssa.Int64s(1))}, nil, 1}, {"Constant", attrs{ssa.IntAttr("value_int", 1)}, nil, 12},
	} {
		n := ruled(t, c.op, c.at, 1, c.in...)
		assert.Equalf(t, c.want, ops.Lookup("", c.op).Oldest(n), "%s %v", c.op, c.in)
	}
}

// TestComputedReshape: beside a -1, a 0 that the model computes may mean a length or the operand's; where both are 0 nothing says what is left over.
func TestComputedReshape(t *testing.T) {
	for _, c := range []struct{ x, want, refused string }{
		{"[3,2,6]", "float32[6,6]", ""},
		{"[1,0,12]", "float32[1,0]", ""},
		{"[0,2,6]", "", "a -1 beside a length of 0"},
	} {
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32` + c.x + ` const %i0: int64[1] = [0] const %i1: int64[1] = [1] const %k: int64[1] = [-1]
			%s = Shape(%x) %n = Gather(%s, %i0) [axis=0] %m = Gather(%s, %i1) [axis=0] %p = Mul(%n, %m) %t = Concat(%p, %k) [axis=0] %y = Reshape(%x, %t) out %y }`)
		require.NoError(t, err)
		err = ops.InferGraph(g)
		if c.refused != "" {
			assert.ErrorContains(t, err, c.refused)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, g.Results[0].Type.String())
	}
}
