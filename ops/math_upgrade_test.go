package ops_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// upgraded brings a node written for an operator set to its newest form and
// returns the graph around it.
func upgraded(t *testing.T, version int, op string, at attrs, numOut int, in ...ssa.Type) *ssa.Graph {
	t.Helper()
	g := ssa.NewGraph(op)
	var operands []*ssa.Value
	for _, x := range in {
		operands = append(operands, g.AddParam("x", x))
	}
	n := g.NewNode(op, operands, numOut, at...)
	g.Results = n.Out
	n.Version = version
	require.NoErrorf(t, ops.Modernize(t.Context(), g, n), "%s of %d", op, version)
	require.NoError(t, ops.InferGraph(g), op)
	return g
}

func runGraph(t *testing.T, g *ssa.Graph, in ...*ndarray.Array) *ndarray.Array {
	t.Helper()
	var args []ndarray.Value
	for _, a := range in {
		args = append(args, a)
	}
	out, err := ops.Interpret(context.Background(), g, args, nil)
	require.NoError(t, err)
	return out[0].(*ndarray.Array)
}

func TestLegacyBroadcast(t *testing.T) {
	x, y := ramp([]int{2, 3, 4}), ramp([]int{3})
	types := []ssa.Type{shaped("2", "3", "4"), shaped("3")}
	for _, axis := range []int64{1, -2} {
		g := upgraded(t, 6, "Sub", attrs{ssa.IntAttr("axis", axis), ssa.IntAttr("broadcast", 1)}, 1, types...)
		want := mustEval(t, "Sub", nil, x, y.Reshaped(3, 1))
		assert.Equal(t, numbers(want), numbers(runGraph(t, g, x, y)))
	}
	g := upgraded(t, 6, "Less", attrs{ssa.IntAttr("broadcast", 1)}, 1, shaped("2", "3"), shaped("3"))
	assert.Equal(t, []int{2, 3}, runGraph(t, g, ramp([]int{2, 3}), y).Shape)

	bad := ssa.NewGraph("Add")
	n := bad.NewNode("Add", []*ssa.Value{bad.AddParam("a", shaped("2", "3")), bad.AddParam("b", shaped("3", "3"))}, 1, ssa.IntAttr("axis", 1))
	n.Version = 6
	assert.Error(t, ops.Modernize(t.Context(), bad, n), "B reaches beyond A")
}

func TestUpgradeConsumedInputs(t *testing.T) {
	for _, op := range []string{"Relu", "Sum", "Clip", "PRelu"} {
		in := []ssa.Type{shaped("N", "C")}
		if op == "PRelu" || op == "Sum" {
			in = append(in, shaped("N", "C"))
		}
		g := upgraded(t, 1, op, attrs{ssa.IntsAttr("consumed_inputs", 0)}, 1, in...)
		assert.Empty(t, g.Results[0].Def.Attrs, op)
	}
}

func TestUpgradeClip(t *testing.T) {
	for _, x := range []ssa.Type{shaped("N"), ssa.UnrankedTensor(ndarray.Undefined)} {
		g := upgraded(t, 6, "Clip", attrs{ssa.FloatAttr("max", 6)}, 1, x)
		assert.Nil(t, g.Results[0].Def.In[1])
		assert.Equal(t, []float64{-9, 6}, numbers(runGraph(t, g, vec(-9, 9))))
	}
	half := upgraded(t, 6, "Clip", attrs{ssa.FloatAttr("min", 0), ssa.FloatAttr("max", 6)}, 1, ssa.UnrankedTensor(ndarray.Float16))
	assert.Equal(t, []float64{0, 6}, numbers(runGraph(t, half, typed(ndarray.Float16, -9, 9))))
}

func TestUpgradePRelu(t *testing.T) {
	x := array(ndarray.Float32, []int{1, 2, 2}, -1, -1, -1, 2)
	g := upgraded(t, 6, "PRelu", nil, 1, shaped("N", "2", "2"), shaped("2"))
	assert.Equal(t, []float64{-10, -10, -20, 2}, numbers(runGraph(t, g, x, vec(10, 20))))
}

