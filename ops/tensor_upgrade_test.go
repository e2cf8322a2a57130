package ops_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestTensorUpgrades runs nodes as old operator sets write them.
func TestTensorUpgrades(t *testing.T) {
	ints := func(name string, v ...int64) ssa.Attr { return ssa.IntsAttr(name, v...) }
	str, x := ssa.StringAttr, cube(2, 3)
	for _, c := range []struct {
		name    string
		version int
		op      string
		at      attrs
		in      []*ndarray.Array
		shape   []int
		want    []float64
	}{
		{"reshape-1", 4, "Reshape", attrs{ints("shape", 3, -1), ints("consumed_inputs", 0)}, []*ndarray.Array{x}, []int{3, 2}, []float64{0, 1, 2, 3, 4, 5}},
		{"squeeze-11", 11, "Squeeze", attrs{ints("axes", -1)}, []*ndarray.Array{cube(2, 1)}, []int{2}, []float64{0, 1}},
		{"unsqueeze-11", 11, "Unsqueeze", attrs{ints("axes", 0)}, []*ndarray.Array{cube(2)}, []int{1, 2}, []float64{0, 1}},
		{"slice-1", 9, "Slice", attrs{ints("starts", 1, -2), ints("ends", 9, 3)}, []*ndarray.Array{x}, []int{1, 2}, []float64{4, 5}},
		{"slice-1 axes", 9, "Slice", attrs{ints("starts", 1), ints("ends", 2), ints("axes", 1)}, []*ndarray.Array{x}, []int{2, 1}, []float64{1, 4}},
		{"concat-1", 3, "Concat", nil, []*ndarray.Array{cube(1, 2), cube(1, 1)}, []int{1, 3}, []float64{0, 1, 0}},
		{"split-2", 11, "Split", attrs{ints("split", 2, 1), ssa.IntAttr("axis", 1)}, []*ndarray.Array{x}, []int{2, 2}, []float64{0, 1, 3, 4}},
		{"pad-1", 1, "Pad", attrs{ints("paddings", 0, 1, 0, 0), ssa.FloatAttr("value", 7)}, []*ndarray.Array{cube(1, 2)}, []int{1, 3}, []float64{7, 0, 1}},
		{"pad-2", 10, "Pad", attrs{ints("pads", 0, 1, 0, 0), str("mode", "edge")}, []*ndarray.Array{cube(1, 2)}, []int{1, 3}, []float64{0, 0, 1}},
		{"upsample-1", 1, "Upsample", attrs{ssa.FloatAttr("height_scale", 1), ssa.FloatAttr("width_scale", 2)}, []*ndarray.Array{cube(1, 1, 1, 2)}, []int{1, 1, 1, 4}, []float64{0, 0, 1, 1}},
		{"upsample-7", 7, "Upsample", attrs{ssa.FloatsAttr("scales", 2), str("mode", "bilinear")}, []*ndarray.Array{cube(2)}, []int{4}, []float64{0, 0.5, 1, 1}},
		{"upsample-9", 9, "Upsample", nil, []*ndarray.Array{cube(2), vec(2)}, []int{4}, []float64{0, 0, 1, 1}},
		{"resize-10 shrinks", 10, "Resize", nil, []*ndarray.Array{cube(4), vec(0.6)}, []int{2}, []float64{0, 2}},
		{"resize-10 both ways", 10, "Resize", nil, []*ndarray.Array{cube(1, 4), vec(2, 0.6)}, []int{2, 2}, []float64{0, 2, 0, 2}},
		{"resize-11", 11, "Resize", attrs{str("coordinate_transformation_mode", "tf_half_pixel_for_nn"), str("nearest_mode", "floor")},
			[]*ndarray.Array{cube(5), vec(), vec(0.5)}, []int{2}, []float64{1, 3}},
		{"scatter-9", 9, "Scatter", axisAttr(1), []*ndarray.Array{cube(1, 3), array(ndarray.Int64, []int{1, 1}, 2), mat(1, 1, 9)}, []int{1, 3}, []float64{0, 1, 9}},
		{"gridsample-16", 16, "GridSample", attrs{str("mode", "bilinear")}, []*ndarray.Array{cube(1, 1, 1, 2), array(ndarray.Float32, []int{1, 1, 1, 2})}, []int{1, 1, 1, 1}, []float64{0.5}},
		{"roialign-10", 10, "RoiAlign", nil, []*ndarray.Array{cube(1, 1, 2, 2), mat(1, 4, 0, 0, 2, 2), i64(0)}, []int{1, 1, 1, 1}, []float64{2.25}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := ssa.NewGraph(c.op)
			var vs []*ssa.Value
			for _, a := range c.in {
				vs = append(vs, g.AddConst("x", ssa.NewConstant(a)))
			}
			count := 1
			if c.op == "Split" {
				count = 2
			}
			n := g.NewNode(c.op, vs, count, c.at...)
			g.Results = n.Out[:1]
			modernize(t, g, n, c.version)
			got := runGraph(t, g)
			assert.Equal(t, c.shape, got.Shape)
			sameNumbers(t, c.want, numbers(got), 1e-6, c.name)
		})
	}
}

