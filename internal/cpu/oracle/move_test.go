package oracle

import (
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var widths = []ndarray.DType{ndarray.Int8, ndarray.Float16, ndarray.Float32, ndarray.Int64, ndarray.Complex128}

func TestViews(t *testing.T) {
	runCases(t, []opCase{
		{op: "Identity", in: []arg{f32s(3, 5)}},
		{op: "Identity", name: "large", in: []arg{f32s(300, 500)}},
		{op: "Identity", name: "empty", in: []arg{f32s(0, 5)}},
		{op: "Reshape", in: []arg{f32s(3, 4), ints(2, -1)}},
		{op: "Flatten", in: []arg{f32s(3, 4, 5)}, attrs: []ssa.Attr{ssa.IntAttr("axis", 2)}},
		{op: "Squeeze", in: []arg{tensor(ndarray.Int64, 1, 7, 1)}},
		{op: "Unsqueeze", in: []arg{boolean(7), ints(0, 2)}},
		{op: "Dropout", in: []arg{f32s(4, 5)}, outs: 2},
		{op: "Dropout", in: []arg{f32s(4, 5), scalarOf(ndarray.Float32, 0.5), scalarOf(ndarray.Bool, 0)}},
		{op: "Dropout", in: []arg{f32s(4, 5), scalarOf(ndarray.Float32, 0.5), scalarOf(ndarray.Bool, 1)}, left: true},
	})
}

func TestConcatSplit(t *testing.T) {
	axis := func(a int64) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("axis", a)} }
	runCases(t, []opCase{
		{op: "Concat", in: []arg{f32s(2, 3), f32s(2, 5), f32s(2, 1)}, attrs: axis(1)},
		{op: "Concat", in: []arg{f32s(1, 300, 100), f32s(1, 200, 100)}, attrs: axis(1)},
		{op: "Concat", in: []arg{f32s(0, 3), f32s(4, 3)}, attrs: axis(0)},
		{op: "Concat", in: []arg{f32s(2, 3, 4).c(), f32s(2, 3, 4)}, attrs: axis(-2)},
		{op: "Concat", name: "single", in: []arg{f32s(2, 3)}, attrs: axis(1)},
		{op: "Split", in: []arg{f32s(2, 9)}, outs: 3, attrs: axis(1)},
		{op: "Split", in: []arg{f32s(10, 3)}, outs: 4, attrs: append(axis(0), ssa.IntAttr("num_outputs", 4))},
		{op: "Split", in: []arg{f32s(2, 9, 3), ints(2, 3, 4)}, outs: 3, attrs: axis(-2)},
		{op: "Split", in: []arg{f32s(2, 9, 3), ints(2, 3, 4)}, outs: 3, unused: []int{1}, attrs: axis(-2)},
		{op: "Split", in: []arg{f32s(1, 9, 3), ints(2, 0, 7)}, outs: 3, attrs: axis(1)},
	})
	runRandom(t, 20, func(r *rand.Rand) opCase {
		rank := 1 + r.Intn(4)
		shape := randomShape(r, rank, 6)
		at, dt := r.Intn(rank), pick(r, widths...)
		k := opCase{op: "Concat", attrs: axis(int64(at))}
		for range 1 + r.Intn(4) {
			s := append([]int(nil), shape...)
			s[at] = r.Intn(7)
			k.in = append(k.in, tensor(dt, s...))
		}
		return k
	})
}

