package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// The recurrent operators of the com.microsoft domain keep, with state_window = W,
// the states after the last W positions instead of the last one, so that a decoder
// that ran ahead can go back:
//
//	present [W, …]   slot j = state after position length-W+j; slots before the first
//	                 position of this call are 0; slot W-1 of past is where it starts
const mostStateWindow = 8

func stateWindow(n *ssa.Node) int {
	w := Int(n, "state_window")
	if w < 0 || w > mostStateWindow {
		failf("state_window=%d is not between 0 and %d", w, mostStateWindow)
	}
	return int(w)
}

// windowed puts the axis of the window before a state's shape.
func windowed[D any](shape []D, w int, dim func(int) D) []D {
	if w == 0 {
		return shape
	}
	return append([]D{dim(w)}, shape...)
}

func plainDim(n int) int { return n }

func symbolDim(n int) ssa.Dim { return ssa.D(int64(n)) }

// lastSlot is the state a run starts from: the whole of past, or its last slot.
func lastSlot(past []float32, w int) []float32 {
	if w == 0 || past == nil {
		return past
	}
	return past[len(past)/w*(w-1):]
}

// MSLinearAttention is LinearAttention of the com.microsoft domain: several key
// heads may share a query head, and states have a window.
var MSLinearAttention = Op{
	Domain: microsoft, Name: "LinearAttention", Since: 1, Doc: "S = exp(g)∘S + k⊗v, o = scale * Sᵀq over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 1, MaxOut: 2,
	Attrs: append(slices.Clone(LinearAttention.Attrs), intAttr("state_window", 0)),
	Infer: rule(inferMSLinearAttention), Facts: Facts{Traits: general, Cost: linearAttentionCost}, Eval: floatKernel(evalMSLinearAttention, nil),
}

func inferMSLinearAttention(n *ssa.Node) []Inferred {
	q, v := InType(n, 0), InType(n, 2)
	hq, hk := Int(n, "q_num_heads"), Int(n, "kv_num_heads")
	if hk < 1 || hq < 1 || hq%hk != 0 && hk%hq != 0 {
		failf("%d query heads and %d key heads do not go together", hq, hk)
	}
	w := stateWindow(n)
	dv := dimOf(v, 2).FloorDiv(ssa.D(hk))
	state := windowed([]ssa.Dim{dimOf(q, 0), ssa.D(hk), dimOf(q, 2).FloorDiv(ssa.D(hq)), dv}, w, symbolDim)
	dt := q.DType
	if n.Input(3) != nil {
		dt = InType(n, 3).DType
	}
	return []Inferred{{Type: ssa.TensorOf(q.DType, dimOf(q, 0), dimOf(q, 1), dv.MulN(max(hq, hk)))}, {Type: ssa.TensorOf(dt, state...)}}
}

func evalMSLinearAttention(c *Call) {
	w := stateWindow(c.Node)
	a := newLinearRun(c)
	q, k, v := a.q, a.k, a.v
	one, past := k.size*v.size, c.Array(3)
	shape := windowed([]int{k.batch, k.n, k.size, v.size}, w, plainDim)
	wantShape("past_state", past, shape...)
	dt, all := c.Array(0).DType, k.batch*k.n*one
	state, slots := make([]float32, all), make([]float32, w*all)
	if past != nil {
		dt = past.DType
		copy(state, lastSlot(elements[float32](past), w))
	}
	a.after = func(b, h, t int, s []float32) {
		if j := t - k.seq + w; j >= 0 {
			copy(slots[j*all+(b*k.n+h)*one:][:one], s)
		}
	}
	y := newResult[float32](c, 0, c.Array(0).DType, q.batch, q.seq, max(q.n, k.n)*v.size)
	out := bsnh(y.V, q.batch, q.seq, max(q.n, k.n), v.size)
	for i := range k.batch * k.n {
		a.head(i/k.n, i%k.n, state[i*one:][:one], out)
	}
	y.store()
	if w > 0 {
		state = slots
	}
	setResult(c, 1, dt, shape, state)
}

// MSCausalConvWithState is CausalConvWithState of the com.microsoft domain: taps
// may lie dilation positions apart, channels may come last, and states have a
// window.
//
//	channels_last=0   input [B,C,L]        state [B,C,S]        S = (k-1)*dilation
//	channels_last=1   input [B,L,d1,…]     state [B,S,d1,…]     C = d1*…
var MSCausalConvWithState = Op{
	Domain: microsoft, Name: "CausalConvWithState", Since: 1, Doc: "output = act(weight * [past_state input] + bias), per channel",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 2,
	Attrs: []AttrSpec{strAttr("activation", "none", "silu", "swish"), intAttr("channels_last", 0), intAttr("dilation", 1),
		intAttr("ndim", 1), intAttr("state_window", 0)},
	Infer: rule(inferMSCausalConv), Facts: Facts{Traits: general, Cost: causalConvCost}, Eval: floatKernel(evalMSCausalConv, nil),
}

