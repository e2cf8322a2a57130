package ops_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// shaped parses "N 3 ?" style dimensions into a float32 type; "..." is unranked.
func shaped(dims ...string) ssa.Type {
	t := ssa.TensorOf(ndarray.Float32)
	for _, d := range dims {
		if d == "..." {
			return ssa.UnrankedTensor(ndarray.Float32)
		}
		dim, err := ssa.ParseDim(d)
		if err != nil {
			panic(err)
		}
		t.Shape = append(t.Shape, dim)
	}
	return t
}

// inferred applies an operator's rule to operand types.
func inferred(op string, at attrs, numOut int, in ...ssa.Type) (*ssa.Node, error) {
	g := ssa.NewGraph(op)
	var operands []*ssa.Value
	for _, t := range in {
		operands = append(operands, g.AddParam("x", t))
	}
	n := g.NewNode(op, operands, numOut, at...)
	return n, ops.Infer(n)
}

func TestMathShapeRules(t *testing.T) {
	axis1 := attrs{ssa.IntAttr("axis", 1)}
	eq := func(s string) attrs { return attrs{ssa.StringAttr("equation", s)} }
	for _, c := range []struct {
		op   string
		at   attrs
		in   []ssa.Type
		want string
	}{
		{"Relu", nil, []ssa.Type{shaped("N", "3")}, "float32[N,3]"},
		{"Relu", nil, []ssa.Type{shaped("...")}, "float32[...]"},
		{"Add", nil, []ssa.Type{shaped("N", "1"), shaped("M")}, "float32[N,M]"},
		{"Add", nil, []ssa.Type{shaped("N", "3"), shaped("1", "1", "1")}, "float32[1,N,3]"},
		{"Add", nil, []ssa.Type{shaped("N"), shaped("M")}, "float32[?]"},
		{"Add", nil, []ssa.Type{shaped("N"), shaped("4")}, "float32[4]"},
		{"Add", nil, []ssa.Type{shaped("N"), shaped("...")}, "float32[...]"},
		{"Less", nil, []ssa.Type{shaped("N"), shaped("1")}, "bool[N]"},
		{"IsNaN", nil, []ssa.Type{shaped("...")}, "bool[...]"},
		{"Max", nil, []ssa.Type{shaped("N", "1"), shaped("4"), shaped("1")}, "float32[N,4]"},
		{"Cast", to(ndarray.Int8), []ssa.Type{shaped("N", "?")}, "int8[N,?]"},
		{"CastLike", nil, []ssa.Type{shaped("N"), ssa.UnrankedTensor(ndarray.Uint8)}, "uint8[N]"},
		{"ReduceSum", nil, []ssa.Type{shaped("N", "4")}, "float32[1,1]"},
		{"ReduceMax", attrs{ssa.IntAttr("keepdims", 0)}, []ssa.Type{shaped("N", "4")}, "float32[]"},
		{"ReduceMean", nil, []ssa.Type{shaped("N", "4"), ssa.UnrankedTensor(ndarray.Int64)}, "float32[?,?]"},
		{"ReduceMean", attrs{ssa.IntAttr("keepdims", 0)}, []ssa.Type{shaped("N", "4"), ssa.StaticTensor(ndarray.Int64, 1)}, "float32[?]"},
		{"ReduceMean", attrs{ssa.IntAttr("keepdims", 0)}, []ssa.Type{shaped("N", "4"), ssa.UnrankedTensor(ndarray.Int64)}, "float32[...]"},
		{"ReduceSum", nil, []ssa.Type{shaped("...")}, "float32[...]"},
		{"ArgMax", axis1, []ssa.Type{shaped("N", "4", "W")}, "int64[N,1,W]"},
		{"ArgMax", append(attrs{ssa.IntAttr("keepdims", 0)}, axis1...), []ssa.Type{shaped("N", "4", "W")}, "int64[N,W]"},
		{"ArgMax", nil, []ssa.Type{shaped("...")}, "int64[...]"},
		{"Softmax", nil, []ssa.Type{shaped("N", "C")}, "float32[N,C]"},
		{"CumSum", nil, []ssa.Type{shaped("N"), ssa.StaticTensor(ndarray.Int32)}, "float32[N]"},
		{"TopK", nil, []ssa.Type{shaped("N", "9"), ssa.StaticTensor(ndarray.Int64, 1)}, "float32[N,?]"},
		{"MatMul", nil, []ssa.Type{shaped("B", "N", "K"), shaped("K", "M")}, "float32[B,N,M]"},
		{"MatMul", nil, []ssa.Type{shaped("K"), shaped("B", "K", "M")}, "float32[B,M]"},
		{"MatMul", nil, []ssa.Type{shaped("N", "K"), shaped("K")}, "float32[N]"},
		{"MatMul", nil, []ssa.Type{shaped("K"), shaped("K")}, "float32[]"},
		{"MatMul", nil, []ssa.Type{shaped("..."), shaped("K")}, "float32[...]"},
		{"Gemm", attrs{ssa.IntAttr("transB", 1)}, []ssa.Type{shaped("N", "K"), shaped("M", "K")}, "float32[N,M]"},
		{"Gemm", nil, []ssa.Type{shaped("..."), shaped("K", "M")}, "float32[?,M]"},
		{"Einsum", eq("bij,bjk->bik"), []ssa.Type{shaped("B", "I", "J"), shaped("B", "J", "K")}, "float32[B,I,K]"},
		{"Einsum", eq("...ij->...ji"), []ssa.Type{shaped("B", "I", "J")}, "float32[B,J,I]"},
		{"Einsum", eq("ij,jk"), []ssa.Type{shaped("I", "J"), shaped("...")}, "float32[...]"},
		{"Det", nil, []ssa.Type{shaped("B", "M", "M")}, "float32[B]"},
		{"Trilu", nil, []ssa.Type{shaped("B", "M", "N")}, "float32[B,M,N]"},
		{"EyeLike", attrs{ssa.IntAttr("dtype", 7)}, []ssa.Type{shaped("M", "N")}, "int64[M,N]"},
		{"EyeLike", nil, []ssa.Type{shaped("...")}, "float32[?,?]"},
		{"RandomUniform", attrs{ssa.IntsAttr("shape", 2, 0)}, nil, "float32[2,0]"},
		{"RandomNormalLike", nil, []ssa.Type{shaped("N")}, "float32[N]"},
		{"Multinomial", attrs{ssa.IntAttr("sample_size", 5)}, []ssa.Type{shaped("N", "C")}, "int32[N,5]"},
		{"Where", nil, []ssa.Type{ssa.UnrankedTensor(ndarray.Bool), shaped("N"), shaped("N")}, "float32[...]"},
		{"PRelu", nil, []ssa.Type{shaped("N", "C", "H"), shaped("C", "1")}, "float32[N,C,H]"},
		{"Clip", nil, []ssa.Type{shaped("N")}, "float32[N]"},
	} {
		numOut := ops.Lookup("", c.op).MinOut
		n, err := inferred(c.op, c.at, numOut, c.in...)
		require.NoErrorf(t, err, "%s %v", c.op, c.in)
		assert.Equalf(t, c.want, n.Out[0].Type.String(), "%s %v", c.op, c.in)
	}
}

