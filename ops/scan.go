package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Scan iterates over slices: https://onnx.ai/onnx/operators/onnx__Scan.html
//
//	for i = 0; i < L; i++ {
//	    states..., y_i... = body(states..., x_i..., captures...)
//	}
//
// x_i is slice i (or L-1-i when the direction is 1) along the input's scan axis.
var Scan = Op{
	Name: "Scan", Since: 25, Form: since(11), Doc: "iterate body over slices of the scan inputs",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []AttrSpec{graphAttr("body").required(), intAttr("num_scan_inputs").required(),
		intsAttr("scan_input_axes").since(9), intsAttr("scan_input_directions").since(9),
		intsAttr("scan_output_axes").since(9), intsAttr("scan_output_directions").since(9),
		intsAttr("directions").until(9)},
	Facts: Facts{Traits: general}, Infer: rule(inferScan), Eval: kernel(evalScan),
	Upgrades: []Upgrade{{Below: 9, Source: changelog("Scan", 9), Apply: upgradeScan8}},
}

// ScanShape names the parts of a Scan node.
type ScanShape struct {
	Body                  *ssa.Graph
	States, Ins, Outs     int
	InAxes, OutAxes       []int64 // one per scan input / output
	InReverse, OutReverse []bool
}

// ScanOf checks a Scan node's counts and names its parts.
func ScanOf(n *ssa.Node) (ScanShape, error) {
	body := n.Body("body")
	if body == nil {
		return ScanShape{}, fmt.Errorf("Scan has no body")
	}
	s := ScanShape{Body: body, Ins: int(Int(n, "num_scan_inputs"))}
	s.States = len(n.In) - n.Captures - s.Ins
	s.Outs = len(body.Results) - s.States
	if s.Ins < 1 || s.States < 0 || s.Outs < 0 || len(body.Params) != len(n.In) || len(n.Out) > len(body.Results) {
		return s, fmt.Errorf("Scan with %d operands and %d scan inputs does not fit a body of %d parameters and %d results",
			len(n.In)-n.Captures, s.Ins, len(body.Params)-n.Captures, len(body.Results))
	}
	var err error
	if s.InAxes, s.InReverse, err = scanLists(n, "input", s.Ins); err != nil {
		return s, err
	}
	s.OutAxes, s.OutReverse, err = scanLists(n, "output", s.Outs)
	return s, err
}

func scanLists(n *ssa.Node, side string, count int) ([]int64, []bool, error) {
	axes, dirs := Ints(n, "scan_"+side+"_axes"), Ints(n, "scan_"+side+"_directions")
	if axes == nil {
		axes = make([]int64, count)
	}
	if dirs == nil {
		dirs = make([]int64, count)
	}
	if len(axes) != count || len(dirs) != count {
		return nil, nil, fmt.Errorf("scan_%s_axes or directions do not have %d elements", side, count)
	}
	rev := make([]bool, count)
	for i, d := range dirs {
		rev[i] = d == 1
	}
	return axes, rev, nil
}

func inferScan(n *ssa.Node) []Inferred {
	s := try(ScanOf(n))
	var length ssa.Dim
	for k := range s.Ins {
		t := InType(n, s.States+k)
		p := s.Body.Params[s.States+k]
		p.Type = ssa.UnrankedTensor(t.DType)
		if !t.Ranked {
			continue
		}
		axis, err := NormAxis(s.InAxes[k], len(t.Shape))
		if err != nil {
			failf("scan input %d: %w", k, err)
		}
		if _, known := length.Const(); !known && t.Shape[axis].Known() {
			length = t.Shape[axis]
		}
		p.Type = ssa.TensorOf(t.DType, slices.Delete(slices.Clone(t.Shape), axis, axis+1)...)
	}
	states := make([]ssa.Type, s.States)
	for i := range states {
		states[i] = InType(n, i)
	}
	check(InferCarried(n, s.Body, s.Body.Params[:s.States], s.Body.Results[:s.States], states))
	var out []Inferred
	for i := range states {
		out = append(out, Inferred{Type: states[i]})
	}
	for k, r := range s.Body.Results[s.States:] {
		t := r.Type
		if t.Kind == ssa.KindTensor && t.Ranked {
			axis, err := NormAxis(s.OutAxes[k], len(t.Shape)+1)
			if err != nil {
				failf("scan output %d: %w", k, err)
			}
			t.Shape = slices.Insert(slices.Clone(t.Shape), axis, length)
		}
		out = append(out, Inferred{Type: t})
	}
	return out[:len(n.Out)]
}