func TestUpgradeSoftmax(t *testing.T) {
	x := array(ndarray.Float32, []int{2, 3, 1, 2}, 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1)
	for _, op := range []string{"Softmax", "LogSoftmax", "Hardmax"} {
		for _, c := range []struct {
			axis  int64
			known bool
			nodes int // in the upgraded graph: 1 where an axis stands for the rows
		}{{1, true, 4}, {2, true, 1}, {3, true, 1}, {-1, true, 1}, {0, true, 4}, {1, false, 4}} {
			typ := shaped("2", "3", "1", "2")
			if !c.known {
				typ = shaped("...")
			}
			g := upgraded(t, 12, op, attrs{ssa.IntAttr("axis", c.axis)}, 1, typ)
			assert.Len(t, g.Nodes, c.nodes, "%s axis %d", op, c.axis)
			rows := map[int64]int{0: 1, 1: 2, 2: 6, 3: 6, -1: 6}[c.axis]
			want := mustEval(t, op, nil, x.Reshaped(rows, x.Len()/rows))
			got := runGraph(t, g, x)
			assert.Equal(t, x.Shape, got.Shape)
			sameNumbers(t, numbers(want), numbers(got), 1e-6, op)
		}
	}
	for _, typ := range []ssa.Type{shaped("2", "3", "0"), shaped("A", "B", "C"), shaped("...")} {
		got := runGraph(t, upgraded(t, 12, "Softmax", nil, 1, typ), array(ndarray.Float32, []int{2, 3, 0}))
		assert.Equal(t, []int{2, 3, 0}, got.Shape, "no elements")
	}
	g := upgraded(t, 12, "Softmax", nil, 1, shaped("N", "1000", "1", "1"))
	assert.EqualValues(t, 1, ops.Int(g.Nodes[0], "axis"), "the default axis, one dimension that counts")
}

func TestUpgradeReduce(t *testing.T) {
	x := ramp([]int{2, 3})
	for op, version := range map[string]int{"ReduceSum": 12, "ReduceMean": 17, "ReduceMax": 17, "ReduceLogSumExp": 17} {
		at := attrs{ssa.IntsAttr("axes", -1), ssa.IntAttr("keepdims", 0)}
		g := upgraded(t, version, op, at, 1, shaped("2", "3"))
		want := mustEval(t, op, attrs{ssa.IntAttr("keepdims", 0)}, x, i64(-1))
		assert.Equal(t, numbers(want), numbers(runGraph(t, g, x)), op)
		assert.Equal(t, "float32[2]", g.Results[0].Type.String(), op)
	}
}

func TestUpgradeOthers(t *testing.T) {
	g := upgraded(t, 1, "TopK", attrs{ssa.IntAttr("k", 2)}, 2, shaped("N"))
	assert.Equal(t, "float32[2]", g.Results[0].Type.String())
	assert.Equal(t, []float64{3, 2}, numbers(runGraph(t, g, vec(1, 2, 3))))

	g = upgraded(t, 5, "Cast", attrs{ssa.StringAttr("to", "INT64")}, 1, shaped("N"))
	assert.Equal(t, "int64[N]", g.Results[0].Type.String())

	g = upgraded(t, 6, "Gemm", attrs{ssa.IntAttr("broadcast", 1)}, 1, shaped("1", "1"), shaped("1", "2"), shaped("2"))
	assert.Equal(t, []float64{5, 8}, numbers(runGraph(t, g, mat(1, 1, 2), mat(1, 2, 2, 3), vec(1, 2))))
}

func TestMathForms(t *testing.T) {
	f32, bf16 := ssa.UnrankedTensor(ndarray.Float32), ssa.UnrankedTensor(ndarray.BFloat16)
	i8, i64, str := ssa.UnrankedTensor(ndarray.Int8), ssa.UnrankedTensor(ndarray.Int64), ssa.UnrankedTensor(ndarray.String)
	for _, c := range []struct {
		op   string
		at   attrs
		in   []ssa.Type
		want int
	}{
		{"Add", nil, []ssa.Type{f32, f32}, 7}, {"Add", nil, []ssa.Type{bf16, bf16}, 13}, {"Add", nil, []ssa.Type{i8, i8}, 14},
		{"Relu", nil, []ssa.Type{f32}, 6}, {"Relu", nil, []ssa.Type{i8}, 14}, {"Sin", nil, []ssa.Type{bf16}, 22},
		{"Equal", nil, []ssa.Type{str, str}, 19}, {"Equal", nil, []ssa.Type{i64, i64}, 7}, {"Less", nil, []ssa.Type{i64, i64}, 9},
		{"Pow", nil, []ssa.Type{f32, f32}, 7}, {"Pow", nil, []ssa.Type{f32, i64}, 12}, {"Pow", nil, []ssa.Type{bf16, bf16}, 15},
		{"Mod", nil, []ssa.Type{i64, i64}, 10}, {"Mod", nil, []ssa.Type{f32, f32}, 28}, {"Mod", attrs{ssa.IntAttr("fmod", 1)}, []ssa.Type{f32, f32}, 10},
		{"Clip", nil, []ssa.Type{f32}, 11}, {"Clip", nil, []ssa.Type{i8}, 12}, {"Max", nil, []ssa.Type{f32}, 8},
		{"Cast", to(ndarray.Float32), []ssa.Type{i64}, 6}, {"Cast", to(ndarray.Float8E4M3FN), []ssa.Type{f32}, 19},
		{"Cast", to(ndarray.Int4), []ssa.Type{f32}, 21}, {"Cast", to(ndarray.String), []ssa.Type{f32}, 9},
		{"Cast", to(ndarray.Float32, ssa.StringAttr("round_mode", "up")), []ssa.Type{f32}, 6},
		{"Cast", to(ndarray.Float32, ssa.StringAttr("round_mode", "down")), []ssa.Type{f32}, 24},
		{"ReduceSum", nil, []ssa.Type{f32}, 13}, {"ReduceMean", nil, []ssa.Type{f32}, 18}, {"Softmax", nil, []ssa.Type{f32}, 13},
		{"MatMul", nil, []ssa.Type{f32, f32}, 1}, {"MatMul", nil, []ssa.Type{i64, i64}, 9}, {"Gemm", nil, []ssa.Type{f32, f32}, 11},
		{"ArgMax", nil, []ssa.Type{f32}, 1}, {"ArgMax", attrs{ssa.IntAttr("axis", -1)}, []ssa.Type{f32}, 11}, {"Range", nil, []ssa.Type{f32, f32, f32}, 11},
		{"BitShift", attrs{ssa.StringAttr("direction", "LEFT")}, []ssa.Type{i8, i8}, 28}, {"Celu", nil, []ssa.Type{f32}, 12},
	} {
		n, err := inferred(c.op, c.at, 1, c.in...)
		require.NoError(t, err, c.op)
		assert.Equalf(t, c.want, ops.Lookup("", c.op).Oldest(n), "%s %v", c.op, c.in)
	}
}

