package rewrite

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ShapeFold replaces small integer tensors whose elements the type rules know,
// such as Shape of a static tensor and everything computed from it, by constants.
// The rules track elements through Shape, Gather, Slice, Concat, arithmetic and
// the like (ssa.Value.Content), so a chain folds from its end at once.
//
//	x: float32[1,3,8,8] ─▶ Shape ─▶ Gather 2 ─▶ Mul 4 ─▶ Unsqueeze ─▶ Reshape
//	content            {1,3,8,8}       8          32        {32}
//	                                              here a constant {32}; the rest is dead
var ShapeFold = &Pass{
	Name: "shape-fold", Doc: "integers known from shapes -> constants",
	rules: []rule{{"results with known elements -> constants", anyOp, foldKnown}},
	after: foldKnownParams,
}

func foldKnown(c *Context, n *ssa.Node) (done bool) {
	if !pure(n) {
		return false
	}
	for i, v := range n.Out {
		if v == nil || !c.alive(n) || c.unreadResult(n, i) {
			continue
		}
		if k := knownContent(v); k != nil {
			c.replace(v, c.constant(v.Name, k))
			done = true
		}
	}
	return done
}

// foldKnownParams does the same for the parameters of a body.
func foldKnownParams(c *Context, g *ssa.Graph) {
	for _, p := range g.Params {
		if k := knownContent(p); k != nil && !c.top() && len(p.Uses()) > 0 {
			c.patch(p.Uses()[0].Node, "parameters with known elements -> constants")
			g.ReplaceUses(p, c.constant(p.Name, k))
		}
	}
}

// knownContent returns the constant that v always is, nil if it is not known.
func knownContent(v *ssa.Value) *ssa.Constant {
	if v.Content == nil || v.Type.DType != ndarray.Int64 && v.Type.DType != ndarray.Int32 {
		return nil
	}
	shape, ok := v.Type.Static()
	if !ok || len(shape) > 1 {
		return nil
	}
	a, err := ndarray.New(v.Type.DType, shape...)
	if err != nil || a.Len() != len(v.Content) {
		return nil
	}
	for i, d := range v.Content {
		k, ok := d.Const()
		if !ok {
			return nil
		}
		a.SetInt(i, k)
		if a.Int(i) != k {
			return nil
		}
	}
	return ssa.NewConstant(a)
}
