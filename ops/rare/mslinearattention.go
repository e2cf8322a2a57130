package rare

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The recurrent operators of the com.microsoft domain keep, with state_window = W,
// the states after the last W positions instead of the last one, so that a decoder
// that ran ahead can go back:
//
//	present [W, …]   slot j = state after position length-W+j; slots before the first
//	                 position of this call are 0; slot W-1 of past is where it starts

// stateWindowAttr declares W; 0 is a state without the dimension of the window.
var stateWindowAttr = ops.IntAttr("state_window", 0).Between(0, 8)

func stateWindow(n *ssa.Node) int { return int(ops.Int(n, "state_window")) }

// windowed puts the dimension of a window of w before a state's shape.
func windowed[D any](shape []D, w int, dim D) []D {
	if w == 0 {
		return shape
	}
	return append([]D{dim}, shape...)
}

// lastSlot is the state a run starts from: the whole of past, or its last slot.
func lastSlot(past []float32, w int) []float32 {
	if w == 0 || past == nil {
		return past
	}
	return past[len(past)/w*(w-1):]
}

// MSLinearAttention is LinearAttention of the com.microsoft domain: several key
// heads may share a query head, and states have a window.
var MSLinearAttention = ops.Op{
	Domain: contrib.Microsoft, Name: "LinearAttention", Since: 1, Doc: "S = exp(g)∘S + k⊗v, o = scale * Sᵀq over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 1, MaxOut: 2,
	Attrs: append(slices.Clone(LinearAttention.Attrs), stateWindowAttr),
	Infer: kit.Rule(inferMSLinearAttention), Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits, Cost: kit.LinearAttentionCost}, Eval: kit.FloatKernel(evalMSLinearAttention, nil),
}

func inferMSLinearAttention(n *ssa.Node) []ops.Inferred {
	q, v := ops.InType(n, 0), ops.InType(n, 2)
	hq, hk := ops.Int(n, "q_num_heads"), ops.Int(n, "kv_num_heads")
	if hq%hk != 0 && hk%hq != 0 {
		kit.Failf("%d query heads and %d key heads do not go together", hq, hk)
	}
	w := stateWindow(n)
	dv := kit.DimOf(v, 2).FloorDiv(ssa.D(hk))
	state := windowed([]ssa.Dim{kit.DimOf(q, 0), ssa.D(hk), kit.DimOf(q, 2).FloorDiv(ssa.D(hq)), dv}, w, ssa.D(int64(w)))
	dt := q.DType
	if n.Input(3) != nil {
		dt = ops.InType(n, 3).DType
	}
	return []ops.Inferred{{Type: ssa.TensorOf(q.DType, kit.DimOf(q, 0), kit.DimOf(q, 1), dv.MulN(max(hq, hk)))}, {Type: ssa.TensorOf(dt, state...)}}
}

func evalMSLinearAttention(c *ops.Call) {
	w := stateWindow(c.Node)
	a := newLinearRun(c)
	q, k, v := a.Q, a.K, a.V
	one, past := k.Size*v.Size, c.Array(3)
	shape := windowed([]int{k.Batch, k.N, k.Size, v.Size}, w, w)
	kit.WantShape("past_state", past, shape...)
	dt, all := c.Array(0).DType, k.Batch*k.N*one
	state, slots := kit.Make[float32](c, all), kit.Make[float32](c, w*all)
	if past != nil {
		dt = past.DType
		copy(state, lastSlot(kit.Elements[float32](c, past), w))
	}
	a.After = func(b, h, t int, s []float32) {
		if j := t - k.Seq + w; j >= 0 {
			copy(slots[j*all+(b*k.N+h)*one:][:one], s)
		}
	}
	y := kit.NewResult[float32](c, 0, c.Array(0).DType, q.Batch, q.Seq, max(q.N, k.N)*v.Size)
	out := nn.Bsnh(y.V, q.Batch, q.Seq, max(q.N, k.N), v.Size)
	for i := range k.Batch * k.N {
		a.Head(i/k.N, i%k.N, state[i*one:][:one], out)
	}
	y.Store()
	if w > 0 {
		state = slots
	}
	kit.SetResult(c, 1, dt, shape, state)
}

