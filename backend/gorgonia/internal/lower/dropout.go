package lower

import (
	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Dropout keeps each element with probability 1-p and divides it by that. The mask is drawn
// anew in every pass, and the derivative has the same one:
//
//	Draw ─▶ %keep ──┬──────────────▶ Where ─▶ y          kept elements of x/(1-p), else 0
//	                └──────────────▶ Where ─▶ dx         kept elements of dy/(1-p), else 0
//
// As standard ONNX it is the operator Dropout, whose numbers are not ours.

// kept is x/(1-p) where the mask of an op holds, else 0; of is what the op was applied to.
func (b *builder) kept(op any, p float64, of, x *ssa.Value) *ssa.Value {
	keep := b.once(statistic{op, "mask", of}, func() *ssa.Value {
		return b.draw(ndarray.Bool, b.shape(of), func(s *source) float64 {
			if s.Float64() < 1-p {
				return 1
			}
			return 0
		})
	})
	return b.op("Where", keep, b.op("Mul", x, b.number(x, 1/(1-p))), b.number(x, 0))
}

// portable is the standard operator, with its mask.
func (b *builder) portable(op any, p float64, x *ssa.Value) *ssa.Node {
	return b.once(statistic{op, "dropout", x}, func() *ssa.Value {
		return b.node("Dropout", []*ssa.Value{x, b.number(x, p), b.constant(ssa.ScalarConst(true))}, 2).Out[0]
	}).Def
}

func dropout(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	switch p := get[float64](b, n, "probability"); {
	case p == 0 || b.options.Eval:
		return in[0]
	case b.options.Portable:
		return b.portable(n.Op(), p, in[0]).Out[0]
	default:
		return b.kept(n.Op(), p, in[0], in[0])
	}
}

// dropoutDiff takes x, y and the adjoint of y. Gorgonia's own code divides by the probability
// of dropping, not of keeping.
func dropoutDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	op, err := embedded(n.Op(), "dropoutOp")
	if err != nil {
		b.fail(err)
		return in[2]
	}
	switch p := get[float64](b, n, "probability"); {
	case p == 0 || b.options.Eval:
		return in[2]
	case b.options.Portable:
		return b.adjoint(b.portable(op, p, in[0]), in[2], 0)
	default:
		return b.kept(op, p, in[0], in[2])
	}
}
