package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// LSTM is a long short-term memory layer: https://onnx.ai/onnx/operators/onnx__LSTM.html
//
//	i = f(X·Wiᵀ + H·Riᵀ + Pi∘C + Wbi + Rbi)
//	f = f(X·Wfᵀ + H·Rfᵀ + Pf∘C + Wbf + Rbf)        input_forget: f = 1 - i
//	c = g(X·Wcᵀ + H·Rcᵀ + Wbc + Rbc)
//	C = f∘C + i∘c
//	o = f(X·Woᵀ + H·Roᵀ + Po∘C + Wbo + Rbo)
//	H = o∘h(C)
//
// The weights hold the gates in the order i, o, f, c.
var LSTM = ops.Op{
	Name: "LSTM", Since: 22, Form: bf16Since22(7), Doc: "C = f∘C + i∘c, H = o∘h(C) over a sequence",
	MinIn: 3, MaxIn: 8, MinOut: 0, MaxOut: 3,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("input_forget", 0)}, recurrentAttrs...), Infer: kit.Rule(InferRecurrent(2)),
	Eval:  kit.FloatKernel(evalLSTM[float32], evalLSTM[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: RecurrentCost},
}

func evalLSTM[T float32 | float64](c *ops.Call) {
	r, p := floatRecurrence[T](c, 4, 4)
	RunLSTM(c, r, p)
}

// RunLSTM completes the parts of an LSTM whose products are given and runs it.
func RunLSTM[T kit.RealNum](c *ops.Call, r *Recurrence, p *RecurrentParts[T]) {
	acts := kit.GateFunctions(c.Node, []string{"Sigmoid", "Tanh", "Tanh"}, r.Dirs)
	kit.WantShape("P", c.Array(7), r.Dirs, 3*r.Hidden)
	p.bias = sumBias(r, kit.Elements[T](c, c.Array(3)), 4)
	cell := lstmCell[T]{r: r, p: p, acts: acts, clip: clipper(c.Node), coupled: ops.Int(c.Node, "input_forget") != 0,
		peep: kit.Elements[T](c, c.Array(7)), rec: kit.Make[T](c, 4*r.batch*r.Hidden)}
	p.step = cell.step
	runRecurrence(c, r, p, [2]*ndarray.Array{c.Array(5), c.Array(6)}, 2)
}

// lstmCell computes one step for a batch.
type lstmCell[T kit.RealNum] struct {
	r       *Recurrence
	p       *RecurrentParts[T]
	acts    [][]kit.RealFunc
	clip    func(float64) float64
	coupled bool // input_forget
	peep    []T
	rec     []T // H·Rᵀ
}

func (l *lstmCell[T]) step(d int, active []bool, gate func(int) []T, h, c []T) {
	hid := l.r.Hidden
	clear(l.rec)
	l.p.Hidden(d, 0, 4, h, l.rec)
	for b, on := range active {
		if on {
			l.cell(d, gate(b), l.rec[4*b*hid:4*(b+1)*hid], h[b*hid:(b+1)*hid], c[b*hid:(b+1)*hid])
		}
	}
}

// cell is one step of one sequence; x and rec hold the gates i, o, f, c.
func (l *lstmCell[T]) cell(d int, x, rec, h, c []T) {
	hid, f, g, out := l.r.Hidden, l.acts[d][0], l.acts[d][1], l.acts[d][2]
	for k := range h {
		pre := func(gate int) T { return x[gate*hid+k] + rec[gate*hid+k] }
		peeped := func(gate, peephole int) T {
			if l.peep == nil {
				return pre(gate) // without peepholes an infinite cell state reaches no gate
			}
			return pre(gate) + l.peep[(3*d+peephole)*hid+k]*c[k]
		}
		i := f(l.clip(float64(peeped(0, 0))))
		forget := 1 - i
		if !l.coupled {
			forget = f(l.clip(float64(peeped(2, 2))))
		}
		now := g(l.clip(float64(pre(3))))
		c[k] = T(forget*float64(c[k]) + i*now)
		o := f(l.clip(float64(peeped(1, 1))))
		h[k] = T(o * out(float64(c[k])))
	}
}
