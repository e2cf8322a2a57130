package ops_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/generator"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// tensorNames are the operators of this family.
var tensorNames = []string{
	"AffineGrid", "CenterCropPad", "Col2Im", "Compress", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Expand", "Flatten",
	"Gather", "GatherElements", "GatherND", "GridSample", "Identity", "MaxRoiPool", "NonMaxSuppression", "NonZero", "OneHot", "Pad",
	"Reshape", "Resize", "ReverseSequence", "RoiAlign", "Scatter", "ScatterElements", "ScatterND", "Shape", "Size", "Slice",
	"SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose", "Unique", "Unsqueeze", "Upsample",
}

func axisAttr(i int64) attrs { return attrs{ssa.IntAttr("axis", i)} }

// cube is the numbers 0… in a shape.
func cube(shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64(i))
	}
	return a
}

// TestTensorValues lists corners: empty tensors, negative axes, clamping.
func TestTensorValues(t *testing.T) {
	none := array(ndarray.Float32, []int{0})
	for _, c := range []struct {
		name  string
		op    string
		at    attrs
		in    []*ndarray.Array
		shape []int
		want  []float64
	}{
		{"reshape infers", "Reshape", nil, []*ndarray.Array{cube(2, 3), i64(3, -1)}, []int{3, 2}, []float64{0, 1, 2, 3, 4, 5}},
		{"reshape copies", "Reshape", nil, []*ndarray.Array{cube(2, 3), i64(0, 3)}, []int{2, 3}, []float64{0, 1, 2, 3, 4, 5}},
		{"reshape keeps zero", "Reshape", attrs{ssa.IntAttr("allowzero", 1)}, []*ndarray.Array{array(ndarray.Float32, []int{0, 3}), i64(3, 0)}, []int{3, 0}, nil},
		{"reshape copies zero", "Reshape", nil, []*ndarray.Array{array(ndarray.Float32, []int{0, 3}), i64(0, 3)}, []int{0, 3}, nil},
		{"reshape to scalar", "Reshape", nil, []*ndarray.Array{vec(7), array(ndarray.Int64, []int{0})}, []int{}, []float64{7}},
		{"flatten at rank", "Flatten", axisAttr(2), []*ndarray.Array{cube(2, 3)}, []int{6, 1}, []float64{0, 1, 2, 3, 4, 5}},
		{"flatten scalar", "Flatten", axisAttr(0), []*ndarray.Array{num(3)}, []int{1, 1}, []float64{3}},
		{"flatten negative", "Flatten", axisAttr(-1), []*ndarray.Array{cube(2, 1, 3)}, []int{2, 3}, []float64{0, 1, 2, 3, 4, 5}},
		{"squeeze all", "Squeeze", nil, []*ndarray.Array{cube(1, 2, 1)}, []int{2}, []float64{0, 1}},
		{"squeeze none", "Squeeze", nil, []*ndarray.Array{cube(1, 2), array(ndarray.Int64, []int{0})}, []int{1, 2}, []float64{0, 1}},
		{"squeeze last", "Squeeze", nil, []*ndarray.Array{cube(1, 2, 1), i64(-1)}, []int{1, 2}, []float64{0, 1}},
		{"unsqueeze ends", "Unsqueeze", nil, []*ndarray.Array{cube(2), i64(-1, 0)}, []int{1, 2, 1}, []float64{0, 1}},
		{"transpose scalar", "Transpose", nil, []*ndarray.Array{num(4)}, []int{}, []float64{4}},
		{"transpose empty", "Transpose", nil, []*ndarray.Array{array(ndarray.Float32, []int{0, 2})}, []int{2, 0}, nil},
		{"slice backwards", "Slice", nil, []*ndarray.Array{cube(5), i64(-1), i64(math.MinInt64), i64(0), i64(-2)}, []int{3}, []float64{4, 2, 0}},
		{"slice to nothing", "Slice", nil, []*ndarray.Array{cube(5), i64(3), i64(2)}, []int{0}, nil},
		{"slice of nothing", "Slice", nil, []*ndarray.Array{none, i64(0), i64(9)}, []int{0}, nil},
		{"slice beyond", "Slice", nil, []*ndarray.Array{cube(2, 3), i64(1), i64(100), i64(-1)}, []int{2, 2}, []float64{1, 2, 4, 5}},
		{"gather scalar", "Gather", axisAttr(-1), []*ndarray.Array{cube(2, 3), i64s(-1)}, []int{2}, []float64{2, 5}},
		{"gather nothing", "Gather", nil, []*ndarray.Array{cube(2, 3), array(ndarray.Int64, []int{0})}, []int{0, 3}, nil},
		{"gather matrix", "Gather", nil, []*ndarray.Array{vec(5, 6, 7), array(ndarray.Int32, []int{2, 2}, 0, 2, 1, -3)}, []int{2, 2}, []float64{5, 7, 6, 5}},
		{"gathernd whole", "GatherND", nil, []*ndarray.Array{cube(2, 2), array(ndarray.Int64, []int{1, 0})}, []int{1, 2, 2}, []float64{0, 1, 2, 3}},
		{"concat with empty", "Concat", axisAttr(-1), []*ndarray.Array{cube(2, 1), array(ndarray.Float32, []int{2, 0}), cube(2, 2)}, []int{2, 3}, []float64{0, 0, 1, 1, 2, 3}},
		{"pad crops", "Pad", nil, []*ndarray.Array{cube(2, 3), i64(0, -1, 0, -1)}, []int{2, 1}, []float64{1, 4}},
		{"pad crops and pads", "Pad", nil, []*ndarray.Array{cube(3), i64(-1, 2), num(9)}, []int{4}, []float64{1, 2, 9, 9}},
		{"pad crops then repeats", "Pad", attrs{ssa.StringAttr("mode", "edge")}, []*ndarray.Array{cube(3), i64(-1, 2)}, []int{4}, []float64{1, 2, 2, 2}},
		{"pad reflects far", "Pad", attrs{ssa.StringAttr("mode", "reflect")}, []*ndarray.Array{cube(3), i64(0, 5)}, []int{8}, []float64{0, 1, 2, 1, 0, 1, 2, 1}},
		{"pad wraps", "Pad", attrs{ssa.StringAttr("mode", "wrap")}, []*ndarray.Array{cube(3), i64(4, 1)}, []int{8}, []float64{2, 0, 1, 2, 0, 1, 2, 0}},
		{"pad empty", "Pad", nil, []*ndarray.Array{none, i64(1, 1)}, []int{2}, []float64{0, 0}},
		{"tile none", "Tile", nil, []*ndarray.Array{cube(2), i64(0)}, []int{0}, nil},
		{"tile scalar", "Tile", nil, []*ndarray.Array{num(3), array(ndarray.Int64, []int{0})}, []int{}, []float64{3}},
		{"expand both ways", "Expand", nil, []*ndarray.Array{cube(2, 1), i64(2, 1, 3)}, []int{2, 2, 3}, []float64{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}},
		{"expand to empty", "Expand", nil, []*ndarray.Array{cube(1), i64(0)}, []int{0}, nil},
		{"shape reversed range", "Shape", attrs{ssa.IntAttr("start", 2), ssa.IntAttr("end", -3)}, []*ndarray.Array{cube(2, 3, 4)}, []int{0}, nil},
		{"shape clamped", "Shape", attrs{ssa.IntAttr("start", -9), ssa.IntAttr("end", 9)}, []*ndarray.Array{cube(2, 3)}, []int{2}, []float64{2, 3}},
		{"size of scalar", "Size", nil, []*ndarray.Array{num(1)}, []int{}, []float64{1}},
		{"nonzero NaN", "NonZero", nil, []*ndarray.Array{mat(1, 3, nan, 0, zero)}, []int{2, 1}, []float64{0, 0}},
		{"nonzero of empty", "NonZero", nil, []*ndarray.Array{array(ndarray.Float32, []int{2, 0})}, []int{2, 0}, nil},
		{"compress flat", "Compress", nil, []*ndarray.Array{cube(2, 2), bools(false, true, true)}, []int{2}, []float64{1, 2}},
		{"onehot out of range", "OneHot", nil, []*ndarray.Array{i64(0, 3, -1, -4), i64s(3), vec(5, 6)}, []int{4, 3}, []float64{6, 5, 5, 5, 5, 5, 5, 5, 6, 5, 5, 5}},
		{"depth to space", "DepthToSpace", attrs{ssa.IntAttr("blocksize", 2)}, []*ndarray.Array{cube(1, 4, 1, 1)}, []int{1, 1, 2, 2}, []float64{0, 1, 2, 3}},
		{"constant of empty shape", "ConstantOfShape", nil, []*ndarray.Array{array(ndarray.Int64, []int{0})}, []int{}, []float64{0}},
		{"crop and pad", "CenterCropPad", nil, []*ndarray.Array{cube(1, 4), i64(2, 1)}, []int{2, 1}, []float64{1, 0}},
		{"cache wraps around", "TensorScatter", attrs{ssa.StringAttr("mode", "circular"), ssa.IntAttr("axis", 1)},
			[]*ndarray.Array{cube(1, 4), mat(1, 2, 8, 9), i64(7)}, []int{1, 4}, []float64{9, 1, 2, 8}},
		{"nms keeps none", "NonMaxSuppression", nil, []*ndarray.Array{array(ndarray.Float32, []int{1, 1, 4}, 0, 0, 1, 1), array(ndarray.Float32, []int{1, 1, 1}, .9)},
			[]int{0, 3}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustEval(t, c.op, c.at, c.in...)
			assert.Equal(t, c.shape, append([]int{}, got.Shape...))
			sameNumbers(t, c.want, numbers(got), 0, c.name)
		})
	}
}

