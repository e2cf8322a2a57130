package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// GRU is a gated recurrent layer: https://onnx.ai/onnx/operators/onnx__GRU.html
//
//	z = f(X·Wzᵀ + H·Rzᵀ + Wbz + Rbz)
//	r = f(X·Wrᵀ + H·Rrᵀ + Wbr + Rbr)
//	n = g(X·Whᵀ + (r∘H)·Rhᵀ + Rbh + Wbh)       linear_before_reset = 0
//	n = g(X·Whᵀ + r∘(H·Rhᵀ + Rbh) + Wbh)       linear_before_reset = 1
//	H = (1 - z)∘n + z∘H
var GRU = ops.Op{
	Name: "GRU", Since: 22, Form: bf16Since22(7), Doc: "H = (1 - z)∘n + z∘H over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 0, MaxOut: 2,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("linear_before_reset", 0).From(3)}, recurrentAttrs...), Infer: kit.Rule(InferRecurrent(1)),
	Eval:  kit.FloatKernel(evalGRU[float32], evalGRU[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: RecurrentCost},
}

func evalGRU[T float32 | float64](c *ops.Call) {
	linear := ops.Int(c.Node, "linear_before_reset") != 0
	r, p := floatRecurrence[T](c, 3, 3-kit.Btoi(linear))
	states := r.batch * r.Hidden
	cell := gruCell[T]{r: r, p: p, acts: kit.GateFunctions(c.Node, []string{"Sigmoid", "Tanh"}, r.Dirs), clip: clipper(c.Node),
		linear: linear, bias: kit.Elements[T](c, c.Array(3)), zr: kit.Make[T](c, 2*states), n: kit.Make[T](c, states), reset: kit.Make[T](c, states)}
	p.step = cell.step
	runRecurrence(c, r, p, [2]*ndarray.Array{c.Array(5)}, 1)
}

// gruCell computes one step for a batch.
type gruCell[T kit.RealNum] struct {
	r      *Recurrence
	p      *RecurrentParts[T]
	acts   [][]kit.RealFunc
	clip   func(float64) float64
	linear bool
	bias   []T
	zr     []T // gates z and r of every sequence
	n      []T // H·Rhᵀ or (r∘H)·Rhᵀ
	reset  []T // r∘H
}

func (g *gruCell[T]) step(d int, active []bool, gate func(int) []T, h, _ []T) {
	hid, f, act := g.r.Hidden, g.acts[d][0], g.acts[d][1]
	clear(g.zr)
	g.p.Hidden(d, 0, 2, h, g.zr)
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
	from := g.reset
	if g.linear {
		from = h
		for b := 0; b < len(active) && g.bias != nil; b++ {
			copy(g.n[b*hid:(b+1)*hid], g.bias[(6*d+5)*hid:])
		}
	}
	g.p.Hidden(d, 2, 3, from, g.n)
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
