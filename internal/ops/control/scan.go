package control

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Scan iterates over slices: https://onnx.ai/onnx/operators/onnx__Scan.html
//
//	for i = 0; i < L; i++ {
//	    states..., y_i... = body(states..., x_i..., captures...)
//	}
//
// x_i is slice i (or L-1-i when the direction is 1) along the input's scan axis.
var Scan = ops.Op{
	Name: "Scan", Since: 25, Form: kit.Since(11), Doc: "iterate body over slices of the scan inputs",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []*ops.AttrSpec{ops.GraphAttr("body").Mandatory(), ops.IntAttr("num_scan_inputs").Mandatory(),
		ops.IntsAttr("scan_input_axes").From(9), ops.IntsAttr("scan_input_directions").From(9),
		ops.IntsAttr("scan_output_axes").From(9), ops.IntsAttr("scan_output_directions").From(9),
		ops.IntsAttr("directions").Before(9)},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.Scans)}, InferBodies: kit.BodyRule(inferScan), Eval: kit.Kernel(evalScan),
	Upgrades: []ops.Upgrade{{Below: 9, Source: kit.Changelog("Scan", 9), Apply: upgradeScan8}},

	Downgrades: []ops.Downgrade{{Below: 11, Form: kit.TypeForm(8, 13), Apply: downgradeScanAxes}, {Below: 9, Form: kit.TypeForm(8, 13), Apply: downgradeScan9}},
}

func inferScan(ctx context.Context, n *ssa.Node) []ops.Inferred {
	s := kit.Try(ops.ScanOf(n))
	var length ssa.Dim
	for k := range s.Ins {
		t := ops.InType(n, s.States+k)
		p := s.Body.Params[s.States+k]
		p.Type = ssa.UnrankedTensor(t.DType)
		if !t.Ranked {
			continue
		}
		axis, err := ops.NormAxis(s.InAxes[k], len(t.Shape))
		if err != nil {
			kit.Failf("scan input %d: %w", k, err)
		}
		if _, known := length.Const(); !known && t.Shape[axis].Known() {
			length = t.Shape[axis]
		}
		p.Type = ssa.TensorOf(t.DType, slices.Delete(slices.Clone(t.Shape), axis, axis+1)...)
	}
	states := make([]ssa.Type, s.States)
	for i := range states {
		states[i] = ops.InType(n, i)
	}
	kit.Check(InferCarried(ctx, n, s.Body, s.Body.Params[:s.States], s.Body.Results[:s.States], states))
	var out []ops.Inferred
	for i := range states {
		out = append(out, ops.Inferred{Type: states[i]})
	}
	for k, r := range s.Body.Results[s.States:] {
		t := r.Type
		if t.Kind == ssa.KindTensor && t.Ranked {
			axis, err := ops.NormAxis(s.OutAxes[k], len(t.Shape)+1)
			if err != nil {
				kit.Failf("scan output %d: %w", k, err)
			}
			t.Shape = slices.Insert(slices.Clone(t.Shape), axis, length)
		}
		out = append(out, ops.Inferred{Type: t})
	}
	return out[:len(n.Out)]
}

func evalScan(c *ops.Call) {
	s := kit.Try(ops.ScanOf(c.Node))
	length := -1
	for k := range s.Ins {
		a := c.Array(s.States + k)
		if a == nil {
			kit.Failf("scan input %d is no tensor", k)
		}
		axis := kit.Try(ops.NormAxis(s.InAxes[k], a.Rank()))
		if length >= 0 && length != a.Shape[axis] {
			kit.Failf("scan inputs have %d and %d slices", length, a.Shape[axis])
		}
		length = a.Shape[axis]
	}
	states := slices.Clone(c.In[:s.States])
	captures := c.In[s.States+s.Ins:]
	stacks := make([][]ndarray.Value, s.Outs)
	for i := range length {
		kit.CheckEnded(c)
		args := slices.Clone(states)
		for k := range s.Ins {
			at := i
			if s.InReverse[k] {
				at = length - 1 - i
			}
			args = append(args, sliceAt(c, c.Array(s.States+k), s.InAxes[k], at))
		}
		out := kit.Try(c.Body(0, append(args, captures...)))
		copy(states, out[:s.States])
		for k, v := range out[s.States:] {
			stacks[k] = append(stacks[k], v)
		}
	}
	for i, v := range states {
		kit.Check(c.SetOutput(i, v))
	}
	for k, items := range stacks {
		i := s.States + k
		slice := s.Body.Results[i].Type
		rank := slice.Rank()
		if len(items) > 0 {
			if a, ok := items[0].(*ndarray.Array); ok {
				rank = a.Rank()
			}
		}
		axis := kit.Try(ops.NormAxis(s.OutAxes[k], rank+1))
		kit.Check(c.SetOutput(i, kit.Try(Stack(c.Memory, items, slice, axis, s.OutReverse[k]))))
	}
}

// Stack joins slices along a new axis, the last one first if reverse is set. With
// no slices their type gives the other dimensions.
func Stack(memory ndarray.Budget, items []ndarray.Value, slice ssa.Type, axis int, reverse bool) (*ndarray.Array, error) {
	if reverse {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	tmp := &ops.Call{Memory: memory}
	if err := stackOutput(tmp, 0, items, slice); err != nil {
		return nil, err
	}
	a := tmp.Out[0].(*ndarray.Array)
	if axis == 0 {
		return a, nil
	}
	err := kit.Kernel(func(c *ops.Call) { a = kit.MoveFirstAxis(c, a, axis) })(tmp)
	return a, err
}

// sliceAt copies slice i along an axis, dropping the axis.
func sliceAt(c *ops.Call, a *ndarray.Array, axis64 int64, i int) *ndarray.Array {
	axis, _ := ops.NormAxis(axis64, a.Rank())
	out := kit.New(c, a.DType, slices.Delete(slices.Clone(a.Shape), axis, axis+1)...)
	outer, dim, inner := kit.SplitDims(a.Shape, axis)
	w := kit.Watching(c)
	for o := range outer {
		kit.CopyElems(&w, out, o*inner, a, (o*dim+i)*inner, inner)
	}
	return out
}
