package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The com.microsoft domain repeats operators of the standard, from a time when
// the standard had a lesser form of them.

// MSQuantizeLinear is QuantizeLinear, per tensor or per axis.
var MSQuantizeLinear = Op{
	Domain: microsoft, Name: "QuantizeLinear", Since: 1, Doc: QuantizeLinear.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 1)}, Infer: rule(inferQuantize), Eval: kernel(evalQuantize),
	Facts: Facts{Traits: general, Smaller: narrowingFirst},
}

// MSDequantizeLinear is DequantizeLinear, per tensor or per axis.
var MSDequantizeLinear = Op{
	Domain: microsoft, Name: "DequantizeLinear", Since: 1, Doc: DequantizeLinear.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 1)}, Facts: Facts{Traits: general.but(KeepsPacked)}, Infer: DequantizeLinear.Infer, Eval: kernel(evalDequantize),
}

// MSTrilu is Trilu.
var MSTrilu = Op{
	Domain: microsoft, Name: "Trilu", Since: 1, Doc: Trilu.Doc,
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: Trilu.Attrs, Infer: rule(inferTrilu), Eval: kernel(evalTrilu), Facts: Trilu.Facts,
}

// MSPad is Pad over all axes.
var MSPad = Op{
	Domain: microsoft, Name: "Pad", Since: 1, Doc: Pad.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: newest(Pad.Attrs), Infer: rule(inferPad), Eval: kernel(evalPad), Facts: Pad.Facts,
}

// MSGatherND is GatherND without batch dimensions.
var MSGatherND = Op{
	Domain: microsoft, Name: "GatherND", Since: 1, Doc: GatherND.Doc,
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(inferGatherND), Eval: kernel(evalGatherND), Facts: GatherND.Facts,
}

// MSRange is Range whose delta may be absent and is 1 then.
var MSRange = Op{
	Domain: microsoft, Name: "Range", Since: 1, Doc: Range.Doc,
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		if n.Input(2) != nil {
			return inferRange(n)
		}
		dt := sameDType(n, 0, 1)
		return One(ssa.TensorOf(dt, rangeLength(soleKnown(n, 0), soleKnown(n, 1), 1)))
	}),
	Eval: kernel(func(c *Call) {
		if c.Has(2) {
			evalRange(c)
			return
		}
		start := tensor(c, 0)
		one := try(ndarray.New(start.DType))
		one.SetInt(0, 1)
		inner := *c
		inner.In = append(slices.Clone(c.In[:2]), one)
		evalRange(&inner)
		c.Out = inner.Out
	}),
}

// ExpandDims inserts a dimension of 1 at an axis given as an operand.
var ExpandDims = Op{
	Domain: microsoft, Name: "ExpandDims", Since: 1, Doc: "Y = X with a dimension of 1 at axis",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general, Alias: wholeView},
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		axis, known := ConstInts(n, 1)
		if !t.Ranked || !known || len(axis) != 1 {
			return One(ssa.UnrankedTensor(t.DType))
		}
		at := try(NormAxis(axis[0], t.Rank()+1))
		return One(ssa.TensorOf(t.DType, slices.Insert(slices.Clone(t.Shape), at, ssa.D(1))...))
	}),
	Eval: kernel(func(c *Call) {
		x := tensor(c, 0)
		axis := scalarInt(c, 1)
		at := try(NormAxis(axis, x.Rank()+1))
		y := result(c, 0, x.DType, slices.Insert(slices.Clone(x.Shape), at, 1)...)
		copyWhole(y, x)
	}),
}

// MSUnique lists the distinct elements of a vector in order of appearance, the
// position of every element in that list, and how often each appears.
var MSUnique = Op{
	Domain: microsoft, Name: "Unique", Since: 1, Doc: "distinct elements in order of appearance, positions, counts",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 3,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		return []Inferred{{Type: ssa.TensorOf(x.DType, ssa.Dim{})}, {Type: ssa.TensorOf(ndarray.Int64, dimOf(x, 0))},
			{Type: ssa.TensorOf(ndarray.Int64, ssa.Dim{})}}
	}),
	Eval: kernel(evalMSUnique),
}

func evalMSUnique(c *Call) {
	x := c.Array(0)
	wantRank("x", x, 1)
	key := func(i int) any {
		if x.DType == ndarray.String {
			return x.Str[i]
		}
		w := x.DType.Size()
		return string(x.Data[i*w : (i+1)*w])
	}
	seen := map[any]int{}
	var firsts []int
	var counts []int64
	positions := make([]int64, x.Len())
	for i := range positions {
		k, ok := seen[key(i)]
		if !ok {
			k = len(firsts)
			seen[key(i)] = k
			firsts, counts = append(firsts, i), append(counts, 0)
		}
		counts[k]++
		positions[i] = int64(k)
	}
	y := result(c, 0, x.DType, len(firsts))
	for i, at := range firsts {
		copyElems(y, i, x, at, 1)
	}
	for i, v := range [][]int64{positions, counts} {
		storeInts(c, 1+i, v)
	}
}

// storeInts stores a vector as result i if anyone wants it.
func storeInts(c *Call, i int, v []int64) {
	if !c.Wants(i) {
		return
	}
	out := result(c, i, ndarray.Int64, len(v))
	copy(ndarray.Slice[int64](out), v)
}

// checkMatrices checks that an operand holds square matrices.
func checkMatrices(x *ndarray.Array) (size int) {
	r := x.Rank()
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		failf("operand of shape %v does not hold square matrices", x.Shape)
	}
	return x.Shape[r-1]
}