// TestTensorRejects lists operands that must give an error.
func TestTensorRejects(t *testing.T) {
	x := cube(2, 3)
	for _, c := range []struct {
		op string
		at attrs
		in []*ndarray.Array
	}{
		{"Reshape", nil, []*ndarray.Array{x, i64(-1, -1)}},
		{"Reshape", nil, []*ndarray.Array{x, i64(4, -1)}},
		{"Reshape", nil, []*ndarray.Array{x, i64(7)}},
		{"Reshape", nil, []*ndarray.Array{x, i64(-2, 3)}},
		{"Reshape", nil, []*ndarray.Array{x, i64(2, 3, 0)}},
		{"Reshape", attrs{ssa.IntAttr("allowzero", 1)}, []*ndarray.Array{array(ndarray.Float32, []int{0, 3}), i64(0, -1)}},
		{"Flatten", axisAttr(3), []*ndarray.Array{x}},
		{"Squeeze", nil, []*ndarray.Array{x, i64(0)}},
		{"Unsqueeze", nil, []*ndarray.Array{x, i64(0, 0)}},
		{"Transpose", attrs{ssa.IntsAttr("perm", 0, 0)}, []*ndarray.Array{x}},
		{"Transpose", attrs{ssa.IntsAttr("perm", 0)}, []*ndarray.Array{x}},
		{"Slice", nil, []*ndarray.Array{x, i64(0), i64(1), i64(0), i64(0)}},
		{"Slice", nil, []*ndarray.Array{x, i64(0, 0), i64(1)}},
		{"Gather", nil, []*ndarray.Array{x, i64(2)}},
		{"GatherElements", nil, []*ndarray.Array{x, array(ndarray.Int64, []int{1, 4})}},
		{"GatherND", nil, []*ndarray.Array{x, array(ndarray.Int64, []int{1, 3})}},
		{"Concat", axisAttr(0), []*ndarray.Array{x, cube(2, 2)}},
		{"Concat", axisAttr(0), []*ndarray.Array{x, as(ndarray.Float64, x)}},
		{"Split", nil, []*ndarray.Array{x, i64(1)}},
		{"Pad", nil, []*ndarray.Array{x, i64(1, 1)}},
		{"Pad", nil, []*ndarray.Array{x, i64(-2, 0, -2, 0)}},
		{"Pad", attrs{ssa.StringAttr("mode", "mirror")}, []*ndarray.Array{x, i64(1, 1, 1, 1)}},
		{"Pad", attrs{ssa.StringAttr("mode", "edge")}, []*ndarray.Array{array(ndarray.Float32, []int{0}), i64(1, 1)}},
		{"Tile", nil, []*ndarray.Array{x, i64(-1, 1)}},
		{"Tile", nil, []*ndarray.Array{x, i64(math.MaxInt64, math.MaxInt64)}},
		{"Expand", nil, []*ndarray.Array{x, i64(4, 3)}},
		{"Expand", nil, []*ndarray.Array{x, i64(math.MaxInt64, 1, 1)}},
		{"ConstantOfShape", nil, []*ndarray.Array{i64(-1)}},
		{"ConstantOfShape", nil, []*ndarray.Array{i64(math.MaxInt64, math.MaxInt64)}},
		{"DepthToSpace", attrs{ssa.IntAttr("blocksize", 2)}, []*ndarray.Array{cube(1, 3, 1, 1)}},
		{"ReverseSequence", nil, []*ndarray.Array{x, i64(1, 2, 3)}},
		{"Resize", nil, []*ndarray.Array{x, nil, vec(1, -1)}},
		{"Resize", nil, []*ndarray.Array{x, nil, vec(1, nan)}},
		{"Resize", nil, []*ndarray.Array{x}},
		{"ScatterElements", axisAttr(0), []*ndarray.Array{x, array(ndarray.Int64, []int{1, 1}, 5), mat(1, 1, 9)}},
		{"TensorScatter", attrs{ssa.IntAttr("axis", 1)}, []*ndarray.Array{x, cube(2, 2), i64(0, 2)}},
		{"Constant", attrs{ssa.IntAttr("value_int", 1), ssa.FloatAttr("value_float", 1)}, nil},
	} {
		_, err := evalOp(t, c.op, c.at, 1, c.in...)
		assert.Errorf(t, err, "%s %v", c.op, c.in)
	}
}

