package testmodels

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var transformerModels = []Builtin{
	{Name: "encoder", Doc: "a BERT-like transformer encoder: 4 layers, any batch N and length S", Build: encoder},
	{Name: "decoder", Doc: "one step of a GPT-like decoder: 4 layers, a cache of P steps", Build: decoder},
}

// transformer is the size of a model.
type transformer struct{ layers, width, heads, vocabulary, positions int }

var (
	encoderSize = transformer{layers: 4, width: 128, heads: 4, vocabulary: 1000, positions: 512}
	decoderSize = transformer{layers: 4, width: 96, heads: 6, vocabulary: 500, positions: 256}
)

// project adds x W + b.
func (b *builder) project(x *ssa.Value, name string, in, out int) *ssa.Value {
	c := b.at("%s", name)
	return c.op("Add", c.op("MatMul", x, c.linear("weight", in, in, out)), c.vector("bias", 0, 0.02, out))
}

// layerNorm is written out in elementary operators, as exporters do for older
// operator sets: (x - mean) / sqrt(variance + eps) * gain + bias.
func (b *builder) layerNorm(x *ssa.Value, name string, width int) *ssa.Value {
	c := b.at("%s", name)
	centred := c.op("Sub", x, c.op("ReduceMean", x, c.ints(-1)))
	variance := c.op("ReduceMean", c.op("Pow", centred, c.float(2)), c.ints(-1))
	y := c.op("Div", centred, c.op("Sqrt", c.op("Add", variance, c.float(1e-5))))
	return c.op("Add", c.op("Mul", y, c.vector("weight", 1, 0.05, width)), c.vector("bias", 0, 0.02, width))
}

// gelu is x/2 * (1 + erf(x / sqrt 2)), written out.
func (b *builder) gelu(x *ssa.Value) *ssa.Value {
	e := b.op("Erf", b.op("Div", x, b.float(math.Sqrt2)))
	return b.op("Mul", b.op("Mul", x, b.op("Add", e, b.float(1))), b.float(0.5))
}

// feedForward is the part of a layer that sees each position alone.
func (b *builder) feedForward(x *ssa.Value, width int) *ssa.Value {
	return b.project(b.gelu(b.project(x, "up", width, 4*width)), "down", 4*width, width)
}

// split turns N x S x width into N x heads x S x width/heads.
func (t transformer) split(b *builder, x *ssa.Value) *ssa.Value {
	y := b.shaped(x, b.size(x, 0), b.size(x, 1), b.ints(int64(t.heads)), b.ints(int64(t.width/t.heads)))
	return b.transpose(y, 0, 2, 1, 3)
}

// attend is softmax(q k^T / sqrt d + mask) v, with the heads joined again.
func (t transformer) attend(b *builder, q, k, v, mask *ssa.Value) *ssa.Value {
	scores := b.op("MatMul", q, b.transpose(k, 0, 1, 3, 2))
	scores = b.op("Div", scores, b.float(float32(math.Sqrt(float64(t.width/t.heads)))))
	if mask != nil {
		scores = b.op("Add", scores, mask)
	}
	y := b.transpose(b.op("MatMul", b.softmax(scores), v), 0, 2, 1, 3)
	return b.shaped(y, b.size(y, 0), b.size(y, 1), b.ints(int64(t.width)))
}

func encoder() *ssa.Module {
	t, b := encoderSize, newBuilder("encoder")
	ids, mask := b.indices("ids", ssa.Sym("N"), ssa.Sym("S")), b.indices("mask", ssa.Sym("N"), ssa.Sym("S"))
	table := b.random("embedding", 0, 1, t.vocabulary, t.width)
	places := b.op("Slice", b.random("positions", 0, 0.3, t.positions, t.width), b.ints(0), b.size(ids, 1), b.ints(0))
	x := b.layerNorm(b.op("Add", b.op("Gather", table, ids), places), "norm", t.width)

	seen := b.cast(b.op("Unsqueeze", mask, b.ints(1, 2)), int64(ndarray.Float32))
	hidden := b.op("Mul", b.op("Sub", b.float(1), seen), b.float(-10000))
	for i := range t.layers {
		l := b.at("layer%d", i)
		q, k, v := l.project(x, "query", t.width, t.width), l.project(x, "key", t.width, t.width), l.project(x, "value", t.width, t.width)
		y := t.attend(l, t.split(l, q), t.split(l, k), t.split(l, v), hidden)
		x = l.layerNorm(l.op("Add", x, l.project(y, "output", t.width, t.width)), "norm1", t.width)
		x = l.layerNorm(l.op("Add", x, l.feedForward(x, t.width)), "norm2", t.width)
	}
	first := b.op("Gather", b.transpose(x, 1, 0, 2), b.int(0))
	return b.module([]string{"hidden", "pooled"}, x, b.op("Tanh", b.project(first, "pooler", t.width, t.width)))
}

// decoder takes one token per sequence and the keys and values of the P tokens
// before it, and gives the scores of the next token and the caches with the new
// step at their ends.
func decoder() *ssa.Module {
	t, b := decoderSize, newBuilder("decoder")
	ids := b.indices("ids", ssa.Sym("N"), ssa.D(1))
	cache := []ssa.Dim{ssa.Sym("N"), ssa.D(int64(t.heads)), ssa.Sym("P"), ssa.D(int64(t.width / t.heads))}
	var past []*ssa.Value
	for i := range t.layers {
		past = append(past, b.input(fmt.Sprintf("past_key%d", i), cache...), b.input(fmt.Sprintf("past_value%d", i), cache...))
	}
	table := b.random("embedding", 0, 1, t.vocabulary, t.width)
	position := b.op("Gather", b.random("positions", 0, 0.3, t.positions, t.width), b.size(past[0], 2))
	x := b.op("Add", b.op("Gather", table, ids), position)

	outs, named := []*ssa.Value{nil}, []string{"scores"}
	for i := range t.layers {
		l := b.at("layer%d", i)
		qkv := l.project(l.layerNorm(x, "norm1", t.width), "attention", t.width, 3*t.width)
		p := l.nodes("Split", []*ssa.Value{qkv}, 3, ssa.IntAttr("axis", 2), ssa.IntAttr("num_outputs", 3))
		k := l.node("Concat", []*ssa.Value{past[2*i], t.split(l, p[1])}, ssa.IntAttr("axis", 2))
		v := l.node("Concat", []*ssa.Value{past[2*i+1], t.split(l, p[2])}, ssa.IntAttr("axis", 2))
		x = l.op("Add", x, l.project(t.attend(l, t.split(l, p[0]), k, v, nil), "output", t.width, t.width))
		x = l.op("Add", x, l.feedForward(l.layerNorm(x, "norm2", t.width), t.width))
		outs, named = append(outs, k, v), append(named, fmt.Sprintf("key%d", i), fmt.Sprintf("value%d", i))
	}
	outs[0] = b.op("MatMul", b.layerNorm(x, "norm", t.width), b.transpose(table, 1, 0))
	return b.module(named, outs...)
}