func TestMathShapeRulesReject(t *testing.T) {
	for _, c := range []struct {
		op string
		at attrs
		in []ssa.Type
	}{
		{"Add", nil, []ssa.Type{shaped("2"), shaped("3")}},
		{"Add", nil, []ssa.Type{shaped("2"), ssa.StaticTensor(ndarray.Int64, 2)}},
		{"Equal", nil, []ssa.Type{shaped("2"), ssa.StaticTensor(ndarray.Bool, 2)}},
		{"Max", nil, []ssa.Type{shaped("2"), shaped("2"), ssa.StaticTensor(ndarray.Int64, 2)}},
		{"MatMul", nil, []ssa.Type{shaped("2", "3"), shaped("2", "3")}},
		{"MatMul", nil, []ssa.Type{shaped(), shaped("2")}},
		{"Gemm", nil, []ssa.Type{shaped("2"), shaped("2", "3")}},
		{"Softmax", attrs{ssa.IntAttr("axis", 2)}, []ssa.Type{shaped("2", "3")}},
		{"ArgMax", attrs{ssa.IntAttr("axis", -3)}, []ssa.Type{shaped("2", "3")}},
		{"Det", nil, []ssa.Type{shaped("2", "3")}},
		{"Einsum", attrs{ssa.StringAttr("equation", "ij,jk")}, []ssa.Type{shaped("2", "3"), shaped("2", "3")}},
		{"RandomUniform", attrs{ssa.IntsAttr("shape", -1)}, nil},
		{"BitCast", to(ndarray.Int8), []ssa.Type{shaped("2")}},
	} {
		_, err := inferred(c.op, c.at, ops.Lookup("", c.op).MinOut, c.in...)
		assert.Errorf(t, err, "%s %v", c.op, c.in)
	}
}

// dims parses a content.
func dims(text ...string) []ssa.Dim {
	out := make([]ssa.Dim, len(text))
	for i, s := range text {
		if s != "?" {
			d, err := ssa.ParseDim(s)
			if err != nil {
				panic(err)
			}
			out[i] = d
		}
	}
	return out
}