func inferMSCausalConv(n *ssa.Node) []Inferred {
	x, k := InType(n, 0), dimOf(InType(n, 1), -1)
	w := stateWindow(n)
	if !x.Ranked || x.Rank() < 3 {
		return []Inferred{{Type: x}, {Type: ssa.UnrankedTensor(x.DType)}}
	}
	length := k.AddN(-1).MulN(Int(n, "dilation"))
	state := slices.Clone(x.Shape)
	if Int(n, "channels_last") != 0 {
		state[1] = length
	} else {
		state[len(state)-1] = length
	}
	return []Inferred{{Type: x}, {Type: ssa.TensorOf(x.DType, windowed(state, w, symbolDim)...)}}
}

// causalLine is the layout of one evaluation: where position t of a channel lies.
type causalLine struct {
	batch, channels, length, taps, dilation, state, window int
	last                                                   bool
	stateShape                                             []int
}

// at is the index of position t of channel i in a tensor of so many positions.
func (l *causalLine) at(b, i, t, positions int) int {
	if l.last {
		return (b*positions+t)*l.channels + i
	}
	return (b*l.channels+i)*positions + t
}

func newCausalLine(c *Call) *causalLine {
	x, w := c.Array(0), c.Array(1)
	l := &causalLine{dilation: int(Int(c.Node, "dilation")), last: Int(c.Node, "channels_last") != 0}
	l.window = stateWindow(c.Node)
	if d := Int(c.Node, "ndim"); d != 1 {
		failf("ndim=%d: %w", d, ErrUnsupported)
	}
	if x.Rank() < 3 || !l.last && x.Rank() != 3 || l.dilation < 1 {
		failf("input of shape %v with dilation %d", x.Shape, l.dilation)
	}
	wantRank("weight", w, 3)
	l.batch, l.channels, l.length, l.taps = x.Shape[0], x.Shape[1], x.Shape[2], w.Shape[2]
	l.stateShape = slices.Clone(x.Shape)
	if l.last {
		l.channels, l.length = sizeOf(x.Shape[2:]), x.Shape[1]
	}
	if l.taps < 1 || l.taps > 1<<20 || l.dilation > 1<<20 {
		failf("%d taps with dilation %d", l.taps, l.dilation)
	}
	l.state = (l.taps - 1) * l.dilation
	if l.last {
		l.stateShape[1] = l.state
	} else {
		l.stateShape[2] = l.state
	}
	l.stateShape = windowed(l.stateShape, l.window, plainDim)
	try(ndarray.NumElems(l.stateShape))
	wantShape("weight", w, l.channels, 1, l.taps)
	wantShape("bias", c.Array(2), l.channels)
	wantShape("past_state", c.Array(3), l.stateShape...)
	return l
}

func evalMSCausalConv(c *Call) {
	l := newCausalLine(c)
	x := c.Array(0)
	y := newResult[float32](c, 0, x.DType, x.Shape...)
	in, weight, bias := elements[float32](x), elements[float32](c.Array(1)), elements[float32](c.Array(2))
	past := lastSlot(elements[float32](c.Array(3)), l.window)
	gated := Str(c.Node, "activation") != "none"
	present := make([]float32, sizeOf(l.stateShape))
	line := make([]float32, l.state+l.length)
	for i := range l.batch * l.channels {
		b, ch := i/max(l.channels, 1), i%max(l.channels, 1)
		l.fill(line, b, ch, in, past)
		for t := range l.length {
			sum := float32(0)
			for j := range l.taps {
				sum += weight[ch*l.taps+j] * line[t+j*l.dilation]
			}
			if bias != nil {
				sum += bias[ch]
			}
			if gated {
				sum = float32(silu(float64(sum)))
			}
			y.V[l.at(b, ch, t, l.length)] = sum
		}
		l.keep(present, line, b, ch)
	}
	y.store()
	setResult(c, 1, x.DType, l.stateShape, present)
}

// fill lays out one channel: its past, 0 where there is none, and its input.
func (l *causalLine) fill(line []float32, b, ch int, in, past []float32) {
	clear(line[:l.state])
	for t := range l.state {
		if past != nil {
			line[t] = past[l.at(b, ch, t, l.state)]
		}
	}
	for t := range l.length {
		line[l.state+t] = in[l.at(b, ch, t, l.length)]
	}
}

// keep writes the states of one channel.
func (l *causalLine) keep(present, line []float32, b, ch int) {
	slots, one := max(l.window, 1), l.batch*l.channels*l.state
	for j := range slots {
		end := l.length - slots + j + 1 // positions of this call the state covers
		if l.window > 0 && end < 1 {
			continue
		}
		for t := range l.state {
			present[j*one+l.at(b, ch, t, l.state)] = line[end+t]
		}
	}
}
