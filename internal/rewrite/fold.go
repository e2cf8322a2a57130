package rewrite

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Fold computes nodes whose operands are all constant, with the reference
// kernels, bodies included; long products with the program's, where it is compiled. Its cost is bounded in three ways (see [Growth]):
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
	rules: []rule{{"constant operands -> constants", foldable, foldNode}},
	after: foldChains,
}

// Unpack computes what [Fold] leaves: operators whose constant operands are the compact
// form of what they give, as DequantizeLinear of quantized weights. The result is read
// as it is needed and not computed in every run. It takes four or eight times the
// memory, within Growth.
//
//	W int8, scale ─▶ DequantizeLinear ─▶ Conv   ->   W' float32 ─▶ Conv
var Unpack = &Pass{
	Name: "unpack", Doc: "DequantizeLinear of constants -> constants",
	rules: []rule{{"dequantized constants -> constants", with(func(f *ops.Facts) bool { return f.Folding == ops.KeepsPacked }), foldNode}},
}

// foldable reports an operator that is worth computing ahead of time.
func foldable(o *ops.Op) bool { return o.Facts.Folding == ops.Folds }

// foldNode computes a node ahead of time.
func foldNode(c *Context, n *ssa.Node) bool {
	if !pure(n) || slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return v != nil && v.Const == nil }) {
		return false
	}
	results, ok := c.evaluate(n)
	if !ok || !c.fits(c.addedBytes(n, results)) {
		return false
	}
	c.replaceResults(n, func(i int) *ssa.Value { return c.constant(n.Out[i].Name, results[i]) })
	return true
}

// addedBytes is what storing the results costs, less the operands that nothing
// else reads.
func (c *Context) addedBytes(n *ssa.Node, results []*ssa.Constant) int64 {
	_, bytes := c.freed(nil, n)
	for i, r := range results {
		if r != nil && !c.unreadResult(n, i) {
			bytes -= r.StoredBytes()
		}
	}
	return -bytes
}

// mayAdd reports that one node may add so many bytes.
func (c *Context) mayAdd(added int64) bool {
	return added <= c.opts.Growth.PerNode && c.mayAddInAll(added)
}

// mayAddInAll reports that so many bytes may be added, whatever the number of nodes.
func (c *Context) mayAddInAll(added int64) bool {
	return added <= 0 || c.grown+added <= c.opts.Growth.Total
}

// fits is mayAdd, and counts the bytes.
func (c *Context) fits(added int64) bool {
	ok := c.mayAdd(added)
	if ok {
		c.grown += max(added, 0)
	}
	return ok
}

// evaluate computes the results of a node, if that is possible within the limits.
func (c *Context) evaluate(n *ssa.Node) (results []*ssa.Constant, ok bool) {
	if r := c.splatResult(n); r != nil {
		return []*ssa.Constant{r}, true
	}
	if r := viewResult(c.ctx, n); r != nil {
		return []*ssa.Constant{r}, true
	}
	if c.tooExpensive(n) {
		return nil, false
	}
	arrays, ok := c.eval(n, nil)
	for _, a := range arrays {
		results = append(results, packed(a))
	}
	return results, ok
}

// viewResult is the result of a node that shows all elements of a constant under another shape: it shares their bytes. nil for
// other nodes, and for constants that [packed] looks at.
func viewResult(ctx context.Context, n *ssa.Node) *ssa.Constant {
	views := ops.Aliases(n)
	if len(n.Out) != 1 || len(views) != 1 || views[0].Concat || views[0].Moving != nil {
		return nil
	}
	k, t := n.In[views[0].In].Const, n.Out[0].Type
	size, static := t.ByteSize()
	if !static || size == 0 || t.DType != k.DType() || k.DType().FileBits() < 8 || len(k.Packed()) != size || uniformUntil(ctx, &ndarray.Array{DType: t.DType, Data: k.Packed()}) != nil {
		return nil
	}
	shape, _ := t.Static()
	return k.Reshaped(shape...)
}