func TestSlice(t *testing.T) {
	runCases(t, []opCase{
		{op: "Slice", in: []arg{f32s(10), ints(2), ints(7)}},
		{op: "Slice", in: []arg{f32s(10), ints(-1), ints(-100), ints(0), ints(-1)}},
		{op: "Slice", in: []arg{f32s(10), ints(-1), ints(-9223372036854775808), ints(0), ints(-3)}},
		{op: "Slice", in: []arg{f32s(10), ints(3), ints(100), ints(0), ints(9223372036854775807)}},
		{op: "Slice", in: []arg{f32s(4, 300, 200), ints(1, 10), ints(3, 290), ints(0, 1)}},
		{op: "Slice", in: []arg{f32s(4, 6), ints(5), ints(2)}},
		{op: "Slice", in: []arg{f32s(1, 64, 20), ints(0), ints(32), ints(1)}},
	})
	runRandom(t, 60, func(r *rand.Rand) opCase {
		rank := 1 + r.Intn(4)
		shape := randomShape(r, rank, 9)
		var starts, ends, axes, steps []int64
		for _, a := range r.Perm(rank)[:1+r.Intn(rank)] {
			bound := func() int64 { return int64(r.Intn(3*shape[a]+1) - shape[a] - shape[a]/2) }
			starts, ends = append(starts, bound()), append(ends, bound())
			axes, steps = append(axes, int64(a)), append(steps, pick(r, int64(1), 2, 3, -1, -2))
		}
		return opCase{op: "Slice", in: []arg{tensor(pick(r, widths...), shape...), ints(starts...), ints(ends...), ints(axes...), ints(steps...)}}
	})
}

func TestExpandTile(t *testing.T) {
	runCases(t, []opCase{
		{op: "Expand", in: []arg{f32s(3, 1), ints(2, 3, 70000)}},
		{op: "Expand", in: []arg{boolean(1), ints(5, 4)}},
		{op: "Expand", in: []arg{f32s(), ints(3)}},
		{op: "Expand", in: []arg{tensor(ndarray.Int64, 4, 1, 3), ints(1, 5, 1)}},
		{op: "Tile", in: []arg{f32s(2, 3), ints(2, 3)}},
		{op: "Tile", in: []arg{tensor(ndarray.Uint8, 2, 3, 4), ints(1, 300, 1)}},
	})
	runRandom(t, 20, func(r *rand.Rand) opCase {
		shape := randomShape(r, 1+r.Intn(4), 4)
		times := make([]int64, len(shape))
		for i := range times {
			times[i] = 1 + int64(r.Intn(3))
		}
		return opCase{op: "Tile", in: []arg{tensor(pick(r, widths...), shape...), ints(times...)}}
	})
}

func TestTranspose(t *testing.T) {
	perm := func(p ...int64) []ssa.Attr { return []ssa.Attr{ssa.IntsAttr("perm", p...)} }
	runCases(t, []opCase{
		{op: "Transpose", in: []arg{f32s(3, 5)}},
		{op: "Transpose", in: []arg{f32s(2, 300, 70)}, attrs: perm(0, 2, 1)},
		{op: "Transpose", in: []arg{f32s(2, 10, 4, 64)}, attrs: perm(0, 2, 1, 3)},
		{op: "Transpose", in: []arg{f32s(2, 33, 4, 17)}, attrs: perm(0, 2, 3, 1)},
		{op: "Transpose", in: []arg{f32s(1, 3, 1, 4)}, attrs: perm(2, 1, 0, 3)},
		{op: "DepthToSpace", in: []arg{f32s(2, 12, 3, 5)}, attrs: []ssa.Attr{ssa.IntAttr("blocksize", 2)}},
		{op: "DepthToSpace", in: []arg{f32s(2, 12, 3, 5)}, attrs: []ssa.Attr{ssa.IntAttr("blocksize", 2), ssa.StringAttr("mode", "CRD")}},
		{op: "SpaceToDepth", in: []arg{f32s(2, 3, 6, 4)}, attrs: []ssa.Attr{ssa.IntAttr("blocksize", 2)}},
		{op: "SpaceToDepth", in: []arg{f32s(2, 3, 6, 4)}, attrs: []ssa.Attr{ssa.IntAttr("blocksize", 2), ssa.StringAttr("mode", "CRD")}},
	})
	runRandom(t, 60, func(r *rand.Rand) opCase {
		rank := 2 + r.Intn(4)
		p := make([]int64, rank)
		for i, k := range r.Perm(rank) {
			p[i] = int64(k)
		}
		return opCase{op: "Transpose", in: []arg{tensor(pick(r, widths...), randomShape(r, rank, 20-3*rank)...)}, attrs: perm(p...)}
	})
}

