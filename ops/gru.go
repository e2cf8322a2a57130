package ops

import (
	"github.com/berth-onnx/berth/ndarray"
)

// GRU is a gated recurrent layer: https://onnx.ai/onnx/operators/onnx__GRU.html
//
//	z = f(X·Wzᵀ + H·Rzᵀ + Wbz + Rbz)
//	r = f(X·Wrᵀ + H·Rrᵀ + Wbr + Rbr)
//	n = g(X·Whᵀ + (r∘H)·Rhᵀ + Rbh + Wbh)       linear_before_reset = 0
//	n = g(X·Whᵀ + r∘(H·Rhᵀ + Rbh) + Wbh)       linear_before_reset = 1
//	H = (1 - z)∘n + z∘H
var GRU = Op{
	Name: "GRU", Since: 22, Form: bf16Since22(7), Doc: "H = (1 - z)∘n + z∘H over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 0, MaxOut: 2,
	Attrs: append([]AttrSpec{intAttr("linear_before_reset", 0).since(3)}, recurrentAttrs...), Infer: rule(inferRecurrent(1)),
	Eval:  floatKernel(evalGRU[float32], evalGRU[float64]),
	Facts: Facts{Traits: general, Cost: recurrentCost(3)},
}

func evalGRU[T float32 | float64](c *Call) {
	hidden := hiddenOf(c)
	r := recurrenceOf(c, 3, hidden)
	r.checkWeights(tensor(c, 1), tensor(c, 2), c.Array(3))
	acts := gateFunctions(c.Node, []string{"Sigmoid", "Tanh"}, r.dirs)
	linear := Int(c.Node, "linear_before_reset") != 0
	bias := elements[T](c.Array(3))
	apart := 3
	if linear {
		apart = 2
	}
	p := recurrentParts[T]{bias: sumBias(&r, bias, apart)}
	p.input, p.hidden = floatProducts(&r, elements[T](c.Array(0)), elements[T](c.Array(1)), elements[T](c.Array(2)))
	cell := gruCell[T]{r: &r, p: &p, acts: acts, clip: clipper(c.Node), linear: linear, bias: bias,
		zr: make([]T, 2*r.batch*hidden), n: make([]T, r.batch*hidden), reset: make([]T, r.batch*hidden)}
	p.step = cell.step
	runRecurrence(c, &r, p, [2]*ndarray.Array{c.Array(5)}, 1)
}

// gruCell computes one step for a batch.
type gruCell[T realNum] struct {
	r      *recurrence
	p      *recurrentParts[T]
	acts   [][]realFunc
	clip   func(float64) float64
	linear bool
	bias   []T
	zr     []T // gates z and r of every sequence
	n      []T // H·Rhᵀ or (r∘H)·Rhᵀ
	reset  []T // r∘H
}

func (g *gruCell[T]) step(d int, active []bool, gate func(int) []T, h, _ []T) {
	hid, f, act := g.r.hidden, g.acts[d][0], g.acts[d][1]
	clear(g.zr)
	g.p.hidden(d, 0, 2, h, g.zr)
	for b, on := range active {
		if !on {
			continue
		}
		row, x := g.zr[2*b*hid:2*(b+1)*hid], gate(b)
		for i := range row {
			row[i] = T(f(g.clip(float64(x[i] + row[i]))))
		}
		for i, v := range h[b*hid : (b+1)*hid] {
			g.reset[b*hid+i] = row[hid+i] * v
		}
	}
	clear(g.n)
	if g.linear {
		if g.bias != nil {
			for b := range active {
				copy(g.n[b*hid:(b+1)*hid], g.bias[(6*d+5)*hid:])
			}
		}
		g.p.hidden(d, 2, 3, h, g.n)
	} else {
		g.p.hidden(d, 2, 3, g.reset, g.n)
	}
	for b, on := range active {
		if !on {
			continue
		}
		x, z, rr := gate(b)[2*hid:], g.zr[2*b*hid:], g.zr[2*b*hid+hid:]
		for i := range hid {
			v := g.n[b*hid+i]
			if g.linear {
				v *= rr[i]
			}
			n := T(act(g.clip(float64(x[i] + v))))
			h[b*hid+i] = (1-z[i])*n + z[i]*h[b*hid+i]
		}
	}
}
