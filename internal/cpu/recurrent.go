package cpu

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Recurrent layers over float32.
//
// What does not depend on the state is done for all steps and directions at once;
// a step is then one product with the packed recurrent weights and a few vector
// operations on its gates, which stay where the first product put them:
//
//	X [T·B, I] ── · Wᵀ + bias ──▶ gates [T·B, D·G·H]      one product
//
//	for every direction, for every step:
//	  H [B, H] ── · Rᵀ ──▶ rec [B, G·H]
//	  gates of the step + rec ── cell ──▶ H, C ──▶ Y
//
// G counts the gates of the cell. The two directions do not depend on each other
// and run side by side. Sequence b takes part in its first lens[b] steps; the
// reverse direction walks them from its end.

var recurrentOps = []entry{
	{op: "LSTM", prepare: prepareLSTM},
	{op: "GRU", prepare: prepareGRU},
	{op: "RNN", prepare: prepareRNN},
}

// recurrent is the part the cells share.
type recurrent struct {
	seq, batch, input, hidden int
	dirs, gates               int
	batchFirst                bool
	reverse                   []bool
	states                    int     // 1: H, 2: H and C
	lens                      bool    // operand 4
	initH, initC              int     // operand positions, -1 for none
	clip                      float32 // 0: none
	adds                      bool    // the product of a step adds to the gates where they lie
	acts                      [][]gateAct
	mul                       gateProducts
	cell                      cell

	gatesAt, dirAt, dirSize int // workspace: all gates; what each direction needs
	threads                 int
	lookSteps, lookMask     int // steps between two looks at the context; sequences within a step, a power of two less one
}

// gateProducts multiplies by the weights.
type gateProducts interface {
	// input writes X·Wᵀ + bias of all directions to gates [T·B, D·G·H].
	input(c *ops.Call, gates []float32) error
	// hidden writes h·Rᵀ of direction d to rec [B, n]: of all gates, or of a part of
	// them where the cell asks for parts.
	hidden(c *ops.Call, d, part int, h, rec []float32, st dirState)
}

// cell computes one step.
type cell interface {
	// step computes the next state of direction d in st from the gates at st.row(b).
	step(c *ops.Call, k *recurrent, d int, st dirState)
}

// dirState is the state of one direction during a run. It is passed by value:
// through an interface a pointer to it would escape to the heap.
type dirState struct {
	h, c, rec, tmp []float32 // [B,H], [B,H], [B,G·H], [B,H]
	gates          []float32 // all gates
	at             []int32   // the present step of each sequence, -1 beyond its end
	threads        int
	odd            bool // every second step reads the weights from their end on, which is still in the first cache
}

// gateAct is an activation of a gate.
type gateAct struct {
	kind gateKind
	op   simd.UnaryOp
	a, b float32
}

type gateKind uint8

const (
	gateUnary gateKind = iota
	gateAffine
	gateScaledTanh
	gateThreshold
)

// gateActs are the activations by lower-case name.
var gateActs = map[string]gateAct{
	"relu":            {op: simd.Relu},
	"tanh":            {op: simd.Tanh},
	"sigmoid":         {op: simd.Sigmoid},
	"softsign":        {op: simd.Softsign},
	"softplus":        {op: simd.Softplus},
	"hardsigmoid":     {op: simd.HardSigmoid},
	"leakyrelu":       {op: simd.LeakyRelu},
	"elu":             {op: simd.Elu},
	"affine":          {kind: gateAffine},
	"scaledtanh":      {kind: gateScaledTanh},
	"thresholdedrelu": {kind: gateThreshold},
}

// apply computes the activation in place.
func (g *gateAct) apply(x []float32) {
	switch g.kind {
	case gateUnary:
		vec.Unary(g.op, x, x, g.a, g.b)
	case gateAffine:
		vec.ScaleShift(x, x, g.a, g.b)
	case gateScaledTanh:
		vec.BinaryScalar(simd.Mul, x, x, g.b)
		vec.Unary(simd.Tanh, x, x, 0, 0)
		vec.BinaryScalar(simd.Mul, x, x, g.a)
	case gateThreshold:
		for i, v := range x {
			if v < g.a {
				x[i] = 0
			}
		}
	}
}

// gateActivations reads the activations of every direction; ok is false for an
// unknown one.
func (p *prep) gateActivations(dirs int, def ...string) ([][]gateAct, bool) {
	gates, err := kit.Gates(p.node, def, dirs)
	if err != nil {
		return nil, false
	}
	out := make([][]gateAct, dirs)
	for d, list := range gates {
		for _, g := range list {
			act, ok := gateActs[g.Name]
			if !ok {
				return nil, false
			}
			act.a, act.b = float32(g.Alpha), float32(g.Beta)
			out[d] = append(out[d], act)
		}
	}
	return out, true
}