func TestGather(t *testing.T) {
	axis := func(a int64) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("axis", a)} }
	i64, i32 := ndarray.Int64, ndarray.Int32
	runCases(t, []opCase{
		{op: "Gather", in: []arg{f32s(100, 64), indices(i64, 100, 3, 7)}},
		{op: "Gather", in: []arg{f32s(5, 8, 3), indices(i32, 8, 4)}, attrs: axis(1)},
		{op: "Gather", in: []arg{f32s(5, 8), indices(i64, 8, 4)}, attrs: axis(-1)},
		{op: "Gather", in: []arg{tensor(i64, 5), scalarOf(i64, -2)}},
		{op: "Gather", in: []arg{f32s(1, 6, 4), scalarOf(i64, 3)}, attrs: axis(1)},
		{op: "Gather", in: []arg{f32s(300, 400), indices(i64, 400, 333)}, attrs: axis(1)},
		{op: "Gather", name: "outside", in: []arg{f32s(5), ints(1, 5)}, fails: true},
		{op: "Gather", name: "below", in: []arg{f32s(5), ints(-6)}, fails: true},
		{op: "GatherElements", in: []arg{f32s(5, 8), indices(i64, 8, 5, 3)}, attrs: axis(1)},
		{op: "GatherElements", in: []arg{f32s(5, 8, 4), indices(i32, 5, 7, 8, 2)}, attrs: axis(0)},
		{op: "GatherElements", in: []arg{boolean(5, 8), indices(i64, 8, 4, 3)}, attrs: axis(-1)},
		{op: "GatherND", in: []arg{f32s(5, 8, 4), indices(i64, 5, 3, 2)}},
		{op: "GatherND", in: []arg{f32s(5, 8, 4), indices(i64, 4, 7, 3)}},
		{op: "GatherND", in: []arg{f32s(2, 8, 4), indices(i32, 8, 2, 3, 1)}, attrs: []ssa.Attr{ssa.IntAttr("batch_dims", 1)}},
	})
}

func TestScatter(t *testing.T) {
	reduce := func(s string, more ...ssa.Attr) []ssa.Attr { return append(more, ssa.StringAttr("reduction", s)) }
	i64, i32 := ndarray.Int64, ndarray.Int32
	for _, how := range []string{"none", "add", "mul", "max", "min"} {
		runCases(t, []opCase{
			{op: "ScatterElements", in: []arg{f32s(5, 8), indices(i64, 8, 5, 3), f32s(5, 3)}, attrs: reduce(how, ssa.IntAttr("axis", 1))},
			{op: "ScatterElements", in: []arg{tensor(i64, 5, 8), indices(i32, 5, 7, 8), tensor(i64, 7, 8)}, attrs: reduce(how)},
			{op: "ScatterND", in: []arg{f32s(5, 8, 4), indices(i64, 5, 6, 2), f32s(6, 4)}, attrs: reduce(how)},
			{op: "ScatterND", in: []arg{tensor(i32, 7), indices(i64, 7, 6, 1), tensor(i32, 6)}, attrs: reduce(how)},
			{op: "ScatterND", in: []arg{tensor(ndarray.Float16, 5, 8), indices(i64, 5, 9, 1), tensor(ndarray.Float16, 9, 8)}, attrs: reduce(how)},
			{op: "ScatterElements", in: []arg{tensor(ndarray.BFloat16, 5, 8), indices(i64, 8, 5, 9), tensor(ndarray.BFloat16, 5, 9)}, attrs: reduce(how, ssa.IntAttr("axis", 1))},
		})
	}
	runCases(t, []opCase{
		{op: "ScatterElements", in: []arg{boolean(5, 8), indices(i64, 5, 2, 3), boolean(2, 3)}},
		{op: "ScatterND", in: []arg{tensor(ndarray.Float16, 5, 8), indices(i64, 5, 2, 1), tensor(ndarray.Float16, 2, 8)}},
		{op: "ScatterND", in: []arg{f32s(4), ints(4), f32s()}, fails: true},
	})
}