// TestTensorMovesAllTypes moves elements of every type through the operators
// that only move, and expects them where float32 has them.
func TestTensorMovesAllTypes(t *testing.T) {
	block := attrs{ssa.IntAttr("blocksize", 2)}
	for _, c := range []struct {
		op   string
		at   attrs
		rest []*ndarray.Array // after the data operand
		out  int
	}{
		{"Identity", nil, nil, 1}, {"Reshape", nil, []*ndarray.Array{i64(-1)}, 1}, {"Transpose", nil, nil, 1}, {"Flatten", nil, nil, 1},
		{"Slice", nil, []*ndarray.Array{i64(3), i64(-99), i64(1), i64(-2)}, 1}, {"Split", axisAttr(1), nil, 2},
		{"Gather", axisAttr(1), []*ndarray.Array{i64(2, 0)}, 1}, {"GatherElements", nil, []*ndarray.Array{array(ndarray.Int64, []int{1, 2, 1, 1})}, 1},
		{"GatherND", nil, []*ndarray.Array{i64(0, 3)}, 1}, {"Pad", nil, []*ndarray.Array{i64(0, 0, 1, 0, 0, 0, 0, 2)}, 1},
		{"Pad", attrs{ssa.StringAttr("mode", "edge")}, []*ndarray.Array{i64(0, 0, 1, 0, 0, 0, 0, 2)}, 1},
		{"Tile", nil, []*ndarray.Array{i64(1, 2, 1, 2)}, 1}, {"Expand", nil, []*ndarray.Array{i64(2, 1, 1, 1)}, 1},
		{"DepthToSpace", block, nil, 1}, {"SpaceToDepth", block, nil, 1}, {"Compress", axisAttr(1), []*ndarray.Array{bools(false, true, true)}, 1},
		{"ReverseSequence", nil, []*ndarray.Array{i64(1, 1, 0, 1)}, 1}, {"CenterCropPad", nil, []*ndarray.Array{i64(1, 2, 3, 4)}, 1},
		{"Resize", nil, []*ndarray.Array{nil, vec(1, 1, 2, 1)}, 1}, {"ScatterND", nil, nil, 1},
	} {
		shape := []int{1, 4, 2, 2}
		want, err := evalOp(t, c.op, c.at, c.out, moveOperands(c.op, array(ndarray.Float32, shape, oneTwo(16)...), c.rest)...)
		require.NoError(t, err, c.op)
		for dt := ndarray.Float32; dt < ndarray.NumDTypes; dt++ {
			x := array(dt, shape, oneTwo(16)...)
			if dt == ndarray.String {
				for i, v := range oneTwo(16) {
					x.Str[i] = fmt.Sprint(v)
				}
			}
			got, err := evalOp(t, c.op, c.at, c.out, moveOperands(c.op, x, c.rest)...)
			require.NoErrorf(t, err, "%s of %s", c.op, dt)
			for k := range want {
				require.Equal(t, want[k].Shape, got[k].Shape)
				for i, v := range numbers(want[k]) {
					if dt == ndarray.String {
						require.Equal(t, map[float64]string{0: "", 1: "1", 2: "2"}[v], got[k].Str[i], c.op)
					} else if dt != ndarray.Float8E8M0 || v != 0 { // that type has no zero
						require.Equalf(t, array(dt, nil, v).Float(0), got[k].Float(i), "%s of %s, element %d", c.op, dt, i)
					}
				}
			}
		}
	}
}

