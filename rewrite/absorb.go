package rewrite

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// operand is an operand of a rebuilt node: the old value, or a new constant in
// its place.
type operand struct {
	old *ssa.Value
	k   *ssa.Constant
}

// absorber says how one operator takes a scale and shift of its channels into
// its constant operands.
type absorber struct {
	weight, bias int // operand places
	count        int // channels
	view         weightView
	lastAxis     bool // channels are the last axis, else axis 1
	noBias       bool // no bias operand: an Add stays
	scalesBeta   bool // Gemm: beta goes into the bias
}

func (a *absorber) axis(rank int) int {
	if a.lastAxis {
		return rank - 1
	}
	return 1
}

// worth reports that folding makes the graph cheaper. Where there is no bias, a
// lone shift is an Add before and after.
func (a *absorber) worth(chain affine) bool {
	if !a.noBias || chain.t.all(0) {
		return true
	}
	return len(chain.nodes) > 1 || is(chain.nodes[0], "BatchNormalization")
}

// absorberOf returns how n absorbs, nil if it does not.
func absorberOf(n *ssa.Node) *absorber {
	if n.Opaque || n.Domain != "" || len(n.Out) == 0 || n.Out[0] == nil || len(n.In) < 2 {
		return nil
	}
	switch n.Op {
	case "Conv":
		return convAbsorber(n)
	case "ConvTranspose":
		return convTransposeAbsorber(n)
	case "Gemm":
		return gemmAbsorber(n)
	case "MatMul":
		return matMulAbsorber(n)
	case "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization":
		return normAbsorber(n)
	}
	return nil
}

// weightShape returns the shape of a constant weight operand of at least rank 2.
func weightShape(n *ssa.Node) []int {
	if w := n.In[1]; w != nil && w.Const != nil && len(w.Const.Shape()) >= 2 && w.Const.Len() > 0 {
		return w.Const.Shape()
	}
	return nil
}

func elems(shape []int) int {
	p := 1
	for _, d := range shape {
		p *= d
	}
	return p
}

// convAbsorber: W is [M, C/group, kernel...].
func convAbsorber(n *ssa.Node) *absorber {
	w := weightShape(n)
	if w == nil {
		return nil
	}
	return &absorber{weight: 1, bias: 2, count: w[0], view: weightView{1, 1, w[0], elems(w[1:])}}
}

// convTransposeAbsorber: W is [C, M/group, kernel...]; output channel g*(M/group)+j
// is column j of the rows of group g.
func convTransposeAbsorber(n *ssa.Node) *absorber {
	w := weightShape(n)
	groups := int(ops.Int(n, "group"))
	if w == nil || groups < 1 || w[0]%groups != 0 {
		return nil
	}
	return &absorber{weight: 1, bias: 2, count: groups * w[1], view: weightView{groups, w[0] / groups, w[1], elems(w[2:])}}
}

// gemmAbsorber: B is [K, N], or [N, K] when transposed.
func gemmAbsorber(n *ssa.Node) *absorber {
	w := weightShape(n)
	if w == nil || len(w) != 2 {
		return nil
	}
	a := &absorber{weight: 1, bias: 2, lastAxis: true, count: w[1], view: weightView{1, w[0], w[1], 1}, scalesBeta: true}
	if ops.Int(n, "transB") != 0 {
		a.count, a.view = w[0], weightView{1, 1, w[0], w[1]}
	}
	return a
}

// matMulAbsorber: the right operand is [..., K, N].
func matMulAbsorber(n *ssa.Node) *absorber {
	w := weightShape(n)
	if w == nil || n.In[0] == nil || n.In[0].Type.Rank() < 1 {
		return nil
	}
	last := w[len(w)-1]
	return &absorber{weight: 1, bias: -1, lastAxis: true, noBias: true, count: last, view: weightView{1, elems(w[:len(w)-1]), last, 1}}
}

// normAbsorber: scale and bias are vectors.
func normAbsorber(n *ssa.Node) *absorber {
	s := n.In[1]
	if s == nil || s.Const == nil || len(s.Const.Shape()) != 1 || ops.Int(n, "training_mode") != 0 || len(n.Out) > 1 {
		return nil
	}
	a := &absorber{weight: 1, bias: 2, count: s.Const.Len()}
	a.view = weightView{1, 1, a.count, 1}
	if n.Op == "LayerNormalization" || n.Op == "RMSNormalization" {
		rank := n.In[0].Type.Rank()
		if axis := ops.Int(n, "axis"); axis != -1 && (rank < 0 || axis != int64(rank-1)) {
			return nil
		}
		a.lastAxis, a.noBias = true, n.Op == "RMSNormalization"
	}
	return a
}

// absorb returns the operands of the rebuilt node; why says why it can not be.
func (a *absorber) absorb(n *ssa.Node, chain affine) (in []operand, why string) {
	for _, v := range n.In {
		in = append(in, operand{old: v})
	}
	if !chain.s.finite() || !chain.t.finite() {
		return nil, "the numbers overflow"
	}
	if !chain.s.all(1) {
		k := a.view.scaled(n.In[a.weight].Const, chain.s)
		if k == nil {
			return nil, "the weights overflow"
		}
		in[a.weight].k = k
	}
	if a.noBias {
		return in, ""
	}
	k, why := a.newBias(n, chain)
	if why != "" || k == nil {
		return in, why
	}
	for len(in) <= a.bias {
		in = append(in, operand{})
	}
	in[a.bias].k = k
	return in, ""
}

// newBias is beta*s*b + t as a vector; nil if there was none and none is needed.
func (a *absorber) newBias(n *ssa.Node, chain affine) (*ssa.Constant, string) {
	bias := n.Input(a.bias)
	dt := n.Out[0].Type.DType
	if bias == nil {
		if chain.t.all(0) {
			return nil, ""
		}
		return orOverflow(chain.t.constant(dt, a.count))
	}
	if bias.Const == nil {
		return nil, "the bias is not constant"
	}
	b, ok := perChannel(bias.Const, max(2, len(bias.Const.Shape())), max(1, len(bias.Const.Shape())-1), a.count)
	if !ok {
		return nil, "the bias is no vector"
	}
	dt = bias.Type.DType
	beta := 1.0
	if a.scalesBeta {
		beta = float64(ops.Float(n, "beta"))
	}
	sum := b.zip(chain.s, func(b, s float64) float64 { return beta * b * s }).zip(chain.t, func(x, t float64) float64 { return x + t })
	return orOverflow(sum.constant(dt, a.count))
}

func orOverflow(k *ssa.Constant) (*ssa.Constant, string) {
	if k == nil {
		return nil, "the bias overflows"
	}
	return k, ""
}
