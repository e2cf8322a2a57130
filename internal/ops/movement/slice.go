package movement

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Slice takes a range of every axis: https://onnx.ai/onnx/operators/onnx__Slice.html
//
//	output[i] = data[start + i*step],  start + i*step before end
//
// Negative starts and ends count from the back; both are clamped to the axis. A
// negative step walks backwards.
var Slice = ops.Op{
	Name: "Slice", Since: 13, Form: sliceForm, Doc: "output = data[starts:ends:steps] along axes",
	MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("starts").Mandatory().Before(10), ops.IntsAttr("ends").Mandatory().Before(10), ops.IntsAttr("axes").Before(10)},
	Infer: kit.Rule(InferSlice), Eval: kit.Kernel(EvalSlice),
	Facts: ops.Facts{Traits: ops.MovementTraits, Alias: SliceAlias, Smaller: ForwardSlice, Cost: kit.MoveCost},
	Upgrades: []ops.Upgrade{{Below: 10, Source: kit.Changelog("Slice", 10), Apply: func(u *ops.Upgrader, n *ssa.Node) error {
		for i, name := range []string{"starts", "ends", "axes"} {
			u.AttrToInput(n, name, i+1)
		}
		return nil
	}}},
	Downgrades: []ops.Downgrade{{Below: 11, Form: kit.TypeForm(10, 13), Apply: func(u *ops.Upgrader, n *ssa.Node) error {
		return kit.PositiveInts(u, n, 3, kit.RankDim(n, 0))
	}}, {Below: 10, Form: kit.TypeForm(1, 13), Apply: downgradeSlice}},
}

// downgradeSlice makes attributes of starts, ends and axes; Slice-1 has no steps.
func downgradeSlice(u *ops.Upgrader, n *ssa.Node) error {
	steps, known := ops.ConstInts(n, 4)
	if n.Input(4) != nil && (!known || slices.ContainsFunc(steps, func(s int64) bool { return s != 1 })) {
		return fmt.Errorf("has steps other than 1")
	}
	n.TruncateInputs(min(len(n.In), 4))
	for i, name := range []string{"axes", "ends", "starts"} {
		if err := u.InputToAttr(n, 3-i, name); err != nil {
			return err
		}
	}
	return nil
}

func sliceForm(n *ssa.Node) int {
	if axes, _ := ops.ConstInts(n, 3); slices.ContainsFunc(axes, func(a int64) bool { return a < 0 }) {
		return kit.TypeForm(11, 13)(n)
	}
	return kit.TypeForm(10, 13)(n)
}

// sliceRange returns the first index and the number of indices a range of one
// axis of length dim selects. step is not 0.
func sliceRange(start, end, step int64, dim int) (first, count int) {
	d := int64(dim)
	if start < 0 {
		start += d
	}
	if end < 0 {
		end += d
	}
	var span, stride uint64 // distance to cover, absolute step
	if step > 0 {
		start, end = min(max(start, 0), d), min(max(end, 0), d)
		if end <= start {
			return int(start), 0
		}
		span, stride = uint64(end-start), uint64(step)
	} else {
		start, end = min(max(start, 0), d-1), min(max(end, -1), d-1)
		if start <= end {
			return int(max(start, 0)), 0
		}
		span, stride = uint64(start-end), -uint64(step)
	}
	return int(start), int((span-1)/stride) + 1
}

// toTheEnd is from where on a constant end means the end of the axis: exporters
// write the largest int32 or int64.
const toTheEnd = math.MaxInt32