func TestMathContents(t *testing.T) {
	for _, c := range []struct {
		op   string
		at   attrs
		dt   ndarray.DType
		in   [][]string
		want string // "" if nothing is known
	}{
		{"Add", nil, ndarray.Int64, [][]string{{"N", "3"}, {"1"}}, "[N+1 4]"},
		{"Sub", nil, ndarray.Int64, [][]string{{"N"}, {"N"}}, "[0]"},
		{"Mul", nil, ndarray.Int64, [][]string{{"N", "?"}, {"2", "2"}}, "[2*N ?]"},
		{"Div", nil, ndarray.Int64, [][]string{{"N", "-7"}, {"2"}}, "[floor(N/2) -3]"},
		{"Div", nil, ndarray.Int64, [][]string{{"N-5"}, {"2"}}, ""}, // may be negative: truncation is not floor
		{"Div", nil, ndarray.Int64, [][]string{{"4*N-8"}, {"4"}}, "[N-2]"},
		{"Mul", nil, ndarray.Float32, [][]string{{"N"}, {"2"}}, "[2*N]"},
		{"Div", nil, ndarray.Float32, [][]string{{"N"}, {"2"}}, ""},
		{"Div", nil, ndarray.Float32, [][]string{{"4*N"}, {"2"}}, "[2*N]"},
		{"Mod", nil, ndarray.Int64, [][]string{{"-7"}, {"4"}}, "[1]"},
		{"Max", nil, ndarray.Int64, [][]string{{"N+1"}, {"N"}}, "[N+1]"},
		{"Min", nil, ndarray.Int64, [][]string{{"N"}, {"4"}}, "[min(4,N)]"},
		{"Neg", nil, ndarray.Int64, [][]string{{"N"}}, "[-N]"},
		{"Abs", nil, ndarray.Int64, [][]string{{"-3", "N", "N-1"}}, "[3 N ?]"},
		{"Floor", nil, ndarray.Float32, [][]string{{"N"}}, "[N]"},
		{"Cast", to(ndarray.Float32), ndarray.Int64, [][]string{{"N", "16777217"}}, "[N ?]"},
		{"Cast", to(ndarray.Int32), ndarray.Int64, [][]string{{"N", "4294967296"}}, "[N ?]"},
		{"Cast", to(ndarray.Bool), ndarray.Int64, [][]string{{"5", "0", "N"}}, "[1 0 ?]"},
		{"Cast", to(ndarray.Int8), ndarray.Int64, [][]string{{"5"}}, ""},
		{"Equal", nil, ndarray.Int64, [][]string{{"N", "N", "3", "N"}, {"N", "-1", "3", "4"}}, "[1 0 1 ?]"},
		{"Less", nil, ndarray.Int64, [][]string{{"-1", "N"}, {"N", "N+1"}}, "[1 1]"},
		{"Greater", nil, ndarray.Int64, [][]string{{"N"}, {"-1"}}, "[1]"},
		{"ReduceProd", nil, ndarray.Int64, [][]string{{"N", "3", "4"}}, "[12*N]"},
		{"ReduceSum", nil, ndarray.Int64, [][]string{{"N", "3"}}, "[N+3]"},
		{"ReduceMax", nil, ndarray.Int64, [][]string{{"N", "N+3"}}, "[N+3]"},
		{"Range", nil, ndarray.Int64, [][]string{{"2"}, {"8"}, {"3"}}, "[2 5]"},
		{"Range", nil, ndarray.Int64, [][]string{{"N"}, {"N+2"}, {"1"}}, "[N N+1]"},
		{"Clip", nil, ndarray.Int64, [][]string{{"N+5", "9"}, {"N"}, {"N+6"}}, "[N+5 min(N+6,max(9,N))]"},
		{"Pow", nil, ndarray.Int64, [][]string{{"N"}, {"2"}}, "[N*N]"},
	} {
		g := ssa.NewGraph(c.op)
		var operands []*ssa.Value
		for _, x := range c.in {
			shape := []int{len(x)}
			if c.op == "Range" || c.op == "Clip" && len(operands) > 0 {
				shape = nil
			}
			v := g.AddParam("x", ssa.StaticTensor(c.dt, shape...))
			v.Content = dims(x...)
			operands = append(operands, v)
		}
		n := g.NewNode(c.op, operands, 1, c.at...)
		require.NoError(t, ops.Infer(n), c.op)
		got := ""
		if content := n.Out[0].Content; content != nil {
			got = "["
			for i, d := range content {
				if i > 0 {
					got += " "
				}
				got += d.String()
			}
			got += "]"
		}
		assert.Equalf(t, c.want, got, "%s %v", c.op, c.in)
	}
}

