package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
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
var LSTM = Op{
	Name: "LSTM", Since: 22, Form: recurrentForm, Doc: "C = f∘C + i∘c, H = o∘h(C) over a sequence",
	MinIn: 3, MaxIn: 8, MinOut: 0, MaxOut: 3,
	Attrs: append([]AttrSpec{{Name: "input_forget", Kind: ssa.AttrInt}}, recurrentAttrs...), Infer: rule(inferRecurrent(2)),
	Eval:     floatKernel(evalLSTM[float32], evalLSTM[float64]),
	Facts:    Facts{Cost: recurrentCost(4)},
	Upgrades: dropOutputSequence("LSTM"),
}

func evalLSTM[T float32 | float64](c *Call) {
	hidden := hiddenOf(c)
	r := recurrenceOf(c, 4, hidden)
	r.checkWeights(c.Array(1), c.Array(2), c.Array(3))
	p := recurrentParts[T]{}
	p.input, p.hidden = floatProducts(&r, elements[T](c.Array(0)), elements[T](c.Array(1)), elements[T](c.Array(2)))
	runLSTM(c, &r, p)
}

// runLSTM completes the parts of an LSTM whose products are given and runs it.
func runLSTM[T realNum](c *Call, r *recurrence, p recurrentParts[T]) {
	acts := gateFunctions(c.Node, []string{"Sigmoid", "Tanh", "Tanh"}, r.dirs)
	wantShape("P", c.Array(7), r.dirs, 3*r.hidden)
	p.bias = sumBias(r, elements[T](c.Array(3)), 4)
	cell := lstmCell[T]{r: r, p: &p, acts: acts, clip: clipper(c.Node), coupled: c.Node.Int("input_forget", 0) != 0,
		peep: elements[T](c.Array(7)), rec: make([]T, 4*r.batch*r.hidden)}
	p.step = cell.step
	runRecurrence(c, r, p, [2]*ndarray.Array{c.Array(5), c.Array(6)}, 2)
}

// lstmCell computes one step for a batch.
type lstmCell[T realNum] struct {
	r       *recurrence
	p       *recurrentParts[T]
	acts    [][]realFunc
	clip    func(float64) float64
	coupled bool // input_forget
	peep    []T
	rec     []T // H·Rᵀ
}

func (l *lstmCell[T]) step(d int, active []bool, gate func(int) []T, h, c []T) {
	hid := l.r.hidden
	clear(l.rec)
	l.p.hidden(d, 0, 4, h, l.rec)
	for b, on := range active {
		if on {
			l.cell(d, gate(b), l.rec[4*b*hid:4*(b+1)*hid], h[b*hid:(b+1)*hid], c[b*hid:(b+1)*hid])
		}
	}
}

// cell is one step of one sequence; x and rec hold the gates i, o, f, c.
func (l *lstmCell[T]) cell(d int, x, rec, h, c []T) {
	hid, f, g, out := l.r.hidden, l.acts[d][0], l.acts[d][1], l.acts[d][2]
	peep := func(gate, i int) T { return 0 }
	if l.peep != nil {
		peep = func(gate, i int) T { return l.peep[(3*d+gate)*hid+i] }
	}
	for k := range h {
		pre := func(gate int) T { return x[gate*hid+k] + rec[gate*hid+k] }
		i := f(l.clip(float64(pre(0) + peep(0, k)*c[k])))
		forget := 1 - i
		if !l.coupled {
			forget = f(l.clip(float64(pre(2) + peep(2, k)*c[k])))
		}
		now := g(l.clip(float64(pre(3))))
		c[k] = T(forget*float64(c[k]) + i*now)
		o := f(l.clip(float64(pre(1) + peep(1, k)*c[k])))
		h[k] = T(o * out(float64(c[k])))
	}
}