func evalScan(c *Call) {
	s := try(ScanOf(c.Node))
	length := -1
	for k := range s.Ins {
		a := c.Array(s.States + k)
		if a == nil {
			failf("scan input %d is no tensor", k)
		}
		axis := try(NormAxis(s.InAxes[k], a.Rank()))
		if length >= 0 && length != a.Shape[axis] {
			failf("scan inputs have %d and %d slices", length, a.Shape[axis])
		}
		length = a.Shape[axis]
	}
	states := append([]ndarray.Value(nil), c.In[:s.States]...)
	captures := c.In[s.States+s.Ins:]
	stacks := make([][]ndarray.Value, s.Outs)
	for i := range length {
		if c.Ctx != nil && c.Ctx.Err() != nil {
			check(c.Ctx.Err())
		}
		args := append([]ndarray.Value(nil), states...)
		for k := range s.Ins {
			at := i
			if s.InReverse[k] {
				at = length - 1 - i
			}
			args = append(args, sliceAt(c.Array(s.States+k), s.InAxes[k], at))
		}
		out := try(c.Body(0, append(args, captures...)))
		copy(states, out[:s.States])
		for k, v := range out[s.States:] {
			stacks[k] = append(stacks[k], v)
		}
	}
	for i, v := range states {
		check(c.SetOutput(i, v))
	}
	for k, items := range stacks {
		if s.OutReverse[k] {
			slices.Reverse(items)
		}
		scanOutput(c, s, k, items)
	}
}

func scanOutput(c *Call, s ScanShape, k int, items []ndarray.Value) {
	i := s.States + k
	slice := s.Body.Results[i].Type
	rank := slice.Rank()
	if len(items) > 0 {
		rank = items[0].(*ndarray.Array).Rank()
	}
	axis := try(NormAxis(s.OutAxes[k], rank+1))
	if axis == 0 {
		check(stackOutput(c, i, items, slice))
		return
	}
	tmp := &Call{Node: c.Node, Out: make([]ndarray.Value, i+1)}
	check(stackOutput(tmp, i, items, slice))
	moved := moveFirstAxis(tmp.Out[i].(*ndarray.Array), axis)
	check(c.SetOutput(i, moved))
}

// Stack joins slices along a new axis, the last one first if reverse is set. With
// no slices their type gives the other dimensions.
func Stack(items []ndarray.Value, slice ssa.Type, axis int, reverse bool) (*ndarray.Array, error) {
	if reverse {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	tmp := &Call{}
	if err := stackOutput(tmp, 0, items, slice); err != nil {
		return nil, err
	}
	a := tmp.Out[0].(*ndarray.Array)
	if axis > 0 {
		a = moveFirstAxis(a, axis)
	}
	return a, nil
}

// sliceAt copies slice i along an axis, dropping the axis.
func sliceAt(a *ndarray.Array, axis64 int64, i int) *ndarray.Array {
	axis, _ := NormAxis(axis64, a.Rank())
	outer, inner := 1, 1
	for k, d := range a.Shape {
		if k < axis {
			outer *= d
		} else if k > axis {
			inner *= d
		}
	}
	out := ndarray.Must(a.DType, slices.Delete(slices.Clone(a.Shape), axis, axis+1)...)
	for o := range outer {
		src := (o*a.Shape[axis] + i) * inner
		copyElems(out, o*inner, a, src, inner)
	}
	return out
}