func TestRangeLength(t *testing.T) {
	for _, c := range []struct{ start, limit, delta, want string }{
		{"0", "N", "1", "N"}, {"0", "N", "2", "floor((N+1)/2)"}, {"N", "0", "-1", "N"}, {"1", "N", "1", "max(0,N-1)"}, {"?", "N", "1", "?"},
	} {
		g := ssa.NewGraph("Range")
		var operands []*ssa.Value
		for _, s := range []string{c.start, c.limit, c.delta} {
			v := g.AddParam("x", ssa.StaticTensor(ndarray.Int64))
			v.Content = dims(s)
			operands = append(operands, v)
		}
		n := g.NewNode("Range", operands, 1)
		require.NoError(t, ops.Infer(n))
		assert.Equal(t, c.want, n.Out[0].Type.Shape[0].String(), "%v", c)
	}
}

func TestWhereContent(t *testing.T) {
	g := ssa.NewGraph("Where")
	cond := g.AddConst("cond", ssa.NewConstant(bools(true, false, true)))
	x, y := g.AddParam("x", ssa.StaticTensor(ndarray.Int64, 3)), g.AddParam("y", ssa.StaticTensor(ndarray.Int64, 1))
	x.Content, y.Content = dims("N", "2", "?"), dims("1")
	n := g.NewNode("Where", []*ssa.Value{cond, x, y}, 1)
	require.NoError(t, ops.Infer(n))
	assert.Equal(t, "[N 1 ?]", contentText(n.Out[0]))
	cond.Const = nil // an unknown condition leaves what both choices agree on
	x.Content = dims("1", "N", "1")
	require.NoError(t, ops.Infer(n))
	assert.Equal(t, "[1 ? 1]", contentText(n.Out[0]))
}

func contentText(v *ssa.Value) string {
	s := "["
	for i, d := range v.Content {
		if i > 0 {
			s += " "
		}
		s += d.String()
	}
	return s + "]"
}

// TestMathInPlace runs operators with the result in the place of an operand that
// they declare may share its bytes.
func TestMathInPlace(t *testing.T) {
	x, y := mat(2, 3, 5, -2, 3, 4, -1, 6), mat(2, 3, 1, 2, 3, 3, 2, 1)
	cond := ndarray.Of([]bool{true, false, true, false, true, false}, 2, 3)
	known := map[string][]*ndarray.Array{
		"Where": {cond, x, y}, "Clip": {x, num(-1), num(4)}, "CumSum": {x, i64s(1)}, "CumProd": {x, i64s(0)}, "Trilu": {x}, "CastLike": {x, i64(1)},
		"Not": {cond}, "And": {cond, cond}, "Or": {cond, cond}, "Xor": {cond, cond},
	}
	checked := 0
	for _, name := range mathNames {
		o := ops.Lookup("", name)
		in := known[name]
		if in == nil {
			switch o.MaxIn {
			case 1:
				in = []*ndarray.Array{x}
			case 2:
				in = []*ndarray.Array{x, y}
			case -1:
				in = []*ndarray.Array{x, y, x}
			default:
				continue
			}
		}
		if name == "Einsum" || o.Facts.Randomness != ops.Deterministic {
			continue
		}
		checked += checkInPlace(t, o, in)
	}
	assert.Greater(t, checked, 60)
}

func checkInPlace(t *testing.T, o *ops.Op, in []*ndarray.Array) (checked int) {
	t.Helper()
	var at attrs
	if o.Attr("to", 0) != nil {
		at = attrs{ssa.IntAttr("to", int64(ndarray.Int32))}
	}
	for share := range in {
		fresh, shared := newCall(o.Name, in...), newCall(o.Name, in...)
		for _, c := range []*ops.Call{fresh, shared} {
			c.Node.Attrs = at
			if err := ops.Infer(c.Node); err != nil {
				return checked
			}
		}
		if !slices.Contains(ops.InPlacePairs(fresh.Node), ops.Pair{In: share}) {
			continue
		}
		if err := ops.Eval(fresh); err != nil {
			return checked // not for these element types
		}
		want := fresh.Out[0].(*ndarray.Array)
		mine := in[share].Clone()
		for i, a := range in {
			if a == in[share] {
				shared.In[i] = mine // every operand that is the same value shares the place
			}
		}
		shared.Out = []ndarray.Value{&ndarray.Array{DType: want.DType, Shape: want.Shape, Data: mine.Data}}
		require.NoError(t, ops.Eval(shared), o.Name)
		assert.Equalf(t, want.Data, shared.Out[0].(*ndarray.Array).Data, "%s in place of operand %d", o.Name, share)
		checked++
	}
	return checked
}
