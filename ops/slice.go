package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// Slice takes a range of every axis: https://onnx.ai/onnx/operators/onnx__Slice.html
//
//	output[i] = data[start + i*step],  start + i*step before end
//
// Negative starts and ends count from the back; both are clamped to the axis. A
// negative step walks backwards.
var Slice = Op{
	Name: "Slice", Since: 13, Form: sliceForm, Doc: "output = data[starts:ends:steps] along axes",
	MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("starts").required().until(10), intsAttr("ends").required().until(10), intsAttr("axes").until(10)},
	Infer: rule(inferSlice), Eval: kernel(evalSlice),
	Facts: Facts{Traits: movement, Alias: sliceAlias, Smaller: forwardSlice, Cost: moveCost},
	Upgrades: []Upgrade{{Below: 10, Source: "https://onnx.ai/onnx/operators/onnx__Slice.html#slice-10",
		Apply: func(u *Upgrader, n *ssa.Node) error {
			for i, name := range []string{"starts", "ends", "axes"} {
				u.AttrToInput(n, name, i+1)
			}
			return nil
		}}},
}

func sliceForm(n *ssa.Node) int {
	base := 10
	axes, _ := ConstInts(n, 3)
	for _, a := range axes {
		if a < 0 {
			base = 11
		}
	}
	return typeForm(base, 13)(n)
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
		return symMin(ssa.D(-s), dim).CeilDiv(ssa.D(st))
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
		count = symMax(count, ssa.D(0))
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
		return symMax(dim.AddN(k), ssa.D(0))
	}
	if !b.NonNegative() {
		if dim.Sub(b).Is(1) { // -1 only where the axis is empty
			return symMax(b, ssa.D(0))
		}
		return ssa.Dim{}
	}
	return symMin(b, dim)
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
	start, end := ContentOf(n, 1), ContentOf(n, 2)
	k := max(len(start), len(end), lenOf(n, 1), lenOf(n, 2))
	axes, known := ConstInts(n, 3)
	if n.Input(3) == nil {
		if lenOf(n, 1) < 0 && lenOf(n, 2) < 0 {
			return nil, nil
		}
		axes, known = make([]int64, k), true
		for i := range axes {
			axes[i] = int64(i)
		}
	}
	if !known {
		return nil, nil
	}
	at, err := normAxes(axes, rank)
	if err != nil {
		return nil, err
	}
	s := &sliceSpec{axes: at, start: start, end: end, step: ContentOf(n, 4)}
	if n.Input(4) == nil {
		s.step = make([]ssa.Dim, len(at))
		for i := range s.step {
			s.step[i] = ssa.D(1)
		}
	}
	for _, l := range []*[]ssa.Dim{&s.start, &s.end, &s.step} {
		if *l == nil {
			*l = unknownDims(len(at))
		}
		if len(*l) != len(at) {
			return nil, fmt.Errorf("starts, ends, axes and steps have different lengths")
		}
	}
	for _, st := range s.step {
		if st.Is(0) {
			return nil, fmt.Errorf("a step is 0")
		}
	}
	return s, nil
}

// resolve computes first index, count and step of every dimension of shape; ok
// is false while something is not a number.
func (s *sliceSpec) resolve(shape []int) (ok bool) {
	s.first, s.count, s.move = make([]int, len(shape)), append([]int(nil), shape...), make([]int, len(shape))
	for i := range shape {
		s.move[i] = 1
	}
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

func inferSlice(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(t)
	}
	s := try(sliceSpecOf(n, len(t.Shape)))
	if s == nil {
		return One(tensorOfRank(t.DType, len(t.Shape)))
	}
	dims := append([]ssa.Dim(nil), t.Shape...)
	for i, axis := range s.axes {
		dims[axis] = sliceDim(s.start[i], s.end[i], s.step[i], t.Shape[axis])
	}
	out := ssa.TensorOf(t.DType, dims...)
	data := known(n, 0)
	if data == nil || len(t.Shape) != 1 || !s.resolve([]int{len(data)}) {
		return One(out)
	}
	content := make([]ssa.Dim, s.count[0])
	for i := range content {
		content[i] = data[s.first[0]+i*s.move[0]]
	}
	return factOf(out, content)
}

// sliceAlias finds slices that are one contiguous window of the operand:
//
//	out dims     1 … 1  partial  full … full
//
// up to the last dimension that is cut, all results have length 1.
func sliceAlias(n *ssa.Node) []Alias {
	shape, ok := InType(n, 0).Static()
	if !ok || !isPlainTensor(n.In[0]) {
		return nil
	}
	s, err := sliceSpecOf(n, len(shape))
	if err != nil || s == nil || !s.resolve(shape) {
		return nil
	}
	strides := Strides(shape)
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
	return []Alias{{In: 0, Out: 0, Offset: int64(off * InType(n, 0).DType.Size())}}
}

func evalSlice(c *Call) {
	a := tensor(c, 0)
	s := sliceCall(c, a.Rank())
	s.resolve(a.Shape)
	out := result(c, 0, a.DType, s.count...)
	b := block{shape: s.count, dstr: Strides(s.count), sstr: Strides(a.Shape)}
	for i := range b.sstr {
		b.src += s.first[i] * b.sstr[i]
		b.sstr[i] *= s.move[i]
	}
	moveBlock(out, a, b)
}

// sliceCall reads the operands of a running Slice.
func sliceCall(c *Call, rank int) *sliceSpec {
	var lists [4][]int64
	for i := range lists {
		v := optionalInts(c, i+1)
		lists[i] = v
	}
	start, end, axes, step := lists[0], lists[1], lists[2], lists[3]
	if !c.Has(3) {
		for i := range start {
			axes = append(axes, int64(i))
		}
	}
	if !c.Has(4) {
		for range start {
			step = append(step, 1)
		}
	}
	if len(start) != len(end) || len(start) != len(axes) || len(start) != len(step) {
		failf("starts, ends, axes and steps have %d, %d, %d and %d elements", len(start), len(end), len(axes), len(step))
	}
	at := try(normAxes(axes, rank))
	s := &sliceSpec{axes: at}
	for i := range start {
		if step[i] == 0 {
			failf("a step is 0")
		}
		s.start = append(s.start, ssa.D(start[i]))
		s.end = append(s.end, ssa.D(end[i]))
		s.step = append(s.step, ssa.D(step[i]))
	}
	return s
}
