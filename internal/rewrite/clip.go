package rewrite

import (
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// A clamp is min(max(x, lo), hi) with lo <= hi. Two clamps in a row are one:
//
//	clamp(clamp(x, a, b), c, d) = clamp(x, clamp(a, c, d), clamp(b, c, d))
//
// because the outer clamp is monotone. Relu is the clamp to [0, +inf]; a Clip whose
// upper limit is absent is not, because it takes infinity to the largest number.
type clamp struct{ lo, hi float64 }

func (c clamp) of(v float64) float64 { return math.Min(math.Max(v, c.lo), c.hi) }

// clampOf reads a Relu, or a Clip whose limits are constants.
func clampOf(n *ssa.Node) (clamp, bool) {
	most := n.In[0].Type.DType.MaxFinite()
	k := clamp{-most, most}
	switch {
	case is(n, "Relu"):
		return clamp{0, math.Inf(1)}, n.In[0].Type.DType.IsFloat()
	case !is(n, "Clip") || most == 0:
		return k, false
	}
	for i, limit := range []*float64{&k.lo, &k.hi} {
		if n.Input(1+i) == nil {
			continue
		}
		v, ok := scalar(n.Input(1 + i))
		if !ok || v != v {
			return k, false
		}
		*limit = v
	}
	return k, k.lo <= k.hi
}

// clipRowRule merges a Clip or Relu with the one before it, and canonicalizes
// Clip(x, 0, inf) to Relu.
func clipRowRule(c *Context, n *ssa.Node) bool {
	outer, ok := clampOf(n)
	if !ok {
		return false
	}
	m := def(n.In[0], "Clip", "Relu")
	if m == nil {
		if is(n, "Clip") && outer == (clamp{0, math.Inf(1)}) {
			return c.become(n, "Relu", []*ssa.Value{n.In[0]})
		}
		return false
	}
	inner, ok := clampOf(m)
	if !ok {
		return false
	}
	both := clamp{outer.of(inner.lo), outer.of(inner.hi)}
	if both == inner {
		return c.forward(n, n.In[0])
	}
	return c.becomeClamp(n, m.In[0], both)
}

// becomeClamp replaces n by Relu or Clip of x.
func (c *Context) becomeClamp(n *ssa.Node, x *ssa.Value, k clamp) bool {
	if k == (clamp{0, math.Inf(1)}) {
		return c.become(n, "Relu", []*ssa.Value{x})
	}
	in := []*ssa.Value{x, nil, nil}
	for i, v := range []float64{k.lo, k.hi} {
		if v == []float64{-1, 1}[i]*x.Type.DType.MaxFinite() { // what an absent limit is
			continue
		}
		in[1+i] = c.constant(n.Out[0].Name+"_limit", ssa.NewConstant(floatScalar(x.Type.DType, v)))
	}
	if in[2] == nil {
		in = in[:2]
	}
	return c.become(n, "Clip", in)
}

// clampRule: Min(Max(x, lo), hi), Max(Min(x, hi), lo) with numbers lo <= hi, and
// Min(Relu(x), hi).
func clampRule(c *Context, n *ssa.Node) bool {
	if len(n.In) != 2 || !n.Out[0].Type.DType.IsFloat() {
		return false
	}
	outer, y, at := constFirst(n)
	other := map[string]string{"Min": "Max", "Max": "Min"}[n.Op]
	if at < 0 {
		return false
	}
	if hi, ok := scalar(outer); ok && n.Op == "Min" && hi >= 0 && def(y, "Relu") != nil && c.only(y, n) &&
		keepsShape(y.Type, outer.Const.Shape()) {
		return c.becomeClamp(n, y.Def.In[0], clamp{0, hi})
	}
	m := def(y, other)
	if m == nil || len(m.In) != 2 || !c.only(y, n) {
		return false
	}
	inner, x, at := constFirst(m)
	if at < 0 || !keepsShape(x.Type, inner.Const.Shape()) || !keepsShape(x.Type, outer.Const.Shape()) {
		return false
	}
	hi, okHi := scalar(outer)
	lo, okLo := scalar(inner)
	if n.Op == "Max" {
		lo, hi = hi, lo
	}
	if !okHi || !okLo || !(lo <= hi) {
		return false
	}
	return c.becomeClamp(n, x, clamp{lo, hi})
}