// newRecurrent reads the geometry; nil if types or shapes do not fit.
func (p *prep) newRecurrent(gates, states int, def ...string) *recurrent {
	x := p.in[0]
	k := &recurrent{gates: gates, states: states, batchFirst: ops.Int(p.node, "layout") != 0,
		lens: p.has(4), initH: -1, initC: -1, threads: p.threads}
	switch ops.Str(p.node, "direction") {
	case "forward":
		k.reverse = []bool{false}
	case "reverse":
		k.reverse = []bool{true}
	case "bidirectional":
		k.reverse = []bool{false, true}
	}
	k.dirs = len(k.reverse)
	if k.dirs == 0 || len(x.shape) != 3 || len(p.in[2].shape) != 3 || x.dt != ndarray.Float32 {
		return nil
	}
	k.seq, k.batch, k.input, k.hidden = x.shape[0], x.shape[1], x.shape[2], p.in[2].shape[2]
	if k.batchFirst {
		k.seq, k.batch = k.batch, k.seq
	}
	if p.node.Has("clip") {
		k.clip = max(ops.Float(p.node, "clip"), 0)
	}
	var ok bool
	if k.acts, ok = p.gateActivations(k.dirs, def...); !ok || k.lens && (p.in[4].dt != ndarray.Int32 || p.in[4].n != k.batch) {
		return nil
	}
	return k
}

// recurrentKernel completes a layer by its products and its cell; nil if the states do
// not fit.
func (p *prep) recurrentKernel(k *recurrent, mul gateProducts, cell cell) ops.Kernel {
	if !k.readStates(p) {
		return nil
	}
	k.mul, k.cell = mul, cell
	k.lookSteps = min(max(lookGates/max(1, k.batch*k.gates*k.hidden), 1), mostSteps)
	k.lookMask = 1<<bits.Len(uint(lookGates/max(1, k.gates*k.hidden))) - 1
	k.gatesAt = p.workspace(4 * k.seq * k.batch * k.dirs * k.gates * k.hidden)
	bh := roundUp(4*k.batch*k.hidden, lineBytes)
	k.dirSize = 3*bh + roundUp(4*k.batch*k.gates*k.hidden, lineBytes) + roundUp(4*k.batch, lineBytes)
	k.dirAt = p.workspace(k.dirs * k.dirSize)
	return k
}

// readStates finds the initial states; false if they or the results do not fit.
func (k *recurrent) readStates(p *prep) bool {
	state := k.dirs * k.batch * k.hidden
	for i, o := range p.out {
		if o.present && (o.dt != ndarray.Float32 || i == 0 && o.n != k.seq*state || i > 0 && o.n != state) {
			return false
		}
	}
	for i, at := range []*int{&k.initH, &k.initC}[:k.states] {
		if p.has(5+i) && (p.in[5+i].n != state || p.in[5+i].dt != ndarray.Float32) {
			return false
		}
		*at = present(p, 5+i)
	}
	return true
}

// state is the workspace of direction d.
func (k *recurrent) state(c *ops.Call, d int) dirState {
	at, n := k.dirAt+d*k.dirSize, k.batch*k.hidden
	floats := func(n int) []float32 {
		s := scratchOf[float32](c, at, n)
		at += roundUp(4*n, lineBytes)
		return s
	}
	st := dirState{h: floats(n), c: floats(n), tmp: floats(n), rec: floats(n * k.gates)}
	st.at = scratchOf[int32](c, at, k.batch)
	st.gates = scratchOf[float32](c, k.gatesAt, k.seq*k.batch*k.dirs*k.gates*k.hidden)
	return st
}

// Run computes all directions.
func (k *recurrent) Run(c *ops.Call) error {
	if err := k.checkLens(c); err != nil {
		return err
	}
	gates := scratchOf[float32](c, k.gatesAt, k.seq*k.batch*k.dirs*k.gates*k.hidden)
	if err := k.mul.input(c, gates); err != nil {
		return err
	}
	if y := optF32(c.Out, 0); k.lens && y != nil {
		pieces(c, len(y), func(lo, hi int) { clear(y[lo:hi]) })
	}
	runTasks(c, 0, k.dirs, 1, k.threads, k)
	return nil
}

