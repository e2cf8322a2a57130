package control

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// upgradeScan8 turns the batched Scan of operator set 8 into a Scan over the
// batch around a Scan over time:
//
//	Scan-8(lens, states…, xs…)            states [B, …], xs [B, T, …]
//
//	Scan over b (lens, states…, xs…):     nothing carried, everything sliced
//	    x' = x[0:len]
//	    states'…, outs… = Scan over t (states…, x'…)
//	    outs padded to T
//
// Without lens every sequence is whole and nothing is cut or padded.
func upgradeScan8(_ *ops.Upgrader, n *ssa.Node) error {
	body := n.Body("body")
	m := int(ops.Int(n, "num_scan_inputs"))
	formals := n.Formals()
	if body == nil || len(formals) == 0 || m < 1 || m > len(formals)-1 || len(body.Params) != len(n.In)-1 {
		return fmt.Errorf("Scan-8 with %d operands and %d scan inputs does not fit its body", len(formals), m)
	}
	lens := formals[0]
	states := len(formals) - 1 - m
	outer := ssa.NewGraph(body.Name + "_batch")
	length := (*ssa.Value)(nil)
	in := n.In[1:]
	if lens != nil {
		length = outer.AddParam("sequence_len", ssa.Type{})
		in = n.In
	}
	args := make([]*ssa.Value, len(body.Params))
	for i := range args {
		args[i] = outer.AddParam(fmt.Sprintf("operand_%d", i), ssa.Type{})
	}
	whole := args[states]
	if length != nil {
		cutSequences(outer, args[states:states+m], length)
	}
	scan := outer.NewNode("Scan", args, len(body.Results), ssa.IntAttr("num_scan_inputs", int64(m)))
	scan.AddBody("body", body)
	scan.Captures = n.Captures
	if d := ops.Ints(n, "directions"); d != nil {
		scan.SetAttr(ssa.IntsAttr("scan_input_directions", d...))
	}
	outer.Results = append(outer.Results, scan.Out...)
	if length != nil {
		padSequences(outer, outer.Results[states:], whole, length)
	}
	outer.Results = outer.Results[:min(len(n.Out), len(outer.Results))]

	n.Bodies = []*ssa.Graph{outer}
	n.SetInputs(in)
	n.DropAttr("directions")
	n.SetAttr(ssa.IntAttr("num_scan_inputs", int64(len(in)-n.Captures)))
	return nil
}

// cutSequences replaces every scan input x by x[0:length].
func cutSequences(g *ssa.Graph, xs []*ssa.Value, length *ssa.Value) {
	zero := g.AddConst("zero", ssa.Int64s(0))
	end := asList(g, length)
	for i, x := range xs {
		xs[i] = g.NewNode("Slice", []*ssa.Value{x, zero, end, zero}, 1).Out[0]
	}
}

// padSequences replaces every scan output by itself with zeros up to the length
// of the uncut input.
func padSequences(g *ssa.Graph, outs []*ssa.Value, whole, length *ssa.Value) {
	zero := g.AddConst("no_pad", ssa.Int64s(0))
	full := g.NewNode("Shape", []*ssa.Value{whole}, 1, ssa.IntAttr("start", 0), ssa.IntAttr("end", 1)).Out[0]
	missing := g.NewNode("Sub", []*ssa.Value{full, asList(g, length)}, 1).Out[0]
	pads := g.NewNode("Concat", []*ssa.Value{zero, missing}, 1, ssa.IntAttr("axis", 0)).Out[0]
	for i, y := range outs {
		outs[i] = g.NewNode("Pad", []*ssa.Value{y, pads, nil, zero}, 1).Out[0]
	}
}

// asList makes a list of one element of an integer scalar.
func asList(g *ssa.Graph, v *ssa.Value) *ssa.Value {
	axes := g.AddConst(fmt.Sprintf("first_%d", g.NumValues()), ssa.Int64s(0))
	return g.NewNode("Unsqueeze", []*ssa.Value{v, axes}, 1).Out[0]
}

// downgradeScanAxes refuses negative axes, which operator sets below 11 do not take.
func downgradeScanAxes(_ *ops.Upgrader, n *ssa.Node) error {
	for _, name := range []string{"scan_input_axes", "scan_output_axes"} {
		if slices.ContainsFunc(ops.Ints(n, name), func(a int64) bool { return a < 0 }) {
			return fmt.Errorf("%s %v are negative", name, ops.Ints(n, name))
		}
	}
	return nil
}

// downgradeScan9 makes a batched Scan again of what upgradeScan8 makes of one without
// lengths: a Scan over everything whose body is nothing but a Scan over its parameters.
func downgradeScan9(_ *ops.Upgrader, n *ssa.Node) error {
	outer, formals := n.Body("body"), n.Formals()
	if ops.Int(n, "num_scan_inputs") != int64(len(formals)) || len(outer.Nodes) != 1 || len(n.Attrs) > 1 {
		return fmt.Errorf("is no Scan over a batch")
	}
	scan := outer.Nodes[0]
	plain := len(scan.Attrs) == 1 || len(scan.Attrs) == 2 && scan.Has("scan_input_directions")
	if scan.Op != "Scan" || !plain || !slices.Equal(scan.In, outer.Params) || scan.Captures != n.Captures || !slices.Equal(scan.Out, outer.Results) {
		return fmt.Errorf("is no Scan over a batch")
	}
	n.SetAttr(ssa.IntAttr("num_scan_inputs", ops.Int(scan, "num_scan_inputs")))
	if scan.Has("scan_input_directions") {
		n.SetAttr(ssa.IntsAttr("directions", ops.Ints(scan, "scan_input_directions")...))
	}
	n.Bodies = []*ssa.Graph{scan.Body("body")}
	n.SetInputs(append([]*ssa.Value{nil}, n.In...))
	return nil
}