// oneTwo is ones and twos, which every element type but bool holds apart.
func oneTwo(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(1 + i*i%7%2)
	}
	return out
}

func moveOperands(op string, x *ndarray.Array, rest []*ndarray.Array) []*ndarray.Array {
	if op == "ScatterND" {
		row := ndarray.Must(x.DType, 1, 4, 2, 2)
		copy(row.Data, x.Data)
		copy(row.Str, x.Str)
		return []*ndarray.Array{x, array(ndarray.Int64, []int{1, 1}), row}
	}
	return append([]*ndarray.Array{x}, rest...)
}

// TestScatterReductions covers every reduction over the classes of element types.
func TestScatterReductions(t *testing.T) {
	for _, c := range []struct {
		reduction string
		dt        ndarray.DType
		want      []float64 // of data [1 5], updates 3 and 4 at position 0
	}{
		{"add", ndarray.Float32, []float64{8, 5}}, {"mul", ndarray.Float64, []float64{12, 5}}, {"max", ndarray.Float16, []float64{4, 5}},
		{"min", ndarray.BFloat16, []float64{1, 5}}, {"add", ndarray.Int8, []float64{8, 5}}, {"mul", ndarray.Uint64, []float64{12, 5}},
		{"max", ndarray.Uint64, []float64{4, 5}}, {"min", ndarray.Int32, []float64{1, 5}}, {"add", ndarray.Complex64, []float64{8, 5}},
		{"add", ndarray.Bool, []float64{1, 1}}, {"none", ndarray.Int64, []float64{4, 5}}, {"add", ndarray.Int4, []float64{-8, 5}},
	} {
		at := attrs{ssa.StringAttr("reduction", c.reduction)}
		x, up := typed(c.dt, 1, 5), typed(c.dt, 3, 4)
		got := mustEval(t, "ScatterElements", at, x, i64(0, 0), up)
		sameNumbers(t, c.want, numbers(got), 0, c.reduction+" "+c.dt.String())
		got = mustEval(t, "ScatterND", at, x, array(ndarray.Int64, []int{2, 1}), up)
		sameNumbers(t, c.want, numbers(got), 0, c.reduction+" "+c.dt.String())
	}
	half := mustEval(t, "ScatterElements", attrs{ssa.StringAttr("reduction", "add")}, typed(ndarray.Float16, 2048), i64(0, 0), typed(ndarray.Float16, 1, 1))
	assert.Equal(t, []float64{2050}, numbers(half), "half types add in float32 and round once")
	_, err := evalOp(t, "ScatterElements", attrs{ssa.StringAttr("reduction", "max")}, 1, typed(ndarray.Complex64, 1), i64(0), typed(ndarray.Complex64, 1))
	assert.Error(t, err, "complex numbers have no order")
}

