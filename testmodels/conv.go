package testmodels

import "github.com/berth-onnx/berth/ssa"

var convModels = []Builtin{
	{Name: "residual", Doc: "two convolutions with a skip connection", Build: residual},
	{Name: "inception", Doc: "four towers joined by Concat", Build: inception},
	{Name: "dense-block", Doc: "every layer reads all before it, joined by Concat", Build: denseBlock},
	{Name: "shared", Doc: "one kernel in three layers, one table read and transposed", Build: shared},
}

// conv adds a k x k convolution without bias that keeps the size, divided by
// stride. Its weights keep the variance of what it reads.
func (b *builder) conv(x *ssa.Value, name string, in, out, k, stride int) *ssa.Value {
	return b.convWith(x, b.linear(name, in*k*k, out, in, k, k), k, stride)
}

// convWith adds a k x k convolution with given weights and further attributes.
func (b *builder) convWith(x, w *ssa.Value, k, stride int, attrs ...ssa.Attr) *ssa.Value {
	p, s := int64(k/2), int64(stride)
	attrs = append(attrs, ssa.IntsAttr("kernel_shape", int64(k), int64(k)), ssa.IntsAttr("pads", p, p, p, p), ssa.IntsAttr("strides", s, s))
	return b.node("Conv", []*ssa.Value{x, w}, attrs...)
}

// convRelu adds a convolution with a bias, followed by Relu.
func (b *builder) convRelu(x *ssa.Value, name string, in, out, k, stride int) *ssa.Value {
	y := b.convWith(x, b.weight(name, in*k*k, out, in, k, k), k, stride)
	n := y.Def
	n.AddInput(b.vector(name+".bias", 0, 0.05, out))
	return b.op("Relu", y)
}

// batchNorm adds a batch normalization as trained networks have it: its
// statistics are near those of what it reads, its gain is given.
func (b *builder) batchNorm(x *ssa.Value, name string, channels int, gain float64) *ssa.Value {
	c := b.at("%s", name)
	return b.nodes("BatchNormalization", []*ssa.Value{x, c.vector("weight", gain, 0.1*gain, channels), c.vector("bias", 0, 0.1, channels),
		c.vector("running_mean", 0, 0.1, channels), c.vector("running_var", 1, 0.1, channels)}, 1)[0]
}

// join concatenates along axis 1, the channels.
func (b *builder) join(parts ...*ssa.Value) *ssa.Value {
	return b.node("Concat", parts, ssa.IntAttr("axis", 1))
}

func residual() *ssa.Module {
	b := newBuilder("residual")
	x := b.static("x", 1, 16, 32, 32)
	y := b.op("Relu", b.conv(x, "w1", 16, 16, 3, 1))
	y = b.conv(y, "w2", 16, 16, 3, 1)
	return b.module([]string{"y"}, b.op("Relu", b.op("Add", y, x)))
}

func inception() *ssa.Module {
	b := newBuilder("inception")
	x := b.static("x", 1, 16, 16, 16)
	same := []ssa.Attr{ssa.IntsAttr("kernel_shape", 3, 3), ssa.IntsAttr("pads", 1, 1, 1, 1)}
	y := x
	for i := range 2 {
		t := b.at("block%d", i)
		y = t.join(
			t.convRelu(y, "a", 16, 4, 1, 1),
			t.convRelu(t.convRelu(y, "b1", 16, 8, 1, 1), "b2", 8, 4, 3, 1),
			t.convRelu(t.convRelu(y, "c1", 16, 4, 1, 1), "c2", 4, 4, 5, 1),
			t.convRelu(t.node("MaxPool", []*ssa.Value{y}, same...), "d", 16, 4, 1, 1),
		)
	}
	return b.module([]string{"y"}, y)
}

func denseBlock() *ssa.Module {
	b := newBuilder("dense-block")
	x := b.static("x", 1, 8, 16, 16)
	const growth = 4
	y, channels := x, 8
	for i := range 4 {
		l := b.at("layer%d", i)
		y = l.join(y, l.convRelu(y, "w", channels, growth, 3, 1))
		channels += growth
	}
	y = b.node("AveragePool", []*ssa.Value{y}, ssa.IntsAttr("kernel_shape", 2, 2), ssa.IntsAttr("strides", 2, 2))
	return b.module([]string{"y"}, y)
}

// shared reads its embedding table by rows going in and transposed coming out, as
// language models with tied weights do.
func shared() *ssa.Module {
	b := newBuilder("shared")
	ids := b.indices("ids", ssa.D(6))
	table, w := b.random("table", 0, 1, 10, 16), b.linear("w", 8, 16, 16)
	h := b.op("Gather", table, ids)
	for range 3 {
		h = b.op("Tanh", b.op("MatMul", h, w))
	}
	logits := b.op("MatMul", h, b.transpose(table, 1, 0))
	return b.module([]string{"scores"}, logits)
}
