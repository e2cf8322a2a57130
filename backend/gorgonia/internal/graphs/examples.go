package graphs

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The graphs of the examples that come with Gorgonia v0.9.18, layer by layer, with these differences: the layers of dropout,
// whose numbers no two runs share, are left out; inputs are drawn; the autoencoder's corruption is an input.

// mnist is examples/convnet: three convolutions with pooling and two products, for pictures of 28 by 28.
func mnist(b *Builder) *G.Node {
	n := b.times(1)
	h, in := b.data("x", n, 1, 28, 28), 1
	for i, out := range []int{32, 64, 128} {
		w := b.weight(fmt.Sprintf("w%d", i), out, in, 3, 3)
		h = must(G.Rectify(must(G.Conv2d(h, w, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))))
		h = must(G.MaxPool2D(h, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		in = out
	}
	h = must(G.Reshape(h, tensor.Shape{n, 128 * 3 * 3}))
	h = must(G.Rectify(must(G.Mul(h, b.weight("w3", 128*3*3, 625)))))
	p := must(G.SoftMax(must(G.Mul(h, b.weight("w4", 625, 10)))))
	label := b.filled("y", func() float64 { return 0.1 + 0.8*float64(b.rng.IntN(2)) }, n, 10)
	return must(G.Neg(must(G.Mean(must(G.Log(must(G.HadamardProd(p, label))))))))
}

// charLSTM is examples/charRNN: an LSTM of matrices and vectors, a letter at a time from an embedding, and the probability of
// the next letter.
func charLSTM(b *Builder) *G.Node {
	const letters, embedded = 20, 10
	size := int(16 * math.Sqrt(float64(b.factor)))
	gates := map[string][3]*G.Node{}
	for _, name := range []string{"i", "f", "o", "c"} {
		gates[name] = [3]*G.Node{b.weight("w"+name+"x", size, embedded), b.weight("w"+name+"h", size, size), b.weight("bias_"+name, size)}
	}
	embedding, whd, bias := b.weight("Embedding", letters, embedded), b.weight("whd", letters, size), b.weight("bias_d", letters)
	h, c := b.data("prevHidden", size), b.data("prevCell", size)
	var cost *G.Node
	for _, letter := range []int{3, 17, 3, 8} {
		x, prev := must(G.Slice(embedding, G.S(letter))), h
		gate := func(f func(*G.Node) (*G.Node, error), name string) *G.Node {
			w := gates[name]
			return must(f(must(G.Add(must(G.Add(must(G.Mul(w[0], x)), must(G.Mul(w[1], prev)))), w[2]))))
		}
		write := must(G.HadamardProd(gate(G.Sigmoid, "i"), gate(G.Tanh, "c")))
		c = must(G.Add(must(G.HadamardProd(gate(G.Sigmoid, "f"), c)), write))
		h = must(G.HadamardProd(gate(G.Sigmoid, "o"), must(G.Tanh(c))))
		p := must(G.SoftMax(must(G.Add(must(G.Mul(whd, h)), bias))))
		loss := must(G.Slice(must(G.Neg(must(G.Log(p)))), G.S((letter+5)%letters)))
		if cost == nil {
			cost = loss
		} else {
			cost = must(G.Add(cost, loss))
		}
	}
	return cost
}

// tiedAutoencoder is a layer of examples/stacked_autoencoder: it reconstructs its input, a part of which is dropped, by the
// weights that it hides it with.
func tiedAutoencoder(b *Builder) *G.Node {
	n, size, hidden := b.times(8), 60, 40
	x, w := b.zeroOne("x", n, size), b.weight("w", size, hidden)
	y := must(G.Mul(must(G.HadamardProd(b.zeroOne("corruption", n, size), x)), w))
	y = must(G.Sigmoid(must(G.Add(y, b.weight("b", n, hidden)))))
	z := must(G.Mul(y, must(G.Transpose(w))))
	z = must(G.Sigmoid(must(G.Add(z, b.weight("h.b", n, size)))))
	return must(G.Mean(must(G.BinaryXent(z, x))))
}