// sliceDim is sliceRange's count for dimensions and bounds that may be symbolic;
// unknown where it can not be told.
func sliceDim(start, end, step, dim ssa.Dim) ssa.Dim {
	st, ok := step.Const()
	s, sc := start.Const()
	e, ec := end.Const()
	d, dc := dim.Const()
	switch {
	case !ok || st == 0:
		return ssa.Dim{}
	case sc && ec && dc:
		_, count := sliceRange(s, e, st, int(d))
		return ssa.D(int64(count))
	case st < 0:
		if sc && ec && (s == -1 || s >= toTheEnd) && e <= -toTheEnd && st > math.MinInt64 {
			return dim.CeilDiv(ssa.D(-st))
		}
		return ssa.Dim{}
	}
	whole := ec && e >= toTheEnd || end.Equal(dim)
	if sc && s < 0 && whole && s > math.MinInt64 { // the last -s
		return kit.SymMin(ssa.D(-s), dim).CeilDiv(ssa.D(st))
	}
	count := dim.Sub(start) // all but the first start
	if !whole || !start.NonNegative() {
		to := dim
		if !whole {
			to = sliceBound(end, dim)
		}
		count = to.Sub(sliceBound(start, dim))
	}
	if !count.NonNegative() {
		count = kit.SymMax(count, ssa.D(0))
	}
	return count.CeilDiv(ssa.D(st))
}

// sliceBound clamps a bound to [0, dim], counting from the back if it is a
// negative number; unknown if its sign is not known.
func sliceBound(b, dim ssa.Dim) ssa.Dim {
	if k, ok := b.Const(); ok && k < 0 {
		if k < -toTheEnd {
			return ssa.D(0)
		}
		return kit.SymMax(dim.AddN(k), ssa.D(0))
	}
	if !b.NonNegative() {
		if dim.Sub(b).Is(1) { // -1 only where the axis is empty
			return kit.SymMax(b, ssa.D(0))
		}
		return ssa.Dim{}
	}
	return kit.SymMin(b, dim)
}

// sliceSpec is the operands of a Slice node as far as known: one entry per
// sliced axis.
type sliceSpec struct {
	axes               []int
	start, end, step   []ssa.Dim
	first, count, move []int // per dimension of data, once numbers are known
}

// sliceSpecOf reads the operands; nil if it is not known which axes are sliced.
func sliceSpecOf(n *ssa.Node, rank int) (*sliceSpec, error) {
	axes, known := ops.ConstInts(n, 3)
	if n.Input(3) == nil {
		k := max(kit.LenOf(n, 1), kit.LenOf(n, 2))
		axes, known = ints64(kit.Positions(max(k, 0))), k >= 0
	}
	if !known {
		return nil, nil
	}
	step := ops.ContentOf(n, 4)
	if n.Input(4) == nil {
		step = slices.Repeat([]ssa.Dim{ssa.D(1)}, len(axes))
	}
	return newSliceSpec(axes, [3][]ssa.Dim{ops.ContentOf(n, 1), ops.ContentOf(n, 2), step}, rank)
}

// newSliceSpec checks the axes and the starts, ends and steps along them; nil stands
// for unknown ones.
func newSliceSpec(axes []int64, lists [3][]ssa.Dim, rank int) (*sliceSpec, error) {
	at, err := kit.NormAxes(axes, rank)
	if err != nil {
		return nil, err
	}
	for i, l := range lists {
		if l == nil {
			lists[i] = kit.UnknownDims(len(at))
		} else if len(l) != len(at) {
			return nil, fmt.Errorf("starts, ends, axes and steps have different lengths")
		}
	}
	if slices.ContainsFunc(lists[2], func(s ssa.Dim) bool { return s.Is(0) }) {
		return nil, fmt.Errorf("a step is 0")
	}
	return &sliceSpec{axes: at, start: lists[0], end: lists[1], step: lists[2]}, nil
}

// resolve computes first index, count and step of every dimension of shape; ok
// is false while something is not a number.
func (s *sliceSpec) resolve(shape []int) (ok bool) {
	s.first, s.count, s.move = make([]int, len(shape)), slices.Clone(shape), slices.Repeat([]int{1}, len(shape))
	for i, axis := range s.axes {
		start, a := s.start[i].Const()
		end, b := s.end[i].Const()
		step, c := s.step[i].Const()
		if !a || !b || !c {
			return false
		}
		s.first[axis], s.count[axis] = sliceRange(start, end, step, shape[axis])
		if s.count[axis] > 1 {
			s.move[axis] = int(step)
		}
	}
	return true
}