// TestUniqueOrders checks NaN, both orders and all results.
func TestUniqueOrders(t *testing.T) {
	x := vec(2, nan, 1, 2, nan, zero)
	for _, c := range []struct {
		sorted int64
		want   [4][]float64
	}{
		{1, [4][]float64{{zero, 1, 2, nan}, {5, 2, 0, 1}, {2, 3, 1, 2, 3, 0}, {1, 1, 2, 2}}},
		{0, [4][]float64{{2, nan, 1, zero}, {0, 1, 2, 5}, {0, 1, 2, 0, 1, 3}, {2, 2, 1, 1}}},
	} {
		out, err := evalOp(t, "Unique", attrs{ssa.IntAttr("sorted", c.sorted)}, 4, x)
		require.NoError(t, err)
		for i, w := range c.want {
			sameNumbers(t, w, numbers(out[i]), 0, fmt.Sprint("result ", i))
		}
	}
}

// TestSplitForms covers lengths, equal parts and a shorter end.
func TestSplitForms(t *testing.T) {
	parts := func(k int64) attrs { return attrs{ssa.IntAttr("num_outputs", k)} }
	for _, c := range []struct {
		at    attrs
		n     int
		split *ndarray.Array
		want  []int
	}{
		{nil, 7, i64(2, 0, 5), []int{2, 0, 5}},
		{parts(3), 7, nil, []int{3, 3, 1}},
		{parts(3), 6, nil, []int{2, 2, 2}},
		{parts(4), 5, nil, []int{2, 2, 1, 0}},
		{nil, 6, nil, []int{3, 3}},
	} {
		in := []*ndarray.Array{cube(c.n)}
		if c.split != nil {
			in = append(in, c.split)
		}
		out, err := evalOp(t, "Split", c.at, len(c.want), in...)
		require.NoError(t, err)
		at := 0.0
		for i, w := range c.want {
			require.Equal(t, []int{w}, out[i].Shape)
			for _, v := range numbers(out[i]) {
				require.Equal(t, at, v)
				at++
			}
		}
	}
}

