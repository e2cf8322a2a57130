package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// The cells of the recurrent layers. The weights hold the gates of an LSTM in the
// order i, o, f, c, those of a GRU in the order z, r, n.

// lstmCell computes
//
//	i = f(gate i + Pi∘C)   f = f(gate f + Pf∘C)   g = g(gate c)
//	C = f∘C + i∘g          o = f(gate o + Po∘C)   H = o∘h(C)
type lstmCell struct {
	coupled bool // f = 1 − i
	peep    int  // operand position of P [D, 3·H], -1 for none
}

func prepareLSTM(p *prep) (ops.Kernel, error) {
	k := p.newRecurrent(4, 2, "Sigmoid", "Tanh", "Tanh")
	if k == nil {
		return nil, nil
	}
	mul, err := p.newFloatGates(k, 4)
	if mul == nil || err != nil {
		return nil, err
	}
	return p.lstm(k, mul), nil
}

// lstm completes a layer whose products are prepared; nil if its operands do not fit.
func (p *prep) lstm(k *recurrent, mul gateProducts) ops.Kernel {
	if p.has(7) && (p.in[7].n != k.dirs*3*k.hidden || p.in[7].dt != ndarray.Float32) {
		return nil
	}
	return p.recurrentKernel(k, mul, &lstmCell{ops.Int(p.node, "input_forget") != 0, present(p, 7)})
}

func (l *lstmCell) step(c *ops.Call, k *recurrent, d int, st dirState) {
	rec, n := st.rec, k.hidden
	if k.adds {
		rec = k.gatesFrom(st, d, 0)
	}
	k.mul.hidden(c, d, 0, st.h, rec, st)
	k.eachRunning(c, st, func(b int) {
		x := k.gateRow(st, d, b)
		if !k.adds {
			vec.Binary(simd.Add, x, x, rec[4*b*n:4*(b+1)*n])
		}
		l.cell(c, k, d, x, st.h[b*n:(b+1)*n], st.c[b*n:(b+1)*n], st.tmp[:n])
	})
}

// eachRunning calls f for the sequences that have not ended, unless the run has.
func (k *recurrent) eachRunning(c *ops.Call, st dirState, f func(b int)) {
	for b, at := range st.at {
		if k.ended(c, b) {
			return
		}
		if at >= 0 {
			f(b)
		}
	}
}

func (l *lstmCell) cell(c *ops.Call, k *recurrent, d int, x, h, cc, tmp []float32) {
	n := k.hidden
	i, o, f, g := x[:n], x[n:2*n], x[2*n:3*n], x[3*n:4*n]
	act := k.acts[d]
	if l.peep >= 0 {
		l.addPeephole(c, n, d, 0, i, cc, tmp)
		l.addPeephole(c, n, d, 2, f, cc, tmp)
		k.clipped(i)
		act[0].apply(i)
		k.clipped(x[2*n:])
		act[0].apply(f)
	} else {
		k.clipped(x)
		act[0].apply(x[:3*n])
	}
	act[1].apply(g)
	if l.coupled {
		vec.ScaleShift(f, i, -1, 1)
	}
	vec.Binary(simd.Mul, cc, f, cc)
	vec.MulAdd(cc, i, g, cc)
	if l.peep >= 0 {
		l.addPeephole(c, n, d, 1, o, cc, tmp)
		k.clipped(o)
		act[0].apply(o)
	}
	copy(tmp, cc)
	act[2].apply(tmp)
	vec.Binary(simd.Mul, h, o, tmp)
}

// addPeephole is gate += P∘C.
func (l *lstmCell) addPeephole(c *ops.Call, n, d, which int, gate, cc, tmp []float32) {
	vec.Binary(simd.Mul, tmp, f32(c.In[l.peep])[(3*d+which)*n:][:n], cc)
	vec.Binary(simd.Add, gate, gate, tmp)
}

// gruCell computes
//
//	z = f(gate z)   r = f(gate r)   H = n + z∘(H − n)
//	n = g(gate n + (r∘H)·Rnᵀ)             the reset before the product
//	n = g(gate n + r∘(H·Rnᵀ + bias))      the reset after it (linear)
type gruCell struct{ linear bool }

func prepareGRU(p *prep) (ops.Kernel, error) {
	k := p.newRecurrent(3, 1, "Sigmoid", "Tanh")
	if k == nil {
		return nil, nil
	}
	g := &gruCell{linear: ops.Int(p.node, "linear_before_reset") != 0}
	separate, cuts := 3, []int{2}
	if g.linear {
		separate, cuts = 2, nil
	}
	mul, err := p.newFloatGates(k, separate, cuts...)
	if mul == nil || err != nil {
		return nil, err
	}
	return p.recurrentKernel(k, mul, g), nil
}

func (g *gruCell) step(c *ops.Call, k *recurrent, d int, st dirState) {
	n := k.hidden
	k.mul.hidden(c, d, 0, st.h, st.rec, st)
	recRow := 2 * n
	if g.linear {
		recRow = 3 * n
	}
	for b, at := range st.at {
		if k.ended(c, b) {
			return
		}
		if at < 0 {
			clear(st.tmp[b*n : (b+1)*n])
			continue
		}
		x, rec := k.gateRow(st, d, b), st.rec[b*recRow:]
		zr := x[:2*n]
		vec.Binary(simd.Add, zr, zr, rec[:2*n])
		k.clipped(zr)
		k.acts[d][0].apply(zr)
		if g.linear {
			vec.MulAdd(x[2*n:], x[n:2*n], rec[2*n:3*n], x[2*n:])
		} else {
			vec.Binary(simd.Mul, st.tmp[b*n:(b+1)*n], x[n:2*n], st.h[b*n:(b+1)*n])
		}
	}
	if !g.linear {
		k.mul.hidden(c, d, 1, st.tmp, st.rec, st)
	}
	k.eachRunning(c, st, func(b int) {
		x, h := k.gateRow(st, d, b), st.h[b*n:(b+1)*n]
		z, candidate := x[:n], x[2*n:]
		if !g.linear {
			vec.Binary(simd.Add, candidate, candidate, st.rec[b*n:(b+1)*n])
		}
		k.clipped(candidate)
		k.acts[d][1].apply(candidate)
		vec.Binary(simd.Sub, h, h, candidate)
		vec.MulAdd(h, z, h, candidate)
	})
}

// rnnCell computes H = f(gate).
type rnnCell struct{}

func prepareRNN(p *prep) (ops.Kernel, error) {
	k := p.newRecurrent(1, 1, "Tanh")
	if k == nil {
		return nil, nil
	}
	mul, err := p.newFloatGates(k, 1)
	if mul == nil || err != nil {
		return nil, err
	}
	return p.recurrentKernel(k, mul, rnnCell{}), nil
}

func (rnnCell) step(c *ops.Call, k *recurrent, d int, st dirState) {
	k.mul.hidden(c, d, 0, st.h, st.rec, st)
	n := k.hidden
	k.eachRunning(c, st, func(b int) {
		h := st.h[b*n : (b+1)*n]
		vec.Binary(simd.Add, h, k.gateRow(st, d, b), st.rec[b*n:(b+1)*n])
		k.clipped(h)
		k.acts[d][0].apply(h)
	})
}