func TestMathCosts(t *testing.T) {
	for _, c := range []struct {
		op   string
		at   attrs
		in   []ssa.Type
		want ops.Cost
	}{
		{"Add", nil, []ssa.Type{shaped("2", "3"), shaped("3")}, ops.Cost{FLOPs: 6, Bytes: 4 * (6 + 3 + 6)}},
		{"MatMul", nil, []ssa.Type{shaped("5", "2", "3"), shaped("3", "4")}, ops.Cost{FLOPs: 2 * 5 * 2 * 3 * 4, Bytes: 4 * (30 + 12 + 40)}},
		{"Gemm", nil, []ssa.Type{shaped("2", "3"), shaped("3", "4"), shaped("4")}, ops.Cost{FLOPs: 2*2*3*4 + 8, Bytes: 4 * (6 + 12 + 4 + 8)}},
		{"Gemm", attrs{ssa.IntAttr("transA", 1)}, []ssa.Type{shaped("3", "2"), shaped("3", "4")}, ops.Cost{FLOPs: 2 * 2 * 3 * 4, Bytes: 4 * (6 + 12 + 8)}},
		{"Einsum", attrs{ssa.StringAttr("equation", "ij,jk->ik")}, []ssa.Type{shaped("2", "3"), shaped("3", "4")}, ops.Cost{FLOPs: 2 * 2 * 3 * 4, Bytes: 4 * (6 + 12 + 8)}},
		{"Einsum", attrs{ssa.StringAttr("equation", "ij,jk,kl->il")}, []ssa.Type{shaped("2", "3"), shaped("3", "4"), shaped("4", "5")},
			ops.Cost{FLOPs: 2*2*3*4 + 2*2*4*5, Bytes: 4 * (6 + 12 + 20 + 10)}},
		{"Einsum", attrs{ssa.StringAttr("equation", "ab,cd,ef,gh,ij,kl,mn,op,qr,st,uv->")}, slices.Repeat([]ssa.Type{shaped("8", "8")}, 11),
			ops.Cost{FLOPs: 2*64*64 + 9*2*64, Bytes: 4 * (11*64 + 1)}},
		{"Einsum", attrs{ssa.StringAttr("equation", "aab->b")}, []ssa.Type{shaped("3", "3", "4")}, ops.Cost{FLOPs: 2 * 3 * 4, Bytes: 4 * (36 + 4)}},
		{"Einsum", attrs{ssa.StringAttr("equation", "abc,def->")}, slices.Repeat([]ssa.Type{shaped("4096", "4096", "4096")}, 2),
			ops.Cost{FLOPs: 1 << 56, Bytes: 4 * (2<<36 + 1)}},
		{"ReduceSum", nil, []ssa.Type{shaped("2", "3")}, ops.Cost{FLOPs: 6, Bytes: 4 * 7}},
		{"Softmax", nil, []ssa.Type{shaped("2", "3")}, ops.Cost{FLOPs: 30, Bytes: 4 * 12}},
		{"Det", nil, []ssa.Type{shaped("3", "3")}, ops.Cost{FLOPs: 18, Bytes: 4 * 9}},
	} {
		n, err := inferred(c.op, c.at, 1, c.in...)
		require.NoError(t, err, c.op)
		assert.Equal(t, c.want, ops.CostOf(n), c.op)
	}
}

func TestBitCastAlias(t *testing.T) {
	n, err := inferred("BitCast", to(ndarray.Int32), 1, shaped("4"))
	require.NoError(t, err)
	assert.Equal(t, []ops.Alias{{In: 0, Out: 0}}, ops.Aliases(n))
	n, err = inferred("BitCast", to(ndarray.Int4), 1, ssa.StaticTensor(ndarray.Uint4, 4))
	require.NoError(t, err)
	assert.Empty(t, ops.Aliases(n), "int4 is kept sign-extended in a byte")
}
