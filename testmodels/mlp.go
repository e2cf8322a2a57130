package testmodels

import "github.com/berth-onnx/berth/ssa"

var mlpModels = []Builtin{
	{Name: "mlp", Doc: "three fully connected layers", Build: mlp},
}

// dense adds a fully connected layer.
func (b *builder) dense(x *ssa.Value, name string, in, out int) *ssa.Value {
	c := b.at("%s", name)
	return c.node("Gemm", []*ssa.Value{x, c.weight("weight", in, out, in), c.vector("bias", 0, 0.05, out)}, ssa.IntAttr("transB", 1))
}

func mlp() *ssa.Module {
	b := newBuilder("mlp")
	x := b.static("x", 4, 64)
	h := b.op("Relu", b.dense(x, "fc1", 64, 128))
	h = b.op("Relu", b.dense(h, "fc2", 128, 128))
	return b.module([]string{"probabilities"}, b.softmax(b.dense(h, "fc3", 128, 10)))
}
