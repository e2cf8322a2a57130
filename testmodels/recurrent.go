package testmodels

import "github.com/berth-onnx/berth/ssa"

var recurrentModels = []Builtin{
	{Name: "lstm", Doc: "a bidirectional LSTM over S steps and a classifier", Build: lstm},
	{Name: "lstm-loop", Doc: "an LSTM cell as a loop body: two states carried, one output stacked", Build: lstmLoop},
}

func lstm() *ssa.Module {
	b := newBuilder("lstm")
	const in, hidden = 16, 24
	x := b.input("x", ssa.Sym("S"), ssa.D(1), ssa.D(in))
	w, r := b.linear("w", in, 2, 4*hidden, in), b.linear("r", hidden, 2, 4*hidden, hidden)
	bias := b.random("bias", 0, 0.1, 2, 8*hidden)
	y := b.nodes("LSTM", []*ssa.Value{x, w, r, bias}, 1, ssa.IntAttr("hidden_size", hidden), ssa.StringAttr("direction", "bidirectional"))[0]
	y = b.op("Reshape", b.transpose(y, 0, 2, 1, 3), b.ints(0, 0, 2*hidden))
	logits := b.op("Add", b.op("MatMul", y, b.linear("out", 2*hidden, 2*hidden, 10)), b.vector("out.bias", 0, 0.1, 10))
	return b.module([]string{"logits"}, logits)
}

// lstmLoop takes 16 steps:
//
//	i, f, g, o = split(x_t W + h R + b)
//	c <- sigmoid(f) c + sigmoid(i) tanh(g)
//	h <- sigmoid(o) tanh(c)
func lstmLoop() *ssa.Module {
	b := newBuilder("lstm-loop")
	const steps, in, hidden = 16, 32, 48
	x, h, c := b.static("x", steps, 1, in), b.static("h", 1, hidden), b.static("c", 1, hidden)
	out := b.loop(b.int(steps), nil, []*ssa.Value{h, c}, []*ssa.Value{x}, func(r *repeated) {
		xt := r.op("Gather", r.captured[0], r.iter)
		gates := r.op("Add", r.op("MatMul", xt, r.linear("w", in, in, 4*hidden)), r.op("MatMul", r.carried[0], r.linear("r", hidden, hidden, 4*hidden)))
		gates = r.op("Add", gates, r.vector("bias", 0, 0.1, 4*hidden))
		p := r.nodes("Split", []*ssa.Value{gates}, 4, ssa.IntAttr("axis", 1), ssa.IntAttr("num_outputs", 4))
		keep := r.op("Mul", r.op("Sigmoid", p[1]), r.carried[1])
		c := r.op("Add", keep, r.op("Mul", r.op("Sigmoid", p[0]), r.op("Tanh", p[2])))
		h := r.op("Mul", r.op("Sigmoid", p[3]), r.op("Tanh", c))
		r.next, r.slices = []*ssa.Value{h, c}, []*ssa.Value{h}
	})
	return b.module([]string{"h_last", "c_last", "all"}, out...)
}
