package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Linear describes an operator with constant weights whose result a factor and an
// offset per channel can be folded into, and whose input channels can be scaled the
// same way:
//
//	y = W·x + b      s·y + t      = (s·W)·x + (s·b + t)        Out: output channels
//	                 W·(s·x + t)  = (W·s)·x + (b + Σ W·t)      In: input channels
//
// Normalizations have a scale for W and no input side.
type Linear struct {
	Weight, Bias int      // operands; Bias is -1 where the operator has none
	Out          Channels // channels of the result
	In           Channels // channels of operand 0; the zero value where there are none
	// Shifts reports that an offset of every input channel is an offset of every
	// output channel, too: the operator has a bias, and no padding puts zeros in.
	Shifts bool
	// Alpha scales the product, Beta the bias.
	Alpha, Beta float64
}

// Channels says where the channels of one side lie: along Axis of the data (-1: the
// last one), and in the weights, seen as [Groups, Outer, Per, Inner]: element
// (g, o, j, i) belongs to channel g·Per+j.
type Channels struct{ Axis, Groups, Outer, Per, Inner int }

// Count is the number of channels.
func (c Channels) Count() int { return c.Groups * c.Per }

// LinearOf returns how factors and offsets fold into a node, nil if they do not.
func LinearOf(n *ssa.Node) *Linear {
	o := Of(n)
	if o == nil || o.Facts.Linear == nil || len(n.In) < 2 || n.In[0] == nil || n.In[1] == nil || n.In[1].Const == nil || n.Output(0) == nil {
		return nil
	}
	return o.Facts.Linear(n, n.In[1].Const.Shape())
}

// ConvLinear: W is [M, C/group, kernel…].
func ConvLinear(n *ssa.Node, w []int) *Linear {
	if len(w) < 2 || slices.Contains(w, 0) {
		return nil
	}
	l := &Linear{Weight: 1, Bias: 2, Out: Channels{1, 1, 1, w[0], ndarray.Product(w[1:])}, Alpha: 1, Beta: 1}
	if groups := int(Int(n, "group")); groups >= 1 && w[0]%groups == 0 {
		l.In = Channels{1, groups, w[0] / groups, w[1], ndarray.Product(w[2:])}
	}
	auto := Str(n, "auto_pad")
	l.Shifts = (auto == "NOTSET" || auto == "VALID") && !slices.ContainsFunc(Ints(n, "pads"), func(k int64) bool { return k != 0 })
	return l
}

// ConvTransposeLinear: W is [C, M/group, kernel…]; output channel g·(M/group)+j is
// column j of the rows of group g.
func ConvTransposeLinear(n *ssa.Node, w []int) *Linear {
	groups := int(Int(n, "group"))
	if len(w) < 2 || slices.Contains(w, 0) || groups < 1 || w[0]%groups != 0 {
		return nil
	}
	return &Linear{Weight: 1, Bias: 2, Out: Channels{1, groups, w[0] / groups, w[1], ndarray.Product(w[2:])},
		In: Channels{1, 1, 1, w[0], ndarray.Product(w[1:])}, Alpha: 1, Beta: 1}
}

// GemmLinear: B is [K, N], or [N, K] when transposed.
func GemmLinear(n *ssa.Node, w []int) *Linear {
	if len(w) != 2 || slices.Contains(w, 0) {
		return nil
	}
	rows, columns := Channels{-1, 1, 1, w[0], w[1]}, Channels{-1, 1, w[0], w[1], 1}
	l := &Linear{Weight: 1, Bias: 2, Out: columns, In: rows, Alpha: float64(Float(n, "alpha")), Beta: float64(Float(n, "beta"))}
	if Int(n, "transB") != 0 {
		l.Out, l.In = rows, columns
	}
	if l.Shifts = Int(n, "transA") == 0; !l.Shifts {
		l.In = Channels{}
	}
	return l
}

// MatMulLinear: the right operand is [..., K, N].
func MatMulLinear(n *ssa.Node, w []int) *Linear {
	k := len(w) - 2
	if k < 0 || slices.Contains(w, 0) || n.In[0].Type.Rank() < 1 {
		return nil
	}
	return &Linear{Weight: 1, Bias: -1, Out: Channels{-1, 1, ndarray.Product(w[:k+1]), w[k+1], 1}, In: Channels{-1, 1, ndarray.Product(w[:k]), w[k], w[k+1]}, Alpha: 1, Beta: 1}
}

// ChannelNormLinear is the rule of normalizations with a scale and bias per channel.
func ChannelNormLinear(n *ssa.Node, w []int) *Linear {
	if len(w) != 1 || Int(n, "training_mode") != 0 || len(n.Out) > 1 {
		return nil
	}
	return &Linear{Weight: 1, Bias: 2, Out: Channels{1, 1, 1, w[0], 1}, Alpha: 1, Beta: 1}
}

// LastNormLinear is the rule of normalizations over the last axis.
//
//go:noinline
func LastNormLinear(bias int) func(n *ssa.Node, w []int) *Linear {
	return func(n *ssa.Node, w []int) *Linear {
		rank := n.In[0].Type.Rank()
		if axis := Int(n, "axis"); axis != -1 && (rank < 0 || axis != int64(rank-1)) {
			return nil
		}
		l := ChannelNormLinear(n, w)
		if l != nil {
			l.Bias, l.Out.Axis = bias, -1
		}
		return l
	}
}