// TestConstantForms reads every attribute a Constant may have.
func TestConstantForms(t *testing.T) {
	sparse := &ndarray.Sparse{Shape: []int{2, 3}, Values: vec(5, 7), Indices: array(ndarray.Int64, []int{2, 2}, 0, 1, 1, 2)}
	for _, c := range []struct {
		at   ssa.Attr
		want *ndarray.Array
	}{
		{ssa.TensorAttr("value", ssa.Int64s(1, 2)), i64(1, 2)},
		{ssa.IntAttr("value_int", 3), i64s(3)},
		{ssa.IntsAttr("value_ints", 3, 4), i64(3, 4)},
		{ssa.FloatAttr("value_float", 0.5), num(0.5)},
		{ssa.FloatsAttr("value_floats", 1, 2), vec(1, 2)},
		{ssa.StringAttr("value_string", "a"), ndarray.Strings([]string{"a"})},
		{ssa.StringsAttr("value_strings", "a", "b"), ndarray.Strings([]string{"a", "b"}, 2)},
		{ssa.Attr{Name: "sparse_value", Kind: ssa.AttrOther, Other: sparse}, mat(2, 3, 0, 5, 0, 0, 0, 7)},
	} {
		got := mustEval(t, "Constant", attrs{c.at})
		assert.Equal(t, c.want.String(), got.String(), c.at.Name)
		assert.Equal(t, c.want.Str, got.Str)
		sameNumbers(t, numbers(c.want), numbers(got), 0, c.at.Name)
	}
	for _, bad := range []*ndarray.Array{i64(6), array(ndarray.Int64, []int{1, 2}, 2, 0), array(ndarray.Int64, []int{1, 1}), i64(0, 1)} {
		_, err := generator.DenseOf(&ndarray.Sparse{Shape: []int{2, 3}, Values: vec(5), Indices: bad})
		assert.Errorf(t, err, "indices %v", bad)
	}
}

