package oracle

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var gatesOf = map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}

// layer is a recurrent case; konst makes weights and bias constant.
func layer(op string, seq, batch, input, hidden, dirs int, konst bool, attrs ...ssa.Attr) opCase {
	g := gatesOf[op]
	w, r, b := f32s(dirs, g*hidden, input), f32s(dirs, g*hidden, hidden), f32s(dirs, 2*g*hidden)
	if konst {
		w, r, b = w.c(), r.c(), b.c()
	}
	k := opCase{op: op, outs: 2, tol: 1e-5, attrs: attrs, in: []arg{f32s(seq, batch, input), w, r, b}}
	if op == "LSTM" {
		k.outs = 3
	}
	if dirs == 2 {
		k.attrs = append(k.attrs, ssa.StringAttr("direction", "bidirectional"))
	}
	for i := range k.in { // keep gates out of saturation, where errors hide
		k.in[i] = k.in[i].between(-0.5, 0.5)
	}
	return k
}

// with replaces operands from position 4 on.
func (k opCase) with(more ...arg) opCase {
	k.in = append(append([]arg(nil), k.in[:4]...), more...)
	return k
}

func lensOf(batch, seq int) arg {
	return arg{dt: ndarray.Int32, shape: []int{batch}}.from(func(r *rand.Rand) float64 { return float64(r.Intn(seq + 1)) })
}

func TestRecurrent(t *testing.T) {
	for _, op := range []string{"LSTM", "GRU", "RNN"} {
		for _, konst := range []bool{true, false} {
			for dirs := 1; dirs <= 2; dirs++ {
				base := layer(op, 5, 3, 7, 9, dirs, konst)
				states := []arg{f32s(dirs, 3, 9)}
				if op == "LSTM" {
					states = append(states, f32s(dirs, 3, 9))
				}
				noBias := base
				noBias.in = base.in[:3]
				runCases(t, []opCase{base, noBias, base.with(absent, states[0]), base.with(append([]arg{lensOf(3, 5)}, states...)...),
					layer(op, 6, 1, 33, 40, dirs, konst), layer(op, 1, 2, 33, 40, dirs, konst), layer(op, 12, 1, 5, 6, dirs, konst)})
			}
		}
		h := 6
		first := layer(op, 4, 3, 5, h, 2, true, ssa.IntAttr("layout", 1))
		runCases(t, []opCase{
			layer(op, 4, 3, 5, h, 1, true, ssa.StringAttr("direction", "reverse")),
			layer(op, 4, 3, 5, h, 1, true, ssa.StringAttr("direction", "reverse")).with(lensOf(3, 4)),
			first, first.with(lensOf(4, 3)), first.with(absent, f32s(4, 2, h)),
			layer(op, 4, 3, 5, h, 1, true, ssa.FloatAttr("clip", 0.1)),
		})
	}
}

func TestRecurrentVariants(t *testing.T) {
	lbr := ssa.IntAttr("linear_before_reset", 1)
	for _, konst := range []bool{true, false} {
		runCases(t, []opCase{
			layer("GRU", 5, 3, 7, 9, 2, konst, lbr),
			layer("GRU", 5, 3, 7, 9, 1, konst, lbr).with(lensOf(3, 5), f32s(1, 3, 9)),
		})
	}
	peep := layer("LSTM", 5, 3, 7, 9, 2, true).with(absent, absent, absent, f32s(2, 27))
	clipped := peep
	clipped.attrs = append([]ssa.Attr{ssa.FloatAttr("clip", 0.3)}, peep.attrs...)
	runCases(t, []opCase{peep, clipped,
		layer("LSTM", 5, 3, 7, 9, 1, true, ssa.IntAttr("input_forget", 1)),
		layer("LSTM", 5, 3, 7, 9, 1, true, ssa.StringsAttr("activations", "HardSigmoid", "Softsign", "Relu"),
			ssa.FloatsAttr("activation_alpha", 0.3), ssa.FloatsAttr("activation_beta", 0.4)),
	})
	for _, act := range []string{"Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "HardSigmoid", "LeakyRelu", "Elu", "Affine", "ScaledTanh", "ThresholdedRelu"} {
		runCases(t, []opCase{
			layer("RNN", 3, 2, 4, 5, 1, true, ssa.StringsAttr("activations", act)),
			layer("RNN", 3, 2, 4, 5, 2, true, ssa.StringsAttr("activations", act, act), ssa.FloatsAttr("activation_alpha", 0.3, 0.7), ssa.FloatsAttr("activation_beta", 0.2)),
		})
	}
	for i, unused := range [][]int{{0}, {1}, {2}, {1, 2}, {0, 2}} {
		k := layer("LSTM", 5, 3, 7, 9, 2, true)
		k.name, k.unused = fmt.Sprint("unused", i), unused
		runCases(t, []opCase{k})
	}
	bad := layer("GRU", 5, 3, 7, 9, 1, true).with(arg{dt: ndarray.Int32, shape: []int{3}}.between(6, 9))
	bad.fails = true
	runCases(t, []opCase{bad})
}