// Choice says how it is computed.
func (k *recurrent) Choice() backend.Choice {
	return backend.Choice{Algorithm: "one product for all inputs, then step by step", Reason: strconv.Itoa(k.seq) + " steps"}
}

func (k *recurrent) checkLens(c *ops.Call) error {
	if !k.lens {
		return nil
	}
	for b, n := range elems[int32](c.In[4]) {
		if n < 0 || int(n) > k.seq {
			return fmt.Errorf("sequence %d has length %d of %d", b, n, k.seq)
		}
	}
	return nil
}

// Looks at the context: after mostSteps steps or about lookGates gates, and within steps of more gates than these. The products
// of a step look as well.
const (
	mostSteps = 16
	lookGates = 1 << 18
)

// ended reports that sequences from b on need not be computed or copied: it looks at the context, where enough was done since
// the last look.
func (k *recurrent) ended(c *ops.Call, b int) bool { return b&k.lookMask == k.lookMask && c.Ended() }

// tile runs direction d.
func (k *recurrent) tile(c *ops.Call, d, _ int) {
	st := k.state(c, d)
	st.threads = max(1, min(k.threads, c.Threads)/k.dirs)
	k.loadState(c, d, k.initH, st.h)
	if k.states > 1 {
		k.loadState(c, d, k.initC, st.c)
	}
	y := optF32(c.Out, 0)
	for s := range k.seq {
		k.locate(c, d, s, st.at)
		st.odd = s&1 == 1
		k.cell.step(c, k, d, st)
		if s%k.lookSteps == k.lookSteps-1 && c.Ended() {
			return
		}
		if y == nil {
			continue
		}
		for b, at := range st.at {
			if k.ended(c, b) {
				return
			}
			if at >= 0 {
				copy(y[k.row(k.seq, int(at), d, b)*k.hidden:][:k.hidden], st.h[b*k.hidden:])
			}
		}
	}
	k.storeState(c, d, optF32(c.Out, 1), st.h)
	if k.states > 1 {
		k.storeState(c, d, optF32(c.Out, 2), st.c)
	}
}

// locate finds the step of every sequence in iteration s.
func (k *recurrent) locate(c *ops.Call, d, s int, at []int32) {
	for b := range at {
		n := k.seq
		if k.lens {
			n = int(elems[int32](c.In[4])[b])
		}
		switch {
		case s >= n:
			at[b] = -1
		case k.reverse[d]:
			at[b] = int32(n - 1 - s)
		default:
			at[b] = int32(s)
		}
	}
}

// loadState loads an initial state, or zeros.
func (k *recurrent) loadState(c *ops.Call, d, operand int, state []float32) {
	if operand < 0 {
		pieces(c, len(state), func(lo, hi int) { clear(state[lo:hi]) })
		return
	}
	from := f32(c.In[operand])
	for b := range k.batch {
		if k.ended(c, b) {
			return
		}
		copy(state[b*k.hidden:(b+1)*k.hidden], from[k.row(1, 0, d, b)*k.hidden:])
	}
}

// storeState stores a final state, 0 for an empty sequence.
func (k *recurrent) storeState(c *ops.Call, d int, out, state []float32) {
	if out == nil {
		return
	}
	for b := range k.batch {
		if k.ended(c, b) {
			return
		}
		row := out[k.row(1, 0, d, b)*k.hidden:][:k.hidden]
		if k.lens && elems[int32](c.In[4])[b] == 0 {
			clear(row)
			continue
		}
		copy(row, state[b*k.hidden:])
	}
}

// row is the position of step t of so many, direction d, sequence b among the rows of Y; states have one step.
func (k *recurrent) row(steps, t, d, b int) int {
	if k.batchFirst {
		return (b*steps+t)*k.dirs + d
	}
	return (t*k.dirs+d)*k.batch + b
}

// gateRow is the gates of sequence b at its present step.
func (k *recurrent) gateRow(st dirState, d, b int) []float32 {
	return k.gatesFrom(st, d, b)[:k.gates*k.hidden]
}

// gatesFrom is gateRow and what lies behind it.
func (k *recurrent) gatesFrom(st dirState, d, b int) []float32 {
	row := int(st.at[b])*k.batch + b
	if k.batchFirst {
		row = b*k.seq + int(st.at[b])
	}
	return st.gates[(row*k.dirs+d)*k.gates*k.hidden:]
}

// clipped limits the operand of an activation.
func (k *recurrent) clipped(x []float32) {
	if k.clip > 0 {
		vec.Unary(simd.Clip, x, x, -k.clip, k.clip)
	}
}