// eval runs the reference kernel of a node with tensors as results; nil for results that
// are not there. Operands are constants, or in made.
func (c *Context) eval(n *ssa.Node, made map[*ssa.Value]*ndarray.Array) (results []*ndarray.Array, ok bool) {
	call := &ops.Call{Ctx: c.ctx, Node: n, Threads: 1, Memory: ndarray.BudgetOf(c.ctx), In: make([]ndarray.Value, len(n.In)), Out: make([]ndarray.Value, len(n.Out))}
	for i, v := range n.In {
		a := made[v]
		if v != nil && a == nil {
			var err error
			if a, err = c.elements(v.Const); err != nil {
				return nil, false
			}
		}
		if a != nil {
			call.In[i] = a
		}
	}
	call.Body = func(i int, args []ndarray.Value) ([]ndarray.Value, error) {
		return ops.Interpret(c.ctx, n.Bodies[i], args, nil)
	}
	if err := c.compute(call); err != nil {
		c.failIfFull(err)
		return nil, false
	}
	for i, v := range n.Out {
		a, ok := call.Out[i].(*ndarray.Array)
		if v != nil && !ok {
			return nil, false
		}
		results = append(results, a)
	}
	return results, true
}

// longProduct is from how many operations on the reference kernel of a product takes longer than preparing a fast one.
const longProduct = 1 << 20

// compute runs the kernel that the program would have for a long product of float32, where there are any, and else the reference kernel.
func (c *Context) compute(call *ops.Call) error {
	n := call.Node
	cost := ops.CostOf(n)
	if c.opts.Compute == nil || len(n.Out) != 1 || n.Out[0].Type.DType != ndarray.Float32 || cost.FLOPs < longProduct || cost.FLOPs < 4*cost.Bytes {
		return ops.Eval(call)
	}
	shape, ok := n.Out[0].Type.Static()
	if !ok {
		return ops.Eval(call)
	}
	y, err := c.array(ndarray.Float32, shape...)
	if err != nil {
		return err
	}
	call.Out[0] = y
	return c.opts.Compute(call)
}

// failIfFull ends rewriting where memory does not suffice: what is folded must not depend on
// what else is in memory.
func (c *Context) failIfFull(err error) {
	if err == nil {
		return
	}
	if full := (*ops.MemoryError)(nil); errors.As(err, &full) {
		c.fail(err)
	}
}

// elements are those of a constant.
func (c *Context) elements(k *ssa.Constant) (*ndarray.Array, error) {
	a, err := k.ArrayContext(c.ctx, ndarray.BudgetOf(c.ctx))
	c.failIfFull(err)
	return a, err
}

// unaligned are the elements of a constant: those of float32 where they lie, at any address.
func (c *Context) unaligned(k *ssa.Constant) (*ndarray.Array, error) {
	if _, splat := k.Splat(); splat || k.DType() != ndarray.Float32 {
		return c.elements(k)
	}
	data, err := k.BytesContext(c.ctx, ndarray.BudgetOf(c.ctx))
	c.failIfFull(err)
	return &ndarray.Array{DType: k.DType(), Shape: k.Shape(), Data: data}, err
}

// array is a new array.
func (c *Context) array(dt ndarray.DType, shape ...int) (*ndarray.Array, error) {
	a, err := ndarray.NewContext(c.ctx, ndarray.BudgetOf(c.ctx), dt, shape...)
	c.failIfFull(err)
	return a, err
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

// tooExpensive bounds time and memory before anything is computed.
func (c *Context) tooExpensive(n *ssa.Node) bool {
	budget := c.opts.Growth
	if len(n.Bodies) > 0 {
		return c.bodiesTooExpensive(n)
	}
	var operands, results int64
	for _, v := range n.In {
		if v != nil {
			operands += v.Const.StoredBytes()
		}
	}
	for _, v := range n.Out {
		if v == nil || ops.Of(n).Facts.Extent == ops.ExtentBounded {
			continue
		}
		b, _ := v.Type.ByteSize()
		if results += int64(b); !v.Type.IsStatic() {
			return true
		}
	}
	cost := ops.CostOf(n)
	return results > 16*(operands+budget.PerNode+budget.Total) || cost.FLOPs > budget.Ops || cost.Bytes > budget.Ops
}

// bodiesTooExpensive counts the operations a control-flow node would run, a body's
// nodes once per iteration. Unknown sizes and control flow inside are too expensive.
func (c *Context) bodiesTooExpensive(n *ssa.Node) bool {
	trips, cost := int64(1), int64(0)
	if known := false; !is(n, "If") {
		if trips, known = tripsOf(n).Const(); !known {
			return true
		}
	}
	for _, b := range n.Bodies {
		for _, m := range b.Nodes {
			if len(m.Bodies) > 0 || slices.ContainsFunc(m.Out, func(v *ssa.Value) bool { return v != nil && !v.Type.IsStatic() }) {
				return true
			}
			k := ops.CostOf(m)
			cost += k.FLOPs + k.Bytes + 1000
		}
	}
	return trips > 0 && cost > c.opts.Growth.Ops/trips
}
