package testmodels

import "github.com/berth-onnx/berth/ssa"

// The loops take their number of iterations from the input n.
var loopModels = []Builtin{
	{Name: "loop-conv", Doc: "x <- Conv(x): needs two places, used in turn", Build: loopConv},
	{Name: "loop-delay", Doc: "a delay line: every value is passed on three times", Build: loopDelay},
	{Name: "loop-swap", Doc: "two values change places in every iteration", Build: loopSwap},
	{Name: "loop-inplace", Doc: "h <- Relu(h - step): may be computed in place", Build: loopInPlace},
	{Name: "loop-identity", Doc: "carried values that pass through Identity and Reshape", Build: loopIdentity},
	{Name: "loop-best", Doc: "keeps the best candidate: If inside Loop passes the carried value on", Build: loopBest},
	{Name: "loop-stack", Doc: "stacks a value per iteration", Build: loopStack},
	{Name: "loop-stack-carried", Doc: "stacks the value that is carried on", Build: loopStackCarried},
	{Name: "loop-until", Doc: "stops when a sum passes a limit, or before the first iteration", Build: loopUntil},
	{Name: "loop-grow", Doc: "carries a cache that grows by a row per iteration", Build: loopGrow},
}

func loopConv() *ssa.Module {
	b := newBuilder("loop-conv")
	n, x := b.trips(), b.static("x", 1, 4, 8, 8)
	y := b.loop(n, nil, []*ssa.Value{x}, nil, func(r *repeated) {
		r.next = []*ssa.Value{r.conv(r.carried[0], "w", 4, 4, 3, 1)}
	})
	return b.module([]string{"y"}, y[0])
}

// loopDelay is the delay line of an echo: what goes in at iteration t comes out at
// iteration t+4.
func loopDelay() *ssa.Module {
	b := newBuilder("loop-delay")
	n, x := b.trips(), b.static("x", 1, 48)
	line := make([]*ssa.Value, 5)
	for i := range 4 {
		line[i] = b.op("Mul", x, b.float(float32(i+1)))
	}
	line[4] = b.op("Tanh", x)
	out := b.loop(n, nil, line, []*ssa.Value{x}, func(r *repeated) {
		echo := r.op("Add", r.op("Mul", r.carried[3], r.float(0.5)), r.captured[0])
		r.next = []*ssa.Value{echo, r.carried[0], r.carried[1], r.carried[2], r.op("Add", r.carried[4], r.carried[3])}
	})
	return b.module([]string{"d0", "d1", "d2", "d3", "sum"}, out...)
}

func loopSwap() *ssa.Module {
	b := newBuilder("loop-swap")
	n, x, y := b.trips(), b.static("x", 8, 8), b.static("y", 8, 8)
	out := b.loop(n, nil, []*ssa.Value{b.op("Relu", x), b.op("Tanh", y), x}, nil, func(r *repeated) {
		mixed := r.op("Add", r.op("Mul", r.carried[2], r.float(0.5)), r.carried[0])
		r.next = []*ssa.Value{r.carried[1], r.carried[0], mixed}
	})
	return b.module([]string{"a", "b", "mixed"}, out...)
}

func loopInPlace() *ssa.Module {
	b := newBuilder("loop-inplace")
	n, x := b.trips(), b.static("x", 16, 16)
	y := b.loop(n, nil, []*ssa.Value{b.op("Abs", x)}, nil, func(r *repeated) {
		r.next = []*ssa.Value{r.op("Relu", r.op("Sub", r.carried[0], r.float(0.125)))}
	})
	return b.module([]string{"y"}, y[0])
}

func loopIdentity() *ssa.Module {
	b := newBuilder("loop-identity")
	n, x, y := b.trips(), b.static("x", 4, 6), b.static("y", 3, 8)
	out := b.loop(n, nil, []*ssa.Value{x, y, b.op("Neg", y)}, nil, func(r *repeated) {
		flat := r.op("Reshape", r.carried[0], r.ints(24))
		next := r.op("Reshape", r.reflect(flat), r.ints(4, 6))
		through := r.op("Reshape", r.op("Reshape", r.carried[2], r.ints(2, -1)), r.ints(3, 8))
		r.next = []*ssa.Value{next, r.op("Identity", r.carried[1]), through}
	})
	return b.module([]string{"a", "b", "c"}, out...)
}