// InferSlice is the type and shape rule of [Slice].
func InferSlice(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(t)
	}
	s := kit.Try(sliceSpecOf(n, len(t.Shape)))
	if s == nil {
		return ops.One(kit.TensorOfRank(t.DType, len(t.Shape)))
	}
	dims := slices.Clone(t.Shape)
	for i, axis := range s.axes {
		dims[axis] = sliceDim(s.start[i], s.end[i], s.step[i], t.Shape[axis])
	}
	out := ssa.TensorOf(t.DType, dims...)
	data := kit.Known(n, 0)
	if data == nil || len(t.Shape) != 1 || !s.resolve([]int{len(data)}) {
		return ops.One(out)
	}
	content := make([]ssa.Dim, s.count[0])
	for i := range content {
		content[i] = data[s.first[0]+i*s.move[0]]
	}
	return kit.FactOf(out, content)
}

// ForwardSlice is the Smaller fact of a slice whose steps are all positive: element i
// of the result lies at place i of the operand or behind it.
func ForwardSlice(n *ssa.Node) []ops.Pair {
	steps, ok := ops.ConstInts(n, 4)
	backward := slices.ContainsFunc(steps, func(s int64) bool { return s <= 0 })
	if !ops.Halves(n.Input(0), n.Output(0)) || backward || n.Input(4) != nil && !ok {
		return nil
	}
	return []ops.Pair{{In: 0, Out: 0}}
}

// SliceAlias finds slices that are one contiguous window of the operand:
//
//	out dims     1 … 1  partial  full … full
//
// up to the last dimension that is cut, all results have length 1.
func SliceAlias(n *ssa.Node) []ops.Alias {
	shape, ok := ops.InType(n, 0).Static()
	if !ok || !kit.IsPlainTensor(n.In[0]) {
		return nil
	}
	s, err := sliceSpecOf(n, len(shape))
	if err != nil || s == nil || !s.resolve(shape) {
		return nil
	}
	strides := ops.Strides(shape)
	off, cut := 0, -1
	for i := range shape {
		if s.count[i] == 0 || s.move[i] != 1 {
			return nil
		}
		if s.count[i] != shape[i] {
			cut = i
		}
		off += s.first[i] * strides[i]
	}
	for i := range max(cut, 0) {
		if s.count[i] != 1 {
			return nil
		}
	}
	return []ops.Alias{{In: 0, Out: 0, Offset: int64(off * ops.InType(n, 0).DType.Size())}}
}

// EvalSlice is the reference kernel of [Slice].
func EvalSlice(c *ops.Call) {
	a := kit.Tensor(c, 0)
	s := sliceCall(c, a.Rank())
	s.resolve(a.Shape)
	out := kit.Result(c, 0, a.DType, s.count...)
	b := kit.Block{Shape: s.count, Dstr: ops.Strides(s.count), Sstr: ops.Strides(a.Shape)}
	for i := range b.Sstr {
		b.Src += s.first[i] * b.Sstr[i]
		b.Sstr[i] *= s.move[i]
	}
	kit.MoveBlock(c, out, a, b)
}

// sliceCall reads the operands of a running Slice.
func sliceCall(c *ops.Call, rank int) *sliceSpec {
	start, end, axes, step := kit.Ints(c, 1), kit.Ints(c, 2), kit.OptionalInts(c, 3), kit.OptionalInts(c, 4)
	if !c.Has(3) {
		axes = ints64(kit.Positions(len(start)))
	}
	if !c.Has(4) {
		step = slices.Repeat([]int64{1}, len(start))
	}
	return kit.Try(newSliceSpec(axes, [3][]ssa.Dim{kit.DimsOf(start), kit.DimsOf(end), kit.DimsOf(step)}, rank))
}

func ints64(list []int) []int64 {
	out := make([]int64, len(list))
	kit.Convert(nil, out, list, func(i int) int64 { return int64(i) })
	return out
}
