// Package trial finds the inputs that two models are worth comparing with: values that the model compares its inputs with, and sizes of
// open dimensions, one dimension at a time.
//
// Nothing here runs a model. What it finds may be refused by the model, so callers try it.
package trial

import (
	"maps"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// mostValues bounds the values of one input.
const mostValues = 8

// Compared lists, for each parameter of the graph that is an integer of rank 0 or 1, the constants that the graph and its bodies compare it with,
// in the order of the nodes: of an equation the constant, of an order also its neighbours.
func Compared(g *ssa.Graph) map[string][]int64 {
	c := comparisons{from: map[*ssa.Value]string{}, found: map[string][]int64{}}
	for _, p := range g.Params {
		if p.Type.Kind == ssa.KindTensor && p.Type.DType.IsInteger() && p.Type.Ranked && p.Type.Rank() <= 1 {
			c.from[p] = p.Name
		}
	}
	c.graph(g)
	return c.found
}

// comparisons follows parameters through nodes that keep their elements.
type comparisons struct {
	from  map[*ssa.Value]string // the parameter whose elements a value has
	found map[string][]int64
}

// keepsElements are the operators whose results have the elements of the first operand alone.
var keepsElements = map[string]bool{"Identity": true, "Cast": true, "Squeeze": true, "Unsqueeze": true, "Reshape": true, "Flatten": true, "Expand": true, "Gather": true, "Slice": true}

// neighbours are what is tried of a constant in a comparison.
var neighbours = map[string][]int64{"Equal": {0}, "Less": {0, -1, 1}, "LessOrEqual": {0, -1, 1}, "Greater": {0, -1, 1}, "GreaterOrEqual": {0, -1, 1}}

func (c *comparisons) graph(g *ssa.Graph) {
	for _, n := range g.Nodes {
		switch {
		case n.Domain != "" || len(n.In) == 0 || len(n.Out) == 0:
		case keepsElements[n.Op] && n.In[0] != nil && n.Out[0] != nil && c.from[n.In[0]] != "":
			c.from[n.Out[0]] = c.from[n.In[0]]
		case len(n.In) == 2:
			c.compare(n, n.In[0], n.In[1])
			c.compare(n, n.In[1], n.In[0])
		}
		for _, b := range n.Bodies {
			for i, v := range n.Captured() {
				if name := c.from[v]; name != "" {
					c.from[b.Params[len(b.Params)-n.Captures+i]] = name
				}
			}
			c.graph(b)
		}
	}
}

// compare notes the constant y that x is compared with.
func (c *comparisons) compare(n *ssa.Node, x, y *ssa.Value) {
	name := c.from[x]
	k, ok := one(y)
	if name == "" || !ok {
		return
	}
	for _, d := range neighbours[n.Op] {
		if v := k + d; !slices.Contains(c.found[name], v) && len(c.found[name]) < mostValues {
			c.found[name] = append(c.found[name], v)
		}
	}
}

// one is a constant of one whole number, also where nodes reshape or convert it.
func one(v *ssa.Value) (int64, bool) {
	for v != nil && v.Const == nil && v.Def != nil && v.Def.Domain == "" && keepsElements[v.Def.Op] && len(v.Def.In) > 0 {
		v = v.Def.In[0]
	}
	if v == nil || v.Const == nil || v.Const.Len() != 1 || v.Const.DType() == ndarray.String || v.Const.DType().IsComplex() {
		return 0, false
	}
	a, err := v.Const.Array()
	if err != nil {
		return 0, false
	}
	x := a.Float(0)
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, false
	}
	return int64(x), true
}

// Choices lists assignments to inputs in which each value occurs: every value of the first input beside the first values of others, and so on.
func Choices(values map[string][]int64) (all []map[string]int64) {
	first := map[string]int64{}
	names := slices.Sorted(maps.Keys(values))
	for _, name := range names {
		first[name] = values[name][0]
	}
	for i, name := range names {
		for k, v := range values[name] {
			if i > 0 && k == 0 {
				continue
			}
			choice := maps.Clone(first)
			choice[name] = v
			all = append(all, choice)
		}
	}
	return all
}
