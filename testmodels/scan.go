package testmodels

import "github.com/berth-onnx/berth/ssa"

var scanModels = []Builtin{
	{Name: "scan", Doc: "a recurrence over rows; T rows", Build: func() *ssa.Module { return scanRows("scan", 0, 0) }},
	{Name: "scan-reverse", Doc: "the same from the last row to the first, stacked backwards", Build: func() *ssa.Module {
		return scanRows("scan-reverse", 0, 1)
	}},
	{Name: "scan-axis1", Doc: "the same along axis 1", Build: func() *ssa.Module { return scanRows("scan-axis1", 1, 0) }},
	{Name: "scan-sum", Doc: "running sums of two inputs in opposite directions", Build: scanSum},
}

// scanRows is h <- tanh(x U + h W) over T rows along an axis.
func scanRows(name string, axis, direction int64) *ssa.Module {
	b := newBuilder(name)
	dims := []ssa.Dim{ssa.D(3), ssa.D(8)}
	if axis == 0 {
		dims = []ssa.Dim{ssa.Sym("T"), ssa.D(3), ssa.D(8)}
	} else {
		dims = []ssa.Dim{dims[0], ssa.Sym("T"), dims[1]}
	}
	x, h := b.input("x", dims...), b.static("h", 3, 8)
	out := b.scan([]*ssa.Value{h}, []*ssa.Value{x}, nil, func(s *scanned) {
		h := s.op("Add", s.op("MatMul", s.slices[0], s.linear("u", 8, 8, 8)), s.op("MatMul", s.states[0], s.linear("w", 8, 8, 8)))
		h = s.op("Tanh", h)
		s.next, s.outs = []*ssa.Value{h}, []*ssa.Value{s.op("Mul", h, s.float(2))}
	}, ssa.IntsAttr("scan_input_axes", axis), ssa.IntsAttr("scan_output_axes", axis),
		ssa.IntsAttr("scan_input_directions", direction), ssa.IntsAttr("scan_output_directions", direction))
	return b.module([]string{"last", "all"}, out...)
}

func scanSum() *ssa.Module {
	b := newBuilder("scan-sum")
	x, y := b.static("x", 7, 16), b.static("y", 7, 16)
	zero := b.op("Mul", b.op("Gather", x, b.int(0)), b.float(0))
	out := b.scan([]*ssa.Value{zero, zero}, []*ssa.Value{x, b.op("Exp", y)}, nil, func(s *scanned) {
		a, c := s.op("Add", s.states[0], s.slices[0]), s.op("Add", s.states[1], s.slices[1])
		s.next, s.outs = []*ssa.Value{a, c}, []*ssa.Value{a, s.op("Mul", a, c)}
	}, ssa.IntsAttr("scan_input_directions", 0, 1), ssa.IntsAttr("scan_output_directions", 0, 1))
	return b.module([]string{"a", "c", "sums", "products"}, out...)
}
