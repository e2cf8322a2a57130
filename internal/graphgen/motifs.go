package graphgen

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// motif writes out something that optimizers recognize.
func motif(b *builder, v *ssa.Value) {
	motifs := []func(*builder, *ssa.Value){geluMotif, hardSwishMotif, neutralMotif, clampMotif, sigmoidMotif}
	if v.Type.Rank() >= 1 && lastDim(v) >= 1 && noZero(v) {
		motifs = append(motifs, softmaxMotif)
		if !b.has(Extremes) { // of equal elements it is all rounding
			motifs = append(motifs, layerNormMotif, layerNormMotif)
		}
	}
	motifs[b.rng.IntN(len(motifs))](b, v)
}

// number is a constant of one element; with Extremes, now and then of more dimensions than an operand may have.
func (b *builder) number(v float64) *ssa.Value {
	k := b.limit(v)
	if b.has(Extremes) && b.chance(20) {
		return b.constant(k.Const.Reshaped(1, 1, 1))
	}
	return k
}

// limit is a constant of rank 0.
func (b *builder) limit(v float64) *ssa.Value {
	a := ndarray.Must(b.float)
	a.SetFloat(0, v)
	return b.constant(ssa.NewConstant(a))
}

func geluMotif(b *builder, x *ssa.Value) {
	inner := b.one("Erf", []*ssa.Value{b.one("Div", []*ssa.Value{x, b.number(math.Sqrt2)})})
	if b.chance(40) {
		power := 3.0
		if b.has(Extremes) && b.chance(50) {
			power = 3.5
		}
		cube := b.one("Pow", []*ssa.Value{x, b.number(power)})
		sum := b.one("Add", []*ssa.Value{x, b.one("Mul", []*ssa.Value{cube, b.number(0.044715)})})
		inner = b.one("Tanh", []*ssa.Value{b.one("Mul", []*ssa.Value{b.number(math.Sqrt(2 / math.Pi)), sum})})
	}
	s := b.one("Add", []*ssa.Value{inner, b.number(1)})
	if b.chance(50) {
		b.one("Mul", []*ssa.Value{b.one("Mul", []*ssa.Value{x, s}), b.number(0.5)})
	} else {
		b.one("Mul", []*ssa.Value{b.one("Mul", []*ssa.Value{b.number(0.5), x}), s})
	}
}

func hardSwishMotif(b *builder, x *ssa.Value) {
	h := b.one("Clip", []*ssa.Value{b.one("Add", []*ssa.Value{x, b.number(3)}), b.limit(0), b.limit(6)})
	switch b.rng.IntN(3) {
	case 0:
		b.one("Div", []*ssa.Value{b.one("Mul", []*ssa.Value{x, h}), b.number(6)})
	case 1:
		b.one("Mul", []*ssa.Value{x, b.one("Div", []*ssa.Value{h, b.number(6)})})
	default:
		b.one("Mul", []*ssa.Value{h, b.number(1.0 / 6)})
	}
}

// neutralMotif does nothing, in several ways.
func neutralMotif(b *builder, x *ssa.Value) {
	x = b.one("Mul", []*ssa.Value{x, b.number(1)})
	x = b.one("Add", []*ssa.Value{x, b.number(0)})
	x = b.one("Identity", []*ssa.Value{b.one("Sub", []*ssa.Value{x, b.number(0)})})
	x = b.one("Neg", []*ssa.Value{b.one("Neg", []*ssa.Value{x})})
	b.one("Add", []*ssa.Value{b.one("Add", []*ssa.Value{x, b.number(1.5)}), b.number(2)})
}

func clampMotif(b *builder, x *ssa.Value) {
	y := b.one("Min", []*ssa.Value{b.one("Max", []*ssa.Value{x, b.number(-1)}), b.number(float64(b.rng.IntN(3)))})
	y = b.one("Relu", []*ssa.Value{y})
	b.one("Clip", []*ssa.Value{y, b.limit(-2), b.limit(0.5)})
}

func sigmoidMotif(b *builder, x *ssa.Value) {
	e := b.one("Exp", []*ssa.Value{b.one("Neg", []*ssa.Value{b.one("Tanh", []*ssa.Value{x})})})
	s := b.one("Div", []*ssa.Value{b.number(1), b.one("Add", []*ssa.Value{b.number(1), e})})
	b.one("Mul", []*ssa.Value{s, x})
	b.one("Mul", []*ssa.Value{x, b.one("Sigmoid", []*ssa.Value{x})})
}

func layerNormMotif(b *builder, x *ssa.Value) {
	axis := b.ints(-1)
	mean := b.one("ReduceMean", []*ssa.Value{x, axis})
	d := b.one("Sub", []*ssa.Value{x, mean})
	square := b.one("Pow", []*ssa.Value{d, b.number(2)})
	variance := b.one("Add", []*ssa.Value{b.one("ReduceMean", []*ssa.Value{square, axis}), b.number(0.125)})
	y := b.one("Div", []*ssa.Value{d, b.one("Sqrt", []*ssa.Value{variance})})
	k := lastDim(x)
	if b.chance(70) {
		y = b.one("Mul", []*ssa.Value{y, b.weights(b.float, k)})
	}
	if b.chance(70) {
		b.one("Add", []*ssa.Value{y, b.weights(b.float, k)})
	}
}

func softmaxMotif(b *builder, x *ssa.Value) {
	axis := b.ints(-1)
	e := b.one("Exp", []*ssa.Value{b.one("Sub", []*ssa.Value{x, b.one("ReduceMax", []*ssa.Value{x, axis})})})
	b.one("Div", []*ssa.Value{e, b.one("ReduceSum", []*ssa.Value{e, axis})})
}

// repeat makes an earlier node once more.
func repeat(b *builder) {
	if len(b.g.Nodes) == 0 {
		return
	}
	n := b.g.Nodes[b.rng.IntN(len(b.g.Nodes))]
	if len(n.Bodies) > 0 || len(n.Out) == 0 {
		return
	}
	b.node(n.Op, n.In, len(n.Out), n.Attrs...)
}