// TestResizeTypes checks rounding and saturation of integer images.
func TestResizeTypes(t *testing.T) {
	at := attrs{ssa.StringAttr("mode", "cubic")}
	x := array(ndarray.Uint8, []int{4}, 0, 255, 255, 0)
	assert.Equal(t, []float64{0, 58, 197, 255, 255, 197, 58, 0}, numbers(mustEval(t, "Resize", at, x, nil, vec(2))), "overshoot saturates")
	up := mustEval(t, "Resize", attrs{ssa.StringAttr("mode", "linear")}, array(ndarray.Int8, []int{2}, 1, 2), nil, vec(2))
	assert.Equal(t, []float64{1, 1, 2, 2}, numbers(up), "1.25 and 1.75 round to the nearest")
	s := mustEval(t, "Resize", nil, ndarray.Strings([]string{"a", "b"}, 2), nil, vec(2))
	assert.Equal(t, []string{"a", "a", "b", "b"}, s.Str)
	_, err := evalOp(t, "Resize", at, 1, typed(ndarray.Complex64, 1, 2), nil, vec(2))
	assert.ErrorIs(t, err, ops.ErrUnsupported)
}

// TestTensorNeverPanics feeds odd operands and attributes.
func TestTensorNeverPanics(t *testing.T) {
	neverPanics(t, "", tensorNames, attrs{
		ssa.IntAttr("axis", 1), ssa.IntAttr("blocksize", 0), ssa.IntsAttr("perm", 1, 1), ssa.StringAttr("mode", "edge"), ssa.IntAttr("num_outputs", 2),
		ssa.IntAttr("allowzero", 1), ssa.IntsAttr("axes", -1), ssa.IntAttr("batch_dims", 1), ssa.StringAttr("reduction", "add"),
		ssa.IntsAttr("pooled_shape", 0, math.MaxInt64), ssa.IntAttr("output_height", -1), ssa.StringAttr("coordinate_transformation_mode", "align_corners"),
		ssa.IntsAttr("strides", 0, 1), ssa.IntAttr("value_int", 4), ssa.IntAttr("start", math.MinInt64), ssa.IntAttr("end", math.MaxInt64),
	})
}

// neverPanics runs operators of a domain on every pair of odd operands: an error
// or a result may come back, never a panic.
func neverPanics(t *testing.T, domain string, names []string, odd attrs) {
	operands := []*ndarray.Array{
		nil, num(1), vec(), vec(1, 2, 3), mat(2, 3, 1, nan, -3, inf, 5, 6), array(ndarray.Float32, []int{0, 4}), array(ndarray.Float32, []int{1, 4, 2, 2}, 1, 2),
		i64(-1), i64s(0), i64s(math.MinInt64), i64(1, 1), i64(1 << 60), array(ndarray.Int64, []int{1, 2}), bools(true, false),
		ndarray.Strings([]string{"x", "y"}, 2), typed(ndarray.Float8E4M3FN, 1, 2), typed(ndarray.Int4, -8), typed(ndarray.Complex64, 1, 2), typed(ndarray.Float64, 3),
	}
	for _, name := range names {
		o := ops.Lookup(domain, name)
		require.NotNil(t, o, name)
		eachOdd(o, operands, 4, func(in []*ndarray.Array) {
			for _, at := range []attrs{nil, odd} {
				callOddIn(t, domain, o, at, in)
			}
		})
	}
}

// callOddIn evaluates one node and looks for a panic only. The node has the odd
// attributes that its schema accepts: kernels rely on inference to refuse the others,
// and nodes without a required one.
func callOddIn(t *testing.T, domain string, o *ops.Op, at attrs, in []*ndarray.Array) {
	t.Helper()
	at = slices.DeleteFunc(slices.Clone(at), func(a ssa.Attr) bool { return o.CheckAttr(&a, 0) != nil })
	c := oddCall(o, domain, at, in, func(g *ssa.Graph, a *ndarray.Array) *ssa.Value { return g.AddConst("x", ssa.NewConstant(a)) })
	var refused *ops.StructureError
	require.NotPanicsf(t, func() {
		if err := ops.Infer(c.Node); !errors.As(err, &refused) {
			refused = nil
		}
	}, "%s of %v", o.Name, in)
	if refused != nil { // a required attribute is missing
		return
	}
	var p *ops.PanicError
	if err := ops.Eval(c); errors.As(err, &p) {
		assert.Failf(t, "panic", "%s of %v: %v\n%s", o.Name, in, p.Value, p.Stack)
	}
}
