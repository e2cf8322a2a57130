package testmodels

import "github.com/berth-onnx/berth/ssa"

var nestedModels = []Builtin{
	{Name: "nested-conv", Doc: "Loop inside Loop, both with values that change places", Build: nestedConv},
	{Name: "nested-swap", Doc: "an inner loop whose parity decides in which block the outer value is", Build: nestedSwap},
	{Name: "nested-scan", Doc: "Scan inside Loop over a captured sequence", Build: nestedScan},
}

func nestedConv() *ssa.Module {
	b := newBuilder("nested-conv")
	n, m, x := b.trips(), b.indices("m"), b.static("x", 1, 2, 6, 6)
	y := b.loop(n, nil, []*ssa.Value{x}, []*ssa.Value{m, x}, func(r *repeated) {
		inner := r.loop(r.captured[0], nil, []*ssa.Value{r.carried[0]}, []*ssa.Value{r.captured[1]}, func(r *repeated) {
			y := r.op("Tanh", r.conv(r.carried[0], "w", 2, 2, 3, 1))
			r.next = []*ssa.Value{r.op("Add", y, r.captured[0])}
		})
		r.next = []*ssa.Value{r.conv(inner[0], "v", 2, 2, 3, 1)}
	})
	return b.module([]string{"y"}, y[0])
}

// nestedSwap runs the inner loop as often as the outer one has iterated.
func nestedSwap() *ssa.Module {
	b := newBuilder("nested-swap")
	n, x := b.trips(), b.static("x", 4, 8)
	out := b.loop(n, nil, []*ssa.Value{x, b.op("Neg", x)}, nil, func(r *repeated) {
		in := r.loop(r.iter, nil, r.carried, nil, func(r *repeated) {
			r.next = []*ssa.Value{r.carried[1], r.op("Sub", r.float(0.25), r.carried[0])}
		})
		r.next = []*ssa.Value{in[1], r.reflect(in[0])}
	})
	return b.module([]string{"a", "b"}, out...)
}

func nestedScan() *ssa.Module {
	b := newBuilder("nested-scan")
	n, x := b.trips(), b.static("x", 5, 8)
	out := b.loop(n, nil, []*ssa.Value{b.op("Relu", x)}, []*ssa.Value{x}, func(r *repeated) {
		start := r.op("Gather", r.carried[0], r.int(0))
		s := r.scan([]*ssa.Value{start}, []*ssa.Value{r.carried[0], r.captured[0]}, nil, func(s *scanned) {
			h := s.op("Tanh", s.op("Add", s.op("Mul", s.states[0], s.slices[0]), s.slices[1]))
			s.next, s.outs = []*ssa.Value{h}, []*ssa.Value{h}
		})
		r.next = []*ssa.Value{s[1]}
	})
	return b.module([]string{"y"}, out[0])
}
