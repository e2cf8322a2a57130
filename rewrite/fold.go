package rewrite

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Fold computes nodes whose operands are all constant, with the reference
// kernels, bodies and all. What it may cost is bounded three ways (see [Growth]):
// arithmetic operations, bytes added by one node, bytes added in total, where
// operands that become superfluous are subtracted. So ConstantOfShape([4096,4096])
// does not turn a small file into a large one, and Transpose(weights) still folds.
//
// Constants that hold one element repeated stay so (splats): elementwise
// operators compute that one element, operators that only move elements keep it.
//
//	W ─▶ Transpose ─▶ Mul ─▶ MatMul        W' ─▶ MatMul        one constant in the
//	             2 ───▲        ▲      ─▶             ▲         place of two nodes
//	                           x                     x
var Fold = &Pass{
	Name: "fold", Doc: "a node with constant operands -> constants",
	run: runFold,
}

func runFold(c *Context, g *ssa.Graph) error {
	for _, n := range slices.Clone(g.Nodes) {
		if !c.alive(n) || !foldable(n) || c.unread(n) {
			continue
		}
		results, why := c.evaluate(n)
		if why != "" {
			c.skip(n, "%s", why)
			continue
		}
		added := c.addedBytes(n, results)
		if added > c.opts.Growth.PerNode || added > 0 && c.grown+added > c.opts.Growth.Total {
			c.skip(n, "would add %d bytes", added)
			continue
		}
		if !c.patch(n, "all operands are constant, %+d bytes", added) {
			return nil
		}
		c.grown += max(added, 0)
		for i, v := range n.Out {
			if v != nil && c.alive(n) && !c.unreadResult(n, i) {
				c.replace(v, c.constant(v.Name, results[i]))
			}
		}
	}
	c.foldChains(g)
	return nil
}

// foldable reports constant operands and an operator that may run ahead of time.
// Dequantization stays: the quantized weights are the point of such a model.
func foldable(n *ssa.Node) bool {
	for _, v := range n.In {
		if v != nil && v.Const == nil {
			return false
		}
	}
	return mayFold(n)
}

// mayFold reports an operator that may run ahead of time.
func mayFold(n *ssa.Node) bool {
	o := ops.Of(n)
	return o != nil && o.Eval != nil && pure(n) && n.Op != "DequantizeLinear" && n.Op != "DynamicQuantizeLinear"
}

// addedBytes is what storing the results costs, less the operands that nobody
// else reads.
func (c *Context) addedBytes(n *ssa.Node, results []*ssa.Constant) int64 {
	var sum int64
	for i, r := range results {
		if r != nil && !c.unreadResult(n, i) {
			sum += r.StoredBytes()
		}
	}
	for i, v := range n.In {
		if v != nil && c.only(v, n) && !slices.Contains(n.In[:i], v) {
			sum -= v.Const.StoredBytes()
		}
	}
	return sum
}

// evaluate computes the results of a node; why says why not.
func (c *Context) evaluate(n *ssa.Node) (results []*ssa.Constant, why string) {
	if r := splatResult(n); r != nil {
		return []*ssa.Constant{r}, ""
	}
	if why := c.tooExpensive(n); why != "" {
		return nil, why
	}
	in := make([]ndarray.Value, len(n.In))
	for i, v := range n.In {
		a, err := constArray(v)
		if err != nil {
			return nil, err.Error()
		}
		in[i] = a
	}
	arrays, why := c.eval(n, in)
	for _, a := range arrays {
		results = append(results, packed(a))
	}
	return results, why
}

// eval runs the reference kernel of a node; nil for results that are not there.
func (c *Context) eval(n *ssa.Node, in []ndarray.Value) (results []*ndarray.Array, why string) {
	call := &ops.Call{Ctx: c.ctx, Node: n, Threads: 1, In: in, Out: make([]ndarray.Value, len(n.Out))}
	call.Body = func(i int, args []ndarray.Value) ([]ndarray.Value, error) {
		return ops.Interpret(c.ctx, n.Bodies[i], args, nil)
	}
	if err := ops.Eval(call); err != nil {
		return nil, err.Error()
	}
	for i, v := range n.Out {
		a, ok := call.Out[i].(*ndarray.Array)
		if v != nil && !ok {
			return nil, fmt.Sprintf("result %d is no tensor", i)
		}
		results = append(results, a)
	}
	return results, ""
}

// constArray returns the elements of a constant operand, nil for an absent one.
func constArray(v *ssa.Value) (ndarray.Value, error) {
	if v == nil {
		return nil, nil
	}
	a, err := v.Const.Array()
	if err != nil {
		return nil, err
	}
	return a, nil
}

// packed wraps an array, as a splat if its elements are all the same.
func packed(a *ndarray.Array) *ssa.Constant {
	if a == nil {
		return nil
	}
	const worth = 16
	if a.Len() > worth {
		if e := uniform(a); e != nil {
			return ssa.NewSplat(e.Clone(), a.Shape...)
		}
	}
	return ssa.NewConstant(a)
}

// boundedOps give results whose size depends on the elements, but never more
// than a small multiple of the operands'.
var boundedOps = map[string]bool{"NonZero": true, "Unique": true, "Compress": true}

// tooExpensive bounds time and memory before anything is computed.
func (c *Context) tooExpensive(n *ssa.Node) string {
	budget := c.opts.Growth
	if len(n.Bodies) > 0 {
		return c.bodiesTooExpensive(n)
	}
	var operands int64
	for _, v := range n.In {
		if v != nil {
			operands += v.Const.StoredBytes()
		}
	}
	var results int64
	for _, v := range n.Out {
		if v == nil || boundedOps[n.Op] {
			continue
		}
		if !v.Type.IsStatic() {
			return "the size of a result is not known before the run"
		}
		b, _ := v.Type.ByteSize()
		results += int64(b)
	}
	if results > 16*(operands+budget.PerNode+budget.Total) {
		return fmt.Sprintf("would make %d bytes of %d", results, operands)
	}
	if cost := ops.CostOf(n); cost.FLOPs > budget.Ops || cost.Bytes > budget.Ops {
		return fmt.Sprintf("takes %d operations", cost.FLOPs)
	}
	return ""
}

// bodiesTooExpensive counts the nodes a control-flow node would run.
func (c *Context) bodiesTooExpensive(n *ssa.Node) string {
	trips := int64(1)
	switch n.Op {
	case "Loop":
		s, err := ops.LoopOf(n)
		if err != nil {
			return err.Error()
		}
		k, ok := s.Trips(n).Const()
		if !ok {
			return "the number of iterations is not known"
		}
		trips = k
	case "Scan":
		s, err := ops.ScanOf(n)
		if err != nil {
			return err.Error()
		}
		x := n.In[s.States]
		trips = int64(x.Const.Len())
	}
	cost := int64(0)
	for _, b := range n.Bodies {
		for _, m := range b.Nodes {
			if len(m.Bodies) > 0 {
				return "control flow inside control flow"
			}
			for _, v := range m.Out {
				if v != nil && !v.Type.IsStatic() {
					return "the sizes inside are not known before the run"
				}
			}
			k := ops.CostOf(m)
			cost += k.FLOPs + k.Bytes + 1000
		}
	}
	if trips > 0 && cost > c.opts.Growth.Ops/trips {
		return fmt.Sprintf("%d iterations of %d operations", trips, cost)
	}
	return ""
}