func TestPad(t *testing.T) {
	for _, m := range []string{"constant", "reflect", "edge", "wrap"} {
		mode := []ssa.Attr{ssa.StringAttr("mode", m)}
		runCases(t, []opCase{
			{op: "Pad", in: []arg{f32s(2, 3, 10, 12), ints(0, 0, 2, 3, 0, 0, 4, 1)}, attrs: mode},
			{op: "Pad", in: []arg{f32s(2, 3, 10, 12), ints(0, 0, 2, 0, 0, 0, 4, 0)}, attrs: mode},
			{op: "Pad", in: []arg{f32s(2, 30), ints(0, -3, 0, 5)}, attrs: mode},
			{op: "Pad", in: []arg{f32s(2, 30), ints(0, 4, 0, -5)}, attrs: mode},
			{op: "Pad", in: []arg{tensor(ndarray.Int64, 2, 6, 4), ints(1, 2), absent, ints(-2)}, attrs: mode},
			{op: "Pad", in: []arg{tensor(ndarray.Int8, 3, 4), ints(2, 2, 2, 2)}, attrs: mode},
		})
	}
	runCases(t, []opCase{
		{op: "Pad", in: []arg{f32s(2, 5), ints(1, 2, 3, 4), scalarOf(ndarray.Float32, 2.5)}},
		{op: "Pad", in: []arg{f32s(200, 300), ints(100, 0, 10, 4)}},
	})
}

func TestFill(t *testing.T) {
	upper := func(v int64) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("upper", v)} }
	i64 := ndarray.Int64
	runCases(t, []opCase{
		{op: "Shape", in: []arg{f32s(2, 0, 5)}},
		{op: "Shape", in: []arg{f32s(2, 3, 5)}, attrs: []ssa.Attr{ssa.IntAttr("start", -2), ssa.IntAttr("end", 9)}},
		{op: "Size", in: []arg{f32s(2, 3, 5)}},
		{op: "ConstantOfShape", in: []arg{ints(3, 40000)}},
		{op: "ConstantOfShape", in: []arg{ints(3, 4)}, attrs: []ssa.Attr{ssa.TensorAttr("value", ssa.NewConstant(ndarray.Of([]int64{7}, 1)))}},
		{op: "Range", in: []arg{scalarOf(i64, 3), scalarOf(i64, -10), scalarOf(i64, -2)}},
		{op: "Range", in: []arg{scalarOf(ndarray.Float32, 0.5), scalarOf(ndarray.Float32, 10), scalarOf(ndarray.Float32, 0.3)}},
		{op: "Trilu", in: []arg{f32s(2, 5, 7)}},
		{op: "Trilu", in: []arg{f32s(5, 7), scalarOf(i64, 2)}, attrs: upper(0)},
		{op: "Trilu", in: []arg{tensor(i64, 7, 5), scalarOf(i64, -1)}, attrs: upper(1)},
		{op: "Trilu", in: []arg{boolean(4, 4), scalarOf(i64, 100)}, attrs: upper(1)},
		{op: "OneHot", in: []arg{indices(i64, 8, 3, 4), scalarOf(i64, 5), f32s(2)}},
		{op: "OneHot", in: []arg{indices(ndarray.Int32, 5, 3, 4), scalarOf(i64, 5), tensor(i64, 2)}, attrs: []ssa.Attr{ssa.IntAttr("axis", 1)}},
	})
}
