package lower

import (
	"errors"
	"math"
	"slices"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Recurrent layers: one product of X and W for all steps and directions, then one launch that goes through the steps.

func init() {
	add("", recurrent(kernels.RNN, "Tanh"), "RNN")
	add("", recurrent(kernels.GRU, "Sigmoid", "Tanh"), "GRU")
	add("", recurrent(kernels.LSTM, "Sigmoid", "Tanh", "Tanh"), "LSTM")
}

// The operands of a layer: peepholes and the second state are an LSTM's alone.
const (
	opX = iota
	opW
	opR
	opBias
	opLengths
	opH
	opC
	opPeepholes
)

// recurrent is the rule of a cell with these activations, unless the node has its own.
func recurrent(cell int32, activations ...string) rule {
	return func(p *prep) (bool, error) {
		f, isFloat := floatTypes[p.in[opX].dt]
		g, ok := p.recurrence(cell, activations, 2)
		if !ok || !isFloat || p.in[opW].dt != p.in[opX].dt || p.in[opR].dt != p.in[opX].dt || !p.statesFit(&g) {
			return false, nil
		}
		x := p.in[opX].shape
		rows, input, width := x[0]*x[1], x[2], int(g.Gates()*g.Hidden)
		if g.Hidden > kernels.MostUnits || g.Batch < 1 || input < 1 || width*input > most || rows*width > most {
			return false, nil
		}
		product := kernels.Gemm{M: int32(rows), N: int32(width), K: int32(input), ARow: int64(input), AColumn: 1, BRow: 1, BColumn: int64(input),
			BBatch: int64(width) * int64(input), CBatch: int64(rows) * int64(width), Alpha: 1}
		xOf, okX, err := p.widened(opX)
		wOf, okW, err2 := p.widened(opW)
		if err = errors.Join(err, err2); err != nil || !okX || !okW {
			return false, err
		}
		gates := p.temporary(int64(g.Dirs) * int64(rows) * int64(width) * 4)
		p.launch(func(c *Call) (*device.Launch, error) {
			return p.host.Kernels().Gemm(product, int64(g.Dirs), xOf(c), wOf(c), Operand{}, gates(c))
		}, opX, opW)
		p.launch(func(c *Call) (*device.Launch, error) {
			return p.host.Kernels().Of(f).Recurrent(g, p.layer(c, gates(c)), at(c.Out, 0), at(c.Out, 1), at(c.Out, 2))
		}, opR, opBias, opLengths, opH, opC, opPeepholes)
		return true, nil
	}
}

// layer are the operands of a layer, with what is there for all steps.
func (p *prep) layer(c *Call, gates Operand) kernels.RecurrentOperands {
	return kernels.RecurrentOperands{Gates: gates, R: c.In[opR], Bias: at(c.In, opBias), Lengths: at(c.In, opLengths), H: at(c.In, opH), C: at(c.In, opC),
		Peepholes: at(c.In, opPeepholes)}
}

// recurrence reads the geometry, with the units along an axis of R; false if the node stays on the host: for operands beside the weights of
// another type than X, and for lengths that no constant tells.
func (p *prep) recurrence(cell int32, activations []string, units int) (g kernels.Recurrent, ok bool) {
	n := p.node
	for i, o := range slices.Concat(p.in[:min(len(p.in), opPeepholes+1)], p.out) {
		if o.present && i != opW && i != opR && i != opLengths && o.dt != p.in[opX].dt {
			return g, false
		}
	}
	x, r := p.in[opX].shape, p.in[opR].shape
	if len(x) != 3 || len(r) != 3 {
		return g, false
	}
	g = kernels.Recurrent{Cell: cell, Steps: int32(x[0]), Batch: int32(x[1]), Hidden: int32(r[units]), Dirs: int32(r[0]),
		Linear: int32(ops.Int(n, "linear_before_reset")), Coupled: int32(ops.Int(n, "input_forget"))}
	if ops.Int(n, "layout") != 0 {
		g.BatchFirst, g.Steps, g.Batch = 1, g.Batch, g.Steps
	}
	switch ops.Str(n, "direction") {
	case "reverse":
		g.Reversed = 1
	case "bidirectional":
		g.Reversed = 2
	}
	if n.Has("clip") {
		g.Clip = max(ops.Float(n, "clip"), 0)
	}
	return g, p.gates(&g, activations) && p.lengthsFit(int(g.Steps))
}

// gates reads the activations.
func (p *prep) gates(g *kernels.Recurrent, names []string) bool {
	list, err := kit.Gates(p.node, names, int(g.Dirs))
	if err != nil {
		return false
	}
	for d, gates := range list {
		for i, a := range gates {
			kind, ok := kernels.Activations[a.Name]
			if !ok {
				return false
			}
			g.Activations[3*d+i] = kernels.Activation{Kind: kind, Alpha: float32(a.Alpha), Beta: float32(a.Beta)}
		}
	}
	return true
}

// lengthsFit reports that there are none, or constant ones that the host would not refuse.
func (p *prep) lengthsFit(steps int) bool {
	if !p.has(opLengths) {
		return true
	}
	list, ok := p.ints(opLengths)
	return ok && p.in[opLengths].dt == ndarray.Int32 && p.in[opLengths].value.Const != nil &&
		!slices.ContainsFunc(list, func(n int64) bool { return n < 0 || n > int64(steps) })
}

// statesFit reports that weights and states have their shapes; the host says so of others.
func (p *prep) statesFit(g *kernels.Recurrent) bool {
	width, state := int(g.Gates()*g.Hidden), int(g.Dirs*g.Batch*g.Hidden)
	want := map[int]int{opW: int(g.Dirs) * width * p.in[opX].shape[2], opR: int(g.Dirs) * width * int(g.Hidden), opBias: 2 * int(g.Dirs) * width,
		opLengths: int(g.Batch), opH: state, opC: state, opPeepholes: 3 * int(g.Dirs*g.Hidden)}
	for i, n := range want {
		if p.has(i) && p.in[i].n != n {
			return false
		}
	}
	return g.Dirs <= 2 && int64(g.Dirs)*int64(g.Batch)*int64(g.Hidden) < math.MaxInt32
}
