package rewrite

import "github.com/berth-onnx/berth/ssa"

// Iteration makes a picked element of the slice that a Loop takes in each iteration, as exporters write x[i:i+1]:
//
//	Loop(T) { i: … Slice(x[T, …], [i], [i+1]) … }   ->   Loop(T) { i: … Gather(x[T, …], [i]) … }
//
// A slice may be empty, so its length is known only while running, and with it that of all that is computed from it. Here
// there are no more iterations than elements, and each slice is of length one.
var Iteration = &Pass{
	Name: "iteration", Doc: "Slice of an iteration's number -> Gather",
	rules: []rule{{"a slice from the number of the iteration to the next -> the element of that number", named("Slice"), pickIteration}},
}

func pickIteration(c *Context, n *ssa.Node) bool {
	if c.owner == nil || !is(c.owner, "Loop") || n.In[1].Type.Rank() != 1 || !n.In[1].Type.Shape[0].Is(1) {
		return false
	}
	i := c.graph.Params[0]
	if behindViews(n.In[1]) != i || !isNext(n.In[2], i) {
		return false
	}
	axes, ok := sliceAxes(n, 1)
	if steps, known := ints(n, 4); !ok || n.Input(4) != nil && (!known || steps[0] != 1) {
		return false
	}
	if most := c.owner.Input(0); most == nil || len(most.Content) != 1 || !atMost(most.Content[0], n.In[0].Type.Shape[axes[0]]) {
		return false
	}
	return c.become(n, "Gather", []*ssa.Value{n.In[0], n.In[1]}, ssa.IntAttr("axis", axes[0]))
}

// atMost reports that one size never exceeds another.
func atMost(a, b ssa.Dim) bool { return a.Known() && b.Known() && b.Sub(a).NonNegative() }

// behindViews is the scalar that a value shows in another shape.
func behindViews(v *ssa.Value) *ssa.Value {
	for {
		x := operandOf(v, "Unsqueeze", "Squeeze", "Reshape", "Identity")
		if x == nil {
			return v
		}
		v = x
	}
}

// isNext reports the number after i, in any shape.
func isNext(v, i *ssa.Value) bool {
	sum := def(behindViews(v), "Add")
	if sum == nil {
		return false
	}
	for k := range 2 {
		if one, ok := scalar(sum.In[1-k]); ok && one == 1 && behindViews(sum.In[k]) == i {
			return true
		}
	}
	return false
}
