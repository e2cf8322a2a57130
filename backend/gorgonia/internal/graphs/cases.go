package graphs

import (
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Cases lists the graphs.
var Cases = []Case{
	{Name: "linear regression", Build: linearRegression},
	{Name: "logistic regression", Build: logisticRegression},
	{Name: "perceptron", Build: perceptron},
	{Name: "convolutional network", Build: convNet},
	{Name: "LSTM", Build: lstm},
	{Name: "GRU", Build: gru},
	{Name: "autoencoder", Build: autoencoder},
	{Name: "stacked denoising autoencoder", Build: denoising},
	{Name: "character RNN", Build: charRNN},
	{Name: "embedding by one-hot", Build: oneHotEmbedding},
	{Name: "embedding by indices", Build: indexEmbedding},
	{Name: "batch normalization", Build: batchNormNet},
	{Name: "dropout of nothing", Build: dropoutNet, Wrong: "the gradient of Dropout is 0 where nothing is dropped"},
	{Name: "attention", Build: attention},
	{Name: "broadcast arithmetic", Build: broadcasts},
	{Name: "softmax cross-entropy", Build: crossEntropy},
	{Name: "L2 loss", Build: ridge},
	{Name: "upsampling", Build: upsampling},
	{Name: "max pooling", Build: maxPooling},
	{Name: "average pooling", Build: averagePooling, Wrong: "AveragePool2D divides by the width of the image"},
	{Name: "movement", Build: movement},
	{Name: "group normalization", Build: groupNorm},
	{Name: "elementwise functions", Build: functions},
	{Name: "tensor products", Build: tensorProducts},
	{Name: "sparsemax attention", Build: sparseAttention},
	{Name: "Gorgonia's example convnet", Build: mnist},
	{Name: "Gorgonia's example charRNN", Build: charLSTM},
	{Name: "Gorgonia's example stacked_autoencoder", Build: tiedAutoencoder},
}

func meanSquare(x, y *G.Node) *G.Node {
	return must(G.Mean(must(G.Square(must(G.Sub(x, y))))))
}

// plus adds a row to every row of a matrix.
func plus(x, row *G.Node) *G.Node { return must(G.BroadcastAdd(x, row, nil, []byte{0})) }

func linearRegression(b *Builder) *G.Node {
	n := b.times(2048)
	x, y := b.data("x", n, 32), b.data("y", n)
	w, c := b.weight("w", 32), b.weight("c", 1)
	pred := must(G.Mul(x, w))
	pred = must(G.BroadcastAdd(must(G.Reshape(pred, tensor.Shape{n, 1})), must(G.Reshape(c, tensor.Shape{1, 1})), nil, []byte{0}))
	return meanSquare(must(G.Reshape(pred, tensor.Shape{n})), y)
}

func logisticRegression(b *Builder) *G.Node {
	n := b.times(2048)
	x, y, w := b.data("x", n, 32), b.zeroOne("y", n), b.weight("w", 32)
	p := must(G.Sigmoid(must(G.Mul(x, w))))
	return must(G.Mean(must(G.BinaryXent(p, y))))
}

// logLoss is the mean of -log p where y is hot.
func (b *Builder) logLoss(logits, y *G.Node) *G.Node {
	logp := must(G.Log(must(G.SoftMax(logits))))
	return must(G.Neg(must(G.Mean(must(G.HadamardProd(logp, y))))))
}

func perceptron(b *Builder) *G.Node {
	n := b.times(16)
	x, y := b.data("x", n, 100), b.hot("y", n, 10)
	h := must(G.Rectify(plus(must(G.Mul(x, b.weight("w0", 100, 64))), b.weight("b0", 1, 64))))
	h = must(G.Rectify(plus(must(G.Mul(h, b.weight("w1", 64, 32))), b.weight("b1", 1, 32))))
	return b.logLoss(plus(must(G.Mul(h, b.weight("w2", 32, 10))), b.weight("b2", 1, 10)), y)
}

func convNet(b *Builder) *G.Node {
	n := b.times(2)
	x, y := b.data("x", n, 1, 14, 14), b.hot("y", n, 10)
	k := tensor.Shape{3, 3}
	pad, one, two := []int{1, 1}, []int{1, 1}, []int{2, 2}
	h := must(G.Rectify(must(G.Conv2d(x, b.weight("w0", 8, 1, 3, 3), k, pad, one, one))))
	h = must(G.MaxPool2D(h, tensor.Shape{2, 2}, []int{0, 0}, two))
	h = must(G.Rectify(must(G.Conv2d(h, b.weight("w1", 16, 8, 3, 3), k, pad, one, one))))
	h = must(G.MaxPool2D(h, tensor.Shape{2, 2}, []int{0, 0}, two))
	h = must(G.Reshape(h, tensor.Shape{n, 16 * 9}))
	return b.logLoss(must(G.Mul(h, b.weight("w2", 16*9, 10))), y)
}

// gate is f(x·w + h·u + b).
func (b *Builder) gate(f func(*G.Node) (*G.Node, error), x, h, w, u, c *G.Node) *G.Node {
	return must(f(plus(must(G.Add(must(G.Mul(x, w)), must(G.Mul(h, u)))), c)))
}

// cellWeights are those of one gate.
func (b *Builder) cellWeights(name string, in, size int) (w, u, c *G.Node) {
	return b.weight(name+".w", in, size), b.weight(name+".u", size, size), b.weight(name+".b", 1, size)
}

func lstm(b *Builder) *G.Node {
	n, in, size := b.times(4), 12, 16
	h, c := b.data("h", n, size), b.data("c", n, size)
	iw, iu, ib := b.cellWeights("i", in, size)
	fw, fu, fb := b.cellWeights("f", in, size)
	ow, ou, ob := b.cellWeights("o", in, size)
	gw, gu, gb := b.cellWeights("g", in, size)
	for _, name := range []string{"x0", "x1", "x2", "x3"} {
		x := b.data(name, n, in)
		i, f, o := b.gate(G.Sigmoid, x, h, iw, iu, ib), b.gate(G.Sigmoid, x, h, fw, fu, fb), b.gate(G.Sigmoid, x, h, ow, ou, ob)
		g := b.gate(G.Tanh, x, h, gw, gu, gb)
		c = must(G.Add(must(G.HadamardProd(f, c)), must(G.HadamardProd(i, g))))
		h = must(G.HadamardProd(o, must(G.Tanh(c))))
	}
	return must(G.Mean(must(G.Square(h))))
}

func gru(b *Builder) *G.Node {
	n, in, size := b.times(4), 12, 16
	h := b.data("h", n, size)
	zw, zu, zb := b.cellWeights("z", in, size)
	rw, ru, rb := b.cellWeights("r", in, size)
	hw, hu, hb := b.cellWeights("h", in, size)
	for _, name := range []string{"x0", "x1", "x2", "x3"} {
		x := b.data(name, n, in)
		z, r := b.gate(G.Sigmoid, x, h, zw, zu, zb), b.gate(G.Sigmoid, x, h, rw, ru, rb)
		next := b.gate(G.Tanh, x, must(G.HadamardProd(r, h)), hw, hu, hb)
		kept := must(G.HadamardProd(must(G.Sub(b.number(1), z)), h))
		h = must(G.Add(kept, must(G.HadamardProd(z, next))))
	}
	return must(G.Mean(must(G.Square(h))))
}

func autoencoder(b *Builder) *G.Node {
	x := b.data("x", b.times(16), 64)
	h := must(G.Sigmoid(plus(must(G.Mul(x, b.weight("w", 64, 16))), b.weight("b", 1, 16))))
	return meanSquare(plus(must(G.Mul(h, b.weight("v", 16, 64))), b.weight("c", 1, 64)), x)
}

func denoising(b *Builder) *G.Node {
	n := b.times(16)
	x, noise := b.data("x", n, 64), b.zeroOne("noise", n, 64)
	h := must(G.HadamardProd(x, noise))
	for i, size := range []int{64, 32, 16} {
		name := string(rune('0' + i))
		h = must(G.Sigmoid(plus(must(G.Mul(h, b.weight("w"+name, size, size/2))), b.weight("b"+name, 1, size/2))))
	}
	return meanSquare(must(G.Mul(h, b.weight("v", 8, 64))), x)
}

func charRNN(b *Builder) *G.Node {
	n, chars, size := b.times(4), 24, 32
	h := b.data("h", n, size)
	w, u, c := b.cellWeights("cell", chars, size)
	v := b.weight("v", size, chars)
	var cost *G.Node
	for _, step := range []string{"0", "1", "2"} {
		h = b.gate(G.Tanh, b.hot("x"+step, n, chars), h, w, u, c)
		loss := b.logLoss(must(G.Mul(h, v)), b.hot("y"+step, n, chars))
		if cost == nil {
			cost = loss
		} else {
			cost = must(G.Add(cost, loss))
		}
	}
	return cost
}

func oneHotEmbedding(b *Builder) *G.Node {
	n := b.times(16)
	e := must(G.Mul(b.hot("words", n, 50), b.weight("table", 50, 16)))
	return b.logLoss(must(G.Mul(must(G.Tanh(e)), b.weight("w", 16, 10))), b.hot("y", n, 10))
}

func indexEmbedding(b *Builder) *G.Node {
	n := b.times(16)
	e := must(G.ByIndices(b.weight("table", 50, 16), b.indices("words", n, 50), 0))
	return b.logLoss(must(G.Mul(must(G.Tanh(e)), b.weight("w", 16, 10))), b.hot("y", n, 10))
}

func batchNormNet(b *Builder) *G.Node {
	n := b.times(4)
	x, k := b.data("x", n, 3, 8, 8), tensor.Shape{3, 3}
	h := must(G.Conv2d(x, b.weight("w", 6, 3, 3, 3), k, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	h, _, _, _, err := G.BatchNorm(h, b.weight("scale", 1, 6, 1, 1), b.weight("bias", 1, 6, 1, 1), 0.9, 1e-5)
	return must(G.Mean(must(G.Square(must(G.Sub(must(G.Tanh(must(h, err))), b.data("y", n, 6, 8, 8)))))))
}

func dropoutNet(b *Builder) *G.Node {
	n := b.times(16)
	h := must(G.Tanh(must(G.Mul(b.data("x", n, 32), b.weight("w0", 32, 32)))))
	h = must(G.Dropout(h, 0))
	return b.logLoss(must(G.Mul(h, b.weight("w1", 32, 10))), b.hot("y", n, 10))
}

func attention(b *Builder) *G.Node {
	n, length, size := b.times(2), 12, 16
	x := b.data("x", n*length, size)
	heads := func(name string) *G.Node {
		return must(G.Reshape(must(G.Mul(x, b.weight(name, size, size))), tensor.Shape{n, length, size}))
	}
	q, k, v := heads("q"), heads("k"), heads("v")
	scores := must(G.HadamardProd(must(G.BatchedMatMul(q, k, false, true)), b.number(0.25)))
	out := must(G.BatchedMatMul(must(G.SoftMax(scores, 2)), v))
	out = must(G.Mul(must(G.Reshape(out, tensor.Shape{n * length, size})), b.weight("o", size, size)))
	return meanSquare(must(G.Add(out, x)), b.data("y", n*length, size))
}

// sparseAttention weighs a table of rows by few of them.
func sparseAttention(b *Builder) *G.Node {
	n, rows, size := b.times(8), 12, 16
	p := must(G.Sparsemax(must(G.Mul(b.data("x", n, size), b.weight("q", size, rows)))))
	return meanSquare(must(G.Mul(p, b.weight("table", rows, size))), b.data("y", n, size))
}

func broadcasts(b *Builder) *G.Node {
	n := b.times(16)
	x, row, col := b.data("x", n, 32), b.weight("row", 1, 32), b.weight("col", n, 1)
	h := must(G.BroadcastHadamardProd(x, row, nil, []byte{0}))
	h = must(G.BroadcastSub(h, col, nil, []byte{1}))
	h = must(G.HadamardDiv(h, must(G.Add(must(G.Square(x)), b.number(1)))))
	h = must(G.BroadcastHadamardProd(h, must(G.BroadcastAdd(row, col, []byte{0}, []byte{1})), nil, nil))
	return must(G.Mean(must(G.Square(h))))
}

func crossEntropy(b *Builder) *G.Node {
	n := b.times(16)
	logits := plus(must(G.Mul(b.data("x", n, 40), b.weight("w", 40, 20))), b.weight("b", 1, 20))
	return b.logLoss(logits, b.hot("y", n, 20))
}

func ridge(b *Builder) *G.Node {
	n := b.times(64)
	x, y, w := b.data("x", n, 24), b.data("y", n), b.weight("w", 24)
	loss := meanSquare(must(G.Mul(x, w)), y)
	return must(G.Add(loss, must(G.HadamardProd(b.number(0.1), must(G.Sum(must(G.Square(w))))))))
}

func upsampling(b *Builder) *G.Node {
	x, k := b.data("x", b.times(1), 3, 6, 6), tensor.Shape{3, 3}
	h := must(G.Tanh(must(G.Conv2d(x, b.weight("w0", 4, 3, 3, 3), k, []int{1, 1}, []int{1, 1}, []int{1, 1}))))
	h = must(G.Upsample2D(h, 2))
	return must(G.Mean(must(G.Square(must(G.Conv2d(h, b.weight("w1", 2, 4, 3, 3), k, []int{0, 0}, []int{2, 2}, []int{1, 1}))))))
}

func maxPooling(b *Builder) *G.Node {
	x := b.weight("x", b.times(2), 3, 12, 12)
	h := must(G.MaxPool2D(x, tensor.Shape{3, 3}, []int{1, 1}, []int{2, 2}))
	return must(G.Mean(must(G.Square(h))))
}

func averagePooling(b *Builder) *G.Node {
	x := b.weight("x", b.times(2), 3, 12, 12)
	h := must(G.AveragePool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	return must(G.Mean(must(G.Square(h))))
}

func movement(b *Builder) *G.Node {
	n := b.times(8)
	x, y := b.weight("x", n, 12), b.weight("y", n, 6)
	j := must(G.Concat(1, x, y))
	left, right := must(G.Slice(j, nil, G.S(0, 9))), must(G.Slice(j, nil, G.S(9, 18)))
	h := must(G.HadamardProd(must(G.Transpose(left, 1, 0)), must(G.Transpose(right, 1, 0))))
	h = must(G.Reshape(h, tensor.Shape{3, 3, n}))
	h = must(G.Mul(must(G.Reshape(must(G.Transpose(h, 2, 1, 0)), tensor.Shape{n, 9})), b.weight("w", 9, 5)))
	return must(G.Mean(must(G.Square(h))))
}

func groupNorm(b *Builder) *G.Node {
	n := b.times(2)
	x := b.weight("x", n, 6, 8, 8)
	h := must(G.GroupNorm(x, b.weight("scale", 1, 6, 1, 1), b.weight("bias", 1, 6, 1, 1), 3, 6, 1e-5))
	return meanSquare(must(G.Tanh(h)), b.data("y", n, 6, 8, 8))
}

func functions(b *Builder) *G.Node {
	x := b.weight("x", b.times(64), 16)
	half := must(G.HadamardProd(must(G.Sigmoid(x)), b.number(0.5)))
	sum := must(G.Add(must(G.Softplus(x)), must(G.Cube(half))))
	for _, f := range []func(*G.Node) (*G.Node, error){G.Sqrt, G.Inverse, G.Log1p, G.Expm1, G.Sin, G.Cos, G.Exp, G.Log} {
		sum = must(G.Add(sum, must(f(half))))
	}
	return must(G.Mean(must(G.Add(sum, must(G.LeakyRelu(x, 0.1))))))
}

func tensorProducts(b *Builder) *G.Node {
	n := b.times(32)
	u, v := b.weight("u", n), b.weight("v", 8)
	s := must(G.Mul(must(G.Mul(b.data("m", n, 8), v)), u))
	x := b.data("x", n, 4, 8)
	t := must(G.Tensordot([]int{1, 2}, []int{0, 1}, x, b.weight("t", 4, 8, 3)))
	return must(G.Add(must(G.Mean(must(G.Square(t)))), must(G.HadamardProd(s, b.number(0.1)))))
}