// modernize applies the upgrade rules of a node written for an operator set; a
// rule may change the operator.
func modernize(t *testing.T, g *ssa.Graph, n *ssa.Node, version int) {
	t.Helper()
	n.Version = version
	require.NoError(t, ops.Modernize(t.Context(), g, n))
	require.NoError(t, ops.InferGraph(g))
}

// TestResize10Unknown gives scales only when running: pixels come from below where
// it enlarges and from above where it shrinks all the same.
func TestResize10Unknown(t *testing.T) {
	g := ssa.NewGraph("Resize")
	x := g.AddConst("x", ssa.NewConstant(cube(1, 4)))
	n := g.NewNode("Resize", []*ssa.Value{x, g.AddParam("scales", ssa.StaticTensor(ndarray.Float32, 2))}, 1)
	g.Results = n.Out
	modernize(t, g, n, 10)
	for _, c := range []struct{ scales, want []float64 }{
		{[]float64{1, 0.6}, []float64{0, 2}}, {[]float64{1, 1.5}, []float64{0, 0, 1, 2, 2, 3}}, {[]float64{2, 0.6}, []float64{0, 2, 0, 2}}, {[]float64{1, 1}, []float64{0, 1, 2, 3}},
	} {
		out, err := ops.Interpret(context.Background(), g, []ndarray.Value{vec(c.scales...)}, nil)
		require.NoError(t, err)
		assert.Equal(t, c.want, numbers(out[0].(*ndarray.Array)), "%v", c.scales)
	}
}

// TestTile1 checks counts that are known only when running.
func TestTile1(t *testing.T) {
	for _, known := range []bool{true, false} {
		g := ssa.NewGraph("Tile")
		x := g.AddConst("x", ssa.NewConstant(cube(2, 2)))
		times := g.AddConst("tiles", ssa.ScalarConst(int64(2)))
		var args []ndarray.Value
		if !known {
			times = g.AddParam("tiles", ssa.StaticTensor(ndarray.Int64))
			args = append(args, i64s(2))
		}
		n := g.NewNode("Tile", []*ssa.Value{x, times, g.AddConst("axis", ssa.ScalarConst(int64(1)))}, 1)
		g.Results = n.Out
		modernize(t, g, n, 5)
		out, err := ops.Interpret(context.Background(), g, args, nil)
		require.NoError(t, err)
		assert.Equal(t, []float64{0, 1, 0, 1, 2, 3, 2, 3}, numbers(out[0].(*ndarray.Array)))
	}
}

// TestScan8 runs the batched Scan: running sums over time, backwards too, with
// and without lengths.
func TestScan8(t *testing.T) {
	// two sequences of three steps, one feature
	x := array(ndarray.Float32, []int{2, 3, 1}, 1, 2, 3, 10, 20, 30)
	for _, c := range []struct {
		name        string
		lens        *ndarray.Array
		direction   int64
		state, sums []float64
	}{
		{"whole", nil, 0, []float64{106, 160}, []float64{101, 103, 106, 110, 130, 160}},
		{"lengths", i64(2, 3), 0, []float64{103, 160}, []float64{101, 103, 0, 110, 130, 160}},
		{"backwards", i64(2, 3), 1, []float64{103, 160}, []float64{102, 103, 0, 130, 150, 160}},
		{"nothing", i64(0, 1), 0, []float64{100, 110}, []float64{0, 0, 0, 110, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := ssa.NewGraph("body")
			s, e := body.AddParam("s", ssa.StaticTensor(ndarray.Float32, 1)), body.AddParam("e", ssa.StaticTensor(ndarray.Float32, 1))
			sum := body.NewNode("Add", []*ssa.Value{s, e}, 1).Out[0]
			out := body.NewNode("Identity", []*ssa.Value{sum}, 1).Out[0]
			body.Results = []*ssa.Value{sum, out}

			g := ssa.NewGraph("scan")
			var lens *ssa.Value
			if c.lens != nil {
				lens = g.AddConst("lens", ssa.NewConstant(c.lens))
			}
			state := g.AddConst("state", ssa.NewConstant(mat(2, 1, 100, 100)))
			n := g.NewNode("Scan", []*ssa.Value{lens, state, g.AddConst("x", ssa.NewConstant(x))}, 2,
				ssa.IntAttr("num_scan_inputs", 1), ssa.IntsAttr("directions", c.direction))
			n.AddBody("body", body)
			g.Results = n.Out
			modernize(t, g, n, 8)
			got, err := ops.Interpret(context.Background(), g, nil, nil)
			require.NoError(t, err)
			assert.Equal(t, c.state, numbers(got[0].(*ndarray.Array)))
			assert.Equal(t, []int{2, 3, 1}, got[1].(*ndarray.Array).Shape)
			assert.Equal(t, c.sums, numbers(got[1].(*ndarray.Array)))
		})
	}
}