// loopBest keeps the candidate with the largest sum. Where the best one lies
// depends on the data, so no fixed turn of places is right.
func loopBest() *ssa.Module {
	b := newBuilder("loop-best")
	n, x := b.trips(), b.static("x", 4, 16)
	out := b.loop(n, nil, []*ssa.Value{x, b.op("Tanh", x)}, nil, func(r *repeated) {
		best, now := r.carried[0], r.carried[1]
		next := r.op("Tanh", r.op("MatMul", now, r.linear("w", 8, 16, 16)))
		better := r.op("Greater", r.total(next), r.total(best))
		kept := r.branch(better, []*ssa.Value{best, next}, func(b *builder, c []*ssa.Value) []*ssa.Value {
			return []*ssa.Value{b.op("Mul", c[1], b.float(1.0625))}
		}, func(_ *builder, c []*ssa.Value) []*ssa.Value {
			return []*ssa.Value{c[0]}
		})
		r.next = []*ssa.Value{kept[0], next}
	})
	return b.module([]string{"best", "last"}, out...)
}

// total adds up all elements.
func (b *builder) total(v *ssa.Value) *ssa.Value {
	return b.node("ReduceSum", []*ssa.Value{v}, ssa.IntAttr("keepdims", 0))
}

// reflect is 1/4 - 17/16 v: iterated, it neither comes back to where it was nor
// runs away, and every element stays different from its neighbours.
func (b *builder) reflect(v *ssa.Value) *ssa.Value {
	return b.op("Sub", b.float(0.25), b.op("Mul", v, b.float(1.0625)))
}

func loopStack() *ssa.Module {
	b := newBuilder("loop-stack")
	n, x := b.trips(), b.static("x", 2, 12)
	out := b.loop(n, nil, []*ssa.Value{x}, nil, func(r *repeated) {
		h := r.reflect(r.carried[0])
		r.next = []*ssa.Value{r.op("Add", h, r.op("Mul", r.carried[0], r.float(0.125)))}
		r.slices = []*ssa.Value{r.op("Sin", h), r.op("Unsqueeze", r.iter, r.ints(0))}
	})
	return b.module([]string{"last", "all", "steps"}, out...)
}

func loopStackCarried() *ssa.Module {
	b := newBuilder("loop-stack-carried")
	n, x := b.trips(), b.static("x", 3, 8)
	out := b.loop(n, nil, []*ssa.Value{b.op("Neg", x)}, nil, func(r *repeated) {
		h := r.reflect(r.carried[0])
		r.next, r.slices = []*ssa.Value{h}, []*ssa.Value{h, r.carried[0]}
	})
	return b.module([]string{"last", "after", "before"}, out...)
}

func loopUntil() *ssa.Module {
	b := newBuilder("loop-until")
	n, cond, x := b.trips(), b.flag("cond"), b.static("x", 2, 8)
	out := b.loop(n, cond, []*ssa.Value{b.op("Abs", x)}, nil, func(r *repeated) {
		h := r.op("Add", r.op("Mul", r.carried[0], r.float(1.5)), r.float(0.125))
		r.while = r.op("Less", r.total(h), r.float(100))
		r.next, r.slices = []*ssa.Value{h}, []*ssa.Value{r.total(h)}
	})
	return b.module([]string{"y", "sums"}, out...)
}

func loopGrow() *ssa.Module {
	b := newBuilder("loop-grow")
	n, x := b.trips(), b.static("x", 1, 8)
	out := b.loop(n, nil, []*ssa.Value{x, x}, nil, func(r *repeated) {
		cache := r.node("Concat", []*ssa.Value{r.carried[0], r.carried[1]}, ssa.IntAttr("axis", 0))
		scores := r.op("MatMul", r.carried[1], r.transpose(cache, 1, 0))
		mean := r.op("MatMul", r.softmax(scores), cache)
		r.next = []*ssa.Value{cache, r.op("Tanh", r.op("Add", mean, r.carried[1]))}
	})
	return b.module([]string{"cache", "last"}, out...)
}