// MSCausalConvWithState is CausalConvWithState of the com.microsoft domain: taps
// may lie dilation positions apart, channels may come last, and states have a
// window.
//
//	channels_last=0   input [B,C,L]        state [B,C,S]        S = (k-1)*dilation
//	channels_last=1   input [B,L,d1,…]     state [B,S,d1,…]     C = d1*…
var MSCausalConvWithState = ops.Op{
	Domain: contrib.Microsoft, Name: "CausalConvWithState", Since: 1, Doc: "output = act(weight * [past_state input] + bias), per channel",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.StrAttr("activation", "none", "silu", "swish"), ops.IntAttr("channels_last", 0), ops.IntAttr("dilation", 1).Between(1, 1<<20),
		ops.IntAttr("ndim", 1), stateWindowAttr},
	Infer: kit.Rule(inferMSCausalConv), Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits, Cost: kit.CausalConvCost}, Eval: kit.FloatKernel(evalMSCausalConv, nil),
}

func inferMSCausalConv(n *ssa.Node) []ops.Inferred {
	x, k := ops.InType(n, 0), kit.DimOf(ops.InType(n, 1), -1)
	w := stateWindow(n)
	if !x.Ranked || x.Rank() < 3 {
		return []ops.Inferred{{Type: x}, {Type: ssa.UnrankedTensor(x.DType)}}
	}
	length := k.AddN(-1).MulN(ops.Int(n, "dilation"))
	state := slices.Clone(x.Shape)
	if ops.Int(n, "channels_last") != 0 {
		state[1] = length
	} else {
		state[len(state)-1] = length
	}
	return []ops.Inferred{{Type: x}, {Type: ssa.TensorOf(x.DType, windowed(state, w, ssa.D(int64(w)))...)}}
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

func newCausalLine(c *ops.Call) *causalLine {
	x, w := c.Array(0), c.Array(1)
	l := &causalLine{dilation: int(ops.Int(c.Node, "dilation")), last: ops.Int(c.Node, "channels_last") != 0}
	l.window = stateWindow(c.Node)
	if d := ops.Int(c.Node, "ndim"); d != 1 {
		kit.Failf("ndim=%d: %w", d, ops.ErrUnsupported)
	}
	if x.Rank() < 3 || !l.last && x.Rank() != 3 {
		kit.Failf("input of shape %v with channels_last=%d", x.Shape, kit.Btoi(l.last))
	}
	kit.WantRank("weight", w, 3)
	l.batch, l.channels, l.length, l.taps = x.Shape[0], x.Shape[1], x.Shape[2], w.Shape[2]
	l.stateShape = slices.Clone(x.Shape)
	if l.last {
		l.channels, l.length = kit.SizeOf(x.Shape[2:]), x.Shape[1]
	}
	if l.taps < 1 || l.taps > 1<<20 {
		kit.Failf("%d taps", l.taps)
	}
	l.state = (l.taps - 1) * l.dilation
	if l.last {
		l.stateShape[1] = l.state
	} else {
		l.stateShape[2] = l.state
	}
	l.stateShape = windowed(l.stateShape, l.window, l.window)
	kit.Try(ndarray.NumElems(l.stateShape))
	kit.WantShape("weight", w, l.channels, 1, l.taps)
	kit.WantShape("bias", c.Array(2), l.channels)
	kit.WantShape("past_state", c.Array(3), l.stateShape...)
	return l
}

func evalMSCausalConv(c *ops.Call) {
	watch := kit.Watching(c)
	l := newCausalLine(c)
	x := c.Array(0)
	y := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
	in, weight, bias := kit.Elements[float32](c, x), kit.Elements[float32](c, c.Array(1)), kit.Elements[float32](c, c.Array(2))
	past := lastSlot(kit.Elements[float32](c, c.Array(3)), l.window)
	gated := ops.Str(c.Node, "activation") != "none"
	present := kit.Make[float32](c, kit.SizeOf(l.stateShape))
	line := kit.Make[float32](c, l.state+l.length)
	for i := range l.batch * l.channels {
		watch.Did(2*l.length + l.state*(1+l.window))
		b, ch := i/max(l.channels, 1), i%max(l.channels, 1)
		l.fill(line, b, ch, in, past)
		for t := range l.length {
			sum := float32(0)
			for j := range l.taps {
				watch.Did(1)
				sum += weight[ch*l.taps+j] * line[t+j*l.dilation]
			}
			if bias != nil {
				sum += bias[ch]
			}
			if gated {
				sum = float32(kit.Silu(float64(sum)))
			}
			y.V[l.at(b, ch, t, l.length)] = sum
		}
		l.keep(present, line, b, ch)
	}
	y.Store()
	kit.SetResult(c, 1, x.DType, l.stateShape, present)
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
